"""Who is told that a session has ended: once, why, and when."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.test import AsyncClient, Client
from django.urls import include, path

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.cleaning import cleaner
from django_redsess.session import capacity, operations
from django_redsess.signals import Ended, Reason, session_ended
from django_redsess.transport.keys import keyspace
from tests.support.behind import make_due, make_seen, text_of
from tests.support.visitors import Browser

Told = list[Ended]


@pytest.fixture(autouse=True)
def cleans_along_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new session takes along what is due or too many, be it one."""
    monkeypatch.setattr(capacity, "ALONG_MIN", 1)


@pytest.fixture
def connect() -> Iterator[Callable[[Callable[..., Any]], None]]:
    """Return a function that connects a receiver until the test is over."""
    receivers = []

    def connect_until_the_end(receiver: Callable[..., Any]) -> None:
        # The signal holds receivers weakly; here they live as long as they are connected.
        receivers.append(receiver)
        session_ended.connect(receiver)

    yield connect_until_the_end
    for receiver in receivers:
        session_ended.disconnect(receiver)


@pytest.fixture
def told(connect) -> Told:
    """The ends that were told, in order."""
    heard: Told = []

    def receive(signal, sender, **named) -> None:
        heard.append(Ended(**named))

    connect(receive)
    return heard


def ends(told: Told) -> list[tuple[str, str, str]]:
    """Sid, user id and reason of each, without when."""
    return [(each.sid, each.user_id, each.reason) for each in told]


def user_elsewhere(sid: str) -> str:
    """Return a user id whose home is another partition than that of ``sid``: any user, where there is only one."""
    ids = [str(number) for number in range(100)]
    return next((user_id for user_id in ids if not operations.at_home(sid, user_id)), ids[0])


def add_session(user: str) -> None:
    session = SessionStore()
    session[SESSION_KEY] = user
    session.save()


# What a receiver gets.


def test_a_receiver_gets_who_why_and_when_and_nothing_else(connect, redis, new_session) -> None:
    heard: list[dict[str, Any]] = []

    def receive(**named) -> None:
        heard.append(named)

    connect(receive)
    session = new_session("7", colour="a secret colour")
    online.end(session.sid)
    (named,) = heard
    assert set(named) == {"signal", "sender", "sid", "user_id", "reason", "at"}
    assert (named["signal"], named["sender"]) == (session_ended, Ended)
    assert (named["sid"], named["user_id"], named["reason"]) == (session.sid, "7", Reason.KICKED)
    shown = repr(named)
    # Compared before the assert: pytest would print the key.
    shows_key, shows_data = session.session_key in shown, "a secret colour" in shown
    assert not shows_key
    assert not shows_data


def test_the_time_is_the_servers_and_aware(redis, told, new_session) -> None:
    session = new_session("7")
    before = redis.time()
    session.delete()
    after = redis.time()
    assert told[0].at.tzinfo is UTC
    # What is told is in whole milliseconds.
    at = told[0].at.timestamp()
    assert before[0] + before[1] / 1e6 - 0.001 <= at <= after[0] + after[1] / 1e6


def test_the_reason_is_text_too(told, new_session) -> None:
    new_session("7").delete()
    assert told[0].reason == "invalidated"
    assert json.dumps(told[0].reason) == '"invalidated"'


def test_a_guests_end_names_no_user(told, new_session) -> None:
    session = new_session(colour="blue")
    session.delete()
    assert ends(told) == [(session.sid, "", "invalidated")]


@pytest.mark.parametrize(
    "user_id",
    ["a:b:", ":", "jürgen", "日本語", "x" * 255, "ü" * 127 + "x", "a b\nc", "a\x00b", "\x1b[31m"],
    ids=["colons", "a colon", "umlaut", "japanese", "255 bytes", "255 bytes of umlauts", "newline", "NUL", "escape"],
)
@pytest.mark.usefixtures("partitions")
def test_any_user_id_arrives_intact(told, redis, new_session, user_id: str) -> None:
    sids = [new_session(user_id).sid for _ in range(2)]
    make_due(redis, sids[0])
    assert sum(cleaner.expired()) == 1
    online.end(sids[1])
    assert ends(told) == [(sids[0], user_id, "expired"), (sids[1], user_id, "kicked")]


# Every way to end.

WAYS_TO_DELETE: dict[str, Callable[[str], object]] = {
    "flush": lambda key: SessionStore(key).flush(),
    "delete": lambda key: SessionStore(key).delete(),
    "delete of another": lambda key: SessionStore().delete(key),
    "aflush": lambda key: async_to_sync(SessionStore(key).aflush)(),
    "adelete": lambda key: async_to_sync(SessionStore(key).adelete)(),
    "adelete of another": lambda key: async_to_sync(SessionStore().adelete)(key),
}

WAYS_TO_EXPIRE: dict[str, Callable[[], object]] = {
    "cleaner": lambda: list(cleaner.expired()),
    "clear_expired": SessionStore.clear_expired,
    "aclear_expired": lambda: async_to_sync(SessionStore.aclear_expired)(),
    "clearsessions": lambda: call_command("clearsessions"),
    "cleansessions": lambda: call_command("cleansessions", verbosity=0),
    "create": lambda: add_session("7"),
    "count": online.count,
    "count of a user": lambda: online.count(user_ids=["7"]),
    "sessions": online.sessions,
    "sessions of a user": lambda: online.sessions(user_ids=["7"]),
}

WAYS_TO_EVICT: dict[str, Callable[[], object]] = {
    "cleaner": lambda: list(cleaner.evicted()),
    "cleansessions": lambda: call_command("cleansessions", verbosity=0),
    "create": lambda: add_session("7"),
}


@pytest.mark.parametrize("way", WAYS_TO_DELETE)
@pytest.mark.usefixtures("partitions")
def test_what_code_deletes_is_invalidated(told, new_session, way: str) -> None:
    session = new_session("7")
    sid = session.sid
    new_session("7")
    WAYS_TO_DELETE[way](session.session_key)
    assert ends(told) == [(sid, "7", "invalidated")]


@pytest.mark.parametrize("way", WAYS_TO_EXPIRE)
@pytest.mark.usefixtures("partitions")
def test_what_is_due_expires_whoever_finds_it(told, redis, new_session, way: str) -> None:
    sid = new_session("7").sid
    new_session("7")
    make_due(redis, sid)
    WAYS_TO_EXPIRE[way]()
    assert ends(told) == [(sid, "7", "expired")]
    WAYS_TO_EXPIRE[way]()
    assert len(told) == 1


@pytest.mark.parametrize("way", WAYS_TO_EVICT)
def test_what_is_too_much_is_evicted(told, redis, new_session, settings, partitions, way: str) -> None:
    sids = [new_session("7").sid for _ in range(3)]
    make_seen(redis, sids[0], 1000)
    # All sessions of a user are in one partition, which has its share of the maximum.
    settings.REDSESS = {"MAX_SESSIONS": partitions * (3 if way == "create" else 2)}
    WAYS_TO_EVICT[way]()
    assert ends(told) == [(sids[0], "7", "evicted")]


@pytest.mark.usefixtures("partitions")
def test_what_an_administrator_ends_is_kicked(told, new_session) -> None:
    sids = [new_session(user).sid for user in ("7", "7", "8", "")]
    assert sorted(online.end(*sids)) == sorted(told)
    assert sorted(ends(told)) == sorted(
        (sid, user, "kicked") for sid, user in zip(sids, ("7", "7", "8", ""), strict=True)
    )


@pytest.mark.django_db
def test_the_admins_action_kicks(admin_client, told, new_session) -> None:
    user = User.objects.create_user("alice")
    sids = [new_session(str(user.pk)).sid for _ in range(3)]
    admin_client.post("/admin/django_redsess/onlinesession/end/", {"sids": " ".join(sids[:2])})
    assert sorted(ends(told)) == sorted((sid, str(user.pk), "kicked") for sid in sids[:2])


@pytest.mark.django_db
def test_the_admin_who_ends_the_own_session_is_told_of_once(admin_client, admin_user, told) -> None:
    sid = SessionStore(admin_client.cookies["sessionid"].value).sid
    admin_client.post("/admin/django_redsess/onlinesession/end/", {"sids": sid, "own": "on"})
    assert ends(told) == [(sid, str(admin_user.pk), "kicked")]


@pytest.mark.usefixtures("partitions")
def test_every_end_of_a_thousand_at_once_is_told(told, new_session) -> None:
    sids = [new_session(f"user {number % 50}").sid for number in range(1000)]
    assert len(online.end(*sids)) == 1000
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_ends_of_large_sessions_are_told_though_they_take_several_calls(told, new_session) -> None:
    sids = [new_session("7", text=text_of(400_000)).sid for _ in range(7)]
    online.end(*sids)
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_of_two_cleaners_at_once_one_tells_each_end(told, redis, new_session) -> None:
    # Due only when all are there: each create would clean up others.
    sids = [new_session(f"user {number % 9}").sid for number in range(500)]
    make_due(redis, *sids)
    both = threading.Barrier(2)

    def clean() -> None:
        both.wait(10)
        list(cleaner.expired(batch_size=7))

    threads = [threading.Thread(target=clean) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.sid for each in told) == sorted(sids)


# What is no end.


def counted(redis) -> dict[bytes, bytes]:
    """What the store has counted of ends, by reason."""
    totals = [redis.hgetall(partition.totals) for partition in keyspace().partitions]
    return {reason: count for each in totals for reason, count in each.items() if reason != b"created"}


@pytest.mark.usefixtures("partitions")
def test_a_rotation_is_no_end(redis, told, new_session) -> None:
    session = new_session("7", colour="blue")
    session.cycle_key()
    session.save()
    session = new_session(colour="blue")
    session.cycle_key()
    session.save()
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
def test_a_sign_in_is_no_end(redis, told, new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    session.signed_in()
    session.save()
    assert online.count() == 1
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
def test_an_asynchronous_sign_in_is_no_end(told, new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    user_id = user_elsewhere(session.sid)

    async def sign_in() -> None:
        await session.acycle_key()
        await session.aset(SESSION_KEY, user_id)
        await session.asave()

    async_to_sync(sign_in)()
    assert online.count() == 1
    assert told == []


@pytest.mark.usefixtures("partitions")
def test_a_sign_in_that_must_try_again_is_no_end(redis, told, new_session) -> None:
    # Where the home of the user is elsewhere, the first try has made a session there, and takes it back.
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    other = SessionStore(session.pending.rotates_from)
    other["size"] = 1
    other.save()
    session.save()
    assert (session["colour"], session["size"]) == ("blue", 1)
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
def test_a_sign_in_that_comes_too_late_is_no_second_end(told, new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    sid = session.stored_sid
    online.end(sid)
    with pytest.raises(UpdateError):
        session.save()
    assert ends(told) == [(sid, "", "kicked")]


@pytest.mark.usefixtures("partitions")
def test_ending_what_is_gone_tells_nothing(told, new_session) -> None:
    session = new_session("7")
    sid, key = session.sid, session.session_key
    session.delete()
    told.clear()
    online.end(sid)
    for delete in WAYS_TO_DELETE.values():
        delete(key)
    list(cleaner.expired())
    SessionStore().flush()
    SessionStore("no such session " + "x" * 20).delete()
    assert told == []


@pytest.mark.usefixtures("partitions")
def test_use_and_change_tell_nothing(told, new_session) -> None:
    session = new_session("7", colour="blue")
    session["colour"] = "red"
    session.save()
    assert SessionStore(session.session_key)["colour"] == "red"
    del session[SESSION_KEY]
    session.save()
    assert told == []


# Requests. The views below end sessions on their way, each for one or two tests; the others are those of the site.


def create_three(request: HttpRequest) -> HttpResponse:
    for _ in range(3):
        add_session("7")
    return HttpResponse("created")


async def async_create_three(request: HttpRequest) -> HttpResponse:
    for _ in range(3):
        session = SessionStore()
        await session.aset(SESSION_KEY, "7")
        await session.acreate()
    return HttpResponse("created")


def create_and_stream(request: HttpRequest) -> StreamingHttpResponse:
    create_three(request)
    return StreamingHttpResponse(iter([b"begun, ", b"and done"]))


async def async_create_and_stream(request: HttpRequest) -> StreamingHttpResponse:
    await async_create_three(request)

    async def parts():
        yield b"begun, "
        yield b"and done"

    return StreamingHttpResponse(parts())


def end_and_fail(request: HttpRequest, sid: str) -> HttpResponse:
    online.end(sid)
    raise RuntimeError("the view fails")


def end_and_lose(request: HttpRequest, sid: str) -> HttpResponse:
    """End a session, and lose the own one to somebody else before it is saved."""
    online.end(sid)
    request.session["colour"] = "red"
    SessionStore().delete(request.session.session_key)
    return HttpResponse("never seen")


def end_in_the_stream(request: HttpRequest, sid: str) -> StreamingHttpResponse:
    def parts() -> Iterator[bytes]:
        yield b"begun, "
        online.end(sid)
        yield b"and done"

    return StreamingHttpResponse(parts())


# What the next two views end, the tasks that they leave behind, and what those wait for.
KEY: list[str] = []
TASKS: list[asyncio.Task[None]] = []
GO_ON: list[asyncio.Event] = []


async def leave_a_task(request: HttpRequest) -> HttpResponse:
    async def later() -> None:
        await GO_ON[0].wait()
        await SessionStore().adelete(KEY[0])

    TASKS.append(asyncio.create_task(later()))
    return HttpResponse("left")


async def end_and_wait(request: HttpRequest) -> HttpResponse:
    await SessionStore().adelete(KEY[0])
    await asyncio.sleep(10)
    return HttpResponse("never seen")


class NoAnswer:
    """A middleware above ours that gives another answer than the one it got."""

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        return HttpResponse("another")


class Fails(NoAnswer):
    """A middleware above ours that raises on the way out."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        raise RuntimeError("the middleware fails")


urlpatterns = [
    path("task/", leave_a_task),
    path("wait/", end_and_wait),
    path("create/", create_three),
    path("async/create/", async_create_three),
    path("stream/", create_and_stream),
    path("async/stream/", async_create_and_stream),
    path("fail/<sid>/", end_and_fail),
    path("lose/<sid>/", end_and_lose),
    path("end-in-the-stream/<sid>/", end_in_the_stream),
    path("", include("tests.site.urls")),
]


@pytest.fixture
def site(settings) -> None:
    """The views above, and the site of tests/site."""
    settings.ROOT_URLCONF = __name__


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site) -> Browser:
    """A visitor, over WSGI and over ASGI."""
    return Browser(request.param())


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", password="secret")


@pytest.mark.usefixtures("partitions")
def test_signing_out_is_a_logout(browser, alice, told) -> None:
    browser.sign_in(alice)
    sid = browser.sid
    assert browser.get(f"{browser.views}/sign-out/").content == b"out"
    assert ends(told) == [(sid, str(alice.pk), "logout")]


@pytest.mark.usefixtures("partitions")
def test_signing_in_tells_nothing(browser, alice, told) -> None:
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    browser.cookie = guest.session_key
    assert browser.get(f"{browser.views}/sign-in/alice/").content == b"in"
    assert browser.get("/who/").content == b"alice"
    assert told == []


@pytest.mark.usefixtures("partitions")
def test_another_user_who_signs_in_invalidates_the_session(browser, alice, told) -> None:
    User.objects.create_user("bob")
    browser.sign_in(alice)
    sid = browser.sid
    browser.get(f"{browser.views}/sign-in/bob/")
    assert browser.get("/who/").content == b"bob"
    assert ends(told) == [(sid, str(alice.pk), "invalidated")]


def test_a_new_password_invalidates_the_other_sessions(browser, alice, told) -> None:
    browser.sign_in(alice)
    sid = browser.sid
    alice.set_password("another")
    alice.save()
    assert browser.get("/who/").content == b"nobody"
    assert ends(told) == [(sid, str(alice.pk), "invalidated")]


def test_an_end_after_a_sign_out_is_no_sign_out(new_session, told) -> None:
    session = new_session("7")
    session.signed_out()
    session.flush()
    session.update({SESSION_KEY: "7"})
    session.save()
    session.flush()
    assert [each.reason for each in told] == ["logout", "invalidated"]


def test_three_creates_of_a_request_tell_all_that_they_removed(browser, redis, told, new_session) -> None:
    sids = [new_session("8").sid for _ in range(5)]
    make_due(redis, *sids)
    assert browser.get(f"{browser.views}/create/").content == b"created"
    assert sorted(ends(told)) == sorted((sid, "8", "expired") for sid in sids)


def test_a_view_that_fails_has_its_ends_told(browser, new_session, told) -> None:
    sid = new_session("7").sid
    assert browser.get(f"/fail/{sid}/").status_code == 500
    assert ends(told) == [(sid, "7", "kicked")]


@pytest.mark.parametrize("middleware", ["NoAnswer", "Fails"])
def test_ends_are_told_though_a_middleware_above_gives_another_answer(
    site, settings, redis, told, new_session, middleware: str
) -> None:
    settings.MIDDLEWARE = [f"{__name__}.{middleware}", *settings.MIDDLEWARE]
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    Browser(Client()).get("/create/")
    assert [each.reason for each in told] == ["expired"] * 5


def test_a_task_that_a_view_leaves_behind_tells_too(site, told, new_session) -> None:
    session = new_session("7")
    KEY[:] = [session.session_key]

    async def visit() -> None:
        TASKS.clear()
        GO_ON[:] = [asyncio.Event()]
        await AsyncClient().get("/task/")
        assert told == []
        GO_ON[0].set()
        await asyncio.gather(*TASKS)

    asyncio.run(visit())
    assert ends(told) == [(session.sid, "7", "invalidated")]


def test_a_visitor_who_leaves_does_not_keep_ends_from_being_told(site, told, new_session) -> None:
    session = new_session("7")
    KEY[:] = [session.session_key]
    scope = {"type": "http", "method": "GET", "path": "/wait/", "headers": [], "query_string": b""}

    async def visit() -> None:
        messages = iter([{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])

        async def receive() -> dict[str, Any]:
            message = next(messages)
            if message["type"] == "http.disconnect":
                while await SessionStore().aexists(KEY[0]):
                    await asyncio.sleep(0.01)
                await asyncio.sleep(0.05)
            return message

        async def send(message: dict[str, Any]) -> None:
            pass

        await ASGIHandler()(scope, receive, send)

    asyncio.run(visit())
    assert ends(told) == [(session.sid, "7", "invalidated")]


@pytest.mark.usefixtures("partitions")
def test_a_session_named_twice_is_told_once(told, new_session) -> None:
    sid = new_session("7").sid
    assert len(online.end(sid, sid)) == 1
    assert ends(told) == [(sid, "7", "kicked")]


def test_a_request_that_loses_its_session_has_its_ends_told(browser, new_session, told) -> None:
    own, other = new_session("7", colour="blue"), new_session("8")
    own_sid = own.sid
    browser.cookie = own.session_key
    assert browser.get(f"/lose/{other.sid}/").status_code == 400
    assert ends(told) == [(other.sid, "8", "kicked"), (own_sid, "7", "invalidated")]


def test_the_next_request_tells_nothing_of_the_one_before(browser, new_session, told) -> None:
    browser.get(f"/fail/{new_session('7').sid}/")
    told.clear()
    browser.get("/read/colour/")
    assert told == []


def ask_over_wsgi(path: str, order: list[str]) -> None:
    """Be a WSGI server: note when each part of the answer is out."""
    environ: dict[str, Any] = {"PATH_INFO": path}
    setup_testing_defaults(environ)
    parts = WSGIHandler()(environ, lambda status, headers, exc_info=None: order.append(status[:3]))
    for part in parts:
        order.append(part.decode())
    order.append("all is out")
    parts.close()


def ask_over_asgi(path: str, order: list[str]) -> None:
    """Be an ASGI server: note when each part of the answer is out."""
    scope = {"type": "http", "method": "GET", "path": path, "headers": [], "query_string": b""}

    async def ask() -> None:
        requests = iter([{"type": "http.request", "body": b"", "more_body": False}])

        async def receive() -> dict[str, Any]:
            for message in requests:
                return message
            # The visitor stays until the answer is there.
            return await asyncio.Future()

        async def send(message: dict[str, Any]) -> None:
            if message["type"] == "http.response.start":
                order.append(str(message["status"]))
                return
            if message.get("body"):
                order.append(message["body"].decode())
            if not message.get("more_body", False):
                order.append("all is out")

        await ASGIHandler()(scope, receive, send)

    asyncio.run(ask())


SERVERS = {"wsgi": ask_over_wsgi, "asgi": ask_over_asgi}

# Django warns where a stream does not suit the way the site is served: that is on purpose here.
any_stream = pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning")


@any_stream
@pytest.mark.django_db
@pytest.mark.parametrize("view", ["/create/", "/async/create/", "/stream/", "/async/stream/"])
@pytest.mark.parametrize("server_of_site", SERVERS)
def test_what_creates_removed_is_told_after_the_last_byte(
    redis, connect, new_session, site, view: str, server_of_site: str
) -> None:
    order: list[str] = []
    make_due(redis, *(new_session("8").sid for _ in range(5)))

    def receive(reason, **named) -> None:
        order.append(f"told of one {reason}")

    connect(receive)
    SERVERS[server_of_site](view, order)
    out = order.index("all is out")
    # In how many parts a stream comes depends on the server.
    assert (order[0], "".join(order[1:out])) == ("200", "created" if "create" in view else "begun, and done")
    assert order[out + 1 :] == ["told of one expired"] * 5


@any_stream
@pytest.mark.django_db
@pytest.mark.parametrize("server_of_site", SERVERS)
def test_what_ends_while_the_answer_goes_out_is_told_at_once(connect, new_session, site, server_of_site):
    order: list[str] = []

    def receive(**named) -> None:
        order.append("told")

    connect(receive)
    SERVERS[server_of_site](f"/end-in-the-stream/{new_session('7').sid}/", order)
    assert order.count("told") == 1


def test_outside_a_request_an_end_is_told_before_the_call_returns(told, new_session) -> None:
    session = new_session("7")
    session.delete()
    assert len(told) == 1
    online.end(new_session("7").sid)
    assert len(told) == 2


# Receivers.


@pytest.mark.django_db(transaction=True)
def test_a_receiver_may_use_the_database(site, connect, redis, new_session) -> None:
    def receive(sid, **named) -> None:
        User.objects.create(username=sid)

    connect(receive)
    sids = {new_session("8").sid for _ in range(5)}
    make_due(redis, *sids)
    Browser(Client()).get("/create/")
    assert set(User.objects.values_list("username", flat=True)) == sids


@pytest.mark.django_db(transaction=True)
def test_a_synchronous_receiver_of_an_asynchronous_end_may_use_the_database(connect, new_session) -> None:
    def receive(sid, **named) -> None:
        User.objects.create(username=sid)

    connect(receive)
    session = new_session("7")
    sid = session.sid
    async_to_sync(session.adelete)()
    assert User.objects.get().username == sid


def test_an_asynchronous_receiver_is_told(browser, told, connect, redis, new_session) -> None:
    heard = []

    async def receive(sid, **named) -> None:
        await asyncio.sleep(0)
        heard.append(sid)

    connect(receive)
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    browser.get(f"{browser.views}/create/")
    assert len(heard) == 5
    assert heard == [each.sid for each in told]


@pytest.mark.parametrize("way", ["delete", "adelete"])
def test_an_asynchronous_receiver_is_told_before_the_call_returns(connect, new_session, way: str) -> None:
    heard = []

    async def receive(sid, **named) -> None:
        await asyncio.sleep(0)
        heard.append(sid)

    connect(receive)
    session = new_session("7")
    sid = session.sid
    WAYS_TO_DELETE[way](session.session_key)
    assert heard == [sid]


def test_an_acreate_tells_what_it_removed(told, redis, new_session) -> None:
    make_due(redis, sid := new_session("7").sid)
    async_to_sync(SessionStore().acreate)()
    assert ends(told) == [(sid, "7", "expired")]


class BrokenReceiverError(Exception):
    pass


@pytest.fixture
def broken(connect, told) -> None:
    """Receivers that raise, connected between others."""

    def fails(**named) -> None:
        raise BrokenReceiverError

    async def fails_too(**named) -> None:
        raise BrokenReceiverError

    connect(fails)
    connect(fails_too)


@pytest.fixture
def told_last(broken, connect) -> Told:
    """What a receiver is told that was connected after those that raise."""
    heard: Told = []

    def receive(signal, sender, **named) -> None:
        heard.append(Ended(**named))

    connect(receive)
    return heard


def failures(caplog) -> int:
    """How many failures of receivers were logged."""
    lines = [line for line in caplog.records if line.name == "django.dispatch" and line.levelno == logging.ERROR]
    assert all(line.exc_info and line.exc_info[0] is BrokenReceiverError for line in lines)
    return len(lines)


def test_a_receiver_that_raises_is_logged_and_does_not_stop_the_cleaner(
    redis, new_session, told, told_last, caplog
) -> None:
    sids = [new_session("7").sid for _ in range(5)]
    make_due(redis, *sids)
    assert sum(cleaner.expired(batch_size=2)) == 5
    assert len(told) == len(told_last) == 5
    assert failures(caplog) == 10


def test_a_receiver_that_raises_does_not_stop_a_request(
    browser, alice, redis, new_session, told, told_last, caplog
) -> None:
    browser.sign_in(alice)
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    told.clear(), told_last.clear(), caplog.clear()
    assert browser.get(f"{browser.views}/create/").status_code == 200
    assert browser.get(f"{browser.views}/sign-out/").status_code == 200
    assert [each.reason for each in told_last] == [each.reason for each in told]
    assert told[-1].reason == "logout"
    assert failures(caplog) == 2 * len(told)


@pytest.mark.parametrize("way", WAYS_TO_DELETE)
def test_a_receiver_that_raises_does_not_stop_code_that_ends(new_session, told_last, way: str) -> None:
    key = new_session("7").session_key
    WAYS_TO_DELETE[way](key)
    assert len(told_last) == 1


@pytest.mark.usefixtures("partitions")
def test_a_receiver_may_end_other_sessions(told, connect, new_session) -> None:
    sids = [new_session("7").sid for _ in range(3)]

    def end_all(user_id, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[user_id])))

    connect(end_all)
    online.end(sids[0])
    assert sorted(ends(told)) == sorted((sid, "7", "kicked") for sid in sids)


def test_a_receiver_may_end_other_sessions_after_a_request(browser, alice, told, connect, new_session) -> None:
    others = [new_session(str(alice.pk)).sid for _ in range(2)]
    browser.sign_in(alice)
    own = browser.sid

    def end_all(user_id, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[user_id])))

    connect(end_all)
    browser.get(f"{browser.views}/sign-out/")
    assert ends(told)[0] == (own, str(alice.pk), "logout")
    assert sorted(ends(told)[1:]) == sorted((sid, str(alice.pk), "kicked") for sid in others)


def test_a_record_whose_user_is_no_text_is_told_all_the_same(told, redis, new_session) -> None:
    session = new_session("7")
    partition = keyspace().of_sid(session.sid)
    record = redis.hget(partition.login, session.sid)
    redis.hset(partition.login, session.sid, record[:29] + b"\xff" + record[30:])
    redis.rename(partition.online_user_of("7"), partition.online_user_of("").encode() + b"\xff")
    make_due(redis, session.sid)
    assert sum(cleaner.expired()) == 1
    assert ends(told) == [(session.sid, "\ufffd", "expired")]


def test_what_is_told_can_be_put_in_order(told, new_session) -> None:
    began = datetime.now(UTC)
    for _ in range(5):
        new_session("7").delete()
    times = [each.at for each in told]
    assert times == sorted(times)
    assert abs((times[0] - began).total_seconds()) < 60


def test_a_record_that_somebody_cut_short_is_ended_like_any_other(redis, told, new_session) -> None:
    sid, other = new_session("7").sid, new_session("8").sid
    [partition] = keyspace().partitions
    record = redis.hget(partition.login, sid)
    # Its user id would go on for longer than it does itself.
    redis.hset(partition.login, sid, record[:28] + b"\xff" + record[29:37])
    make_due(redis, sid, other)
    assert sum(cleaner.expired()) == 2
    assert sorted(ends(told)) == sorted([(sid, "", "expired"), (other, "8", "expired")])
    # Whose it was nobody knew: the user's list still has it.
    redis.flushall()
