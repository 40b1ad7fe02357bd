"""No user has more sessions than the site allows: who goes, who stays, what counts once, and what it costs."""

import itertools
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.auth import login as channels_login
from django.contrib.auth import SESSION_KEY, login, update_session_auth_hash
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_redsess import online
from django_redsess.accounts import without_limit
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached
from django_redsess.session import operations
from django_redsess.session.user_limit import Limit
from django_redsess.transport.keys import keyspace
from tests.helpers.online import ends
from tests.helpers.sign_ins import ENDING, POLICIES, named, request_of, sids_of, sign_in, sign_in_before
from tests.helpers.site.people import person
from tests.helpers.site.views import MODEL_BACKEND
from tests.helpers.store import have_agreed, make_due, make_older, make_seen, stored, text_of

pytestmark = [
    pytest.mark.usefixtures("partitions", "users_in_no_table"),
    pytest.mark.both_servers,
    pytest.mark.on_cluster,
]


@pytest.fixture
def guest(new_session) -> SessionStore:
    return new_session(basket="lamp")


def reason_of(session: SessionStore) -> str:
    notice = SessionStore(session.session_key).ended
    return notice.reason if notice else ""


@pytest.mark.parametrize(("policy", "goes"), [("end_oldest", 0), ("end_least_recent", 1)])
def test_the_earliest_sign_in_goes_or_the_one_longest_unseen(redis, set_limit, policy: str, goes: int) -> None:
    set_limit(2, policy)
    before = sign_in_before(redis, "7", 200, 100)
    # The first to sign in was seen last.
    for session, seen_at in zip(before, (2_000_000, 1_000_000), strict=True):
        make_seen(redis, session.sid, seen_at)
    latest = sign_in("7")
    assert sids_of("7") == named(before[1 - goes], latest)
    assert reason_of(before[goes]) == "replaced"


@pytest.mark.parametrize("policy", POLICIES)
def test_other_users_and_guests_are_never_touched(redis, set_limit, guest, policy: str) -> None:
    # Users enough that several share the partition, where there are four.
    others = [session for user_id in range(10, 30) for session in sign_in_before(redis, str(user_id), 900, 800)]
    set_limit(1, policy)
    own = sign_in("7")
    if policy == "refuse":
        with pytest.raises(SessionLimitReached):
            sign_in("7")
    else:
        own = sign_in("7")
    assert {session.sid for session in online.sessions(limit=100)} == named(own, *others)
    assert SessionStore(guest.session_key)["basket"] == "lamp"


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
def test_a_session_that_is_due_does_not_count(redis, set_limit, guest, told, policy: str, brings: bool) -> None:
    due, live = sign_in_before(redis, "7", 200, 100)
    set_limit(2, policy)
    make_due(redis, due.sid)
    latest = sign_in("7", guest if brings else None)
    assert sids_of("7") == named(live, latest)
    assert "replaced" not in [each.reason for each in told]


@pytest.mark.parametrize("policy", ENDING)
def test_the_session_that_signs_in_stays_though_others_signed_in_in_the_future(
    redis, set_limit, guest, policy: str
) -> None:
    set_limit(1, policy)
    [ahead] = sign_in_before(redis, "7", -3600)
    for session in (guest, None, None):
        latest = sign_in("7", session)
        assert sids_of("7") == named(latest)
    assert reason_of(ahead) == "replaced"


@pytest.mark.parametrize("policy", ENDING)
def test_each_that_was_replaced_is_told_and_counted(redis, set_limit, told, policy: str) -> None:
    sessions = sign_in_before(redis, "7", 500, 400, 300, 200, 100)
    sign_in("8")
    set_limit(3, policy)
    sign_in("7")
    assert sorted(ends(told)) == sorted((session.sid, "7", "replaced") for session in sessions[:3])
    totals = [redis.hget(partition.totals, "replaced") for partition in keyspace().partitions]
    assert sum(int(total or 0) for total in totals) == 3


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("changes_password", [False, True], ids=["rotation", "change of password"])
def test_a_new_key_of_a_session_at_the_limit_ends_nobody(redis, set_limit, policy: str, changes_password: bool) -> None:
    set_limit(2, policy)
    other, session = sign_in_before(redis, "7", 200, 100)
    for number in range(3):
        old_key = session.session_key
        session = SessionStore(old_key)
        if changes_password:
            request = request_of(session)
            request.user = User(pk=7, username="user 7", password=f"password {number}")
            update_session_auth_hash(request, request.user)
        else:
            session.cycle_key()
        session.save()
        assert session.session_key != old_key
        assert sids_of("7") == named(other, session)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("maximum", [1, 3])
@pytest.mark.parametrize("lowered", [False, True], ids=["", "after the limit was lowered"])
@pytest.mark.parametrize("cycles", [False, True], ids=["under the same key", "with a new key"])
def test_who_signs_in_again_counts_once_and_has_a_new_login_time(
    redis, set_limit, policy: str, maximum: int, lowered: bool, cycles: bool
) -> None:
    set_limit(maximum, policy)
    *others, session = sign_in_before(redis, "7", *range(100 * maximum, 0, -100))
    login_at = online.get(session.sid).created_at
    if lowered:
        set_limit(1, policy)
    again = SessionStore(session.session_key)
    if cycles:
        again.cycle_key()
    login(request_of(again), person("7"))
    again.save()
    assert not cycles or again.session_key != session.session_key
    assert sids_of("7") == named(*others, again)
    assert online.get(again.sid).created_at > login_at
    assert SessionStore(again.session_key)[SESSION_KEY] == "7"


@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
@pytest.mark.parametrize("policy", ENDING)
def test_a_sign_in_takes_as_many_calls_of_scripts_with_a_limit_as_without(
    commands, set_limit, new_session, policy: str, brings: bool
) -> None:
    counts = []
    for maximum in (None, 2):
        set_limit(maximum, policy)
        session = new_session(basket="lamp")
        # Where the guest is in the user's home partition, a sign-in is one script.
        user_id = next(user_id for user_id in map(str, itertools.count(1)) if operations.at_home(session.sid, user_id))
        sign_in(user_id)
        sign_in(user_id)
        commands()
        sign_in(user_id, session if brings else None)
        counts.append(commands()["evalsha"])
        for sid in sids_of(user_id):
            online.end(sid)
    assert counts == [1, 1]


def test_sign_ins_without_the_signal_stay_below_the_ceiling(new_session, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "USER_SESSIONS_CEILING": 2}
    guest = new_session(basket="lamp")
    for session in (SessionStore(), SessionStore(), SessionStore(guest.session_key)):
        session[SESSION_KEY] = "7"
        session.save()
    assert len(sids_of("7")) == 2
    assert session.sid in sids_of("7")


def by_hand(user_id: str, guest: SessionStore | None = None) -> SessionStore:
    """Sign in without login(), as a package may that switches users."""
    session = SessionStore(guest.session_key if guest is not None else None)
    session[SESSION_KEY] = user_id
    session.save()
    return session


def with_channels(user_id: str, guest: SessionStore | None = None) -> SessionStore:
    """Sign in over a socket: Channels tells of no request."""
    session = SessionStore(guest.session_key if guest is not None else None)
    async_to_sync(channels_login)({"session": session}, person(user_id), MODEL_BACKEND)
    session.save()
    return session


# Channels closes connections to the database that are too old.
WITHOUT_LOGIN = pytest.mark.parametrize("signs_in", [by_hand, pytest.param(with_channels, marks=pytest.mark.django_db)])


@WITHOUT_LOGIN
@pytest.mark.parametrize("brings", [False, True], ids=["visitor", "guest"])
@pytest.mark.parametrize(("policy", "goes"), [("end_oldest", 0), ("end_least_recent", 1)])
def test_an_integer_holds_for_sign_ins_without_login(
    redis, set_limit, guest, signs_in, policy: str, goes: int, brings: bool
) -> None:
    set_limit(2, policy)
    before = sign_in_before(redis, "7", 200, 100)
    for session, seen_at in zip(before, (2_000_000, 1_000_000), strict=True):
        make_seen(redis, session.sid, seen_at)
    latest = signs_in("7", guest if brings else None)
    assert sids_of("7") == named(before[1 - goes], latest)
    assert reason_of(before[goes]) == "replaced"
    assert SessionStore(latest.session_key).get("basket") == ("lamp" if brings else None)


@WITHOUT_LOGIN
def test_a_sign_in_without_login_is_refused_by_its_save(redis, set_limit, guest, signs_in) -> None:
    set_limit(1, "refuse")
    [own] = sign_in_before(redis, "7", 100)
    with pytest.raises(SessionLimitReached, match="1 device"):
        signs_in("7", guest)
    assert sids_of("7") == named(own)
    # The guest's session is as it was.
    assert dict(SessionStore(guest.session_key).items()) == {"basket": "lamp"}
    # Another save of a session in which the user does not change is refused by nothing.
    own = SessionStore(own.session_key)
    own["colour"] = "blue"
    own.save()
    with without_limit():
        signs_in("7", guest)
    assert len(sids_of("7")) == 2


def by_user(user: User) -> int | None:
    return {7: 1, 8: 2}.get(user.pk)


def test_a_function_says_for_each_user_how_many(redis, set_limit) -> None:
    set_limit(f"{__name__}.by_user")
    for user_id in ("7", "8", "9"):
        sign_in_before(redis, user_id, 400, 300, 200, 100)
    assert [online.count(user_ids=[user_id]) for user_id in ("7", "8", "9")] == [1, 2, 4]


@WITHOUT_LOGIN
def test_a_function_is_not_asked_without_login_and_the_ceiling_holds(redis, set_limit, settings, signs_in) -> None:
    set_limit(f"{__name__}.by_user")
    settings.REDSESS = {**settings.REDSESS, "USER_SESSIONS_CEILING": 3}
    for _ in range(5):
        signs_in("7")
    assert len(sids_of("7")) == 3


def says_zero(user: User) -> int:
    return 0


def fails(user: User) -> int:
    raise LookupError("no such plan")


WRONG: list[Any] = [f"{__name__}.{name}" for name in ("missing", "says_zero", "fails")]
WRONG += ["no.such.function", "function", "", 0, -1, True, 2.5, [3], 10**25]


@pytest.mark.one_server
@pytest.mark.parametrize(
    ("maximum", "policy"),
    [*((maximum, "end_oldest") for maximum in WRONG), (1, "end_newest"), (f"{__name__}.by_user", "end_newest")],
)
def test_what_makes_no_sense_is_an_error_that_names_the_setting(
    redis, set_limit, new_session, maximum: Any, policy: str
) -> None:
    guest = new_session(basket="lamp")
    set_limit(maximum, policy)
    have_agreed()
    before = redis.dbsize()
    setting = "SESSION_LIMIT_POLICY" if policy == "end_newest" else "MAX_SESSIONS_PER_USER"
    with pytest.raises(ImproperlyConfigured, match=rf"REDSESS\['{setting}'\]"):
        sign_in("7", guest)
    assert redis.dbsize() == before
    assert (online.count(), stored(redis)) == (0, 1)


@pytest.mark.parametrize("policy", ENDING)
@pytest.mark.parametrize(
    ("count", "size", "ahead"),
    [(300, 1, False), (300, 1, True), (20, 300_000, False)],
    ids=["signed in before", "signed in in the future", "large records"],
)
def test_after_a_limit_was_lowered_one_sign_in_leaves_as_many_as_it_allows(
    redis, set_limit, new_session, guest, policy: str, count: int, size: int, ahead: bool
) -> None:
    sessions = [new_session("7", basket=text_of(size)) for _ in range(count)]
    other = new_session("8")
    if ahead:
        for session in sessions:
            make_older(redis, session.sid, -3600)
    set_limit(3, policy)
    latest = sign_in("7", guest)
    left = sids_of("7")
    assert len(left) == 3
    assert latest.sid in left
    assert stored(redis) == 4
    assert sids_of("8") == named(other)


def test_a_refusal_after_a_limit_was_lowered_ends_none_of_the_others(redis, set_limit, new_session) -> None:
    sessions = [new_session("7") for _ in range(300)]
    set_limit(3, "refuse")
    with pytest.raises(SessionLimitReached):
        sign_in("7")
    assert stored(redis) == len(sessions)


@pytest.mark.parametrize("policy", ENDING)
def test_the_rest_above_a_limit_is_dealt_with_though_a_thousand_sessions_are_due(
    redis, set_limit, new_session, settings, policy: str
) -> None:
    settings.REDSESS = {**settings.REDSESS, "USER_SESSIONS_CEILING": None}
    due = [new_session("7") for _ in range(1010)]
    # In the future, so that those that are due are the earliest.
    live = sign_in_before(redis, "7", -100, -200, -300)
    make_due(redis, *[session.sid for session in due])
    # A sign-in goes on with this until it is told that this was all: it must come to an end.
    limit = Limit(2, policy)
    for _ in range(20):
        if not operations.end_above(limit, "7", keep=live[-1].sid).run():
            break
    else:
        pytest.fail("it says again and again that it goes on, and ends nothing")
    # One by one: a list shows what is due and has not been taken out.
    assert [bool(SessionStore(session.session_key).load()) for session in live] == [False, True, True]


def test_the_rest_above_a_limit_is_counted_without_a_sign_in_that_has_gone_meanwhile(redis, set_limit) -> None:
    gone, live = sign_in_before(redis, "7", 200, 100)
    online.end(gone.sid)
    operations.end_above(Limit(1, "end_oldest"), "7", keep=gone.sid).run()
    assert sids_of("7") == named(live)
