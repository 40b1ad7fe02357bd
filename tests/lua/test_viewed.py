"""Each script in lua/viewed.lua by itself."""

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
