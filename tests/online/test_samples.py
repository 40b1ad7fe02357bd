"""The samples that a cleaner takes each minute, and what ``online.samples()`` makes of them."""

import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import logout
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.online import sampling
from django_redsess.online.sampling import samples_until_now
from django_redsess.signals import Reason
from tests.helpers.store import keyspace, make_due, make_seen, note, now_of, operations, sid_of, stored, written

pytestmark = [pytest.mark.usefixtures("partitions", "steady_minute"), pytest.mark.on_cluster, pytest.mark.clock]

NOTHING_ENDED = dict.fromkeys(Reason, 0)


@pytest.fixture
def steady_minute(redis) -> None:
    """See that no minute ends during a test: there is one sample in each."""
    seconds, _ = redis.time()
    if seconds % 60 > 56:
        time.sleep(60.1 - seconds % 60)


def kept(client: redis_py.Redis) -> int:
    return max(client.zcard(partition.samples) for partition in keyspace().partitions)


def sampled() -> sampling.Sample:
    cleaning.take_sample()
    [sample] = online.samples()
    return sample


def test_a_sample_is_of_its_minute_and_tells_how_long_it_is_until_the_next(redis) -> None:
    assert online.samples() == []
    now = now_of(redis)
    left = 60 - now.second - now.microsecond / 1e6
    for _ in range(2):
        # The script's clock has milliseconds, cut off.
        assert left - 5 < cleaning.take_sample() <= left + 0.001
    assert sampled().at == now.replace(second=0, microsecond=0)


def test_there_is_one_sample_a_minute_however_often_and_from_however_many_threads(redis, new_session) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda _: cleaning.take_sample(), range(8)))
    new_session("7")
    cleaning.take_sample()
    assert kept(redis) == 1
    # The first one.
    assert [sample.signed_in for sample in online.samples()] == [0]


def test_a_new_minute_has_a_new_sample(redis, new_session) -> None:
    this_minute = now_of(redis).replace(second=0, microsecond=0)
    note(redis, this_minute - timedelta(minutes=1))
    new_session("7")
    cleaning.take_sample()
    assert [sample.at for sample in online.samples()] == [this_minute - timedelta(minutes=1), this_minute]
    assert online.samples()[-1].signed_in == 1


def test_signed_in_and_guests_are_counted(new_session) -> None:
    for number in range(7):
        new_session(f"user {number}")
    new_session("user 0")
    for _ in range(5):
        new_session(colour="blue")
    sample = sampled()
    assert (sample.signed_in, sample.guests, sample.created, sample.ended) == (8, 5, 13, NOTHING_ENDED)


def sign_out(session: SessionStore) -> None:
    request = HttpRequest()
    request.session = session
    logout(request)


def expire(redis: Any, *sessions: SessionStore) -> None:
    make_due(redis, *(session.sid for session in sessions))
    list(cleaning.expire_sessions())


def test_what_has_ended_is_counted_by_reason(redis, new_session) -> None:
    sessions = [new_session(f"user {number}") for number in range(20)]
    sign_out(sessions[0])
    for session in sessions[1:3]:
        session.flush()
    for _ in range(2):
        # What is gone does not end again.
        online.end(*(session.sid for session in sessions[3:6]))
    expire(redis, *sessions[6:10])
    evicted = sum(cleaning.evict_sessions(maximum=4))
    assert evicted > 0
    counts = {"logout": 1, "invalidated": 2, "kicked": 3, "expired": 4, "evicted": evicted}
    sample = sampled()
    assert sample.ended == {**NOTHING_ENDED, **counts}
    assert (sample.created, sample.signed_in) == (20, 10 - evicted)


def test_of_what_has_ended_guests_are_counted_apart(redis, new_session) -> None:
    guests = [new_session(colour="blue") for _ in range(25)]
    members = [new_session(f"user {number}") for number in range(3)]
    expire(redis, *guests[:2], members[0])
    online.end(guests[2].sid, guests[3].sid, guests[4].sid)
    evicted = sum(cleaning.evict_sessions(guests=1))
    assert evicted > 0
    sample = sampled()
    assert sample.guests_ended == {**NOTHING_ENDED, "kicked": 3, "expired": 2, "evicted": evicted}
    assert sample.ended == {**NOTHING_ENDED, "kicked": 3, "expired": 3, "evicted": evicted}
    assert (sample.signed_in, sample.guests) == (2, 20 - evicted)


def test_what_a_create_cleans_up_is_counted_too(redis, new_session, settings) -> None:
    make_due(redis, new_session("7").sid)
    settings.REDSESS = {"MAX_SESSIONS": 1}
    for _ in range(3):
        new_session("7")
    sample = sampled()
    # All of one user are in one partition, which keeps one.
    assert sample.ended == {**NOTHING_ENDED, "expired": 1, "evicted": 2}
    assert (sample.created, sample.signed_in) == (4, 1)


def test_neither_a_new_key_nor_a_sign_in_is_a_new_session_or_an_end(new_session, partitions) -> None:
    space = keyspace()
    moved = 0
    for number in range(12):
        session, user = new_session(colour="blue"), f"user {number}"
        moved += space.of_sid(session.sid) != space.of_user(user)
        for signed_in in ({}, {"_auth_user_id": user}, {}):
            session.cycle_key()
            session.update(signed_in)
            session.save()
    # By chance some find themselves at home already.
    assert (moved > 0) == (partitions > 1)
    guest = new_session(colour="blue")
    guest.cycle_key()
    guest.save()
    sample = sampled()
    assert (sample.created, sample.guests, sample.signed_in, sample.ended) == (13, 1, 12, NOTHING_ENDED)


def test_a_sign_in_that_comes_too_late_is_neither(new_session) -> None:
    session = new_session(colour="blue")
    late = SessionStore(session.session_key)
    assert late["colour"] == "blue"
    online.end(session.sid)
    late.cycle_key()
    late["_auth_user_id"] = "7"
    with pytest.raises(UpdateError):
        late.save()
    sample = sampled()
    assert (sample.created, sample.signed_in, sample.ended) == (1, 0, {**NOTHING_ENDED, "kicked": 1})


def test_a_create_that_is_repeated_or_under_a_taken_sid_counts_once(redis) -> None:
    sid = sid_of("a" * 32)
    one = written(sid)
    # As when the reply to the first was lost; then another record: that of another session.
    statuses = [operations.create(sid, saving).run().status for saving in (one, one, written(sid))]
    assert statuses == ["saved", "saved", "taken"]
    assert stored(redis) == 1
    assert sampled().created == 1


def test_active_is_who_was_seen_in_the_last_five_minutes(redis, new_session, settings) -> None:
    # When a session was seen is rounded down by up to a minute.
    settings.REDSESS = {"TOUCH_INTERVAL": 60}
    now = int(now_of(redis).timestamp() * 1000)
    for kind, seconds_ago in (("user", (0, 299, 350, 370, 4000)), ("guest", (10, 200, 355, 400))):
        for number, seconds in enumerate(seconds_ago):
            session = new_session(f"user {number}" if kind == "user" else "", colour="blue")
            make_seen(redis, session.sid, now - seconds * 1000)
    sample = sampled()
    assert (sample.signed_in, sample.guests, sample.active, sample.active_guests) == (5, 4, 3, 3)
    _, present = samples_until_now()
    assert present[1:] == (5, 4, 3, 3)
    assert online.count(active=True) == online.count(active=True, guests="only") == 3


def test_who_was_active_is_unknown_before_a_cleaner_counted_it(redis, partitions) -> None:
    now = now_of(redis).replace(second=0, microsecond=0)
    for ago in (4, 3):
        note(redis, now - timedelta(minutes=ago))
    for ago in (2, 1):
        note(redis, now - timedelta(minutes=ago), active=(ago, 5))
    # A minute that one partition lacks would look like a dip.
    lacking = keyspace().partitions[0].samples_active
    redis.zremrangebyscore(lacking, *[(now - timedelta(minutes=1)).timestamp() * 1000] * 2)
    known = [(None, None), (None, None), (2 * partitions, 5 * partitions), (None, None)]
    assert [(sample.active, sample.active_guests) for sample in online.samples()] == known
    drawn, _ = samples_until_now()
    assert [(sample.active, sample.active_guests) for sample in drawn] == known


@pytest.mark.parametrize("strange", [b"", b"\xff 1 2", b"9" * 5000 + b" 1 2", b"1 2 x"])
def test_a_foreign_entry_is_no_number_of_active_sessions(redis, strange: bytes) -> None:
    cleaning.take_sample()
    redis.zadd(keyspace().partitions[0].samples_active, {strange: now_of(redis).timestamp() * 1000})
    assert [sample.active for sample in online.samples()] == [0]
    assert samples_until_now()[0][0].active == 0


def test_samples_older_than_32_days_go(redis) -> None:
    now = now_of(redis)
    for days in (365, 40, 32.1, 31.9, 20):
        note(redis, now - timedelta(days=days), active=(1, 1))
    cleaning.take_sample()
    assert kept(redis) == 3
    assert redis.zcard(keyspace().partitions[0].samples_active) == 3
    assert len(online.samples(hours=10_000)) == 3


def add_minutes(client: redis_py.Redis, ages: range) -> list[sampling.Sample]:
    """Store a sample of each of these minutes ago in every partition. Return what history has of them."""
    minute = now_of(client).replace(second=0, microsecond=0)
    for partition in keyspace().partitions:
        times = {age: round((minute - timedelta(minutes=age)).timestamp() * 1000) for age in ages}
        client.zadd(
            partition.samples, {f"{at} {age % 83} {age % 89} {9**6 - age} 0 0 0 0 0": at for age, at in times.items()}
        )
        client.zadd(partition.samples_active, {f"{at} {age % 79} {age % 73}": at for age, at in times.items()})
    return online.samples(hours=10_000)


def thin_out_all(client: redis_py.Redis) -> list[sampling.Sample]:
    """Take samples until nothing more is thinned out, as in the minutes to come."""
    sizes = [0]
    while len(sizes) < 3 or sizes[-1] != sizes[-3]:
        for partition in keyspace().partitions:
            for name in partition.both_samples if len(sizes) > 1 else ():
                client.zpopmax(name)
        cleaning.take_sample()
        sizes.append(kept(client))
    return online.samples(hours=10_000)


def test_one_sample_is_kept_of_each_slot_and_no_peak_is_lost(redis, partitions) -> None:
    before = add_minutes(redis, range(2 * 1440 - 200, 2 * 1440 + 400))
    after = thin_out_all(redis)
    two_days_ago = now_of(redis) - timedelta(days=2)
    # What is younger is as it was.
    assert [each for each in before if each.at > two_days_ago] == [
        each for each in after[:-1] if each.at > two_days_ago
    ]
    whole = [each for each in after if each.at < two_days_ago - timedelta(minutes=20)][1:]
    assert len(whole) >= 36
    for each in whole:
        assert each.at.minute % 10 == 0
        of_slot = [one for one in before if each.at <= one.at < each.at + timedelta(minutes=10)]
        assert len(of_slot) == 10
        assert each.signed_in == max(one.signed_in for one in of_slot)
        assert each.guests == max(one.guests for one in of_slot)
        assert each.active == max(one.active or 0 for one in of_slot)
        assert each.active_guests == max(one.active_guests or 0 for one in of_slot)
        assert each.created == of_slot[-1].created == max(one.created for one in of_slot)


def test_what_is_kept_is_bounded_however_long_the_cleaner_was_down(redis) -> None:
    add_minutes(redis, range(8 * 1440 - 300, 8 * 1440 + 300))
    after = thin_out_all(redis)
    # Five of hours, five hours of ten minutes, and what was just taken.
    assert 5 + 30 <= len(after) <= 5 + 30 + 8
    assert len({each.at for each in after}) == len(after)
    assert len(after) == max(redis.zcard(partition.samples_active) for partition in keyspace().partitions)


def test_all_partitions_have_the_same_slots(redis) -> None:
    add_minutes(redis, range(2 * 1440, 2 * 1440 + 200))
    thin_out_all(redis)
    times = [
        [score for _, score in redis.zrange(name, 0, -2, withscores=True)]
        for partition in keyspace().partitions
        for name in partition.both_samples
    ]
    assert times == [times[0]] * len(times)


@pytest.mark.parametrize(("hours", "count"), [(0.5, 1), (1, 2), (5, 3), (24, 4), (48, 5)])
def test_hours_limit_what_is_read_to_a_day_unless_asked_otherwise(redis, hours: float, count: int) -> None:
    now = now_of(redis)
    for age in (0.25, 0.75, 4, 23, 47):
        note(redis, now - timedelta(hours=age))
    times = [sample.at for sample in online.samples(hours=hours)]
    assert len(times) == count
    assert times == sorted(times)
    assert min(times) > now - timedelta(hours=hours)
    assert len(online.samples()) == 4


def test_the_partitions_of_a_minute_are_added_up(redis, partitions) -> None:
    now = now_of(redis)
    note(redis, now - timedelta(minutes=9), signed_in=10, guests=20, created=30)
    [sample] = online.samples()
    assert sample[1:4] == (10 * partitions, 20 * partitions, 30 * partitions)


def test_sampling_and_reading_take_a_round_trip_a_partition_each(commands, partitions) -> None:
    cleaning.take_sample()
    online.samples()
    commands()
    cleaning.take_sample()
    assert commands()["evalsha"] == partitions
    online.samples(hours=48)
    assert commands()["evalsha"] == partitions


def test_a_minute_that_not_all_partitions_know_makes_no_dip(redis, new_session, partitions) -> None:
    for number in range(40):
        new_session(str(number))
    cleaning.take_sample()
    assert [sample.created for sample in online.samples()] == [40]
    redis.delete(keyspace().partitions[0].samples)
    assert online.samples() == []


def test_a_sample_of_a_release_that_knew_fewer_reasons_can_be_read(redis, new_session) -> None:
    new_session("7")
    cleaning.take_sample()
    for partition in keyspace().partitions:
        [(note, minute)] = redis.zrange(partition.samples, 0, -1, withscores=True)
        redis.delete(partition.samples)
        redis.zadd(partition.samples, {note.rsplit(b" ", 1 + len(Reason))[0]: minute})
    assert [(sample.signed_in, sample.ended[Reason.REPLACED]) for sample in online.samples()] == [(1, 0)]


def test_the_picture_has_what_history_has(redis, partitions) -> None:
    now = now_of(redis).replace(second=0, microsecond=0)
    for ago in range(30, 0, -1):
        note(redis, now - timedelta(minutes=ago), signed_in=ago, guests=2 * ago, created=100 - ago, active=(1, ago))
    for strange in (b"", b"1 2 3 x", b"7"):
        redis.zadd(keyspace().partitions[0].samples, {strange: int(now.timestamp() * 1000)})
    drawn, _ = samples_until_now()
    noted = online.samples()
    assert [each[:3] for each in drawn] == [each[:3] for each in noted]
    assert {each.active for each in drawn} == {partitions}
    assert (drawn[0], drawn[-1]) == (noted[0], noted[-1])
    assert noted[0].signed_in == 30 * partitions
