"""The numbers of the store that monitoring asks for."""

import asyncio
from datetime import timedelta

import pytest
from django.core.management import call_command

from django_redsess import cleaning, online
from django_redsess.management.commands import cleansessions
from django_redsess.signals import Reason
from tests.helpers.store import keyspace, make_due, make_seen, now_of, sid_of, stored

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.on_cluster]


def test_totals_are_of_all_partitions(redis, settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS": 50, "MAX_GUESTS": 48}
    signed_in = [new_session(str(number)) for number in range(6)]
    guests = [new_session() for _ in range(9)]
    for session in signed_in[:2] + guests[:4]:
        make_seen(redis, sid_of(session.session_key), 1)
    online.end(sid_of(signed_in[5].session_key))
    guests[8].delete()
    found = online.totals()
    assert (found.signed_in, found.guests, found.limit, found.guests_limit) == (5, 8, 50, 48)
    assert (found.active, found.active_guests) == (3, 4)
    assert found.created == 15
    assert {reason: count for reason, count in found.ended.items() if count} == {
        Reason.KICKED: 1,
        Reason.INVALIDATED: 1,
    }
    assert {reason: count for reason, count in found.guests_ended.items() if count} == {Reason.INVALIDATED: 1}
    assert abs(found.at - now_of(redis)) < timedelta(seconds=10)


def test_an_empty_store_has_totals(settings) -> None:
    found = online.totals()
    assert (found.signed_in, found.guests, found.active, found.active_guests, found.created) == (0,) * 5
    assert (set(found.ended), set(found.ended.values())) == (set(Reason), {0})
    assert (found.lag_seconds, found.sampled_at, found.guests_limit) == (0.0, None, None)


def test_the_lag_is_that_of_the_earliest_deadline_and_nobody_is_ended_by_asking(redis, new_session) -> None:
    sids = [sid_of(new_session().session_key) for _ in range(8)]
    assert online.totals().lag_seconds == 0.0
    make_due(redis, *sids[:2])
    for sid, ago in ((sids[0], 90), (sids[1], 30)):
        redis.zadd(keyspace().of_sid(sid).expire, {sid: (now_of(redis).timestamp() - ago) * 1000})
    assert 89 <= online.totals().lag_seconds < 120
    assert stored(redis) == 8


def test_the_newest_sample_tells_when_the_cleaner_was_seen(redis) -> None:
    before = now_of(redis)
    cleaning.take_sample()
    seen = online.totals().sampled_at
    assert seen is not None
    assert before - timedelta(minutes=1) <= seen <= now_of(redis)
    # One partition has none for an hour: as long is the cleaner not seen.
    [*_, last] = keyspace().partitions
    redis.delete(last.samples)
    earlier = int((before.timestamp() - 3600) // 60 * 60_000)
    redis.zadd(last.samples, {"an earlier sample": earlier})
    assert online.totals().sampled_at.timestamp() * 1000 == earlier


def test_the_async_variant_returns_the_same(new_session) -> None:
    new_session("7")
    found = asyncio.run(online.atotals())
    assert (found.created, found.signed_in, found.limit) == (1, 1, 10_000_000)


class Listener:
    """An observer that keeps the events."""

    events = list[tuple[str, dict[str, object]]]()

    def operation(self, *args: object) -> None:
        pass

    def event(self, name: str, **facts: object) -> None:
        self.events.append((name, facts))


@pytest.mark.one_server
def test_the_cleaner_tells_observers_of_the_numbers_and_reads_none_where_nobody_observes(
    settings, new_session, commands
) -> None:
    cleaning.take_sample()
    new_session("7")
    commands()
    cleaning.report_totals()
    assert "hmget" not in commands()
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": [f"{__name__}.Listener"], "MAX_SESSIONS": 50}
    cleaning.report_totals()
    [(name, facts)] = Listener.events
    Listener.events.clear()
    assert name == "store_counted"
    counts = {"signed_in": 1, "guests": 0, "active": 1, "active_guests": 0, "created": 1, "ended": 0, "evicted": 0}
    assert counts.items() <= facts.items()
    assert (facts["limit"], facts["guests_limit"], facts["lag_seconds"]) == (50, None, 0.0)
    assert facts["sampled_timestamp_seconds"]


# The cleaner closes connections to the database that are too old.
@pytest.mark.django_db
def test_the_cleaner_tells_them_each_minute(settings, monkeypatch) -> None:
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": [f"{__name__}.Listener"]}
    # It is stopped when it would rest.
    monkeypatch.setattr(cleansessions.Command, "wait_for_work", lambda command: setattr(command.stop, "asked", True))
    call_command("cleansessions", forever=True, verbosity=0)
    told = [name for name, _ in Listener.events]
    Listener.events.clear()
    assert told == ["store_counted"]
