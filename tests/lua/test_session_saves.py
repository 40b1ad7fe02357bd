"""The scripts in lua/session.lua that write a record, each by itself. Where one refuses, it writes nothing."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.given import HOUR, adding, creating, saving

pytestmark = pytest.mark.both_servers


def test_add_goes_by_the_newest_where_the_clock_has_stepped_back(store) -> None:
    store.add("a", seen=-HOUR)
    before = store.content()
    assert store.run(scripts.CREATE_FAST, {"first": 1}, **adding(store, "b")) == b"%d" % (store.now + HOUR)
    assert store.content() == before
    assert store.run(scripts.CREATE_FAST, {"first": 1}, **adding(store, "b", at=store.now + HOUR)) == 1


def test_add_leaves_a_user_at_the_limit_to_create(store) -> None:
    store.add("a", "7")
    given = adding(store, "b", "7")
    assert store.run(scripts.CREATE_FAST, {"first": 1}, **{**given, "limit": 1}) == 0
    assert store.run(scripts.CREATE_FAST, {"first": 1}, **{**given, "limit": 2}) == 1


def test_change_returns_the_record_of_another_request(store) -> None:
    there = store.add("a")
    before, record = store.content(), store.record("a")
    assert store.run(scripts.SAVE_FAST, sid=store.sid("a"), loaded=b"others", record=record, due=store.now) == there
    assert store.run(scripts.SAVE_FAST, sid=store.sid("b"), loaded=b"others", record=record, due=store.now) is None
    assert store.content() == before


def test_create_enters_a_session_everywhere(store) -> None:
    keys = store.partition
    given = creating(store, "a", "7")
    assert store.run_ending(scripts.CREATE, {"is_new": True}, **given) == ([b"saved", b""], {})
    for name in (keys.login, keys.expire, keys.recent, keys.online_user, keys.online_user_of("7")):
        assert store.names(name) == ["a"]
    assert store.total("created") == 1
    assert store.client.lrange(keys.wake, 0, -1) == [b"earlier"]


def test_create_knows_its_own_repetition(store) -> None:
    given = creating(store, "a", "7")
    store.run(scripts.CREATE, {"is_new": True}, **given)
    before = store.content()
    assert store.run_ending(scripts.CREATE, **given)[0] == [b"saved"]
    # Nobody knows what the lost reply said.
    assert store.run_ending(scripts.CREATE, **{**given, "limit": 1})[0] == [b"saved", b"crowded"]
    assert store.content() == before


@pytest.mark.parametrize(
    ("other", "replied"),
    {
        "the sid is taken": ({"sid": "a"}, [b"taken"]),
        "it has ended": ({"sid": "gone"}, [b"taken"]),
        "another time": ({"at": 5000}, [b"clock", "now"]),
        "enough sessions": ({"limit": 1, "policy": "refuse"}, [b"refused"]),
    }.values(),
)
def test_create_refuses(store, other: dict[str, Any], replied: list[Any]) -> None:
    store.add("a", "7")
    store.client.set(store.partition.ended_of(store.sid("gone")), "kicked 1 ", ex=60)
    given = {**other, **({"sid": store.sid(other["sid"])} if "sid" in other else {})}
    once = {"is_new": False}
    assert store.refused(scripts.CREATE, once, **{**creating(store, "b", "7"), **given}) == replied


@pytest.mark.parametrize(
    ("name", "other", "replied"),
    {
        "it has ended": ("gone", {}, [b"gone", b"kicked 1 "]),
        "nobody knows it": ("nobody", {}, [b"gone", b""]),
        "it is due": ("due", {}, [b"gone", b""]),
        "another record": ("a", {"loaded": b"others"}, [b"changed", "record"]),
        "another time": ("a", {"at": 5000}, [b"clock", "now"]),
    }.values(),
)
def test_save_refuses(store, name: str, other: dict[str, Any], replied: list[Any]) -> None:
    record = store.add("a", "7")
    store.add("due", "7", due=-1)
    store.client.set(store.partition.ended_of(store.sid("gone")), "kicked 1 ", ex=60)
    expected = [record if part == "record" else part for part in replied]
    assert store.refused(scripts.SAVE, **{**saving(store, name, "7"), **other}) == expected
