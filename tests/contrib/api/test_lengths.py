"""No length tells a secret: what is told of a session is the same, whichever guess stands beside the secret in it."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.accounts import sid_of
from tests.helpers.admin_pages import LIST, Page, page_of, staff
from tests.helpers.api import get
from tests.helpers.store import length_of, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

SECRET = "Zq8vXw2LrT5nKy7GbD4mHs9PcF3jRt6W"
RIGHT, WRONG = "token=Zq8vXw2LrT5n", "token=hJ4kQ7sM1xVb"
"""Guesses of the same length. The right one takes a few bytes less in the store, where data are compressed."""

TIMES = ("created_at", "last_seen_at", "expires_at")


def put(client: Client, guess: str, filler: str = "") -> SessionStore:
    session: Any = client.session
    session["mine"], session["filler"], session["kept"] = guess, filler, f"token={SECRET}"
    session.save()
    return session  # type: ignore[no-any-return]


def without_times(told: Any) -> str:
    return re.sub(rf'"({"|".join(TIMES)})": [^,}}]+', "", json.dumps(told))


def test_a_user_reads_no_length_of_the_own_session(alice, here) -> None:
    told = []
    for guess in (RIGHT, WRONG):
        sid = put(here, guess).sid
        told.append([get(here, "me/sessions"), get(here, f"me/sessions/{sid}")])
        told[-1].append(here.get("/account/sessions/").status_code)
    assert without_times(told[0]) == without_times(told[1])
    assert not re.search(r"size|length|bytes", json.dumps(told))


def test_staff_reads_a_rounded_size_of_what_is_not_compressed(alice, here, redis) -> None:
    def stored(guess: str, filler: str) -> int:
        return length_of(redis, str(put(here, guess, filler).sid))

    # Filler takes the wrong guess alone above a KiB in the store.
    fillers = (text_of(length) for length in range(650, 1100, 4))
    filler = next(each for each in fillers if stored(RIGHT, each) <= 1024 < stored(WRONG, each))
    administrator = staff(Client(), "view_onlinesession", "export_onlinesession")
    told = []
    for guess in (RIGHT, WRONG):
        sid = put(here, guess, filler).sid
        found, exported = online.get(sid), administrator.post(f"{LIST}export/?user={alice.pk}", {"format": "json"})
        [row] = json.loads(exported.getvalue())["sessions"]
        told.append([found.size, get(administrator, f"sessions/{sid}")["size"], row["size"]])
        [shown] = re.findall(r'field-size.*?class="readonly">(.*?)</div>', administrator.get(page_of(sid)).text, re.S)
        told[-1].append(shown)
    assert told[0] == told[1] == [2048, 2048, 2048, "≤ 2.0 KB"]


def test_the_size_of_a_value_is_rounded_too(alice, here) -> None:
    """So staff who may not see values do not tell ``true`` from ``false``."""
    administrator = staff(Client(), "view_onlinesession")
    told = []
    for value in (True, False):
        session: Any = here.session
        session["is_ill"] = value
        session.save()
        tables = Page(administrator.get(page_of(sid_of(here)))).tables
        told += [row for table in tables for row in table if row[0] == "is_ill"]
    assert told[0] == told[1]
    assert len(told) == 2
