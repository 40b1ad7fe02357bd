"""When a session ends by itself."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import keyspace
from tests.helpers.store import make_older
from tests.session.visits import opened

pytestmark = [pytest.mark.both_servers, pytest.mark.clock]


def left(session: SessionStore) -> object:
    """Return how many seconds the session has left, give or take two: a busy machine takes its time."""
    return pytest.approx((online.get(session.sid).expires_at - datetime.now(UTC)).total_seconds(), abs=2)


IDLE, SLIDING = {"IDLE_TIMEOUT": 60}, {"SLIDING": True}


@pytest.mark.parametrize(
    ("age", "own_age", "limits", "older", "seconds"),
    [
        (1000, None, {}, 100, 900),
        (1000, None, IDLE, 50, 70),
        # The record has Django's age in whole seconds, rounded up.
        (100, None, IDLE, 60, 40),
        (1000, None, {"ABSOLUTE_TIMEOUT": 100}, 60, 40),
        (1000, None, SLIDING, 500, 1050),
        (1000, 300, SLIDING, 200, 315),
        (1000, None, {**SLIDING, "ABSOLUTE_TIMEOUT": 1200}, 500, 700),
    ],
)
def test_a_request_moves_the_deadline_as_far_as_the_settings_say(
    redis, new_session, settings, age, own_age, limits, older, seconds
) -> None:
    settings.SESSION_COOKIE_AGE = age
    settings.REDSESS = {**limits, "TOUCH_INTERVAL": 10}
    session = new_session("7", **({"_session_expiry": own_age} if own_age else {}))
    login = keyspace().of_sid(session.sid).login
    make_older(redis, session.sid, older)
    record = redis.hget(login, session.sid)
    again = opened(session)
    assert left(session) == seconds
    # Without the record being written.
    assert redis.hget(login, session.sid) == record
    again.save()
    if "ABSOLUTE_TIMEOUT" in limits:
        assert left(session) == seconds
    elif not limits:
        # A save moves it by so much more that the next few need not.
        assert left(session) == 1050


def test_nothing_ends_before_its_idle_timeout_though_touches_are_an_interval_apart(
    redis, new_session, settings
) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 9)
    opened(session)  # Too soon to be noted.
    make_older(redis, session.sid, 59)
    assert opened(session)["_auth_user_id"] == "7"


def test_a_guest_has_no_absolute_timeout(new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 100}
    session = new_session(colour="blue")
    assert left(session) == 1000
    session.cycle_key()
    session["_auth_user_id"] = "7"
    session.save()
    assert left(session) == 100


def test_sliding_leaves_a_deadline_that_was_set_as_a_date(redis, new_session, settings) -> None:
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    session.set_expiry(date)
    session.save()
    opened(session)
    assert online.get(session.sid).expires_at == date


@pytest.mark.parametrize("setting", [{"IDLE_TIMEOUT": 600}, {"SLIDING": True}])
def test_a_passive_request_is_seen_and_prolongs_nothing(redis, new_session, settings, setting) -> None:
    settings.SESSION_COOKIE_AGE = 590
    settings.REDSESS = {**setting, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 300)
    before = online.get(session.sid)
    request_session = opened(session, passive=True)
    found = online.get(session.sid)
    assert found.last_seen_at > before.last_seen_at
    assert found.expires_at == before.expires_at
    request_session["colour"] = "blue"
    request_session.save()
    assert online.get(session.sid).expires_at == before.expires_at
    assert SessionStore(session.session_key)["colour"] == "blue"


@pytest.fixture
def shopper(client, settings, db):
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10, "PASSIVE_PATHS": ["/who-elsewhere/"]}
    client.force_login(User.objects.create_user("alice"))
    return client


@pytest.mark.parametrize(
    ("url", "headers", "seconds_left"),
    [
        ("/who/", {}, 1050),
        ("/who-elsewhere/", {}, 550),
        ("/passive/", {}, 550),
        ("/who/", {"X-Session-Passive": "1"}, 550),
        ("/who/", {"X-Session-Passive": "0"}, 1050),
    ],
)
def test_requests_are_passive_by_path_by_view_or_by_header(redis, shopper, url, headers, seconds_left) -> None:
    make_older(redis, shopper.session.sid, 500)
    response = shopper.get(url, headers=headers)
    assert response.content == b"alice"
    assert left(shopper.session) == seconds_left
    assert ("sessionid" in response.cookies) == (seconds_left > 550)


def test_the_cookie_is_sent_again_once_a_tenth_of_its_age_has_passed(redis, shopper, settings) -> None:
    sent = []
    for _ in range(20):
        make_older(redis, shopper.session.sid, 30)
        sent += [shopper.get("/who/").cookies.get("sessionid")]
    # Six hundred seconds, and a tenth of the age is a hundred; the record has its times in whole seconds.
    assert 5 <= 20 - sent.count(None) <= 6
    assert not any(one and other for one, other in itertools.pairwise(sent))
    assert {(cookie["max-age"], cookie["httponly"]) for cookie in sent if cookie} == {(1000, True)}
    # Where nothing slides, it is not sent again.
    settings.REDSESS = {}
    make_older(redis, shopper.session.sid, 500)
    assert not shopper.get("/who/").cookies
