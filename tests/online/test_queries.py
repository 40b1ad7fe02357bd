"""
Pages of any list in any order, and ending what is listed: against lists that the tests make of all sessions there are.

Sessions are stored behind the engine's back here, so that several have the same millisecond as their time.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple, get_args

import hypothesis
import pytest
import redis as redis_py
from hypothesis import strategies as st

from benchmarks.fill import fill
from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.models import OnlineSession
from django_redsess.online import listing
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import SessionFilter, count_with_time
from tests.helpers.store import (
    Record,
    bucket_of_user,
    drive,
    keyspace,
    make_due,
    make_seen,
    new_key,
    pack,
    reading,
    sid_of,
    stored,
    text_of,
)

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.on_cluster]

ORDERS: tuple[online.Order, ...] = get_args(online.Order)
MINUTE = 60_000
WEEK = 7 * 24 * 3600


class Known(NamedTuple):
    """A session that a test has stored, or found; times are milliseconds, ``written`` that of its record."""

    sid: str
    user_id: str
    login: int
    seen: int
    written: int = 0


def now_of(client: redis_py.Redis) -> int:
    seconds, microseconds = client.time()
    return int(seconds * 1000 + microseconds // 1000)


def sid_for(user_id: str, number: int) -> str:
    """Return a sid for the session of this number, in the partition that is the user's home."""
    key = new_key(bucket_of_user(user_id) if user_id else None)
    return sid_of(key[:2] + f"{number:030}")


def put(client: redis_py.Redis, sessions: Iterable[Known]) -> None:
    reading.read_time().run()  # Agrees on the number of partitions.
    now = now_of(client)
    with client.pipeline(transaction=False) as together:
        for each in sessions:
            partition = keyspace().of_sid(each.sid)
            deadline = -(-((each.written or now) + WEEK * 1000) // 1000)
            record = Record(each.user_id, each.login if each.user_id else 0, deadline, WEEK, b"", b"{}")
            together.hset(partition.login, each.sid, pack(each.sid, record))
            together.zadd(partition.expire, {each.sid: now + WEEK * 1000})
            together.zadd(partition.recent if each.user_id else partition.guests, {each.sid: each.seen})
            if each.user_id:
                together.zadd(partition.online_user, {each.sid: each.login})
                together.zadd(partition.online_user_of(each.user_id), {each.sid: each.login})
        together.execute()


def all_known(client: redis_py.Redis) -> list[Known]:
    found = []
    for partition in keyspace().partitions:
        logins = dict(client.zrange(partition.online_user, 0, -1, withscores=True))
        seen = {
            sid: score
            for name in (partition.recent, partition.guests)
            for sid, score in client.zrange(name, 0, -1, withscores=True)
        }
        for sid, record in client.hgetall(partition.login).items():
            user_id = record[18 : 18 + record[17]].decode()
            found.append(Known(sid.decode(), user_id, int(logins.get(sid, 0)), int(seen[sid])))
    return found


def sids_there(client: redis_py.Redis) -> set[str]:
    return {each.sid for each in all_known(client)}


def expected(sessions, now, *, order=None, user_ids=None, guests=False, active_seconds=None) -> list[str]:
    """List the sids of those sessions that are asked for, in order: the sid breaks ties."""
    kept = [
        each
        for each in sessions
        if (each.user_id in user_ids if user_ids is not None else each.user_id or guests)
        and (active_seconds is None or each.seen >= now - active_seconds * 1000)
    ]
    by_seen = (guests and user_ids is None) or active_seconds is not None or (order or "").endswith("last_seen_at")
    kept.sort(key=lambda each: (each.seen if by_seen else each.login, each.sid))
    return [each.sid for each in (kept if order in ("created_at", "last_seen_at") else kept[::-1])]


def assert_pages(wanted: Sequence[str], size: int, **asked: Any) -> None:
    """See that every page has exactly what it should, and that there is none after the last."""
    for start in range(0, len(wanted) + size, size):
        found = [session.sid for session in online.sessions(offset=start, limit=size, **asked)]
        assert found == list(wanted[start : start + size]), (asked, start)


@contextmanager
def watched(client: redis_py.Redis) -> Iterator[list[list[str]]]:
    """Collect what the server is told meanwhile, by scripts too: lists of words."""
    commands: list[list[str]] = []
    with client.monitor() as monitor:
        yield commands
        client.echo("that was all")
        for each in monitor.listen():
            if each["command"].startswith("ECHO"):
                break
            commands.append(each["command"].split())


def orders_for(asked: dict[str, Any]) -> list[online.Order | None]:
    by_seen = asked.get("active_seconds") is not None or (asked.get("guests") and asked.get("user_ids") is None)
    return [None, "last_seen_at", "-last_seen_at"] if by_seen else [None, *ORDERS]


people = st.sampled_from(["", "1", "2", "3", "4"])
sessions_there = st.lists(st.tuples(people, st.integers(0, 3), st.integers(0, 3)), max_size=14)
filters = st.fixed_dictionaries(
    {},
    optional={
        "user_ids": st.lists(st.sampled_from(["1", "2", "3", "4", "nobody"]), max_size=4),
        "guests": st.booleans(),
        "active_seconds": st.sampled_from([0, 1, 60, 120.5, 180, 100_000]),
    },
)
slices = st.tuples(st.integers(0, 15), st.integers(0, 16))


@pytest.mark.both_servers
@hypothesis.given(
    there=sessions_there, questions=st.lists(st.tuples(filters, slices), min_size=1, max_size=5), data=st.data()
)
def test_any_page_of_any_list_in_any_order_is_what_it_should_be(redis, there, questions, data) -> None:
    redis.flushall()
    # Half a minute away from what any filter asks for.
    now = now_of(redis)
    known = [
        Known(sid_for(user, number), user, now - login, now - seen * MINUTE - 30_000)
        for number, (user, login, seen) in enumerate(there)
    ]
    put(redis, known)
    for asked, (offset, limit) in questions:
        order = data.draw(st.sampled_from(orders_for(asked)))
        wanted = expected(known, now, order=order, **asked)
        found = online.sessions(offset=offset, limit=limit, order=order, **asked)
        assert [session.sid for session in found] == wanted[offset : offset + limit]
        assert online.count(**asked) == len(wanted)


@pytest.mark.slow
def test_all_pages_of_a_large_store_follow_on_each_other(redis) -> None:
    fill(redis, 3000, viewed=0, users=200)
    now = now_of(redis)
    chance = random.Random(7)
    known = [
        # Five hundred in one millisecond, few in each of the others; about as many were seen in each minute.
        each._replace(
            login=now - 50_000 if number < 500 else now - 100_000 + chance.randrange(600),
            seen=now - chance.randrange(10) * MINUTE - 30_000 - chance.choice([0, 0, 1, 2, 500]),
        )
        for number, each in enumerate(all_known(redis))
    ]
    put(redis, known)
    users = [str(number) for number in range(1, 90)]
    for asked in ({}, {"active_seconds": 300}, {"user_ids": users}, {"user_ids": users, "active_seconds": 240}):
        for order in orders_for(asked)[1:]:
            assert_pages(expected(known, now, order=order, **asked), 850, order=order, **asked)


def test_pages_split_equal_times_and_leave_out_what_is_due(redis) -> None:
    now = now_of(redis)
    known = [
        Known(sid_for(str(number), number), str(number), now - 90_000 - number // 9, now - 30_000 - number // 11)
        for number in range(60)
    ]
    put(redis, known)
    # At both ends, so that it counts in each order.
    due = [*known[:10], *known[-10:]]
    make_due(redis, *(each.sid for each in due))
    for order in ORDERS:
        wanted = expected([each for each in known if each not in due], now, order=order)
        assert_pages(wanted, 7, order=order)
        assert stored(redis) == 40
    assert_pages(wanted, 1, order=order)


@pytest.mark.both_servers
@pytest.mark.one_server
def test_a_page_takes_few_round_trips_and_looks_up_no_more_than_it_shows(redis, partitions, round_trips) -> None:
    fill(redis, 2000, viewed=0, users=8)
    online.sessions()
    for order, offset in product(ORDERS, (0, 1200, 1970)):
        round_trips()
        with watched(redis) as commands:
            assert len(online.sessions(offset=offset, limit=25, order=order)) == 25
        # Users of unlike homes: a partition may be read again. What is found is looked up. A process that was stopped
        # for a second learns the time once more.
        assert round_trips() <= (1 if partitions == 1 else 4)
        words = Counter(command[0].upper() for command in commands)
        # Beyond a thousand rows, scripts read each partition, and again in two parts.
        assert words["EVALSHA"] < (2 if partitions == 1 else 4 * 2 if offset < 1000 else 4 * 5)
        assert words["HGET"] == 25
        ranges = [command for command in commands if command[0].upper() == "ZRANGE"]
        # Of a session on the page, the newest item is read: from -1 to -1.
        by_rank = [command for command in ranges if "BYSCORE" not in command]
        assert max(int(last) - int(first) + 1 for _, _, first, last, *_ in by_rank) <= 25
        # Several partitions are read from the top. The script looks for 200 that are due.
        limits = [int(command[command.index("LIMIT") + 2]) for command in ranges if "BYSCORE" in command]
        assert max(limits) <= (200 if partitions == 1 else offset + 25)


@pytest.mark.slow
def test_the_last_page_that_can_be_asked_for_takes_few_round_trips(redis, round_trips, partitions) -> None:
    fill(redis, 10_500, viewed=0, users=8)
    online.sessions()
    for offset in (5_000, 9_975):
        round_trips()
        assert len(online.sessions(offset=offset, limit=25)) == 25
        assert round_trips() <= (1 if partitions == 1 else 4)


@pytest.mark.django_db
def test_a_list_of_several_partitions_ends_and_the_list_of_one_goes_on(monkeypatch, new_session, partitions) -> None:
    for number in range(6):
        new_session("7" if number < 4 else f"{number}")
    users: dict[str, Any] = {"user_ids": [f"{number}" for number in range(90)]}
    lists = [(asked, online.sessions(**asked)) for asked in ({}, {"guests": True}, {"active_seconds": 60}, users)]
    monkeypatch.setattr(listing, "ROWS_MAX", 3)
    for asked, every in lists:
        assert len(every) == 6
        assert online.sessions(**asked, offset=2, limit=10) == every[2:]
        if partitions == 1:
            assert online.sessions(**asked, offset=3) == every[3:]
        else:
            with pytest.raises(ValueError, match="below 3 with several partitions"):
                online.sessions(**asked, offset=3)
    assert len(online.sessions(offset=3, user_ids=["7"])) == 1
    # Going on from one session to the next reads all.
    assert [row.session for row in OnlineSession.online.all()] == lists[0][1]


def test_guests_and_users_seen_at_the_same_time_are_listed_once_each(redis, commands, partitions) -> None:
    now = now_of(redis)
    users = [str(number % 5) if number % 3 else "" for number in range(1500)]
    # Seen as touches note it, rounded; and those of guests not as evenly.
    times = [now - 1_000_000 * (number % 7 if number % 3 else number % 2) for number in range(1500)]
    known = [Known(sid_for(user, n), user, now, at) for n, (user, at) in enumerate(zip(users, times, strict=True))]
    put(redis, known)
    online.sessions()
    orders: tuple[online.Order, ...] = ("last_seen_at", "-last_seen_at")
    for order in orders:
        wanted = expected(known, now, guests=True, order=order)
        for offset in (0, 1, 499, 500, 1234, 1490, 1500):
            commands()
            found = online.sessions(offset=offset, limit=25, guests=True, order=order)
            assert [session.sid for session in found] == wanted[offset : offset + 25], offset
            assert partitions > 1 or commands()["evalsha"] == 1
        active = expected(known, now, guests=True, order=order, active_seconds=3500)
        found = online.sessions(offset=200, limit=1200, guests=True, order=order, active_seconds=3500)
        assert [session.sid for session in found] == active[200:]


@pytest.mark.both_servers
@pytest.mark.one_server
def test_a_page_of_large_sessions_is_complete_though_a_script_reads_little_more_than_a_megabyte(
    redis, new_session
) -> None:
    for user in "777777777123":
        new_session(user, data=text_of(400_000))
    wanted = expected(all_known(redis), now_of(redis))
    with watched(redis) as commands:
        found = online.sessions(limit=10)
    assert [session.sid for session in found] == wanted[:10]
    assert min(session.size for session in found) > 400_000
    read = [0]
    for command in commands:
        if command[0].upper() == "EVALSHA":
            read.append(0)
        read[-1] += command[0].upper() == "HGET"
    assert max(read) == 3
    assert {session.sid for session in online.find(wanted)} == set(wanted)


@pytest.fixture
def two_users(redis) -> list[Known]:
    """Two users who have 2 600 sessions each, and sign in in turn."""
    fill(redis, 5200, viewed=0, users=2)
    return all_known(redis)


@pytest.mark.slow
@pytest.mark.django_db
def test_as_many_sessions_of_several_users_are_listed_as_are_counted(redis, two_users) -> None:
    listed = OnlineSession.online.of_users(["1", "2"])
    for order in ("created_at", "-last_seen_at"):
        found = [session.sid for session in listed.order_by(order)]
        wanted = expected(two_users, now_of(redis), user_ids=["1", "2"], order=order)
        there = set(found)
        assert found == [sid for sid in wanted if sid in there]
        assert len(found) == listed.order_by(order).count()
        assert 4500 < len(found) <= 5200
        assert list(listed.order_by(order)[5200:5300]) == []


@pytest.mark.slow
def test_the_latest_sign_ins_of_several_users_are_in_their_place(redis, two_users) -> None:
    # Another one, who is at home where the first is.
    other = next(str(uid) for uid in range(3, 99) if keyspace().of_user(str(uid)) == keyspace().of_user("1"))
    now = now_of(redis)
    newest = Known(sid_for(other, 1), other, now, now)
    put(redis, [newest])
    users = ["1", "2", other]
    wanted = expected([*two_users, newest], now, user_ids=users)
    assert wanted[0] == newest.sid
    assert OnlineSession.online.of_users(users).count() > 4500
    for offset in (0, 2000, 4000, 4490):
        found = online.sessions(offset=offset, limit=10, user_ids=users)
        assert [session.sid for session in found] == wanted[offset : offset + 10], offset


@pytest.mark.slow
def test_a_user_with_very_many_sessions_does_not_hide_the_others(redis) -> None:
    fill(redis, 5100, viewed=0, users=1)
    now = now_of(redis)
    # Another one who is at home in the same partition.
    other = next(str(uid) for uid in range(2, 99) if keyspace().of_user(str(uid)) == keyspace().of_user("1"))
    newest = Known(sid_for(other, 1), other, now, now)
    put(redis, [newest])
    assert online.sessions(user_ids=["1", other], limit=1)[0].sid == newest.sid


@pytest.mark.slow
def test_the_sign_ins_of_one_user_are_listed_to_the_last_and_of_the_order_seen_the_latest(redis) -> None:
    fill(redis, 5200, viewed=0, users=1)
    wanted = expected(all_known(redis), now_of(redis), user_ids=["1"])
    assert_pages(wanted, 1300, user_ids=["1"])
    assert_pages(wanted[::-1], 1300, user_ids=["1"], order="created_at")
    assert OnlineSession.online.of_users(["1"]).count() == online.count(user_ids=["1"]) == 5200
    reachable = OnlineSession.online.of_users(["1"]).order_by("-last_seen_at").count()
    assert 4500 < reachable <= 5000
    assert_pages(wanted[:reachable], 1300, user_ids=["1"], order="-last_seen_at")
    assert online.count(user_ids=["1"], active_seconds=3600) == reachable


def end(work: BulkEnding, between: Callable[[], object] = lambda: None) -> set[str]:
    """Do all steps, and ``between`` after each; return the sids that have ended."""
    ended = []
    for _ in range(100):
        if work.done:
            assert len(ended) == len(set(ended))
            return set(ended)
        ended += [each.sid for each in drive(work.ending_batch())]
        between()
    raise AssertionError("it never ends")


def to_end(known: Iterable[Known], chosen: SessionFilter, *, latest=None, keep=(), keep_user_ids=()) -> set[str]:
    def began(each: Known) -> int:
        return each.login if each.user_id else min(each.seen, each.written)

    since = None if chosen.active_seconds is None or latest is None else latest - chosen.active_seconds * 1000
    return {
        each.sid
        for each in known
        if (each.user_id in chosen.user_ids if chosen.user_ids is not None else each.user_id or chosen.guests)
        and each.sid not in keep
        and (not each.user_id or each.user_id not in keep_user_ids)
        and (since is None or each.seen >= since)
        and (latest is None or began(each) <= latest)
    }


@pytest.mark.both_servers
@hypothesis.given(
    there=st.lists(st.tuples(people, *[st.integers(-2, 3)] * 3), max_size=12),
    asked=filters,
    latest=st.booleans(),
    kept=st.sets(st.integers(0, 11), max_size=3),
    keep_user_ids=st.sets(st.sampled_from(["1", "2", "nobody"]), max_size=2),
)
def test_exactly_those_that_are_meant_are_ended(redis, there, asked, latest: bool, kept, keep_user_ids) -> None:
    redis.flushall()
    at = now_of(redis) - 10 * MINUTE
    chosen = SessionFilter(**{**asked, **({"user_ids": tuple(asked["user_ids"])} if "user_ids" in asked else {})})
    hypothesis.assume(latest or chosen.active_seconds is None)
    known = [
        Known(sid_for(user, number), user, at - login, at - seen * 30_000, at - written * 2_000)
        for number, (user, login, seen, written) in enumerate(there)
    ]
    put(redis, known)
    sids = {known[number].sid for number in kept if number < len(known)}
    rules: dict[str, Any] = {"latest": at if latest else None, "keep": sids, "keep_user_ids": keep_user_ids}
    wanted = to_end(known, chosen, **rules)
    assert end(BulkEnding(chosen, **rules)) == wanted
    assert sids_there(redis) == {each.sid for each in known} - wanted


def test_nothing_to_end_is_done_after_a_step() -> None:
    for chosen in (*FILTERS[:3], SessionFilter(())):
        work = BulkEnding(chosen)
        assert end(work) == set()
        assert drive(work.ending_batch()) == []


@pytest.mark.parametrize("chosen", [SessionFilter(), SessionFilter(guests=True)])
def test_a_sign_in_during_the_work_stays_where_a_time_is_given(redis, new_session, chosen: SessionFilter) -> None:
    fill(redis, 300, viewed=0, users=8)
    before = sids_there(redis)
    _, latest = count_with_time(chosen)
    late = []

    def sign_in() -> None:
        # Its time is that of the last reply, carried on: to the millisecond it is not exact.
        while now_of(redis) <= latest + 50:
            pass
        late.append(new_session("7").sid)

    assert end(BulkEnding(chosen, latest=latest), sign_in) == before
    assert sids_there(redis) == set(late)


def test_guests_are_ended_in_doubt_and_those_who_came_later_stay(redis) -> None:
    latest = now_of(redis) - MINUTE
    before, after = latest - 1000, latest + 3000
    old, read, written, new, member, dated = (
        Known(sid_for("", 1), "", 0, before, before),
        Known(sid_for("", 2), "", 0, after, before),
        Known(sid_for("", 3), "", 0, latest, latest),
        Known(sid_for("", 4), "", 0, after, after),
        Known(sid_for("1", 5), "1", before, after, after),
        # A deadline that was set as a date does not tell when it was written.
        Known(sid_for("", 6), "", 0, before, after),
    )
    put(redis, [old, read, written, new, member, dated])
    ended = end(BulkEnding(SessionFilter(guests=True), latest=latest))
    assert ended == {old.sid, read.sid, written.sid, member.sid, dated.sid}


FILTERS = [
    SessionFilter(),
    SessionFilter(guests=True),
    SessionFilter(("1", "2", "3")),
    SessionFilter(guests=True, active_seconds=3600),
]


def protected_among(redis: redis_py.Redis, every: int) -> tuple[set[str], list[str]]:
    """Store 620 sessions of the users 1, 2 and 3. Return those of user 2, each so many-th, and the others."""
    now = now_of(redis)
    users = ["2" if number % every == 0 else "13"[number % 2] for number in range(620)]
    known = [
        Known(sid_for(user, number), user, now - 100_000 + number, now - 100_000 + number, now - 100_000)
        for number, user in enumerate(users)
    ]
    put(redis, known)
    protected = {each.sid for each in known if each.user_id == "2"}
    return protected, [each.sid for each in known if each.sid not in protected]


@pytest.mark.parametrize("every", [2, 20])
@pytest.mark.parametrize("chosen", FILTERS)
def test_protected_ones_among_600_others_stay_and_no_other_does(redis, chosen: SessionFilter, every: int) -> None:
    protected, others = protected_among(redis, every)
    # The second time, all that are there are protected.
    for rules, ended in (({"keep_user_ids": ["2"]}, set(others)), ({"keep": protected}, set())):
        assert end(BulkEnding(chosen, latest=now_of(redis), **rules)) == ended
        assert sids_there(redis) == protected


@pytest.mark.parametrize("chosen", FILTERS)
def test_those_that_are_seen_during_the_work_are_ended_or_stay_as_the_others(redis, chosen: SessionFilter) -> None:
    protected, others = protected_among(redis, 3)
    chance = random.Random(7)
    work = BulkEnding(chosen, latest=now_of(redis), keep_user_ids=["2"])

    def see() -> None:
        for sid in chance.sample(sorted(sids_there(redis)), 50 if len(sids_there(redis)) >= 50 else 0):
            make_seen(redis, sid, now_of(redis))

    moves = iter([see, see, see])
    assert end(work, lambda: next(moves, lambda: None)()) == set(others)
    assert sids_there(redis) == protected


def user_of_the_first() -> str:
    """Name a user who is at home in the first partition: the first step is taken there."""
    space = keyspace()
    return next(str(number) for number in range(100) if space.of_user(str(number)) == space.partitions[0])


@pytest.mark.parametrize("active_seconds", [None, 3600])
def test_the_only_one_to_end_is_not_missed_when_a_protected_one_is_seen(redis, active_seconds) -> None:
    user, now = user_of_the_first(), now_of(redis)
    # The first step takes 250, and the guest comes right after these.
    times = [now - 9000 + number if number < 250 else now - 5000 for number in range(260)]
    known = [Known(sid_for(user, number), user, now - 9000, time) for number, time in enumerate(times)]
    guest = Known(sid_for(user, 999), "", 0, now - 6000, now - 6000)
    put(redis, [*known, guest])
    seen = iter([known[0].sid])
    work = BulkEnding(SessionFilter(guests=True, active_seconds=active_seconds), latest=now, keep_user_ids=[user])
    end(work, lambda: [make_seen(redis, sid, now_of(redis)) for sid in seen])
    assert online.get(guest.sid) is None


@pytest.mark.parametrize(
    ("asked", "own"),
    [({}, False), ({}, True), ({"guests": True}, False), ({"guests": True, "active_seconds": 3600}, False)],
    ids=["all", "of a user", "guests too", "active"],
)
def test_a_protected_one_that_goes_during_the_work_lets_no_other_escape(redis, asked, own: bool) -> None:
    user, now = user_of_the_first(), now_of(redis)
    known = [Known(sid_for(user, number), user, now - 9000 + number, now - 9000 + number) for number in range(520)]
    put(redis, known)
    # One that is to be ended comes right after the first 250.
    protected = [each.sid for each in known[1::2]]
    going = iter(protected[:1])
    work = BulkEnding(SessionFilter((user,) if own else None, **asked), latest=now, keep=protected)
    end(work, lambda: [online.end(sid) for sid in going])
    assert sids_there(redis) == set(protected[1:])


@pytest.mark.parametrize("chosen", FILTERS)
def test_a_session_that_gets_another_key_during_the_work_is_ended_too(redis, new_session, chosen) -> None:
    session = new_session("3")
    fill(redis, 300, viewed=0, users=3)

    def rotate() -> None:
        mine = SessionStore(session.session_key)
        if mine.get("_auth_user_id"):
            mine.cycle_key()
            mine.save()
            session._session_key = mine.session_key

    end(BulkEnding(chosen, latest=now_of(redis)), rotate)
    assert stored(redis) == 0


def test_what_is_due_meanwhile_is_no_obstacle(redis) -> None:
    protected, others = protected_among(redis, 3)
    due = iter([*others[200:206], *sorted(protected)[:4]])

    def clean() -> None:
        make_due(redis, *[sid for sid in (next(due, None),) if sid])
        sum(cleaning.expire_sessions())

    end(BulkEnding(SessionFilter(), keep_user_ids=["2"]), clean)
    assert sids_there(redis) <= protected


def test_large_sessions_that_stay_are_no_obstacle(new_session) -> None:
    kept, others = ([new_session(user, data=text_of(400_000)).sid for _ in range(6)] for user in "23")
    assert end(BulkEnding(SessionFilter(), keep_user_ids=["2"])) == set(others)
    assert {session.sid for session in online.sessions()} == set(kept)
