"""Pages and counts over 64 partitions, also where one of them has nearly all sessions: what one sorted list has."""

from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from django_redsess import online
from tests.helpers.store import have_partitions
from tests.online.test_queries import MINUTE, ORDERS, Known, expected, now_of, put, sid_for

pytestmark = pytest.mark.both_servers


@pytest.fixture(autouse=True)
def many(monkeypatch) -> None:
    have_partitions(monkeypatch, 64)


# The user, or a guest; and when the session was seen. In one of two stores, one user has most sessions.
crowds = st.one_of(st.integers(0, 60), st.sampled_from([0, 7, 7, 7, 7, 7]))
sessions = st.lists(st.tuples(crowds, st.sampled_from([0, 0, 1, 2, 50])), min_size=1, max_size=120)


@hypothesis.given(sessions, st.integers(0, 120), st.integers(1, 120), st.data())
def test_a_page_over_many_partitions_is_what_it_should_be(redis, monkeypatch, there, offset, limit, data) -> None:
    redis.flushall()
    now = now_of(redis)
    known = [
        Known(sid_for(str(user or ""), n), str(user or ""), now - ago, now - ago * MINUTE - 30_000)
        for n, (user, ago) in enumerate(there)
    ]
    put(redis, known)
    guests, active = data.draw(st.booleans()), data.draw(st.sampled_from([None, 120]))
    by_seen = guests or active is not None
    order: online.Order = data.draw(st.sampled_from(["last_seen_at", "-last_seen_at"] if by_seen else ORDERS))
    wanted = expected(known, now, order=order, guests=guests, active_seconds=active)
    found = online.sessions(offset=offset, limit=limit, order=order, guests=guests, active_seconds=active)
    assert [each.sid for each in found] == wanted[offset : offset + limit]
    assert online.count(guests=guests, active_seconds=active) == len(wanted)


@pytest.mark.parametrize("users", [["7"], [str(number) for number in range(300)]], ids=["one", "many"])
def test_a_page_takes_three_round_trips_and_reads_little(redis, users: Sequence[str], round_trips, commands) -> None:
    now = now_of(redis)
    put(redis, [Known(sid_for(users[n % len(users)], n), users[n % len(users)], now - n, now) for n in range(300)])
    online.sessions()
    round_trips()
    commands()
    assert len(online.sessions(limit=100)) == 100
    assert round_trips() <= 3
    # Plain commands: only the sessions on the page are looked up by scripts.
    assert commands()["evalsha"] <= min(64, len(users))
