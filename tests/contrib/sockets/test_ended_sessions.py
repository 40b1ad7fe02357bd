"""What is learnt of the end of a session while somebody watches it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import login
from django.contrib.auth.models import User
from django.contrib.sessions.backends.signed_cookies import SessionStore as SignedCookies
from django.test import Client, override_settings
from django.utils.functional import SimpleLazyObject
from django.utils.timezone import now

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.sockets import ended_sessions
from django_redsess.contrib.sockets.ended_sessions import End, ends
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.signals import Reason
from tests.helpers.accounts import PASSWORD
from tests.helpers.api import ask
from tests.helpers.outages import caches, full
from tests.helpers.sign_ins import request_of
from tests.helpers.store import keyspace, make_due, make_seen, reading, sid_of


def signed_in(user: User, session: SessionStore | None = None) -> SessionStore:
    session = SessionStore(session.session_key if session else None)
    login(request_of(session), user, backend="django.contrib.auth.backends.ModelBackend")
    session.save()
    return session


def kick(session: SessionStore, user: User, redis: Any) -> End:
    online.end(str(session.sid), message="We have closed for today.")
    return End(Reason.KICKED, "We have closed for today.")


def sign_out(session: SessionStore, user: User, redis: Any) -> End:
    SessionStore(session.session_key).flush()
    return End(None)


def expire(session: SessionStore, user: User, redis: Any) -> End:
    make_due(redis, str(session.sid))
    return End(Reason.EXPIRED)


def expire_and_clean(session: SessionStore, user: User, redis: Any) -> End:
    make_due(redis, str(session.sid))
    SessionStore.clear_expired()
    return End(Reason.EXPIRED)


def block(session: SessionStore, user: User, redis: Any) -> End:
    online.block(user, until=now() + timedelta(days=1), message="Ask us why.")
    return End(Reason.KICKED, "Ask us why.")


def change_password(session: SessionStore, user: User, redis: Any) -> End:
    user.set_password("another password")
    user.save()
    return End(Reason.INVALIDATED, online.ready_message("password_changed"))


def sign_in_as_another(session: SessionStore, user: User, redis: Any) -> End:
    """As a site does that gives the session to somebody else without ending it."""
    taken = SessionStore(session.session_key)
    taken["_auth_user_id"] = str(User.objects.create_user("carol").pk)
    taken.cycle_key()
    taken.save()
    return End(Reason.INVALIDATED)


def lose_all(session: SessionStore, user: User, redis: Any) -> End:
    redis.flushall()
    return End(None)


WAYS = [kick, sign_out, expire, expire_and_clean, block, change_password, sign_in_as_another, lose_all]


@pytest.mark.on_cluster
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_each_way_of_ending_is_told_with_its_reason(partitions, loop, redis, alice, bob, way) -> None:
    session, other = signed_in(alice), signed_in(bob)
    watched, also = loop.watch(session), loop.watch(other)
    loop.looked()
    assert watched.end is None
    expected = way(session, alice, redis)
    assert loop.end_of(watched) == expected
    assert watched.end == expected
    assert way is lose_all or also.end is None
    # Who comes later is told at once.
    assert loop.watch(str(session.sid)).end == expected


@pytest.mark.django_db(transaction=True)
def test_a_session_is_followed_to_its_new_keys_while_the_user_is_the_same(partitions, loop, alice) -> None:
    session = signed_in(alice)
    watched = loop.watch(SessionStore(session.session_key))
    for _ in range(2):
        session.cycle_key()
        session.save()
    loop.looked()
    assert (watched.end, watched.sid) == (None, session.sid)
    online.end(str(session.sid))
    assert loop.end_of(watched) == End(Reason.KICKED)


def sign_in_again(browser: Client, user: User) -> None:
    browser.force_login(user)


def give_password_again(browser: Client, user: User) -> None:
    assert ask(browser, "post", "me/reauthenticate", {"password": PASSWORD}).status_code == 204


def end_others(browser: Client, user: User) -> None:
    assert browser.post("/account/sessions/end-others/").status_code == 302


def end_others_by_the_api(browser: Client, user: User) -> None:
    assert ask(browser, "delete", "me/sessions").status_code == 200


def say_it_was_not_me(browser: Client, user: User) -> None:
    assert browser.post("/account/sessions/not-me/").status_code == 302


def change_own_password(browser: Client, user: User) -> None:
    assert browser.get("/password/cycles_after/").status_code == 200


def change_own_password_and_end_no_others(browser: Client, user: User) -> None:
    with override_settings(REDSESS={**settings.REDSESS, "END_ON_PASSWORD_CHANGE": False}):
        change_own_password(browser, user)


def end_all_but_this(browser: Client, user: User) -> None:
    assert browser.post("/ends-all-but-this/").status_code == 200


def end_copies(browser: Client, user: User) -> None:
    """As a site does that has asked for a second factor."""
    session = SessionStore(browser.cookies["sessionid"].value)
    session.end_copies()
    session.save()
    browser.cookies["sessionid"] = str(session.session_key)


def cycle_twice_and_sign_in_again(browser: Client, user: User) -> None:
    """All within one look, maybe."""
    browser.get("/cycle/")
    browser.get("/cycle/")
    browser.force_login(user)
    browser.get("/cycle/")


REASONS = [
    *(sign_in_again, give_password_again, end_others, end_others_by_the_api, say_it_was_not_me, change_own_password),
    *(change_own_password_and_end_no_others, end_all_but_this, end_copies, cycle_twice_and_sign_in_again),
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.__name__)
def test_who_watches_with_a_copied_cookie_is_closed_and_the_owner_opens_again(
    partitions, loop, settings, alice, reason
) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    browser = Client()
    browser.force_login(alice)
    before = browser.cookies["sessionid"].value
    watched = loop.watch(SessionStore(before))
    loop.looked()
    reason(browser, alice)
    assert loop.end_of(watched) == End(Reason.INVALIDATED)
    # Who comes later with the old cookie is told at once.
    assert loop.watch(str(sid_of(before))).end == End(Reason.INVALIDATED)
    of_owner = loop.watch(SessionStore(browser.cookies["sessionid"].value))
    loop.looked()
    assert of_owner.end is None
    assert online.get(of_owner.sid).user_id == str(alice.pk)


@pytest.mark.django_db
def test_a_guests_session_is_over_when_somebody_signs_in(partitions, loop, alice, new_session) -> None:
    guest = new_session(basket=3)
    watched = loop.watch(guest)
    other = SessionStore(guest.session_key)
    other.cycle_key()
    other.save()
    loop.looked()
    assert (watched.end, watched.sid) == (None, other.sid)
    signed_in(alice, other)
    assert loop.end_of(watched) == End(Reason.INVALIDATED)


def test_a_note_that_somebody_else_wrote_leads_to_no_other_user(loop, redis, new_session) -> None:
    session, other = new_session(user="7"), new_session(user="8")
    watched, partition = loop.watch(session), keyspace().of_sid(str(session.sid))

    async def within_one_look() -> None:
        online.end(str(session.sid))
        redis.set(partition.ended_of(str(session.sid)), f"rotated {other.sid} follow", px=60_000)

    loop.run(within_one_look())
    assert loop.end_of(watched) == End(Reason.INVALIDATED)


def test_a_guest_does_not_get_the_message_to_who_has_signed_in(partitions, loop, new_session) -> None:
    guest = new_session(basket=3)
    watched = loop.watch(guest)

    async def within_one_look() -> None:
        other = SessionStore(guest.session_key)
        other["_auth_user_id"] = "7"
        other.cycle_key()
        other.save()
        online.end(str(other.sid), message="A secret.")

    loop.run(within_one_look())
    assert loop.end_of(watched) == End(Reason.INVALIDATED)


def test_a_guests_expiry_is_known_though_it_leaves_no_note(loop, redis, new_session) -> None:
    guest = new_session(basket=3)
    due = now() + timedelta(seconds=2)
    guest.set_expiry(due)
    guest.save()
    watched = loop.watch(guest)
    assert loop.end_of(watched) == End(Reason.EXPIRED)


@pytest.mark.both_servers
def test_an_outage_ends_nothing_and_is_asked_again(loop, proxy, settings, new_session, caplog) -> None:
    settings.CACHES = caches(f"redis://127.0.0.1:{proxy.port}/0", timeout=0.2)
    session, other = new_session(user="7"), new_session(user="8")
    watched, also = loop.watch(session), loop.watch(other)
    for cut in (proxy.refuse, proxy.silence):
        cut()
        loop.looked(3)
        assert (watched.end, also.end) == (None, None)
        with pytest.raises(SessionStoreUnavailable):
            loop.watch(str(session.sid))
        proxy.restore()
    loop.looked()
    online.end(str(session.sid))
    assert loop.end_of(watched) == End(Reason.KICKED)
    assert also.end is None


@pytest.mark.both_servers
def test_ends_are_told_while_a_full_server_refuses_touches(loop, redis, new_session) -> None:
    session, other = new_session(user="7"), new_session(user="8")
    watched, also = loop.watch(session), loop.watch(other)
    make_seen(redis, str(other.sid), 1)
    loop.looked()
    with full(redis):
        also.used()
        online.end(str(session.sid))
        assert loop.end_of(watched).reason in (None, Reason.KICKED)
        assert also.end is None


def seen(redis: Any, session: SessionStore) -> int:
    partition = keyspace().of_sid(str(session.sid))
    return int(redis.zscore(partition.recent, session.sid) or redis.zscore(partition.guests, session.sid) or 0)


def test_who_uses_a_socket_is_seen_and_who_leaves_it_open_is_not(partitions, loop, redis, new_session) -> None:
    sessions = [new_session(user="7"), new_session(user="8"), new_session(basket=3)]
    for each in sessions:
        make_seen(redis, str(each.sid), 1)
    user, idle, guest = map(loop.watch, sessions)
    user.used()
    guest.used()
    loop.looked()
    times = [seen(redis, each) for each in sessions]
    assert [each > 1 for each in times] == [True, False, True]
    # No oftener than TOUCH_INTERVAL: this touch would be in the same, unless it has ended meanwhile.
    make_seen(redis, str(sessions[0].sid), 1)
    user.used()
    loop.looked()
    assert not 1 < seen(redis, sessions[0]) <= times[0]
    assert idle.end is None


def test_who_uses_a_socket_is_not_idle(partitions, loop, redis, settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 3600, "TOUCH_INTERVAL": 1}
    sessions = [new_session(user="7"), new_session(user="8")]
    deadlines = [keyspace().of_sid(str(each.sid)).expire for each in sessions]
    soon = reading.read_time().run() + 60_000
    for name, each in zip(deadlines, sessions, strict=True):
        redis.zadd(name, {str(each.sid): soon})
    used, _ = map(loop.watch, sessions)
    used.used()
    loop.looked()
    moved = [redis.zscore(name, each.sid) for name, each in zip(deadlines, sessions, strict=True)]
    assert [each > soon for each in moved] == [True, False]


@pytest.mark.parametrize("how", ["queue", "generator"])
def test_what_comes_during_a_session_is_given_until_it_is_over(loop, new_session, how: str) -> None:
    session, given, closed = new_session(user="7"), list[int](), list[bool]()

    async def generated(queue: asyncio.Queue[int]) -> AsyncIterator[int]:
        try:
            while True:
                yield await queue.get()
        finally:
            closed.append(True)

    async def follow() -> End | None:
        queue: asyncio.Queue[int] = asyncio.Queue()
        queue.put_nowait(1)
        queue.put_nowait(2)
        async with ends(session) as watched:
            async for item in watched.during(queue.get if how == "queue" else generated(queue)):
                given.append(item)
                if item == 2:
                    await online.aend(str(session.sid))
            return watched.end

    assert loop.run(follow()) == End(Reason.KICKED)
    assert given == [1, 2]
    assert closed == ([] if how == "queue" else [True])


def test_a_source_that_has_no_more_or_fails_is_over(loop, new_session) -> None:
    session = new_session(user="7")

    async def few() -> AsyncIterator[int]:
        yield 1
        raise LookupError

    async def none() -> AsyncIterator[int]:
        for number in ():
            yield number

    async def follow() -> None:
        async with ends(session) as watched:
            assert [item async for item in watched.during(none())] == []
            items = watched.during(few())
            assert await anext(items) == 1
            with pytest.raises(LookupError):
                await anext(items)
            assert watched.end is None

    loop.run(follow())


def test_all_that_is_watched_costs_one_round_trip(loop, round_trips, commands, new_session) -> None:
    sids = [str(new_session(basket=number).sid) for number in range(3)]
    for _ in range(400):
        for sid in sids:
            loop.watch(sid)
    many = [SessionStore() for _ in range(1001)]
    for each in many:
        each.create()
        loop.watch(each)
    loop.looked()
    commands()
    round_trips()
    before = loop.looks
    loop.looked(4)
    asked, looks = round_trips(), loop.looks - before
    assert abs(asked - looks) <= 1
    # 1 004 sessions are watched.
    assert commands()["zmscore"] in range(3 * (looks - 1), 3 * (looks + 2) + 1)
    loop.leave()
    round_trips()
    assert loop.run(asyncio.sleep(0.1)) is None
    assert round_trips() == 0


def test_spans_of_a_look_do_not_belong_to_who_watches_first(loop, monkeypatch, new_session) -> None:
    request: ContextVar[str] = ContextVar("request", default="none")
    asked: list[str] = []
    ask_each = ended_sessions.ask_each

    def asking(*args: Any, **more: Any) -> Any:
        asked.append(request.get())
        return ask_each(*args, **more)

    monkeypatch.setattr(ended_sessions, "ask_each", asking)

    async def watch() -> None:
        request.set("the first")
        async with ends(new_session(user="7")):
            while not asked:
                await asyncio.sleep(0.01)

    loop.run(watch())
    assert set(asked) == {"none"}


def test_a_loop_may_end_while_something_is_watched(fast, new_session, caplog) -> None:
    session = new_session(user="7")

    async def leave_open() -> Any:
        context = ends(session)
        await context.__aenter__()
        await asyncio.sleep(0.1)
        return context

    ended = asyncio.new_event_loop()
    context = ended.run_until_complete(leave_open())
    ended.run_until_complete(ended.shutdown_asyncgens())
    ended.close()
    del context

    async def watch() -> None:
        async with ends(session):
            await asyncio.sleep(0.1)

    # In a loop that begins afterwards it is watched anew, and nothing is under way when nobody watches.
    other = asyncio.new_event_loop()
    other.run_until_complete(watch())
    assert asyncio.all_tasks(other) == set()
    other.run_until_complete(other.shutdown_asyncgens())
    other.close()
    gc.collect()
    assert [each for each in caplog.records if each.levelno >= logging.WARNING] == []


def test_what_is_no_session_of_this_engine_is_refused(loop, new_session) -> None:
    for wrong in (SignedCookies(), None, 7):
        with pytest.raises(TypeError):
            loop.watch(wrong)
    key = str(new_session(user="7").session_key)
    with pytest.raises(ValueError, match="no sid") as raised:
        loop.watch(key)
    shows_key = key in str(raised.value)
    assert not shows_key


def test_a_lazy_session_is_watched_and_one_without_key_never_ends(loop, new_session) -> None:
    session = new_session(user="7")
    watched, without = loop.watch(SimpleLazyObject(lambda: session)), loop.watch(SessionStore())
    online.end_all()
    assert loop.end_of(watched) == End(Reason.KICKED)
    assert (without.sid, without.end) == (None, None)


def test_a_record_that_the_site_did_not_write_is_no_session(loop, redis, new_session, left_alone) -> None:
    session = new_session(user="7")
    redis.hset(keyspace().of_sid(str(session.sid)).login, str(session.sid), b"foreign")
    assert loop.watch(str(session.sid)).end == End(None)


tenant: ContextVar[str] = ContextVar("tenant")


@pytest.fixture
def tenants(settings, redis) -> Iterator[None]:
    before = settings.REDSESS
    settings.REDSESS = {**before, "PREFIX": tenant.get}
    yield
    settings.REDSESS = before
    redis.flushall()


def test_tenants_are_watched_in_one_loop(loop, tenants) -> None:

    async def watch(name: str) -> Any:
        tenant.set(name)
        session = SessionStore()
        await session.acreate()
        context = ends(session)
        watched = await context.__aenter__()
        return session, context, watched

    async def both() -> None:
        kept = await asyncio.create_task(watch("paris"))
        session, context, watched = await asyncio.create_task(watch("berlin"))
        tenant.set("berlin")
        await online.aend(str(session.sid))
        assert await watched.wait() == End(None)
        assert kept[2].end is None
        await context.__aexit__(None, None, None)
        await kept[1].__aexit__(None, None, None)

    loop.run(both())


def test_a_fault_is_logged_once_and_does_not_end_the_looking(loop, monkeypatch, new_session, caplog) -> None:
    session = new_session(user="7")
    watched = loop.watch(session)
    with monkeypatch.context() as patch:
        patch.setattr(ended_sessions, "batches", lambda *args: 1 / 0)
        loop.looked(4)
    online.end(str(session.sid))
    assert loop.end_of(watched) == End(Reason.KICKED)
    assert len([each for each in caplog.records if each.levelno >= logging.ERROR]) == 1
