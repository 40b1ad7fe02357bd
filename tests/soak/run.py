"""A run: visitors who click, and beside them programs of events, until the time is over."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from tests.helpers.running import wait_until
from tests.soak import operations, support
from tests.soak.gauges import Gauges
from tests.soak.ledger import Account, Ledger
from tests.soak.operations import Operations
from tests.soak.shop import Shop
from tests.soak.support import Support
from tests.soak.traffic import Click
from tests.soak.visitor import Visitor

THREADS = 8
"""So many clicks are under way at the same time."""

SHOWN_SECONDS, MEASURED_SECONDS = 30, 5
"""How often a line says how it goes, and how often processes are measured."""

SHOWN_LETTERS = 200

GUESTS = 5
"""One in so many visitors is a guest."""

Kinds = Mapping[Callable[[Any], None], int]


class Run:
    def __init__(self, shop: Shop, ledger: Ledger, *, minutes: float, rate: float, visitors: int, seed: int) -> None:
        self.shop, self.ledger, self.gauges = shop, ledger, Gauges()
        self._seconds, self._rate, self._seed = 60 * minutes, rate, seed
        # Two browsers for each user.
        self.accounts = [Account(name) for name in names(visitors)]
        self._visitors = [
            Visitor(number, None if number % GUESTS == 0 else account, shop.balancer, ledger)
            for number, account in enumerate(account for account in self.accounts for _ in range(2))
        ]
        self._slots: dict[str, int] = {}
        self._stopped = threading.Event()

    def go(self, clicks: Iterator[Click], only: list[str]) -> None:
        """
        Run until the time is over and all events have happened.

        ``only`` are the names of events: each then happens as often as it is named. Else they are those of a week.
        """
        of_operations = Operations(self.shop, self.ledger, random.Random(f"operations {self._seed}"))
        of_support = Support(self.shop, self.ledger, self.accounts, random.Random(f"support {self._seed}"))
        lanes = [(of_operations, operations.WEEK), (of_support, support.WEEK)]
        if self.shop.clock:
            lanes.append((of_operations, operations.CLOCKS))
        else:
            self.say("no nights: faketime is not installed")
        threads = [threading.Thread(target=self._events, args=(*lane, only)) for lane in lanes]
        traffic = threading.Thread(target=self._traffic, args=(clicks,))
        try:
            for thread in (*threads, traffic):
                thread.start()
            self._watch(threads)
        except KeyboardInterrupt:
            self.say("stopping …")
            self.ledger.over = True
            raise
        finally:
            self._stopped.set()
            for thread in (*threads, traffic):
                thread.join()

    def last_checks(self) -> None:
        """Without traffic: each visitor comes once more, and all keys are compared."""
        self.say("last checks")
        wait_until(self.shop.servers.in_place)
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(Visitor.last_visit, self._visitors))
        with self._faults_of("cleansessions --check"):
            self.shop.command("cleansessions", "--check")
        with self._faults_of("history --repair"):
            self.shop.command("history", "--repair")
        self.shop.cleaner.stop()
        for found in self.shop.disagreements():
            self.ledger.fault("oracle", found)

    def say(self, text: str) -> None:
        seconds = int(time.monotonic() - self.ledger.began)
        print(f"{seconds // 60:3}:{seconds % 60:02}  {text}", flush=True)

    # Events.

    def _events(self, of: Any, week: Kinds, only: list[str]) -> None:
        """Let the events of a week happen, each at a time of its own; one that is late begins at once."""
        counts = {kind: only.count(name_of(kind)) for kind in week} if only else week
        kinds = [kind for kind, count in counts.items() for _ in range(count)]
        chance = random.Random(f"{len(week)} kinds in order {self._seed}")
        chance.shuffle(kinds)
        for place, kind in enumerate(kinds):
            due = self.ledger.began + self._seconds * (place + chance.random()) / len(kinds)
            if self._stopped.wait(max(0, due - time.monotonic())):
                return
            began, name = time.monotonic(), name_of(kind)
            self.say(f"{name} …")
            with self._faults_of(name):
                kind(of)
            self.ledger.count(name)
            self.say(f"{name}: {time.monotonic() - began:.1f} s")

    @contextmanager
    def _faults_of(self, name: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self.ledger.over:
                logging.getLogger("soak").debug("failed", exc_info=True)
                self.ledger.fault("failed", f"{name}: {type(error).__name__}: {error}"[-2000:])

    # Visitors.

    def _traffic(self, clicks: Iterator[Click]) -> None:
        waiting = threading.BoundedSemaphore(2 * THREADS)
        chance = random.Random(f"clicks {self._seed}")

        def click(visitor: Visitor, page: str, seed: float) -> None:
            with self._faults_of("click"):
                visitor.click(page, random.Random(seed))
            waiting.release()

        with ThreadPoolExecutor(THREADS) as pool:
            begun = time.monotonic()
            for number, (user, page) in enumerate(clicks):
                if self._stopped.wait(max(0, begun + number / self._rate - time.monotonic())):
                    return
                waiting.acquire()
                slot = self._slots.setdefault(user, len(self._slots) % len(self._visitors))
                pool.submit(click, self._visitors[slot], page, chance.random())

    # The main thread.

    def _watch(self, threads: list[threading.Thread]) -> None:
        shown, told = time.monotonic(), 0
        while any(each.is_alive() for each in threads) or time.monotonic() < self.ledger.began + self._seconds:
            time.sleep(MEASURED_SECONDS)
            self.measure()
            for fault in self.ledger.faults[told:]:
                self.say(f"FAULT  {fault.kind}  {fault.text[:SHOWN_LETTERS]}")
            told = len(self.ledger.faults)
            if time.monotonic() - shown >= SHOWN_SECONDS:
                shown = time.monotonic()
                counts, there = self.ledger.counts, sum(each.session is not None for each in self._visitors)
                self.say(
                    f"{counts['requests']} requests, {there} of {len(self._visitors)} visitors have a session, "
                    f"{counts['refused']} refused, {counts['unanswered']} unanswered, {told} faults"
                )

    def measure(self) -> None:
        now = time.time()
        self.gauges.measure("web process", self.shop.web_pids(), now)
        self.gauges.measure("cleaner", [self.shop.cleaner.process.pid], now)
        self.gauges.measure("server", self.shop.server_pids(), now)


def names(visitors: int) -> list[str]:
    return [f"user{number}" for number in range(visitors // 2)]


def name_of(kind: Callable[..., object]) -> str:
    return kind.__name__.replace("_", "-")
