"""The short way of a save, which compares and sets: what it does not look at, and would get wrong, is known before."""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis as redis_py
from django.contrib.sessions.backends.base import UpdateError

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.client import Client
from django_redsess.session.record import Record, revision_of, unpack
from django_redsess.session.state import Visit
from django_redsess.transport import scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Steps, drive
from tests.helpers import every_operation
from tests.helpers.child import Child
from tests.helpers.outages import caches
from tests.helpers.running import wait_until
from tests.helpers.store import make_older
from tests.session.visits import due, left, opened

pytestmark = pytest.mark.both_servers

AGE = 100_000
"""Seconds, the age of sessions here: of so long a one, a plain save moves the deadline by a twentieth more."""


@pytest.fixture(autouse=True)
def age(settings) -> None:
    settings.SESSION_COOKIE_AGE = AGE


def in_a_shell(session: SessionStore) -> SessionStore:
    """Read it without a trace: no read has moved its deadline."""
    found = SessionStore(session.session_key)
    assert dict(found.items())
    return found


def write(session: SessionStore, **data: Any) -> None:
    found = SessionStore(session.session_key)
    found.update(data)
    found.save()


def packed(redis: redis_py.Redis, session: SessionStore) -> bytes:
    return bytes(redis.hget(keyspace().of_sid(str(session.sid)).login, session.sid))


def record(redis: redis_py.Redis, session: SessionStore) -> Record:
    return unpack(str(session.sid), packed(redis, session))


def is_of_age(seconds: float, age: float) -> bool:
    """Whether so many seconds are left of that age: it is kept in whole ones, and the test takes some time, too."""
    return age - 20 < seconds <= age + 1


SESSIONS: dict[str, dict[str, Any]] = {
    "a user's": {"user": "7"},
    "a guest's": {},
    "with an age of its own": {"user": "7", "_session_expiry": 5 * AGE},
    "until a date": {"user": "7", "_session_expiry": "2099-01-01T00:00:00+00:00"},
}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("passive", [False, True], ids=["active", "passive"])
@pytest.mark.parametrize("kind", SESSIONS.values(), ids=SESSIONS)
def test_a_change_of_what_was_loaded_takes_the_short_way(
    redis, new_session, sent, kind: dict[str, Any], passive: bool
) -> None:
    session = new_session(**kind, colour="blue")
    before, seen = record(redis, session), due(redis, session)
    sent.clear()
    again = opened(session, passive=passive)
    again["colour"] = "red"
    again.save()
    # And the same object once more.
    again["size"] = 5
    again.save()
    assert sent == ["read", "save_fast", "save_fast"]
    found = SessionStore(session.session_key)
    assert (found["colour"], found["size"]) == ("red", 5)
    after = record(redis, session)
    assert after[:2] == before[:2]
    assert after.age_seconds == before.age_seconds
    assert after.deadline_seconds >= before.deadline_seconds
    assert due(redis, session) >= seen


@pytest.mark.parametrize("was_loaded", [True, False], ids=["loaded", "saved by itself"])
def test_what_became_due_since_it_was_known_is_not_saved(redis, new_session, was_loaded: bool) -> None:
    session = new_session("7")
    session.set_expiry(datetime.now(UTC) + timedelta(seconds=0.7))
    session.save()
    late = opened(session) if was_loaded else session
    wait_until(lambda: left(redis, session) < 0)
    before = packed(redis, session)
    late["colour"] = "red"
    with pytest.raises(UpdateError):
        late.save()
    assert packed(redis, session) == before


@pytest.mark.parametrize("passive", [False, True])
@pytest.mark.parametrize("way", ["save_fast", "save"])
def test_a_deadline_that_has_slid_meanwhile_stays(redis, settings, new_session, sent, passive: bool, way: str) -> None:
    settings.REDSESS = {"SLIDING": True}
    session = new_session("7")
    make_older(redis, str(session.sid), AGE // 2)
    settings.REDSESS = {}
    late = opened(session, passive=passive)
    # By a process that has a longer way to go: what a save asks for now is earlier.
    later = due(redis, session) + AGE * 2000
    redis.zadd(keyspace().of_sid(str(session.sid)).expire, {session.sid: later})
    late["colour"] = "red"
    if way == "save":
        late.signed_out()  # Whatever is pending, save_fast is not for it.
    late.save()
    assert sent[-1] == way
    assert due(redis, session) == later


def test_an_active_save_moves_the_deadline_later_once_in_a_twentieth(redis, new_session, sent) -> None:
    session = new_session("7")
    moved = 0
    for number in range(1, 21):
        make_older(redis, str(session.sid), AGE // 100)
        before = due(redis, session)
        again = opened(session)
        again["number"] = number
        again.save()
        moved += due(redis, session) != before
        assert left(redis, session) > AGE - 1
    assert sent[-1] == "save_fast"
    assert 3 <= moved <= 5


@pytest.mark.parametrize("way", ["save_fast", "save"])
def test_a_session_that_got_another_key_meanwhile_is_not_saved(redis, new_session, way: str) -> None:
    session = new_session("7")
    late, other = opened(session), opened(session)
    other.cycle_key()
    other.save()
    late["colour"] = "red"
    if way == "save":
        late.signed_out()  # Whatever is pending, save_fast is not for it.
    with pytest.raises(UpdateError):
        late.save()
    assert "colour" not in SessionStore(other.session_key)
    assert not redis.hexists(keyspace().of_sid(str(session.sid)).login, session.sid)


def test_the_client_is_kept_by_who_does_not_know_one(new_session, sent) -> None:
    session = new_session("7")
    for change in (opened(session), in_a_shell(session)):
        change["at"] = len(sent)
        change.save()
        assert sent[-1] == "save_fast"
        found = online.get(str(session.sid))
        assert (found.address, found.user_agent) == ("192.0.2.1", "Mozilla")


def test_a_server_that_forgot_the_script_is_told_it_once(redis, new_session, sent) -> None:
    session = opened(new_session("7"))
    redis.script_flush()
    # It may have lost its data, too: the second save asks what is agreed on.
    for colour in ("red", "yellow", "green"):
        sent.clear()
        session["colour"] = colour
        session.save()
    assert sent == ["save_fast"]
    assert SessionStore(session.session_key)["colour"] == "green"


# A longer age is prolonged by a twentieth.
@pytest.mark.parametrize(("age", "seconds"), [(100, 100), (5000, 5250)], ids=["shorter", "longer"])
@pytest.mark.parametrize("passive", [False, True])
@pytest.mark.parametrize("read", [opened, in_a_shell])
def test_an_age_that_is_set_is_that_of_the_session(
    redis, new_session, read: Any, passive: bool, age: int, seconds: int
) -> None:
    session = new_session("7", _session_expiry=1000)
    again = read(session)
    again.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"), passive=passive)
    again.set_expiry(age)
    again.save()
    assert is_of_age(left(redis, session), seconds)
    assert record(redis, session).age_seconds == age


HOUR = timedelta(hours=1)


@pytest.mark.parametrize(
    "expiries",
    [[5 * HOUR, 3 * HOUR], [3 * HOUR, 5 * HOUR], [HOUR], [3600, 5 * HOUR, 3600]],
    ids=["an earlier date", "a later date", "a date before its age", "an age, a date and the age again"],
)
def test_a_session_ends_at_the_date_or_age_that_was_set_last(
    redis, new_session, expiries: list[timedelta | int]
) -> None:
    session = new_session("7")
    for expiry in expiries:
        date = None if isinstance(expiry, int) else datetime.now(UTC).replace(microsecond=0) + expiry
        again = opened(session)
        again.set_expiry(date or expiry)
        again.save()
        if date is None:
            assert is_of_age(left(redis, session), expiry)
        else:
            assert online.get(str(session.sid)).expires_at == date
        assert record(redis, session).age_seconds == (0 if date else expiry)


def test_a_date_ends_what_has_slid_beyond_it(redis, settings, new_session) -> None:
    settings.REDSESS = {"SLIDING": True}
    session = new_session("7")
    make_older(redis, str(session.sid), AGE // 2)
    again = opened(session)
    # Later than the record has it, and earlier than it is by now.
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=AGE * 3 // 4)
    again.set_expiry(date)
    again.save()
    assert online.get(str(session.sid)).expires_at == date


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [({"IDLE_TIMEOUT": 60}, 70), ({"ABSOLUTE_TIMEOUT": 600}, 500)],
    ids=["idle", "absolute"],
)
def test_a_time_out_that_is_new_shortens_with_the_next_save(
    redis, settings, new_session, limits: dict[str, int], seconds: int
) -> None:
    session = new_session("7")
    make_older(redis, str(session.sid), 100)
    settings.REDSESS = limits
    again = in_a_shell(session)
    assert left(redis, session) > 1000
    again["colour"] = "red"
    again.save()
    assert is_of_age(left(redis, session), seconds)


@pytest.mark.parametrize(("before", "after"), [("7", "7"), ("7", "8"), ("", "7")])
def test_who_signs_in_has_the_whole_of_the_absolute_time_and_no_more(
    redis, settings, new_session, before: str, after: str
) -> None:
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 600}
    session = new_session(before, colour="blue")
    make_older(redis, str(session.sid), 100)
    again = opened(session)
    again["_auth_user_id"] = after
    again.signed_in()
    again.save()
    assert is_of_age(left(redis, again), 600)


def interrupted(steps: Steps[Any], action: Callable[[], object]) -> Steps[None]:
    """Take these steps, and call ``action`` after the first."""
    reply = yield next(steps)
    action()
    with suppress(StopIteration):
        while True:
            reply = yield steps.send(reply)


def test_a_save_that_never_loaded_replaces_what_came_since_it_looked(new_session) -> None:
    session = new_session("7", colour="blue")
    again = SessionStore(session.session_key)
    again.clear()
    again.update({"_auth_user_id": "7", "shape": "round"})
    drive(interrupted(again.saving(), lambda: write(session, size=5)))
    assert SessionStore(session.session_key).load() == {"_auth_user_id": "7", "shape": "round"}
    # What it has saved, it knows: from then on it changes no more than its own.
    write(session, size=6)
    again["shape"] = "square"
    again.save()
    assert SessionStore(session.session_key).load() == {"_auth_user_id": "7", "shape": "square", "size": 6}


def test_a_mismatch_is_merged_at_once_and_the_short_way_taken_again(new_session, sent, round_trips) -> None:
    session = new_session("7")
    one = opened(session)
    write(session, size=5)
    one["colour"] = "red"
    sent.clear()
    round_trips()
    one.save()
    assert (sent, round_trips()) == (["save_fast", "save_fast"], 2)
    # And knows the other's, too.
    one["shape"] = "round"
    one.save()
    assert (sent[2:], round_trips()) == (["save_fast"], 1)
    found = SessionStore(session.session_key)
    assert (found["size"], found["colour"], found["shape"]) == (5, "red", "round")


@pytest.mark.parametrize("older", [0, 50])
def test_a_mismatch_with_a_shorter_life_prolongs_that_one(redis, new_session, older: int) -> None:
    session = new_session("7")
    one = opened(session)
    write(session, _session_expiry=100)
    make_older(redis, str(session.sid), older)
    one["colour"] = "red"
    one.save()
    # It knows the other's deadline, and not only the one that it had loaded.
    assert is_of_age(left(redis, session), 100)
    assert SessionStore(session.session_key)["colour"] == "red"


@pytest.mark.usefixtures("known_scripts")
@pytest.mark.parametrize("others_save", [False, True], ids=["nobody else saves", "another saves in between"])
def test_a_save_whose_reply_was_lost_is_done_once(redis, proxy, settings, new_session, sent, others_save: bool) -> None:
    session, direct = new_session("7", colour="blue"), settings.CACHES
    settings.CACHES = caches(proxy.url)
    one = opened(session)
    before = packed(redis, session)
    one["colour"] = "red"
    found: list[bytes] = []

    def meanwhile() -> None:
        # The first one is done. It is sent again, and finds itself.
        found.append(packed(redis, session))
        if others_save:
            settings.CACHES = direct
            write(session, size=5)
            settings.CACHES = caches(proxy.url)

    proxy.lose_reply(scripts.SAVE_FAST.digest)
    proxy.before(scripts.SAVE_FAST.digest, lambda: proxy.before(scripts.SAVE_FAST.digest, meanwhile))
    sent.clear()
    one.save()
    ways = list(sent)
    settings.CACHES = direct
    assert proxy.lost == 1
    assert revision_of(found[0]) != revision_of(before)
    assert SessionStore(session.session_key)["colour"] == "red"
    if others_save:
        assert SessionStore(session.session_key)["size"] == 5
    else:
        assert ways == ["save_fast"]
        assert packed(redis, session) == found[0]


def test_a_save_in_an_outage_raises_and_changes_nothing(proxy, settings, new_session, sent) -> None:
    session, direct = new_session("7", colour="blue"), settings.CACHES
    settings.CACHES = caches(proxy.url)
    one = opened(session)
    one["colour"] = "red"
    proxy.refuse()
    sent.clear()
    with pytest.raises(SessionStoreUnavailable):
        one.save()
    settings.CACHES = direct
    assert sent == ["save_fast"]
    assert SessionStore(session.session_key)["colour"] == "blue"


@pytest.fixture(scope="module")
def child(server) -> Iterator[Child]:
    """Its operations are run in forks of one process, which are all the same when they begin."""
    started = Child(server)
    yield started
    started.close()


def test_processes_that_were_forked_give_different_revisions(redis, new_session, child) -> None:
    sessions = [new_session(str(number)) for number in range(3)]
    for session in sessions:
        child.run(every_operation.change, session.session_key, {"colour": "red"}, settings={})
    revisions = {revision_of(packed(redis, session)) for session in sessions}
    assert len(revisions) == 3
    # Keys, too, and with them the sids.
    created = [child.run(every_operation.create, {"colour": "red"}, settings={}).result for _ in range(3)]
    assert len({key[2:] for key in created}) == 3


def test_who_seeds_the_generator_gets_another_revision_each_time(redis, new_session) -> None:
    revisions, keys = set(), set()
    session = new_session("7")
    for number in range(3):
        random.seed(1)
        write(session, number=number)
        revisions.add(revision_of(packed(redis, session)))
        random.seed(1)
        keys.add(new_session("8").session_key)
    assert (len(revisions), len(keys)) == (3, 3)


def with_an_earlier_deadline(session: SessionStore) -> None:
    found = SessionStore(session.session_key)
    found.set_expiry(AGE // 2)
    found.save()


def without_loading(session: SessionStore) -> None:
    found = SessionStore(session.session_key)
    found.clear()
    found["_auth_user_id"] = "7"
    found.save()


def over_a_change(session: SessionStore) -> None:
    found = in_a_shell(session)
    write(session, colour="green")
    found["size"] = 1
    found.save()


def with_a_new_key(session: SessionStore) -> None:
    found = in_a_shell(session)
    found.cycle_key()
    found.save()
    session._session_key = found.session_key


def without_its_user(session: SessionStore) -> None:
    every_operation.take_user_out(str(session.session_key))


JOBS: list[Callable[[SessionStore], None]] = [
    lambda session: write(session, colour="red"),
    with_an_earlier_deadline,
    without_loading,
    over_a_change,
    with_a_new_key,
    lambda session: viewed.record(SessionStore(session.session_key), "lamp") and None,
    without_its_user,
]
SETTING_A_DEADLINE = (with_an_earlier_deadline, without_its_user)


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.__name__)
def test_a_job_without_a_request_is_no_visit(redis, settings, new_session, job: Callable[[SessionStore], None]) -> None:
    before = settings.REDSESS
    for time_out in ({}, {"IDLE_TIMEOUT": 3600}):
        settings.REDSESS = {**before, "TOUCH_INTERVAL": 0, **time_out}
        session = new_session("7", colour="blue")
        partition, long_ago = keyspace().of_sid(str(session.sid)), redis.time()[0] * 1000 - 600_000
        redis.zadd(partition.recent, {session.sid: long_ago}, xx=True)
        redis.zincrby(partition.expire, -600_000, session.sid)
        due_before = due(redis, session)
        job(session)
        assert seen(redis, session) == long_ago
        if time_out and job not in SETTING_A_DEADLINE:
            assert due(redis, session) == due_before
        # A request is one.
        found = opened(session)
        found["size"] = 5
        found.set_expiry(AGE // 3)
        found.save()
        assert seen(redis, session) > long_ago + 500_000


def seen(redis: redis_py.Redis, session: SessionStore) -> float:
    partition = keyspace().of_sid(str(session.sid))
    [score] = {redis.zscore(name, session.sid) for name in (partition.recent, partition.guests)} - {None}
    return float(score)


@pytest.mark.parametrize("user", ["7", "8", ""])
def test_a_job_that_signs_in_is_one(redis, new_session, user: str) -> None:
    session = new_session(user, colour="blue")
    partition, long_ago = keyspace().of_sid(str(session.sid)), redis.time()[0] * 1000 - 600_000
    for name in (partition.recent, partition.guests):
        redis.zadd(name, {session.sid: long_ago}, xx=True)
    found = in_a_shell(session)
    found.cycle_key()
    found["_auth_user_id"] = "7"
    found.signed_in()
    found.save()
    assert online.get(str(found.sid)).last_seen_at.timestamp() > long_ago / 1000 + 500
