"""The most viewed items as a QuerySet: what the admin asks of it, and that all else is refused."""

import asyncio
from typing import Any

import pytest
from django.db.models import Q

from django_redsess import querysets, viewed
from django_redsess.models import PopularItem
from tests.helpers.items import STRANGE
from tests.helpers.store import have_views

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.usefixtures("partitions"),
    pytest.mark.on_cluster,
    pytest.mark.both_servers,
]

items = PopularItem.viewed

VIEWS = {"kite": 50, "lamp": 30, "rope": 30, "sail": 30, "tail": 5, "line": 5}


@pytest.fixture
def known(redis) -> dict[str, int]:
    have_views(redis, VIEWS)
    return VIEWS


def listed(queryset) -> list[str]:
    return [row.item for row in queryset]


def test_the_most_viewed_come_first_with_their_views(known) -> None:
    rows = list(items.all())
    assert {row.item: row.views for row in rows} == known
    assert [row.views for row in rows] == sorted(known.values(), reverse=True)
    assert listed(items.all()) == [entry.item for entry in viewed.popular(limit=10)]
    assert listed(items.order_by("-views", "-pk")) == listed(items.order_by("pk")) == listed(items.all())


@pytest.mark.parametrize("read_at_once", [1, 5, 6, 7])
def test_rows_and_ranks_are_the_same_however_the_list_is_cut_or_read(known, monkeypatch, read_at_once: int) -> None:
    whole = listed(items.all())
    monkeypatch.setattr(querysets, "READ_AT_ONCE", read_at_once)
    for size in (1, 2, 4, 6):
        pages = [list(items.all()[start : start + size]) for start in range(0, 6, size)]
        assert [row.item for page in pages for row in page] == whole
        assert [row.rank for page in pages for row in page] == [1, 2, 2, 2, 5, 5]


def test_an_item_that_is_looked_for_has_its_own_rank_and_its_share_of_all_views(known) -> None:
    rows = items.filter(item__in=["line", "lamp", "kite"])
    assert listed(rows) == ["kite", "lamp", "line"]
    assert [(row.rank, row.share) for row in rows] == [(1, 50 / 150), (2, 30 / 150), (5, 5 / 150)]
    assert items.get(item="sail").rank == 2
    assert {row.item: row.share for row in items.all()} == {item: count / 150 for item, count in known.items()}


def test_the_share_of_what_was_viewed_since_the_total_was_counted_is_not_above_one(redis) -> None:
    have_views(redis, {"kite": 2})
    rows = items.all().counting_once()
    assert rows.total.views == 2
    have_views(redis, {"kite": 5})
    assert [row.share for row in rows] == [1]


def test_slices_and_counts(known) -> None:
    everything = listed(items.all())
    assert items.count() == len(items.all()) == 6
    assert listed(items.all()[1:]) == everything[1:]
    assert listed(items.all()[2:4]) == everything[2:4]
    assert items.all()[0].item == items.first().item == "kite"
    assert items.all()[4:10].count() == 2
    assert items.all()[9:10].count() == 0
    assert listed(items.all()[9:10]) == []
    assert listed(items.all()[: 10**15]) == everything
    assert items.exists()
    with pytest.raises(IndexError):
        items.all()[6]


def test_filters_by_item(known) -> None:
    assert listed(items.filter(pk="lamp")) == listed(items.filter(item__exact="lamp")) == ["lamp"]
    assert listed(items.filter(pk__in=["tail", "kite", "other"])) == ["kite", "tail"]
    assert listed(items.filter(pk__in=["tail", "kite"]).filter(item="tail")) == ["tail"]
    assert listed(items.filter(item="tail").filter(item="kite")) == []
    assert listed(items.filter(Q(Q(("item", "tail"))))) == ["tail"]
    assert items.filter(item__in=[]).count() == 0
    assert listed(items.filter(item__in=["kite", "lamp", "tail"])[1:]) == ["lamp", "tail"]
    assert listed(items.filter()) == listed(items.all())


def test_what_cannot_be_an_item_is_not_there(known) -> None:
    for item in ("", "x" * 65, "x" * 10_000, "\ud800", "é" * 33):
        assert not items.filter(item=item).exists()
        assert listed(items.filter(pk__in=[item, "kite"])) == ["kite"]


def test_any_item_is_listed_and_found(redis) -> None:
    have_views(redis, {**dict.fromkeys(STRANGE, 3), "other": 2})
    assert sorted(listed(items.all())) == sorted([*STRANGE, "other"])
    for item in STRANGE:
        row = items.get(item=item)
        assert (row.item, row.views, items.get(pk=row.pk).item) == (item, 3, item)
        assert listed(items.in_bulk([row.pk]).values()) == [item]


def test_an_empty_store_has_no_rows() -> None:
    assert listed(items.all()) == []
    assert items.count() == 0
    assert items.first() is None
    assert tuple(items.all().total) == (0, 0, None)
    # Nothing is looked up for no rows.
    assert listed(items.all().resolving(pytest.fail)) == []


def test_objects_of_all_rows_are_looked_up_in_one_call(known) -> None:
    calls = []

    def resolve(wanted: list[str]) -> dict[str, str]:
        calls.append(list(wanted))
        return {"kite": "Red kite"}

    rows = items.all().resolving(resolve)[:3]
    assert [row.object for row in rows] == ["Red kite", None, None]
    assert calls == [listed(items.all()[:3])]
    assert items.all().resolving(resolve).filter(item="kite").get().object == "Red kite"
    assert items.get(item="kite").object is None


def test_a_total_that_is_kept_is_asked_for_once(known, commands, partitions) -> None:
    rows = items.all().counting_once()
    assert tuple(rows.total)[:2] == (6, 150)
    commands()
    assert (rows.count(), rows[4:].count(), rows.order_by("-pk").count()) == (6, 2, 6)
    assert not {"evalsha", "zcount", "zrange"} & set(commands())
    list(rows[:2])
    # One partition is read by a script, several by plain commands. A script's own command counts, too.
    sent = commands()
    assert (sent.get("evalsha", 0), sent["zrange"]) == (1 if partitions == 1 else 0, partitions)


@pytest.mark.django_db(transaction=True)
def test_rows_can_be_awaited(known) -> None:
    async def ask() -> tuple[Any, ...]:
        rows = [row.item async for row in items.all()]
        one_by_one = [row.item async for row in items.all().aiterator()]
        return rows, one_by_one, await items.acount(), (await items.aget(item="kite")).views

    assert asyncio.run(ask()) == (listed(items.all()), listed(items.all()), 6, 50)


def test_the_database_sees_no_rows(known, django_assert_num_queries) -> None:
    with django_assert_num_queries(0):
        assert list(PopularItem._default_manager.all()) == []
        assert list(PopularItem._base_manager.all()) == []
        assert items.count() == len(items.all())
