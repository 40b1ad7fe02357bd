"""The scripts in lua/moving.lua, each by itself. What another program has stored under their names does no harm."""

import json
from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store

LIFE = 100_000


def end_before(store: Store, before: int | None = None, *kept: str, over: str | None = None) -> int:
    over = over or store.partition.over_of("7")
    return int(store.run(scripts.END_BEFORE, before=before, lifetime=LIFE, kept=kept, over=over))


def copy(store: Store, name: str, began_at: int, *, sid_there: str = "") -> str:
    keys, sid = store.partition, store.sid(name)
    given: dict[str, Any] = {
        "sid": sid,
        "record": store.record(name, "7", login=1),
        "user_id": "7",
        "login_time": store.now - 1,
        "at": store.now,
        "seen": store.now - 1,
        "due": store.now + LIFE,
        "mark": "here",
        "mark_lifetime": LIFE,
        "began_at": began_at,
        "sid_there": sid_there or sid,
        "moved": keys.moved_of(sid),
        "over": keys.over_of("7"),
        "over_all": keys.over_users,
    }
    [outcome, *_], *_ = store.run(scripts.COPY, **given)
    return str(outcome.decode())


def entries(store: Store) -> list[list[Any]]:
    found: list[list[Any]] = json.loads(store.client.get(store.partition.over_of("7")) or "[]")
    return found


def test_what_began_before_is_over_and_what_began_later_is_not(store: Store) -> None:
    at = end_before(store)
    assert 0 <= at - store.now < 10_000
    assert copy(store, "a", at) == "over"
    assert copy(store, "b", 0) == "over"
    assert copy(store, "c", at + 1) == "copied"
    assert not store.client.exists(store.partition.moved_of(store.sid("a")))
    assert 0 < store.client.pttl(store.partition.over_of("7")) <= LIFE


def test_all_users_may_have_ended(store: Store) -> None:
    at = end_before(store, over=store.partition.over_users)
    assert copy(store, "a", at) == "over"
    assert copy(store, "b", at + 1) == "copied"


def test_what_is_kept_stays_by_the_sid_that_it_has_there(store: Store) -> None:
    end_before(store, store.now, f"session {store.sid('a')}", "user 8")
    assert copy(store, "a", 5) == "copied"
    assert copy(store, "b", 5, sid_there=store.sid("a")) == "copied"
    assert copy(store, "c", 5) == "over"
    end_before(store, store.now, "user 7", over=store.partition.over_users)
    assert copy(store, "d", 5) == "over"
    store.client.delete(store.partition.over_of("7"))
    assert copy(store, "d", 5) == "copied"


def test_an_end_hides_the_earlier_ones_that_say_no_more(store: Store) -> None:
    end_before(store, 100, "user 8")
    end_before(store, 200, "session a")
    assert entries(store) == [[200, "session a"], [100, "user 8"]]
    end_before(store, 200, "session a")
    assert entries(store) == [[200, "session a"], [100, "user 8"]]
    # An earlier one does not take back a later one.
    end_before(store, 150)
    assert entries(store) == [[150], [200, "session a"]]
    assert copy(store, "a", 120) == "over"
    end_before(store, 300)
    assert entries(store) == [[300]]


def test_of_very_many_ends_the_earliest_keep_nothing(store: Store) -> None:
    for number in range(60):
        end_before(store, 1000 + number, f"session {number}")
    found = entries(store)
    assert len(found) == 50
    assert (found[0], found[-1]) == ([1059, "session 59"], [1010])


@pytest.mark.parametrize("text", ["", "no list", "{}", "[1, 2]", '[["a"]]', "null", "[[]]"])
def test_what_another_program_has_stored_is_nothing(store: Store, left_alone: None, text: str) -> None:
    name = store.partition.over_of("7")
    store.client.set(name, text)
    assert copy(store, "a", 5) == "copied"
    end_before(store, 100)
    assert entries(store)[0] == [100]
    store.client.delete(name)
    store.client.hset(name, "a", "b")
    assert copy(store, "b", 5) == "copied"
