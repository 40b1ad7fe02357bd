"""Shoppers of the demo who go on clicking: they come back as people do, and bring no ended session back."""

from __future__ import annotations

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.utils import timezone

from django_redsess import online
from testproject import people
from testproject.clicking import look_around
from testproject.people import CHROME_MAC, PASSWORD, Visitor
from testproject.shop.models import Product
from tests.helpers.demo import ROOT, running
from tests.helpers.running import wait_until


@pytest.fixture
def lukas(db: None, settings: Any) -> Visitor:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": 2}
    Product.objects.create(slug="larch", name="Larch")
    User.objects.create_user("lukas", password=PASSWORD)
    visitor = Visitor("lukas", people.browser(CHROME_MAC, "192.0.2.17"))
    visitor.sign_in()
    return visitor


def user() -> User:
    return User.objects.get(username="lukas")


def click(visitor: Visitor, *, is_out: bool = False) -> bool:
    return look_around(visitor, Random(1), is_out=is_out)[1]


def test_a_shopper_whose_session_was_ended_reads_so_and_signs_in_again_later(lukas: Visitor) -> None:
    [first] = online.of_user(user())
    assert not click(lukas)
    online.end(first.sid)
    assert click(lukas)
    assert online.of_user(user()) == []
    assert not click(lukas, is_out=True)
    [again] = online.of_user(user())
    assert (again.sid != first.sid, again.address, again.user_agent) == (True, "192.0.2.17", CHROME_MAC)
    assert online.find([first.sid]) == []


def test_a_shopper_who_is_blocked_stays_out(lukas: Visitor) -> None:
    online.block(user(), until=timezone.now() + timedelta(hours=1))
    assert click(lukas)
    assert click(lukas, is_out=True)
    assert online.of_user(user()) == []
    online.unblock(user())
    assert not click(lukas, is_out=True)


def test_a_shopper_takes_no_place_from_other_sessions_of_the_user(lukas: Visitor) -> None:
    visitors = [Visitor("lukas", people.browser(CHROME_MAC)) for _ in range(2)]
    for visitor in visitors:
        visitor.sign_in()
    before = {session.sid for session in online.of_user(user())}
    # The third sign-in has replaced the first one.
    assert len(before) == 2
    assert click(lukas)
    assert click(lukas, is_out=True)
    assert {session.sid for session in online.of_user(user())} == before


def test_a_guest_has_a_basket_again_after_the_end(lukas: Visitor) -> None:
    guest = Visitor("", people.browser(CHROME_MAC))
    assert not click(guest)
    first = guest.sid
    assert online.find([first])
    online.end(first)
    click(guest)
    click(guest)
    assert guest.sid not in ("", first)
    assert online.find([guest.sid])


@pytest.mark.slow
def test_the_demo_moves_without_a_visitor_and_its_commands_work_as_printed(tmp_path: Path) -> None:
    with running(tmp_path, CLICKS="1", HISTORY="0") as demo:
        lines = [line for line in demo.output.read_text().splitlines() if " testproject/manage.py " in line]
        first, second = (line.replace("In a terminal", "").strip() for line in lines)
        # Another terminal: the printed line says the port.
        env = {name: value for name, value in demo.env.items() if name not in ("PORT", "HISTORY")}

        def typed(line: str) -> str:
            ran = subprocess.run(line, shell=True, cwd=ROOT, env=env, capture_output=True, text=True, timeout=60)
            assert ran.returncode == 0, ran.stderr
            return ran.stdout

        def sessions() -> dict[str, dict[str, Any]]:
            return {each["id"]: each for each in map(json.loads, typed(f"{first} --json").splitlines())}

        before = sessions()
        ended = {sid for sid, each in before.items() if each["user"] == "lukas"}
        seen = max(each["last_seen_at"] for each in before.values())
        assert len(ended) == 1
        typed(f"{second} --noinput")
        wait_until(lambda: max(each["last_seen_at"] for each in sessions().values()) > seen, seconds=60)
        assert not ended & sessions().keys()
