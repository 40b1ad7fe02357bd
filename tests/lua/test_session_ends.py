"""The scripts in lua/session.lua that move or end sessions, each by itself. Where one refuses, it writes nothing."""

from typing import Any

import pytest

from django_redsess.session.record import revision_of
from django_redsess.transport import scripts
from tests.lua.conftest import AGE
from tests.lua.given import HOUR, ending, rotating

pytestmark = pytest.mark.both_servers


def test_rotate_moves_a_session_and_what_it_viewed(store) -> None:
    keys = store.partition
    loaded = revision_of(store.add("a"))
    store.client.zadd(keys.viewed_by(store.sid("a")), {"vase": store.now})
    given = rotating(store, "a", "b", "7", loaded=loaded)
    assert store.run_ending(scripts.ROTATE, **given) == ([b"saved", b""], {})
    for name in (keys.login, keys.expire, keys.recent, keys.online_user, keys.online_user_of("7")):
        assert store.names(name) == ["b"]
    assert store.names(keys.guests) == []
    assert store.client.zrange(keys.viewed_by(store.sid("b")), 0, -1) == [b"vase"]
    assert store.note("a") == f"rotated {store.sid('b')} guest"
    assert 299 <= store.client.ttl(keys.ended_of(store.sid("a"))) <= 300
    before = store.content()
    assert store.run_ending(scripts.ROTATE, **given)[0] == [b"saved"]
    assert store.content() == before


@pytest.mark.parametrize(
    ("old", "other", "replied"),
    {
        "it has ended": ("gone", {}, [b"gone", b"kicked 1 "]),
        "it is due": ("due", {}, [b"gone", b""]),
        "another record": ("a", {"loaded": b"others"}, [b"changed", "record"]),
        "another time": ("a", {"at": 5000}, [b"clock", "now"]),
        "enough sessions": ("a", {"limit": 1, "policy": "refuse"}, [b"refused"]),
    }.values(),
)
def test_rotate_refuses(store, old: str, other: dict[str, Any], replied: list[Any]) -> None:
    record = store.add("a")
    store.add("due", due=-1)
    store.add("other", "7")
    store.client.set(store.partition.ended_of(store.sid("gone")), "kicked 1 ", ex=60)
    expected = [record if part == "record" else part for part in replied]
    assert store.refused(scripts.ROTATE, **{**rotating(store, old, "b", "7"), **other}) == expected


@pytest.mark.parametrize(
    ("there", "read", "due", "moved"),
    {
        "later": (AGE, AGE, AGE + 5, True),
        "earlier": (AGE, AGE, AGE - 5, True),
        "the same": (AGE, AGE, AGE, False),
        "another one is there": (AGE, AGE - 5, AGE + 5, False),
        "it is due": (-5, -5, AGE, False),
    }.values(),
)
def test_prolong_moves_the_deadline_that_was_read(store, there: int, read: int, due: int, moved: bool) -> None:
    store.add("a", due=there)
    before = store.content()
    given = {
        "sid": store.sid("a"),
        "read": store.now + read,
        "due": store.now + due,
        "seen_list": store.partition.guests,
    }
    assert store.run(scripts.PROLONG, **given) == moved
    if moved:
        assert store.client.zscore(store.partition.expire, store.sid("a")) == store.now + due
    else:
        assert store.content() == before


def test_prolong_moves_no_deadline_earlier_by_a_clock_that_has_stepped_back(store) -> None:
    store.add("a", due=AGE, seen=-HOUR)
    guests = store.partition.guests
    given = {"sid": store.sid("a"), "read": store.now + AGE, "due": store.now + AGE - 5000, "seen_list": guests}
    assert store.run(scripts.PROLONG, **given) == 0


def test_end_takes_sessions_out_of_every_key_and_leaves_a_note_to_users(store) -> None:
    store.add("a", "7")
    store.add("b")
    store.client.zadd(store.partition.viewed_by(store.sid("a")), {"lamp": store.now})
    sids = [store.sid(name) for name in ("a", "b", "nobody")]
    result, ended = store.run_ending(scripts.END_SIDS, **ending(message="Bye.", sids=sids))
    assert (result, ended) == ([3, []], {"kicked": 2})
    assert store.note("a").startswith("kicked ")
    assert store.note("a").endswith(" Bye.")
    assert set(store.content()) == {store.partition.ended_of(store.sid("a")), store.partition.totals}
    assert (store.total("kicked"), store.total("guests:kicked")) == (2, 1)


@pytest.mark.parametrize(
    ("other", "left"),
    {
        "who began later": ({"began_by": -500}, ["b"]),
        "who was not seen since": ({"since": -500}, ["a"]),
    }.values(),
)
def test_end_leaves_who_is_to_stay(store, other: dict[str, Any], left: list[str]) -> None:
    store.add("a", "7", login=1000, seen=1000)
    store.add("b", "8", login=10, seen=10)
    given = {name: store.now + value if isinstance(value, int) else value for name, value in other.items()}
    _, ended = store.run_ending(scripts.END_SIDS, **{**ending(sids=[store.sid("a"), store.sid("b")]), **given})
    assert ended == {"kicked": 1}
    assert store.names(store.partition.login) == left


@pytest.mark.parametrize(("began_by", "stays"), [(-5000, True), (-500, False)])
def test_end_knows_of_a_guest_when_the_record_was_written(store, began_by: int, stays: bool) -> None:
    store.add("a")
    store.run(scripts.END_SIDS, **ending(sids=[store.sid("a")], began_by=store.now + began_by))
    assert store.names(store.partition.login) == ["a"] * stays


@pytest.mark.parametrize(("kept_users", "dealt_with", "count"), [((), 1, 1), (("7",), 2, 0)], ids=["end", "stay"])
def test_end_stops_where_records_have_too_many_bytes(
    store, kept_users: tuple[str, ...], dealt_with: int, count: int
) -> None:
    for name in ("a", "b", "c"):
        store.add(name, "7", size=700_000)
    sids = [store.sid(name) for name in ("a", "b", "c")]
    result, ended = store.run_ending(scripts.END_SIDS, **ending(sids=sids, kept_users=kept_users))
    assert (result, ended.get("kicked", 0)) == ([dealt_with, []], count)


def test_a_range_goes_on_behind_those_that_stay(store) -> None:
    for place, name in enumerate("abc"):
        store.add(name, "7", seen=place // 2)
    given = ending(source=store.partition.recent, low="-inf", high="+inf", skipped=0, kept_sids=[store.sid("b")])
    (more, score, left_out), ended = store.run_ending(scripts.END_RANGE, **given)
    assert (more, left_out, ended) == (0, 1, {"kicked": 2})
    assert float(score) == store.client.zscore(store.partition.recent, store.sid("b"))
    assert store.names(store.partition.recent) == ["b"]
