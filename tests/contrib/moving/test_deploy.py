"""A rolling deploy: processes of two steps at once, and browsers that meet either."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.contrib.moving.process import Process

pytestmark = pytest.mark.slow

BROWSERS, REQUESTS = 12, 12


class Browser:
    """It counts its requests, and so does its session."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.key: str | None = None
        self.visits = 0
        self.dead: list[str] = []

    def browse(self, processes: list[Process]) -> None:
        for _ in range(REQUESTS):
            what = self.random.choices(["visit", "sign in", "end"], [20, 2, 1])[0]
            key, answered = self.key, self.random.choice(processes).request(self.key, what)
            assert answered["found"] == self.visits, f"signed out, or a change was lost, at {what}"
            self.key, self.visits = answered["key"], self.visits + 1
            if what == "end":
                self.visits = 0
            if key is not None and self.key != key and what != "visit":
                # The old cookie is worth nothing, wherever it is shown.
                for process in processes:
                    assert process.request(key, "look")["found"] == 0


@pytest.mark.usefixtures("left_alone")
def test_nobody_is_signed_out_and_no_change_is_lost_from_step_to_step_and_back(begin) -> None:
    before, first, second = begin("before"), begin("step 1"), begin("step 2")
    browsers = [Browser(seed) for seed in range(BROWSERS)]
    with ThreadPoolExecutor(BROWSERS) as pool:
        for processes in ([before], [before, first], [first], [first, second], [second], [second, first], [first]):
            for done in [pool.submit(browser.browse, processes) for browser in browsers]:
                done.result()
