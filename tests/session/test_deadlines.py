"""When a session ends by itself."""

import itertools
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session.record import Client
from django_redsess.session.saving import Visit
from django_redsess.transport.keys import keyspace
from tests.helpers.behind import make_older

pytestmark = [pytest.mark.both_servers, pytest.mark.clock]


def opened(session: SessionStore, *, passive: bool = False) -> SessionStore:
    """Load the session as a request does."""
    request_session = SessionStore(session.session_key)
    request_session.visit = Visit(lambda: Client(), passive=passive)
    request_session.load()
    return request_session


def left(session: SessionStore) -> object:
    """Return how many seconds the session has left, give or take two: a busy machine takes its time."""
    return pytest.approx((online.get(session.sid).expires_at - datetime.now(UTC)).total_seconds(), abs=2)


def test_without_timeouts_only_a_save_moves_the_deadline(redis, new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    session = new_session("7")
    make_older(redis, session.sid, 100)
    again = opened(session)
    assert left(session) == 900
    again.save()
    # A save moves it by so much more that the next few need not.
    assert left(session) == 1050


def test_an_idle_session_ends(redis, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    assert left(session) == 70
    make_older(redis, session.sid, 75)
    assert opened(session).get("_auth_user_id") is None


def test_a_request_makes_idle_time_begin_anew(redis, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 50)
    opened(session)
    assert left(session) == 70


def test_an_idle_timeout_longer_than_djangos_age_changes_nothing(redis, new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 100
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 60)
    opened(session)
    # The record has it in whole seconds, rounded up.
    assert left(session) == 40


def test_nothing_ends_before_its_idle_timeout_though_touches_are_an_interval_apart(
    redis, new_session, settings
) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 9)
    opened(session)  # Too soon to be noted.
    make_older(redis, session.sid, 59)
    assert opened(session)["_auth_user_id"] == "7"


def test_the_absolute_timeout_counts_from_sign_in_whatever_happens(redis, new_session, settings) -> None:
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 100}
    session = new_session("7")
    make_older(redis, session.sid, 60)
    opened(session).save()
    assert left(session) == 40


def test_a_guest_has_no_absolute_timeout(new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 100}
    session = new_session(colour="blue")
    assert left(session) == 1000
    session.cycle_key()
    session["_auth_user_id"] = "7"
    session.save()
    assert left(session) == 100


def test_a_timeout_that_is_set_later_holds_from_the_next_request_on(redis, new_session, settings) -> None:
    session = new_session("7")
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    opened(session)
    assert left(session) == 70


def test_sliding_moves_djangos_deadline_without_writing_the_record(redis, new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    login = keyspace().of_sid(session.sid).login
    make_older(redis, session.sid, 500)
    record = redis.hget(login, session.sid)
    opened(session)
    assert left(session) == 1050
    assert redis.hget(login, session.sid) == record


def test_sliding_is_limited_by_the_absolute_timeout(redis, new_session, settings) -> None:
    settings.SESSION_COOKIE_AGE = 1000
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10, "ABSOLUTE_TIMEOUT": 1200}
    session = new_session("7")
    make_older(redis, session.sid, 500)
    opened(session)
    assert left(session) == 700


def test_sliding_leaves_a_deadline_that_was_set_as_a_date(redis, new_session, settings) -> None:
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    session.set_expiry(date)
    session.save()
    opened(session)
    assert online.get(session.sid).expires_at == date


def test_sliding_uses_the_age_of_the_session_itself(redis, new_session, settings) -> None:
    settings.REDSESS = {"SLIDING": True, "TOUCH_INTERVAL": 10}
    session = new_session("7", _session_expiry=300)
    make_older(redis, session.sid, 200)
    opened(session)
    assert left(session) == 315


@pytest.mark.parametrize("setting", [{"IDLE_TIMEOUT": 600}, {"SLIDING": True}])
def test_a_passive_request_is_seen_and_prolongs_nothing(redis, new_session, settings, setting) -> None:
    settings.SESSION_COOKIE_AGE = 590
    settings.REDSESS = {**setting, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 300)
    before = online.get(session.sid)
    request_session = opened(session, passive=True)
    found = online.get(session.sid)
    assert found.seen_at > before.seen_at
    assert found.expires_at == before.expires_at
    request_session["colour"] = "blue"
    request_session.save()
    assert online.get(session.sid).expires_at == before.expires_at
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_a_passive_request_does_not_keep_an_active_one_from_prolonging(redis, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 60, "TOUCH_INTERVAL": 10}
    session = new_session("7")
    make_older(redis, session.sid, 30)
    opened(session, passive=True)
    opened(session)
    assert left(session) == 70


def test_signing_in_again_as_the_same_user_begins_a_new_absolute_time(redis, new_session, settings) -> None:
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 100}
    session = new_session("7")
    make_older(redis, session.sid, 60)
    again = opened(session)
    again.signed_in()
    again.save()
    assert left(session) == 100
    assert online.count() == 1


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


def test_the_cookie_is_sent_again_once_a_tenth_of_its_age_has_passed(redis, shopper) -> None:
    sent = []
    for _ in range(20):
        make_older(redis, shopper.session.sid, 30)
        sent.append("sessionid" in shopper.get("/who/").cookies)
    # Six hundred seconds, and a tenth of the age is a hundred; the record has its times in whole seconds.
    assert 5 <= sent.count(True) <= 6
    assert not any(one and other for one, other in itertools.pairwise(sent))


def test_the_cookie_that_is_sent_again_has_its_full_age(redis, shopper) -> None:
    make_older(redis, shopper.session.sid, 500)
    cookie = shopper.get("/who/").cookies["sessionid"]
    assert cookie["max-age"] == 1000
    assert cookie["httponly"]


def test_the_cookie_is_not_sent_again_where_nothing_slides(redis, shopper, settings) -> None:
    settings.REDSESS = {}
    make_older(redis, shopper.session.sid, 500)
    assert not shopper.get("/who/").cookies


def test_a_slow_answer_does_not_send_a_cookie_again_that_is_older_than_the_session(redis, shopper, meanwhile) -> None:
    make_older(redis, shopper.session.sid, 500)
    key = shopper.session.session_key

    def give_it_another_key() -> None:
        other = SessionStore(key)
        other.cycle_key()
        other.save()

    meanwhile(give_it_another_key)
    response = shopper.get("/late/")
    assert response.content == b"late"
    assert not response.cookies
