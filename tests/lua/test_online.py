"""Each script in lua/online.lua by itself."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers

MINUTE = 60_000


@pytest.fixture
def visitors(store) -> Store:
    """Two users, one of them with two sessions, a guest, and a session that is due."""
    store.add("a", "7", login=400, seen=40)
    store.add("b", "8", login=300, seen=10 * MINUTE)
    store.add("c", "7", login=200, seen=20)
    store.add("guest", seen=30)
    store.add("due", "9", due=-5, login=100)
    return store


def test_count_goes_by_the_newest_where_the_clock_has_stepped_back(store) -> None:
    store.add("a", "7", seen=-MINUTE)
    result, _ = store.run_ending(scripts.COUNT, lists=[store.partition.recent], kind="", active="")
    assert result == [1, b"%d" % (store.now + MINUTE)]


PAGE: dict[str, Any] = dict.fromkeys(("order", "active"), "") | {"first": 0, "last": 9, "latest_first": True}
PAGE |= {"with_rows": False, "keeps_due": False}


@pytest.mark.parametrize(
    ("lists", "how", "sids"),
    {
        "by login time": (["online_user"], {}, ["c", "b", "a"]),
        "the earliest first": (["online_user"], {"latest_first": False}, ["a", "b", "c"]),
        "some ranks": (["online_user"], {"first": 1, "last": 1}, ["b"]),
        "ranks beyond": (["online_user"], {"first": 5}, []),
        "two lists": (["recent", "guests"], {}, ["c", "guest", "a", "b"]),
        "two lists, some ranks": (["recent", "guests"], {"first": 1, "last": 2, "latest_first": False}, ["a", "guest"]),
        "who was seen lately": (["recent"], {"active": MINUTE}, ["c", "a"]),
        "users by login time": (["7", "8"], {"order": "login"}, ["c", "b", "a"]),
        "users by last seen": (["7", "8"], {"order": "seen"}, ["c", "a", "b"]),
        "users who were seen lately": (["7", "8"], {"order": "login", "active": MINUTE}, ["c", "a"]),
    }.values(),
)
def test_page_reads_sids_in_order(visitors, lists: list[str], how: dict[str, Any], sids: list[str]) -> None:
    keys = visitors.partition
    names = [keys.online_user_of(name) if "order" in how else getattr(keys, name) for name in lists]
    (entries, with_rows, rows), ended = visitors.run_ending(scripts.PAGE, lists=names, **{**PAGE, **how})
    assert [sid.decode()[2:].rstrip(".") for sid in entries[::2]] == sids
    assert (with_rows, rows, ended) == (0, [], {"expired": 1})


def test_find_stops_where_records_have_too_many_bytes(store) -> None:
    for name in ("a", "b", "c"):
        store.add(name, size=700_000)
    count, *rows = store.run(scripts.FIND, live_only=True, sids=[store.sid(name) for name in ("a", "b", "c")])
    assert (count, len(rows)) == (2, 2)


NEWEST = {"active": "", "with_scores": False, "keeps_due": False}


@pytest.mark.usefixtures("left_alone")
def test_newest_reads_the_newest_of_each_list(visitors) -> None:
    lists = [visitors.partition.online_user, visitors.partition.recent, visitors.partition.guests]
    # Another program wrote this.
    visitors.client.zadd(lists[0], {"strange": 9e12})
    texts, ended = visitors.run_ending(scripts.NEWEST, lists=lists, **NEWEST, offset=0, count=3)
    assert ended == {"expired": 1}
    names = [["c", "b"], ["c", "a", "b"], ["guest"]]
    assert [text.decode() for text in texts] == ["".join(map(visitors.sid, each)) for each in names]
    texts, _ = visitors.run_ending(scripts.NEWEST, lists=lists, **NEWEST, offset=1, count=1)
    assert [text.decode() for text in texts] == [visitors.sid("c"), visitors.sid("a"), ""]


def test_read_records_stops_after_a_megabyte(store) -> None:
    for number in range(20):
        store.add(str(number), size=150_000)
    lengths, text = store.run(
        scripts.READ_RECORDS, cut_to=100, sids="".join(store.sid(str(number)) for number in range(20))
    )
    assert (len(lengths.split()), len(text)) == (16, 1600)


LENGTH = 10 * MINUTE


def take(store: Store, *thinning: int) -> None:
    given = {"active": 5 * MINUTE, "lifetime": 10_000 * MINUTE, "thinning": thinning, "fields": ["created"]}
    store.client.zremrangebyscore(store.partition.samples, store.now - MINUTE, "+inf")
    store.run(scripts.TAKE_SAMPLE, **given)


def add_samples(store: Store, texts: dict[int, str]) -> None:
    """Store samples by their times."""
    store.client.zadd(store.partition.samples, {f"{at} {text}": at for at, text in texts.items()})


def test_a_call_looks_at_few_samples_and_the_next_goes_on_behind_them(store) -> None:
    begins = store.now - store.now % LENGTH - 100 * LENGTH
    add_samples(store, {begins + number * MINUTE: f"{number % 97} 0 {number}" for number in range(600)})
    sizes = []
    for _ in range(5):
        take(store, LENGTH, LENGTH)
        sizes.append(store.client.zcard(store.partition.samples) - 1)
    assert 350 < sizes[0] < 400
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-2:] == [60, 60]
    merged = store.client.zrange(store.partition.samples, 0, 59)
    for slot, sample in enumerate(merged):
        numbers = range(slot * 10, slot * 10 + 10)
        expected = (begins + slot * LENGTH, max(each % 97 for each in numbers), 0, numbers[-1])
        assert sample == b"%d %d %d %d" % expected


def test_what_is_no_sample_goes_with_its_slot_and_a_clock_that_stepped_back_begins_again(store) -> None:
    begins = store.now - store.now % LENGTH - 3 * LENGTH
    active = store.partition.samples_active
    store.client.zadd(active, {b"junk": begins + 1, b"1 2 3 4": begins + 2, b"1 5 6": begins + MINUTE})
    store.client.zadd(store.partition.samples, {b"junk": begins + 1, b"1 x 3 4": begins + 2, b"": begins + LENGTH + 1})
    add_samples(store, {begins + MINUTE: "1 2 3"})
    store.client.hset(store.partition.totals, f"thinned:{LENGTH}", store.now + 5 * LENGTH)
    take(store, LENGTH, LENGTH)
    assert store.client.zrange(store.partition.samples, 0, -2) == [b"%d 1 2 3" % begins]
    assert store.client.zrange(active, 0, -2) == [b"%d 5 6" % begins]
