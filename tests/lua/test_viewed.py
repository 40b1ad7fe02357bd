"""Each script in lua/viewed.lua by itself."""

from typing import Any

import pytest

from django_redsess.transport import lua_scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers


@pytest.fixture
def items(store: Store) -> Store:
    """What four items were viewed."""
    views = {"lamp": 9, "rope": 5, "kite": 5, "vase": 1}
    store.client.zadd(store.partition.viewed, {item: -count for item, count in views.items()})
    store.client.hset(store.partition.totals, "views", sum(views.values()))
    return store


# record_view, count_view


def test_record_view_keeps_the_newest_items_and_counts(store: Store) -> None:
    store.add("a")
    given = {"sid": store.sid("a"), "keep": 2, "items_max": 100, "popularity": store.partition.viewed}
    for item in ("lamp", "rope", "kite", "lamp"):
        assert store.run(lua_scripts.RECORD_VIEW, item=item, **given) == 1
    assert store.client.zrange(store.partition.viewed_by(store.sid("a")), 0, -1) == [b"kite", b"lamp"]
    counts = store.client.zrange(store.partition.viewed, 0, -1, withscores=True)
    assert counts == [(b"lamp", -2), (b"kite", -1), (b"rope", -1)]
    assert store.total("views") == 4


def test_record_view_counts_nothing_that_another_partition_counts(store: Store) -> None:
    store.add("a")
    assert store.run(lua_scripts.RECORD_VIEW, sid=store.sid("a"), item="lamp", keep=2, items_max=100) == 1
    assert store.client.exists(store.partition.viewed_by(store.sid("a")))
    assert not store.client.exists(store.partition.viewed, store.partition.totals)


@pytest.mark.parametrize("name", ["nobody", "due"])
def test_record_view_writes_nothing_for_a_session_that_is_gone(store: Store, name: str) -> None:
    store.add("due", due=-5)
    before = store.content()
    given = {"item": "lamp", "keep": 2, "items_max": 100, "popularity": store.partition.viewed}
    assert store.run(lua_scripts.RECORD_VIEW, sid=store.sid(name), **given) == 0
    assert store.content() == before


def test_count_view_takes_two_of_the_least_viewed_out_for_a_new_item(items: Store) -> None:
    keys, given = items.partition, {"popularity": items.partition.viewed, "items_max": 3}
    assert items.run(lua_scripts.COUNT_VIEW, item="lamp", **given) == 1
    assert items.client.zcard(keys.viewed) == 4
    assert items.run(lua_scripts.COUNT_VIEW, item="door", **given) == 1
    left = dict(items.client.zrange(keys.viewed, 0, -1, withscores=True))
    assert len(left) == 3
    assert (left[b"lamp"], left[b"door"]) == (-10, -1)
    assert items.total("views") == -sum(left.values())


# view_counts, items_by_rank, count_items


def test_counts_and_ranks_are_read(items: Store) -> None:
    popularity, before = items.partition.viewed, items.content()
    counts = items.run(lua_scripts.VIEW_COUNTS, popularity=popularity, items=["vase", "door"])
    assert [count and float(count) for count in counts] == [-1, None]
    ranks = items.run(lua_scripts.ITEMS_BY_RANK, items=popularity, first=0, last=1)
    assert ranks == [b"lamp", b"-9", b"kite", b"-5"]
    assert items.run(lua_scripts.COUNT_ITEMS, popularity=popularity, at_least=5) == [3, b"20", 0]
    assert items.content() == before


# recent_items, forget_items


@pytest.fixture
def viewer(store: Store) -> Store:
    """A session that viewed two items, and one that is due."""
    store.add("a")
    store.add("due", due=-5)
    for name in ("a", "due"):
        store.client.zadd(store.partition.viewed_by(store.sid(name)), {"lamp": 1, "vase": 2})
    return store


@pytest.mark.parametrize(
    ("name", "limit", "found"),
    [("a", 5, [b"vase", b"2", b"lamp", b"1"]), ("a", 1, [b"vase", b"2"]), ("due", 5, []), ("nobody", 5, [])],
)
def test_recent_items_are_those_of_a_live_session(viewer: Store, name: str, limit: int, found: list[bytes]) -> None:
    assert viewer.run(lua_scripts.RECENT_ITEMS, sid=viewer.sid(name), limit=limit) == found


@pytest.mark.parametrize(
    ("given", "count", "left"),
    [({"item": "lamp"}, 1, [b"vase"]), ({}, 2, []), ({"item": "door"}, 0, [b"lamp", b"vase"])],
)
def test_forget_items_forgets_one_or_all(viewer: Store, given: dict[str, str], count: int, left: list[bytes]) -> None:
    name = viewer.partition.viewed_by(viewer.sid("a"))
    assert viewer.run(lua_scripts.FORGET_ITEMS, items=name, **given) == count
    assert viewer.client.zrange(name, 0, -1) == left


# reset_counts, trim_items


@pytest.mark.parametrize(
    ("chosen", "views", "left"),
    [
        (["lamp", "door"], 9, [b"kite", b"rope", b"vase"]),
        ([], 20, []),
        (["door"], 0, [b"lamp", b"kite", b"rope", b"vase"]),
    ],
)
def test_reset_counts_forgets_some_or_all(items: Store, chosen: list[str], views: int, left: list[bytes]) -> None:
    assert items.run(lua_scripts.RESET_COUNTS, popularity=items.partition.viewed, items=chosen) == views
    assert items.client.zrange(items.partition.viewed, 0, -1) == left
    assert items.total("views") == 20 - views


@pytest.mark.parametrize(
    ("limits", "reply", "left"),
    [({"keep": 2, "limit": 9}, [2, 0], 2), ({"keep": 1, "limit": 2}, [2, 1], 2), ({"keep": 9, "limit": 9}, [0, 0], 4)],
)
def test_trim_items_removes_the_least_viewed(items: Store, limits: dict[str, Any], reply: list[int], left: int) -> None:
    assert items.run(lua_scripts.TRIM_ITEMS, popularity=items.partition.viewed, **limits) == reply
    counts = items.client.zrange(items.partition.viewed, 0, -1, withscores=True)
    assert [item for item, _ in counts] == [b"lamp", b"kite", b"rope", b"vase"][:left]
    assert items.total("views") == -sum(score for _, score in counts)
