"""Each script in lua/cleaning.lua by itself."""

from collections.abc import Callable
from typing import Any

import pytest

from django_redsess.session.record import revision_of
from django_redsess.transport import lua_scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers

HOUR, DAY = 3_600_000, 86_400_000


# expire, evict


@pytest.fixture
def due(store: Store) -> Store:
    """Three sessions that are due, and two that are not."""
    for number, user in enumerate(("7", "8", "")):
        store.add(f"due{number}", user, due=number - 10)
    store.add("a", "7")
    store.add("b")
    return store


@pytest.mark.parametrize(("limit", "more", "ended"), [(2, 1, 2), (3, 0, 3), (9, 0, 3)])
def test_expire_ends_what_is_due(due: Store, limit: int, more: int, ended: int) -> None:
    assert due.run_ending(lua_scripts.EXPIRE, limit=limit, named=False) == (more, {"expired": ended})
    assert due.names(due.partition.expire) == ["due0", "due1", "due2", "a", "b"][ended:]
    assert due.note("due0").startswith("expired ")


@pytest.mark.parametrize(
    ("allowed", "limit", "left", "guests", "users"),
    {
        "guests first": ((4, 0, 100), 9, 0, 2, 2),
        "a reserve for guests": ((2, 2, 100), 9, 0, 2, 2),
        "few guests": ((100, 0, 1), 9, 0, 1, 2),
        "then users": ((1, 0, 100), 9, 0, 0, 1),
        "a limit": ((1, 0, 100), 3, 2, 1, 2),
        "nobody": ((100, 0, 100), 9, 0, 4, 2),
    }.values(),
)
def test_evict_ends_what_is_too_much(
    store: Store, allowed: tuple[int, int, int], limit: int, left: int, guests: int, users: int
) -> None:
    for number in range(4):
        store.add(f"guest{number}", seen=100 - number)
    for number in range(2):
        store.add(f"user{number}", "7", seen=200 - number)
    may = dict(zip(("maximum", "reserve", "guests_maximum"), allowed, strict=True))
    result, ended = store.run_ending(lua_scripts.EVICT, **may, limit=limit, named=False)
    assert (result, ended.get("evicted", 0)) == (left, 6 - guests - users)
    # The longest unseen go.
    assert store.names(store.partition.guests) == [f"guest{number}" for number in range(4 - guests, 4)]
    assert store.names(store.partition.recent) == [f"user{number}" for number in range(2 - users, 2)]


# check_entries, check_places, check_keys


def entry(store: Store, key: str, name: str, score: int) -> None:
    store.client.zadd(key, {store.sid(name): store.now + score})


Spoil = Callable[[Store], Any]

WRONG: dict[str, tuple[Spoil, str, list[tuple[str, str, str]]]] = {
    "missing": (lambda store: store.client.zrem(store.partition.recent, store.sid("a")), "login", [("a", "recent")]),
    "stray": (lambda store: entry(store, store.partition.guests, "a", 0), "login", [("a", "guests")]),
    "differs": (lambda store: entry(store, store.partition.online_user, "a", 5), "login", [("a", "online_user")]),
    "ahead": (lambda store: entry(store, store.partition.recent, "a", 2 * HOUR), "login", [("a", "recent")]),
    "stray in a list": (lambda store: entry(store, store.partition.expire, "x", 9), "expire", [("x", "expire")]),
    "no deadline": (
        lambda store: store.client.zrem(store.partition.expire, store.sid("a")),
        "login",
        [("a", "expire")],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_check_entries_finds_and_mends(store: Store, name: str) -> None:
    spoil, walked, places = WRONG[name]
    store.add("a", "7", login=100)
    store.add("b")
    spoil(store)
    kind = {"stray in a list": "stray", "no deadline": "missing"}.get(name, name)
    faults = [part for sid, key in places for part in (kind, store.sid(sid), getattr(store.partition, key))]
    given = {"walked": getattr(store.partition, walked), "cursor": 0, "about": 100}
    before = store.content()
    (cursor, entries, size, found), ended = store.run_ending(lua_scripts.CHECK_ENTRIES, **given, mend=False)
    assert ([part.decode() for part in found], ended) == (faults, {})
    assert (int(cursor), entries) == (0, len(before[given["walked"]]))
    assert (size > 0) == (walked == "login")
    assert store.content() == before
    store.run_ending(lua_scripts.CHECK_ENTRIES, **given, mend=True)
    assert store.run_ending(lua_scripts.CHECK_ENTRIES, **given, mend=False)[0][3] == []


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("user", ["", "7"], ids=["guest", "user"])
def test_check_entries_knows_in_which_list_of_addresses_a_session_may_be(store: Store, user: str) -> None:
    keys = store.partition
    store.add("a", user)
    for name in (keys.addresses, keys.guests_addresses):
        store.client.zadd(name, {store.sid("a"): 5})
    given = {"walked": keys.login, "cursor": 0, "about": 100, "mend": True}
    wrong = keys.places_of(has_user=not user)
    found = store.run_ending(lua_scripts.CHECK_ENTRIES, **given)[0][3]
    assert found == [b"stray", store.sid("a").encode(), wrong.encode()]
    assert (store.names(wrong), store.names(keys.places_of(has_user=bool(user)))) == ([], ["a"])
    assert store.run_ending(lua_scripts.CHECK_ENTRIES, **given)[0][3] == []


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize(
    ("kind", "there", "place"),
    [
        ("missing", None, 5),
        ("misplaced", 7, 5),
        ("stray", 7, "none"),
        ("", 5, 5),
        ("", None, "none"),
        ("", 2**52, 2**52),
    ],
)
def test_check_places_finds_and_mends(store: Store, kind: str, there: int | None, place: Any) -> None:
    keys, sid = store.partition, store.sid("a")
    record = store.add("a", "7")
    if there is not None:
        store.client.zadd(keys.addresses, {sid: there})
    before, read = store.content(), [sid, revision_of(record), place]
    faults = [kind.encode(), sid.encode(), keys.addresses.encode()] if kind else []
    assert store.run(lua_scripts.CHECK_PLACES, mend=False, read=read) == faults
    assert store.content() == before
    assert store.run(lua_scripts.CHECK_PLACES, mend=True, read=read) == faults
    assert store.client.zscore(keys.addresses, sid) == (None if place == "none" else place)
    assert store.run(lua_scripts.CHECK_PLACES, mend=True, read=read) == []


@pytest.mark.usefixtures("left_alone")
def test_check_places_leaves_out_what_has_changed_or_ended(store: Store) -> None:
    read = [
        part for name in ("changed", "gone", "due") for part in (store.sid(name), revision_of(store.record(name)), 5)
    ]
    store.add("changed", "7")
    read[7] = revision_of(store.add("due"))
    store.client.zrem(store.partition.expire, store.sid("due"))
    before = store.content()
    assert store.run(lua_scripts.CHECK_PLACES, mend=True, read=read) == []
    assert store.content() == before


def test_check_entries_goes_through_the_list_of_a_user_bit_by_bit(store: Store) -> None:
    for number in range(5):
        store.add(f"n{number}", "7", login=100 - number)
    store.add("other", "8")
    walked = store.partition.online_user_of("7")
    entry(store, walked, "other", -98)
    found, cursor, steps = list[bytes](), 0, 0
    while not steps or cursor:
        (cursor, count, _, faults), _ = store.run_ending(
            lua_scripts.CHECK_ENTRIES, walked=walked, owner="7", cursor=cursor, about=2, mend=True
        )
        found, steps = found + faults, steps + 1
        assert count <= 2
    assert found == [b"stray", store.sid("other").encode(), walked.encode()]
    assert store.names(walked) == ["n0", "n1", "n2", "n3", "n4"]


def test_check_keys_finds_and_mends_what_belongs_to_no_session(store: Store) -> None:
    keys = store.partition
    store.add("a", "7")
    viewed, note, stays, listed = (
        keys.viewed_by(store.sid("gone")),
        keys.ended_of(store.sid("a")),
        keys.ended_of(store.sid("gone")),
        keys.online_user_of("7"),
    )
    store.client.zadd(viewed, {"lamp": 1})
    store.client.set(note, "kicked 1 ", ex=60)
    store.client.set(stays, "kicked 1 ", ex=2 * DAY // 1000)
    entry(store, listed, "gone", 0)
    store.client.zadd(keys.viewed_by(store.sid("a")), {"lamp": 1})
    names = [viewed, note, stays, listed, keys.viewed_by(store.sid("a")), keys.ended_of("nobody")]
    before = store.content()
    expected = [("gone", viewed), ("a", note), ("gone", stays), ("gone", listed)]
    faults = [part.encode() for name, key in expected for part in ("stray", store.sid(name), key)]
    assert store.run(lua_scripts.CHECK_KEYS, mend=False, names=names) == [faults, []]
    assert store.content() == before
    assert store.run(lua_scripts.CHECK_KEYS, mend=True, names=names) == [faults, []]
    assert store.run(lua_scripts.CHECK_KEYS, mend=True, names=names) == [[], []]
