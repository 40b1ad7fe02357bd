"""What a read leaves behind: that the session was seen, once an interval, and a deadline where that is to move."""

import itertools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest
import redis as redis_py

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session import reading
from django_redsess.transport.keys import keyspace
from testproject import servers
from tests.helpers.outages import caches, full, without_disk, without_replicas
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
        assert reading.time().run() > 0
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
