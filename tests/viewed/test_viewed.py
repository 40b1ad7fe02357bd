from dataclasses import replace
from functools import partial

import pytest
from asgiref.sync import async_to_sync
from django.contrib.sessions.backends.signed_cookies import SessionStore as OtherSession

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.viewed import popularity
from testproject.servers import free_port
from tests.helpers.outages import caches
from tests.helpers.store import have_views, keyspace, make_due

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers, pytest.mark.on_cluster]


def items(session: SessionStore) -> list[str]:
    return [found.item for found in viewed.recent(session)]


def test_items_come_newest_first(new_session) -> None:
    session = new_session()
    for item in ("lamp", "vase", "bowl", "vase"):
        assert viewed.record(session, item)
    assert items(session) == ["vase", "bowl", "lamp"]
    assert viewed.recent(session, limit=0) == viewed.recent(session, limit=-1) == []


def test_the_newest_25_are_kept_or_as_many_as_the_setting_says(new_session, settings) -> None:
    session = new_session()
    for item in range(40):
        viewed.record(session, item)
    assert items(session) == [str(item) for item in reversed(range(15, 40))]
    settings.REDSESS = {**settings.REDSESS, "VIEWED_PER_SESSION": 2}
    viewed.record(session, 40)
    assert items(session) == ["40", "39"]


def test_the_newest_stays_first_when_the_clock_stepped_back(redis, new_session) -> None:
    session = new_session()
    redis.zadd(keyspace().of_sid(session.sid).viewed_by(session.sid), {"before": 10_000_000_000_000})
    viewed.record(session, "now")
    assert items(session) == ["now", "before"]


def test_most_viewed_come_first_over_all_partitions(new_session) -> None:
    for item, times in (("lamp", 2), ("vase", 3), ("bowl", 1)):
        for _ in range(times):
            viewed.record(new_session(), item)
    assert viewed.popular() == [("vase", 3), ("lamp", 2), ("bowl", 1)]
    assert viewed.popular(limit=1) == [("vase", 3)]
    assert viewed.popular(limit=0) == viewed.popular(limit=-1) == []
    assert [viewed.count(item) for item in ("lamp", "vase", "nothing")] == [2, 3, 0]


def test_a_session_that_is_gone_views_nothing_and_of_one_that_is_due_nothing_is_read(redis, new_session) -> None:
    session, due = new_session("7"), new_session()
    online.end(session.sid)
    assert not viewed.record(session, "lamp")
    assert not viewed.record(SessionStore(), "lamp")
    assert viewed.popular() == []
    viewed.record(due, "lamp")
    make_due(redis, due.sid)
    assert viewed.recent(due.sid) == []


def test_a_view_leaves_the_deadline_alone(new_session) -> None:
    session = new_session("7")
    before = online.get(session.sid)
    viewed.record(session, "lamp")
    assert online.get(session.sid) == replace(before, newest_item="lamp")


@pytest.mark.parametrize("item", ["a", "ä" * 32, "x" * 64, "a:b", "nul\0", "line\nbreak", "NaN", "-1", 0, 12345])
def test_what_can_be_an_item(new_session, item: str | int) -> None:
    session = new_session()
    assert viewed.record(session, item)
    assert items(session) == [str(item)]


def test_async_variants_do_the_same(new_session) -> None:
    session = new_session()

    async def all_of_them() -> list[object]:
        return [
            await viewed.arecord(session, "lamp"),
            await viewed.arecord(session, 5),
            [entry.item for entry in await viewed.arecent(session)],
            await viewed.acount("lamp"),
            await viewed.arank(1),
            (await viewed.atotal())[:2],
            sorted(await viewed.apopular()),
            await viewed.aforget(session, "lamp"),
            await viewed.areset("lamp"),
            await viewed.areset_all(),
        ]

    assert async_to_sync(all_of_them)() == [
        *(True, True, ["5", "lamp"], 1, 1),
        *((2, 2), [("5", 1), ("lamp", 1)], 1, 1, 1),
    ]


def test_what_a_session_viewed_is_forgotten_and_views_of_everybody_stay(new_session) -> None:
    session, other = new_session(), new_session()
    for item in ("lamp", "vase", "bowl"):
        viewed.record(session, item)
        viewed.record(other, item)
    assert viewed.forget(session, "vase") == 1
    assert items(session) == ["bowl", "lamp"]
    assert viewed.forget(session.sid) == 2
    assert (items(session), items(other)) == ([], ["bowl", "vase", "lamp"])
    assert viewed.total()[:2] == (3, 6)


def test_views_of_items_are_reset(redis, new_session) -> None:
    have_views(redis, {"lamp": 3, "vase": 2, "bowl": 7})
    with pytest.raises(ValueError, match="An item id"):
        viewed.reset("lamp", "")
    assert viewed.count("lamp") == 3
    assert viewed.reset("lamp", "nothing", "vase", "lamp") == 5
    assert viewed.popular() == [("bowl", 7)]
    assert viewed.total()[:2] == (1, 7)
    assert viewed.reset() == viewed.reset("lamp") == 0
    viewed.record(new_session(), "lamp")
    assert viewed.count("lamp") == 1


def test_views_of_thousands_of_items_are_reset_in_batches_and_of_all_at_once(redis, new_session, commands) -> None:
    session = new_session()
    viewed.record(session, "lamp")
    have_views(redis, {f"item {number}": 1 for number in range(1000)})
    commands()
    assert viewed.reset(*(f"item {number}" for number in range(1000))) == 1000
    assert commands()["evalsha"] <= 8
    assert viewed.popular() == [("lamp", 1)]
    have_views(redis, {"lamp": 3, "vase": 2, "bowl": 7})
    assert (viewed.reset_all(), viewed.reset_all()) == (13, 0)
    assert viewed.total()[:2] == (0, 0)
    assert items(session) == ["lamp"]


@pytest.mark.parametrize("number", [500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_views_of_any_number_of_items_stay_bounded(redis, new_session, settings, number: int) -> None:
    settings.REDSESS = {**settings.REDSESS, "VIEWED_LIMIT": 100}
    session = new_session()
    have_views(redis, {f"well known {item}": 5 for item in range(20)})
    for item in range(number):
        viewed.record(session, f"random {item}")
        if item > number - 200:
            # One that comes last, in a full store, and beside all those.
            viewed.record(session, "~new")
    # Each partition has its share.
    assert viewed.total().items <= 100 + keyspace().count
    assert {entry.item for entry in viewed.popular(limit=21)} >= {f"well known {item}" for item in range(20)}
    assert viewed.count("~new") > 20
    found = viewed.popular(limit=200)
    assert viewed.total()[:2] == (len(found), sum(entry.views for entry in found))


def test_two_that_are_too_many_go_with_each_new_item(redis, new_session, settings) -> None:
    session = new_session(colour="blue")
    have_views(redis, {f"item {number}": 1 for number in range(100)})
    settings.REDSESS = {**settings.REDSESS, "VIEWED_LIMIT": 1}
    before = viewed.total().items
    viewed.record(session, "new")
    assert viewed.total().items == before + 1 - 2
    viewed.record(session, "new")
    assert viewed.total().items == before + 1 - 2
    assert viewed.count("new") == 2


def test_ranks_are_shared_by_items_with_as_many_views(redis) -> None:
    have_views(redis, {"lamp": 3, "vase": 2, "bowl": 2, "cup": 1})
    assert [viewed.rank(views) for views in (4, 3, 2, 1, 0)] == [1, 1, 2, 4, 5]


@pytest.mark.parametrize("shallow", [popularity.SHALLOW, 0])
@pytest.mark.parametrize("views", [[1] * 60, [*range(1, 31)] * 2, [10**9, *[3] * 20, 2, 2, *[1] * 40], []])
def test_pages_put_together_are_the_whole_list(redis, monkeypatch, views: list[int], shallow: int) -> None:
    monkeypatch.setattr(popularity, "SHALLOW", shallow)
    given = {f"item {number}": count for number, count in enumerate(views)}
    have_views(redis, given)
    whole = viewed.popular(limit=1000)
    assert dict(whole) == given
    assert [entry.views for entry in whole] == sorted(views, reverse=True)
    for size in (1, 7, 100):
        pages = [viewed.popular(limit=size, offset=offset) for offset in range(0, len(views) + size, size)]
        assert [entry for page in pages for entry in page] == whole
        assert pages[-1] == []


def test_a_page_far_down_takes_few_round_trips(redis, partitions: int, round_trips) -> None:
    have_views(redis, {f"item {number}": number % 1000 + 1 for number in range(6000)})
    viewed.total()
    round_trips()
    assert len(viewed.popular(limit=100, offset=5000)) == 100
    # One partition knows its ranks; of several, all are asked for a number of views, halving the range each time.
    assert round_trips() <= (1 if partitions == 1 else 2 * 10 + 2)
    for read in (viewed.popular, viewed.total, lambda: viewed.rank(7), lambda: viewed.reset("item 1", "item 2")):
        read()
        assert round_trips() <= 2


def test_what_somebody_else_wrote_is_shown_as_far_as_it_can_be(redis, new_session) -> None:
    session = new_session()
    partition = keyspace().of_sid(session.sid)
    redis.zadd(partition.viewed_by(session.sid), {b"\xff\x00": "inf"})
    redis.zadd(partition.viewed, {b"\xff": "-inf", "nothing": "inf"})
    redis.hset(partition.totals, "views", 0)
    try:
        assert [entry.item for entry in viewed.recent(session)] == ["\ufffd\0"]
        assert viewed.popular() == [("\ufffd", popularity.VIEWS_MAX), ("nothing", -popularity.VIEWS_MAX)]
    finally:
        redis.delete(partition.viewed)


def test_an_outage_is_told(settings, new_session) -> None:
    session = new_session()
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    for function in (viewed.popular, viewed.total, viewed.reset_all, lambda: viewed.record(session, "lamp")):
        with pytest.raises(SessionStoreUnavailable):
            function()


@pytest.mark.parametrize("session", ["no sid", "", "x" * 1_000_000, "." * 20, SessionStore(), SessionStore("x" * 32)])
def test_of_no_session_there_is_nothing_to_read_or_forget(session: SessionStore | str) -> None:
    assert viewed.recent(session) == []
    assert viewed.forget(session) == viewed.forget(session, "lamp") == 0


@pytest.mark.unit
@pytest.mark.parametrize(
    "item", ["", "x" * 65, "ä" * 33, "\udcff", None, 1.5, True, b"lamp", pytest.param(10**5000, id="5001 digits")]
)
def test_what_can_be_no_item_offset_or_session_is_a_clear_error(item: object) -> None:
    for function in (viewed.count, viewed.reset, viewed.item_id, partial(viewed.record, SessionStore())):
        with pytest.raises(ValueError, match="An item id is an integer, or text of 1 to 64 bytes"):
            function(item)
    with pytest.raises(ValueError, match="offset"):
        viewed.popular(offset=-1)
    with pytest.raises(TypeError, match=r"django_redsess\.backend"):
        viewed.record(OtherSession(), "lamp")


CALLS: list[list[str]] = []


def find(items: list[str]) -> dict[object, str]:
    CALLS.append(items)
    there = {5: "number 5", "lamp": "the lamp"}
    return {item: thing for item, thing in there.items() if str(item) in items}


@pytest.mark.unit
def test_objects_are_looked_up_with_one_call(settings) -> None:
    CALLS.clear()
    settings.REDSESS = {"VIEWED_RESOLVE": f"{__name__}.find"}
    assert viewed.resolve(["5", "lamp", "gone"]) == {"5": "number 5", "lamp": "the lamp"}
    assert viewed.resolve([]) == {}
    assert CALLS == [["5", "lamp", "gone"]]
    settings.REDSESS = {}
    assert viewed.resolve(["lamp"]) == {}
