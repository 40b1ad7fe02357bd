"""What ends while sessions move is over in both stores, whether the other one is Django's or one of this engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_redsess import online
from django_redsess.accounts import logout_everywhere
from django_redsess.backend import SessionStore
from django_redsess.contrib.history import repair
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.sockets import ended_sessions
from django_redsess.exceptions import SignInRefused
from django_redsess.online.sign_ins import are_live
from tests.contrib.moving.conftest import grow, session_of
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import Store, using
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("partitions", "moving")]

OWN = {"PREFIX": "before", "PARTITIONS": 1}


def the_store_before() -> Store:
    return Store(settings.SESSION_CACHE_ALIAS, "before", 1)


@pytest.fixture(params=["Django's", "ours"])
def other(request: pytest.FixtureRequest, moving: Any, partitions: int) -> str:
    if request.param == "ours":
        # Nobody looks whether its keys agree.
        request.getfixturevalue("left_alone")
        grow(moving, **OWN)
    return str(request.param)


@pytest.fixture
def own(moving: Any, left_alone: None) -> Store:
    grow(moving, **OWN)
    return the_store_before()


@pytest.fixture
def old(other: str, old_session: Any) -> Callable[..., str]:
    """Return a function that saves a session in the other store as the release before did, and returns its key."""

    def create(user: str = "", **data: Any) -> str:
        if other == "Django's":
            return str(old_session(user, **data).session_key)
        return in_own_store(user, **data)

    return create


def in_own_store(user: str = "", **data: Any) -> str:
    with using(the_store_before()):
        session = SessionStore()
        session.update({**data, **({"_auth_user_id": user} if user else {})})
        session.save()
        return str(session.session_key)


def sign_in(user: str) -> str:
    session = session_of()
    session["_auth_user_id"] = user
    session.signed_in()
    session.save()
    return str(session.session_key)


def user_in(key: str, step: Any) -> set[str]:
    """Whose session has this key, as processes of both steps see it; ``""`` if nobody's."""
    found = set()
    for number in (1, 2, 1):
        with step(number):
            found.add(session_of(key).load().get("_auth_user_id", ""))
    return found


def end_user(user: User) -> int:
    return online.end_user(user)


def end_all(user: User) -> int:
    return online.end_all()


def end_by_command(user: User) -> int:
    call_command("endsessions", all=True, interactive=False)
    return 2


def leave_everywhere(user: User) -> int:
    return logout_everywhere(user)


def block_for_a_moment(user: User) -> int:
    ended = online.block(user, until=datetime.now(UTC) + timedelta(hours=1))
    assert online.unblock(user)
    return ended


def deactivate_for_a_moment(user: User) -> int:
    for is_active in (False, True):
        user.is_active = is_active
        user.save()
    return 2


ENDS = [end_user, end_all, end_by_command, leave_everywhere, block_for_a_moment, deactivate_for_a_moment]


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("number", [1, 2])
def test_sessions_that_have_not_moved_end_too(other, old, step, end, number: int) -> None:
    alice, bob = User.objects.create_user("alice"), User.objects.create_user("bob")
    keys, of_bob, guest = [old(str(alice.pk)) for _ in range(2)], old(str(bob.pk)), old(basket=1)
    with step(number):
        # One is in use.
        session_of(keys[0]).load()
        ended = end(alice)
    if other == "ours":
        assert ended >= 2
    for key in keys:
        assert user_in(key, step) == {""}
    assert user_in(of_bob, step) == ({""} if end in (end_all, end_by_command) else {str(bob.pk)})
    with step(number):
        assert session_of(guest)["basket"] == 1
    for at in (1, 2):
        with step(at):
            new = sign_in(str(alice.pk))
        assert user_in(new, step) == {str(alice.pk)}


@pytest.mark.parametrize("number", [1, 2])
def test_what_has_ended_is_not_moved_in_bulk(other, old, step, capsys, number: int) -> None:
    alice, bob = User.objects.create_user("alice"), User.objects.create_user("bob")
    keys, of_bob = [old(str(alice.pk)) for _ in range(3)], old(str(bob.pk))
    with step(number):
        online.end_user(alice)
    with step(2):
        call_command("movesessions")
        assert online.count() == 1
        assert "were not:" not in capsys.readouterr().out
        if other != "ours":
            call_command("movesessions", finish=True)
            assert "None is left" in capsys.readouterr().out
    assert user_in(of_bob, step) == {str(bob.pk)}
    for key in keys:
        assert user_in(key, step) == {""}


@pytest.mark.parametrize("number", [1, 2])
def test_the_session_that_is_kept_stays_whatever_key_it_gets(old, step, number: int) -> None:
    alice = User.objects.create_user("alice")
    mine, others = old(str(alice.pk)), [old(str(alice.pk)) for _ in range(2)]
    with step(number):
        session = session_of(mine)
        session.load()
        online.end_user(alice, keep=session.sid)
        session["basket"] = 2
        session.save()
        session.cycle_key()
        session.save()
        # The other end of all is the later one.
        again = session_of(session.session_key)
        assert again["basket"] == 2
    assert user_in(session.session_key, step) == {str(alice.pk)}
    for key in others:
        assert user_in(key, step) == {""}
    with step(number):
        online.end_user(alice)
    assert user_in(session.session_key, step) == {""}


def test_a_session_of_who_is_kept_stays_in_the_store_before(own, step) -> None:
    key, other = in_own_store("7"), in_own_store("8")
    with step(1):
        sids = [session_of(each).sid for each in (key, other)]
        assert [each.sid for each in online.end(*map(str, sids), keep_user_ids=["7"])] == sids[1:]
    assert user_in(other, step) == {""}
    assert user_in(key, step) == {"7"}


def test_guests_end_where_they_are_meant(old, step) -> None:
    guest, user = old(basket=1), old("7")
    with step(1):
        for _ in online.end_in_batches(guests="only"):
            pass
    for number in (1, 2):
        with step(number):
            assert session_of(guest).load() == {}
            assert session_of(user)["_auth_user_id"] == "7"


def test_a_session_that_ends_while_it_is_saved_is_over(old, step) -> None:
    alice = User.objects.create_user("alice")
    key = old(str(alice.pk))
    with step(1):
        late = session_of(key)
        late["basket"] = 1
        online.end_user(alice)
        with pytest.raises(UpdateError):
            late.save()
    assert user_in(key, step) == {""}


def test_a_sid_ends_where_it_has_not_moved(old, step) -> None:
    key = old("7")
    with step(1):
        session = session_of(key)
        session.load()
        online.end(session.sid)
    assert user_in(key, step) == {""}


@pytest.mark.parametrize("number", [1, 2])
def test_a_blocked_user_does_not_come_in_by_a_view_of_its_own(old, step, number: int) -> None:
    alice = User.objects.create_user("alice")
    with step(number):
        online.block(alice, until=datetime.now(UTC) + timedelta(hours=1))
        for key in (None, old(basket=1)):
            session = session_of(key)
            session["_auth_user_id"] = str(alice.pk)
            with pytest.raises(SignInRefused):
                session.save()


@pytest.mark.parametrize("number", [1, 2])
def test_blocks_of_the_store_before_hold_and_are_lifted_in_both(own, step, number: int) -> None:
    alice, bob = User.objects.create_user("alice"), User.objects.create_user("bob")
    until = datetime.now(UTC) + timedelta(hours=1)
    with using(own):
        online.block(alice, until=until, message="Please call us.")
    with step(number):
        with pytest.raises(SignInRefused):
            session_of().refuse_blocked(str(alice.pk))
        with pytest.raises(SignInRefused):
            sign_in(str(alice.pk))
        online.block(bob, until=until - timedelta(minutes=1))
        assert [(each.user_id, each.message) for each in online.blocked()] == [
            (str(bob.pk), ""),
            (str(alice.pk), "Please call us."),
        ]
        found = online.block_of(alice)
        assert found is not None
        assert found.message == "Please call us."
        for user in (alice, bob):
            assert online.unblock(user)
            assert not online.unblock(user)
        assert online.blocked() == []
        sign_in(str(alice.pk))
    with using(own):
        assert online.blocked() == []


def test_a_sign_in_in_the_store_before_stays_open_in_the_history(own, step) -> None:
    alice = User.objects.create_user("alice")
    in_own_store(str(alice.pk))
    with using(own):
        [there] = online.sessions()
        at = int(there.created_at.timestamp() * 1000)
    SignIn.objects.create(user_id=alice.pk, login_ms=at)
    with using(own):
        assert are_live([(str(alice.pk), at)]) == [True]
    with step(1):
        assert are_live([(str(alice.pk), at), (str(alice.pk), at - 1)]) == [True, False]
        assert [changed for changed, _ in repair.close_ended()] in ([], [0])


def test_overlapping_changes_in_the_store_before_are_merged(own, step) -> None:
    for _ in range(20):
        key = in_own_store("7", size="M")
        with step(1):
            first, second = session_of(key), session_of(key)
            first["basket"], second["colour"] = 1, "red"
            first.save()
            second.save()
            assert session_of(key).load() == {"_auth_user_id": "7", "size": "M", "basket": 1, "colour": "red"}


def test_a_new_key_for_who_signs_in_again(old, step) -> None:
    key = old("7", basket=1)
    with step(1):
        session = session_of(key)
        session["basket"] = 1
        session.signed_in()
        session.save()
        assert session.session_key != key
    assert user_in(key, step) == {""}
    assert user_in(session.session_key, step) == {"7"}


@pytest.mark.parametrize("number", [1, 2])
def test_unknown_cookies_leave_no_key_and_ask_the_database_once(step, settings, redis, number: int) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    with step(number):
        for digit in range(20):
            browser = Browser(Client())
            browser.cookie = f"{digit:032}"
            with CaptureQueriesContext(connection) as queries:
                browser.post("/logout/")
            assert len(queries) <= 2
    assert [name for name in redis.keys() if b":moved:" in name] == []


async def end_of(key: str, then: Callable[[], object]) -> bool:
    """Whether a socket is closed within three seconds of what is done meanwhile, and not by itself."""
    async with ended_sessions.ends(session_of(key)) as watched:
        await asyncio.sleep(1.2)
        assert watched.end is None
        # In the thread that lives on: what another one opens in the database would stay open.
        await sync_to_async(then)()
        for _ in range(30):
            if watched.end is not None:
                return True
            await asyncio.sleep(0.1)
    return False


@pytest.mark.parametrize("number", [1, 2])
def test_a_socket_stays_open_until_its_session_ends(old, step, number: int) -> None:
    alice = User.objects.create_user("alice")
    with step(number):
        key = old(str(alice.pk))
        assert not asyncio.run(end_of(key, lambda: None))
        assert asyncio.run(end_of(key, lambda: online.end_user(alice)))
        key = sign_in(str(alice.pk))
        assert asyncio.run(end_of(key, lambda: session_of(key).flush()))


def test_there_is_no_way_back_to_a_store_of_ours(own, step) -> None:
    with step(2), pytest.raises(CommandError, match="--back is not for another store"):
        call_command("movesessions", back=True)


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("is_moved", [False, True])
def test_the_release_before_does_not_undo_an_end_of_step_1(old_session, step, end, is_moved: bool) -> None:
    alice, bob = User.objects.create_user("alice"), User.objects.create_user("bob")
    key, of_guest = old_session(str(alice.pk)).session_key, old_session(basket=1).session_key
    old_session(str(bob.pk))
    if is_moved:
        with step(2):
            session_of(key).load()
    with step(1):
        call_command("movesessions", back=True, verbosity=0)
        end(alice)
        call_command("movesessions", back=True, verbosity=0)
    assert not Session.objects.filter(pk=key).exists()
    assert Session.objects.filter(pk=of_guest).exists()
    ends_all = end in (end_all, end_by_command)
    assert Session.objects.count() == (1 if ends_all else 2)
