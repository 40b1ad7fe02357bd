"""The server's own clock is stepped back, and put right again: nobody is signed out, or evicted who has just come."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SignInRefused
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import SessionFilter, count_with_time
from django_redsess.session.lock import SessionLock
from django_redsess.session.record import django_times
from django_redsess.transport.pools import TIME_FRESH_SECONDS
from tests.helpers import every_operation
from tests.helpers.clocks import Clock, clock
from tests.helpers.oracle import disagreements
from tests.helpers.outages import caches
from tests.helpers.sign_ins import sign_in
from tests.helpers.site.people import person
from tests.helpers.store import Client, Visit, drive, faults, keyspace, stored

HOUR, DAY = 3600, 24 * 3600
LIMITS = {
    "idle": {"IDLE_TIMEOUT": 1800},
    "all of them": {"IDLE_TIMEOUT": 1800, "SLIDING": True, "ABSOLUTE_TIMEOUT": 1800},
    "none": {},
}


@pytest.fixture
def stepped(server, tmp_path, settings) -> Iterator[Clock]:
    with clock(server.binary, tmp_path) as made:
        settings.CACHES = caches(made.server.url)
        settings.SESSION_COOKIE_AGE = HOUR
        yield made
        made.set(0)
        assert faults() == []


def opened(session: SessionStore, *, passive: bool) -> SessionStore:
    """Read the session as a request does."""
    found = SessionStore(session.session_key)
    found.visit = Visit(lambda: Client(), passive=passive)
    assert found["colour"] == "blue"
    return found


def assert_there(session_key: str, **data: Any) -> None:
    """See that a request finds its session, and may change it."""
    answer = every_operation.request(session_key, data)
    assert answer["data"].get("colour") == "blue"


@pytest.mark.parametrize("back", [HOUR, DAY])
@pytest.mark.parametrize("limits", LIMITS)
def test_nobody_is_signed_out(stepped, settings, new_session, back: int, limits: str) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, **LIMITS[limits]}
    keys = [new_session(user, colour="blue").session_key or "" for user in ("7", "8", "")]
    stepped.set(-back)
    # Who comes meanwhile is not over either when the clock is right again.
    keys += [new_session(user, colour="blue").session_key or "" for user in ("9", "")]
    for number in range(2):
        for key in keys:
            assert_there(key)
            assert_there(key, number=number)
        viewed.record(SessionStore(keys[0]), "lamp")
    list(cleaning.expire_sessions())
    stepped.set(0)
    list(cleaning.expire_sessions())
    for key in keys:
        assert_there(key)
        assert_there(key, again=True)
    list(cleaning.expire_sessions())
    assert online.count() == 3


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_at_the_cap_nobody_goes_who_has_just_come(stepped, settings, new_session, back: int) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 20}
    # Each has a user of its own: a user's own sessions would go first.
    old = [new_session(str(number), colour="blue") for number in range(100, 120)]
    time.sleep(0.01)
    new_session("8", colour="blue")
    stepped.set(-back)
    new = [new_session(str(number), colour="blue") for number in range(200, 210)]
    assert all(SessionStore(session.session_key)["colour"] == "blue" for session in new)
    assert sum(SessionStore(session.session_key).exists(session.session_key) for session in old) == 9


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_lists_stay_in_the_order_in_which_they_came_and_all_can_be_ended(stepped, new_session, back: int) -> None:
    for user in ("1", "2", "3"):
        new_session(user)
        time.sleep(0.01)
    stepped.set(-back)
    new_session("4")
    listed = [session.user_id for session in online.sessions()]
    assert set(listed[:2]) == {"3", "4"}
    assert listed[2:] == ["2", "1"]
    number, at = count_with_time(SessionFilter())
    # As of when they were counted, as the admin does it.
    work = BulkEnding(SessionFilter(), latest=at)
    while not work.done:
        drive(work.ending_batch())
    assert (number, online.count()) == (4, 0)


def test_what_a_fast_clock_has_left_is_mended(stepped, settings, new_session) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, "IDLE_TIMEOUT": 1800}
    stepped.set(30 * DAY)
    key = new_session("7", colour="blue").session_key or ""
    stepped.set(0)
    # That it was seen. When it was signed in is sealed.
    assert len(faults()) == 1
    assert len(faults(mend=True)) > 0
    assert faults() == []
    assert_there(key)
    [session] = online.sessions()
    assert session.expires_at.timestamp() < time.time() + 1800 + 90


@pytest.mark.parametrize("ahead", [HOUR, -HOUR])
@pytest.mark.parametrize("age", [30 * DAY, DAY], ids=["by the short way", "by the general script"])
@pytest.mark.parametrize("work", ["a guest comes", "a user comes", "a guest signs in", "a user signs in again"])
def test_a_step_after_the_last_read_makes_one_session(stepped, settings, new_session, sent, ahead, age, work) -> None:
    settings.SESSION_COOKIE_AGE = 10 * DAY
    data = {"colour": "blue", "_session_expiry": age}
    session, again = SessionStore(), work == "a user signs in again"
    if "signs in" in work:
        session = SessionStore(new_session("7" if again else "", **data).session_key)
        assert session["colour"] == "blue"
    else:
        SessionStore("k" * 32).load()
    stepped.set(ahead)
    sent.clear()
    before = stepped.server.client.time()[0]
    session.update(data)
    if work != "a guest comes":
        session["_auth_user_id"] = "7"
        if "signs in" in work:
            session.cycle_key()
        session.signed_in()
    session.save()
    after = stepped.server.client.time()[0]
    # Who was seen by the clock as it was goes by that, an hour ahead; else what was made by it is made once more.
    stays = again and ahead < 0
    # This server may get to know a script now: then what must be agreed on is asked again.
    assert len([name for name in sent if name != "agreement"]) == (1 if stays else 2)
    assert SessionStore(session.session_key)["colour"] == "blue"
    partition = keyspace().of_sid(str(session.sid))
    seen_in = "guests" if work == "a guest comes" else "recent"
    seen = float(stepped.server.client.zscore(getattr(partition, seen_in), session.sid)) / 1000
    assert before - 1 <= seen - (HOUR if stays else 0) <= after + 2
    assert stored(stepped.server.client) == 1
    assert disagreements(stepped.server.client) == []
    if seen_in == "recent":
        [found] = online.sessions()
        assert found.created_at.timestamp() == seen


def test_a_read_learns_the_time_once_a_second_by_which_the_next_notes_it_was_seen(
    stepped, settings, new_session
) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0}
    settings.SESSION_COOKIE_AGE = 10 * DAY
    session = new_session(colour="blue")
    seen = partial(stepped.server.client.zscore, keyspace().of_sid(str(session.sid)).guests, session.sid)
    for ahead in (HOUR, DAY):
        stepped.set(ahead)
        before = stepped.server.client.time()[0] * 1000
        time.sleep(TIME_FRESH_SECONDS)
        opened(session, passive=False)
        # By the time that was.
        assert seen() < before
        opened(session, passive=False)
        assert before <= seen() <= stepped.server.client.time()[0] * 1000 + 1000
    # As soon as the clock is right, it would have been seen in the future.
    session.delete()


@pytest.mark.parametrize("back", [HOUR, DAY])
@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("user", ["7", ""], ids=["a user", "a guest"])
@pytest.mark.parametrize("passive", [False, True], ids=["active", "passive"])
def test_a_step_back_moves_no_deadline_earlier(stepped, settings, new_session, back, limits, user, passive) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 0, **LIMITS[limits]}
    session = new_session(user, colour="blue")
    # Two that have read it before, and two that have not; of each, one knows the new time.
    early = [opened(session, passive=passive) for _ in range(2)]
    sid = str(session.sid)
    partition = keyspace().of_sid(sid)

    def deadlines() -> tuple[float, int]:
        record = stepped.server.client.hget(partition.login, sid)
        return float(stepped.server.client.zscore(partition.expire, sid)), django_times(record)[0]

    before = deadlines()
    stepped.set(-back)
    savers = [early[0], opened(session, passive=passive), early[1], opened(session, passive=passive)]
    assert deadlines() == before
    for number, saver in enumerate(savers):
        saver["number"] = number
        saver.save()
        assert all(now >= then for now, then in zip(deadlines(), before, strict=True))
    stepped.set(0)
    assert opened(session, passive=passive)["number"] == 3


@pytest.mark.usefixtures("users_in_no_table")
def test_a_block_holds_or_is_over_after_the_clock_was_fast_for_a_while(stepped) -> None:
    until = datetime.now(UTC).replace(microsecond=0) + timedelta(days=7)
    for user in ("7", "8"):
        online.block(person(user), until=until, message="Call us.")
    stepped.set(8 * DAY)
    early = sign_in("7")
    early["colour"] = "blue"
    early.save()
    assert online.block_of(person("8")) is None
    stepped.set(0)
    # Who has signed in meanwhile stays signed in, and may come again.
    assert_there(early.session_key or "")
    sign_in("7")
    assert online.blocked() == [online.Block("8", until, "Call us.")]
    with pytest.raises(SignInRefused, match=r"Call us\."):
        sign_in("8")
    # Their time is ahead, which a check would tell.
    online.end_user(person("7"))


@pytest.mark.parametrize("back", [HOUR, DAY])
def test_a_lock_lasts_no_longer_because_the_clock_stepped_back(stepped, new_session, back: int) -> None:
    session = new_session("7", number=0)
    sid = str(session.sid)
    names = keyspace().of_sid(sid)
    # A request that died has it, and two of other views ask for it.
    assert drive(SessionLock(session, sid, 30).taking(0)) == "locked"
    stepped.set(-back)
    assert stepped.server.client.pttl(names.lock_of(sid)) > 30_000
    for hold in (5, 60):
        assert drive(SessionLock(session, sid, hold).taking(0)) == "late"
        assert 5_000 < stepped.server.client.pttl(names.lock_of(sid)) <= 30_000
    stepped.server.client.delete(names.lock_of(sid))
    # Those who wait go on, too, though they have asked an hour ago.
    first, second = SessionLock(session, sid, 30), SessionLock(session, sid, 30)
    stepped.set(0)
    assert [drive(each.taking(0)) for each in (first, second)] == ["locked", "late"]
    stepped.set(-back)
    assert drive(second.taking(0)) == "late"
    first.give_back()
    assert drive(second.taking(0)) == "locked"
    second.give_back()
