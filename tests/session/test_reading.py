"""What a read asks for, and what it leaves: that the session was seen, and a deadline where that is to move."""

import itertools
import random
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis as redis_py
from django.utils import timezone

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import reading
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace
from django_redsess.transport.pools import TIME_FRESH_SECONDS
from testproject import servers
from tests.helpers.outages import caches, frozen, full, without_disk, without_replicas
from tests.helpers.store import make_older, make_seen
from tests.session.visits import due, left, now, opened

pytestmark = pytest.mark.both_servers

DAY = 24 * 3600

DAYS = 11 * DAY
"""An interval of seconds in which a test runs: of two, it would meet the border once in a million times."""


def seen(redis: redis_py.Redis, session: SessionStore) -> dict[str, float]:
    """Return when the session was last seen, by each list that has it."""
    partition = keyspace().of_sid(str(session.sid))
    lists = {name: redis.zscore(getattr(partition, name), session.sid) for name in ("recent", "guests")}
    return {name: score for name, score in lists.items() if score is not None}


@pytest.fixture
def changes(redis) -> Callable[[], int]:
    """Return a function that counts the changes since the last call. What changes nothing is not replicated either."""
    before = 0

    def count() -> int:
        nonlocal before
        since, before = before, redis.info("persistence")["rdb_changes_since_last_save"]
        return int(before - since)

    count()
    return count


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize(("user", "noted_in"), [("7", "recent"), ("", "guests")])
def test_the_first_read_of_an_interval_writes_one_entry_and_the_others_nothing(
    redis, settings, new_session, changes, user: str, noted_in: str
) -> None:
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": DAYS}
    session = new_session(user, colour="blue")
    make_seen(redis, str(session.sid), 1000)
    changes()
    opened(session)
    assert changes() == 1
    rounded = now(redis) // (DAYS * 1000) * DAYS * 1000
    assert seen(redis, session) == {noted_in: rounded}
    for passive in (False, True):
        opened(session, passive=passive)
    assert changes() == 0


def test_a_read_that_no_request_opened_writes_nothing(redis, settings, new_session, changes) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, "IDLE_TIMEOUT": 60}
    session = new_session("7")
    make_seen(redis, str(session.sid), 1000)
    changes()
    SessionStore(session.session_key).load()
    session.exists(session.session_key)
    assert changes() == 0


@pytest.mark.parametrize("interval", [0, 10])
def test_last_seen_never_goes_back(redis, settings, new_session, interval: int) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": interval}
    session = new_session("7")
    later = now(redis) + 5_000
    make_seen(redis, str(session.sid), later)
    for passive in (False, True):
        opened(session, passive=passive)
        assert seen(redis, session) == {"recent": later}


def test_a_touch_adds_nothing_to_a_list(redis, settings, new_session, changes) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0}
    session = new_session("7")
    online.end(str(session.sid))
    changes()
    opened(session)
    opened("k" * 32)
    assert changes() == 0
    assert seen(redis, session) == {}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("limits", [{}, {"IDLE_TIMEOUT": 600}, {"SLIDING": True}, {"ABSOLUTE_TIMEOUT": 600}])
def test_a_read_asks_only_for_what_this_process_does_not_know(
    settings, new_session, commands, limits: dict[str, Any]
) -> None:
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": DAYS, **limits}
    session = new_session("7")

    def asked(passive: bool = False) -> dict[str, int]:
        commands()
        opened(session, passive=passive)
        names = ("hget", "zscore", "zadd", "time")
        return {name: count for name, count in commands().items() if name in names}

    record, deadline = {"hget": 1}, {"zscore": 1} if limits else {}
    # The session has just been saved, and the reply told the time.
    assert asked() == {**record, "zscore": 1, "zadd": 2}
    assert [asked(passive) for passive in (False, True)] == 2 * [{**record, **deadline}]
    SessionStore(session.session_key).load()
    server_of(keyspace().of_sid(str(session.sid))).clock.expire()
    # A touch that writes nothing tells whether the server still takes writes.
    assert asked() == {**record, "zscore": 1, "zadd": 2, "time": 1}
    assert asked() == {**record, **deadline}
    forget = server_of(keyspace().of_sid(str(session.sid))).invalidate_reads
    forget()
    assert asked() == {**record, "zscore": 1, "zadd": 2, "time": 1}


def test_a_session_of_another_prefix_is_another_session(redis, settings, new_session) -> None:
    prefix = "redsess"
    settings.REDSESS = {"PREFIX": lambda: prefix, "TOUCH_INTERVAL": DAYS}
    session = new_session("7", colour="blue")
    opened(session)
    prefix = "another"
    there = SessionStore(session.session_key)
    there._get_session(no_load=True)["colour"] = "red"
    there.save(must_create=True)
    make_seen(redis, str(session.sid), 1000)
    assert opened(session)["colour"] == "red"
    assert min(seen(redis, session).values()) > 1000
    there.delete()
    prefix = "redsess"
    assert opened(session)["colour"] == "blue"
    redis.flushall()


@pytest.mark.parametrize("how", ["expiry", "date", "end", "flush", "rotation"])
def test_what_another_process_does_is_known_to_the_next_read(settings, new_session, how: str) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS}
    session = new_session("7", colour="blue")
    assert opened(session)["colour"] == "blue"
    # As another process: nothing is remembered of a session that no request has opened.
    other = SessionStore(session.session_key)
    other["colour"] = "red"
    if how == "end":
        online.end(str(session.sid))
    elif how == "flush":
        other.flush()
    elif how == "rotation":
        other.cycle_key()
        other.save()
    else:
        other.set_expiry(1 if how == "expiry" else timezone.now() + timedelta(seconds=1))
        other.save()
        assert opened(session)["colour"] == "red"
        # Deadlines are rounded up to whole seconds.
        time.sleep(2.1)
    assert opened(session).is_empty()


@pytest.mark.parametrize("seed", range(8))
def test_a_deadline_that_was_not_asked_for_is_never_taken_for_a_later_one(
    redis, settings, new_session, seed: int
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS}
    settings.SESSION_COOKIE_AGE = 1_000_000
    rng = random.Random(seed)
    session = new_session("7")
    for step in range(60):
        # One that remembers, and one that does not.
        found = opened(session) if rng.random() < 0.6 else SessionStore(session.session_key)
        found["step"] = step
        match rng.randrange(6):
            case 0:
                found.set_expiry(rng.choice([900_000, 1_000_000, 2_000_000]))
            case 1:
                found.set_expiry(timezone.now() + timedelta(seconds=rng.choice([5_000, 10_000])))
            case 2:
                found.set_expiry(None)
        assert found.snapshot.due <= due(redis, session), step
        if rng.random() < 0.7:
            found.save()
            # The cookie is told this time.
            promised = found.get_expiry_date().timestamp()
            assert due(redis, session) / 1000 >= promised - 1, step


def test_a_session_is_over_only_by_the_time_of_the_server_that_has_it(redis, settings, new_session) -> None:
    session = new_session("7", colour="blue")
    # As of a node that had the session before, whose clock is wrong.
    server_of(keyspace().of_sid(str(session.sid))).clock.learn([b"%d" % (now(redis) // 1000 + 30 * DAY), b"0"])
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_a_touch_that_was_refused_is_made_again(own_server, settings, new_session) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS}
    settings.CACHES = caches(own_server.url)
    session = new_session("7", colour="blue")
    make_seen(own_server.client, str(session.sid), 1000)
    with full(own_server.client):
        assert opened(session)["colour"] == "blue"
    assert seen(own_server.client, session) == {"recent": 1000}
    opened(session)
    assert seen(own_server.client, session)["recent"] > 1000


@pytest.mark.parametrize("limits", [{}, {"IDLE_TIMEOUT": 600}])
def test_a_server_that_became_a_replica_is_not_read_for_more_than_a_second(
    own_server, settings, new_session, limits: dict[str, Any]
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS, **limits}
    settings.CACHES = caches(own_server.url)
    session = new_session("7", colour="blue")
    opened(session)
    # Its connections stay, as they do not behind Sentinel. What has ended since, the other one knows.
    own_server.client.replicaof("127.0.0.1", 1)
    time.sleep(TIME_FRESH_SECONDS)
    with pytest.raises(SessionStoreUnavailable):
        opened(session)
    own_server.client.replicaof("NO", "ONE")
    assert opened(session)["colour"] == "blue"


@pytest.mark.parametrize("lost", ["scripts", "all data", "settings"])
def test_after_a_loss_the_next_read_asks_for_all(own_server, settings, new_session, lost: str) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS}
    settings.CACHES = caches(own_server.url)
    session = new_session("7", colour="blue")
    opened(session)
    partition, client = keyspace().of_sid(str(session.sid)), own_server.client
    backup = {name: client.dump(name) for name in client.keys()}
    if lost == "scripts":
        client.script_flush()
        new_session("8")
    elif lost == "all data":
        client.flushall()
        # The restored session could not be read if the note of its loss were missing.
        assert opened(session).is_empty()
        for name, value in backup.items():
            client.restore(name, 0, value, replace=True)
    else:
        settings.REDSESS = {"TOUCH_INTERVAL": DAYS, "SLIDING": False}
    client.zadd(partition.recent, {session.sid: 1000})
    opened(session)
    assert client.zscore(partition.recent, session.sid) > 1000


def test_after_an_outage_the_next_read_asks_for_all(own_server, settings, new_session) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": DAYS}
    settings.CACHES = caches(own_server.url)
    session = new_session("7", colour="blue")
    opened(session)
    with frozen(own_server), pytest.raises(SessionStoreUnavailable):
        opened(session)
    own_server.client.zadd(keyspace().of_sid(str(session.sid)).recent, {session.sid: 1000})
    opened(session)
    assert min(seen(own_server.client, session).values()) > 1000


@contextmanager
def full_server(server: servers.Server) -> Iterator[None]:
    with full(server.client):
        yield


@contextmanager
def foreign_lists(server: servers.Server) -> Iterator[None]:
    """Somebody has put something else in the place of both lists."""
    names = keyspace().partitions[0].recent, keyspace().partitions[0].guests
    for name in names:
        server.client.set(name, "not a list")
    yield
    server.client.delete(*names)


@pytest.mark.parametrize("refusing", [full_server, without_disk, without_replicas, foreign_lists])
def test_a_refused_touch_does_not_disturb_the_read(
    own_server,
    settings,
    new_session,
    refusing: Callable[[servers.Server], AbstractContextManager[None]],
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0}
    settings.CACHES = caches(own_server.url)
    sessions = [new_session(user, colour=f"of {user}") for user in ("7", "8", "")]
    connections = own_server.client.info("stats")["total_connections_received"]
    own_server.client.config_resetstat()
    with refusing(own_server):
        for session in [*sessions, *sessions]:
            # Were a reply left over, the next read would have it for its own.
            assert opened(session)["colour"] == SessionStore(session.session_key)["colour"]
        refused = own_server.client.info("errorstats")
        # Redis refuses a write to what is not there as well: both touches of each read.
        assert sum(error["count"] for error in refused.values()) >= 6
        assert reading.read_time().run() > 0
    assert own_server.client.info("stats")["total_connections_received"] + connections <= connections + 1


@pytest.mark.parametrize("passive", [False, True], ids=["active", "with passive requests between"])
@pytest.mark.parametrize(
    ("one", "other", "promised"),
    [
        ({"IDLE_TIMEOUT": 60}, {}, (60, 60)),
        ({"IDLE_TIMEOUT": 60}, {"IDLE_TIMEOUT": 300}, (60, 300)),
        ({"SLIDING": True}, {}, (1000, 0)),
        ({"SLIDING": True, "IDLE_TIMEOUT": 60}, {"SLIDING": True}, (60, 1000)),
        ({"ABSOLUTE_TIMEOUT": 900}, {}, (0, 0)),
    ],
)
def test_of_two_deploys_none_ends_what_the_other_lets_live(
    redis,
    settings,
    new_session,
    one: dict[str, Any],
    other: dict[str, Any],
    promised: tuple[int, int],
    passive: bool,
) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = one
    session = new_session("7")
    # Of those that don't slide, 1 000 seconds are all there are.
    for number in range(15):
        for deploy, seconds in ((one, promised[0]), (other, promised[1])):
            settings.REDSESS = deploy
            make_older(redis, str(session.sid), 29)
            assert opened(session)["_auth_user_id"] == "7", number
            if "SLIDING" in deploy or "IDLE_TIMEOUT" in deploy:
                assert left(redis, session) >= min(seconds, 1000 - (58 * number + 60))
            if passive:
                before = due(redis, session)
                settings.REDSESS = one if deploy is other else other
                opened(session, passive=True)
                assert due(redis, session) == before


@pytest.mark.parametrize(
    ("before", "after", "least", "most"),
    [
        ({"IDLE_TIMEOUT": 60}, {}, 990, 1001),
        ({"ABSOLUTE_TIMEOUT": 60}, {}, 990, 1001),
        ({}, {"IDLE_TIMEOUT": 600}, 540, 630),
        ({}, {"ABSOLUTE_TIMEOUT": 600}, 540, 600),
        ({"IDLE_TIMEOUT": 800}, {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 1}, 3, 63),
    ],
)
def test_a_time_out_that_was_changed_moves_the_deadline_at_the_next_active_request(
    redis, settings, new_session, before: dict[str, int], after: dict[str, int], least: int, most: int
) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = before
    session = new_session("7")
    settings.REDSESS = after
    at = due(redis, session)
    opened(session, passive=True)
    SessionStore(session.session_key).load()
    assert due(redis, session) == at
    opened(session)
    assert least < left(redis, session) <= most


def test_what_today_asks_for_within_the_slack_is_left_alone(redis, settings, new_session, sent) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 600}
    session = new_session("7")
    settings.REDSESS = {"IDLE_TIMEOUT": 590}
    opened(session)
    assert "prolong" not in sent


def test_a_visitor_who_clicks_every_ten_seconds_moves_the_deadline_once_in_ninety(
    redis, settings, new_session, sent
) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 1800}
    session = new_session("7")
    moved_at: list[int] = []
    for seconds in range(10, 1000, 10):
        make_older(redis, str(session.sid), 10)
        sent.clear()
        assert opened(session)["_auth_user_id"] == "7"
        moved_at += [seconds] * sent.count("prolong")
        # Who stays away from now on has the whole time, and at most so much more. Both make_older and a round trip
        # have taken less than a second.
        assert 1799 < left(redis, session) <= 1890
    assert moved_at[0] >= 90
    assert all(later - earlier >= 90 for earlier, later in itertools.pairwise(moved_at))
    assert 5 < len(moved_at) <= 11


def test_who_is_idle_is_gone_when_the_slack_is_over(redis, settings, new_session) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 1800}
    session = new_session("7")
    make_older(redis, str(session.sid), 1790)
    opened(session)
    make_older(redis, str(session.sid), 1799)
    assert opened(session)["_auth_user_id"] == "7"
    make_older(redis, str(session.sid), 1890)
    assert dict(opened(session).items()) == {}
