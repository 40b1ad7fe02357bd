"""The signal of ends: what receivers are told of each way to end, what is no end, and when they are told."""

import asyncio
import json
import logging
import threading
from collections.abc import Callable
from datetime import UTC
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
from django.test import AsyncClient, Client

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.session import eviction
from django_redsess.signals import BegunSession, EndedSession, Reason, sessions_began, sessions_ended
from django_redsess.transport.keys import keyspace
from tests.helpers.online import WAYS_TO_DELETE, add_session, ends, notice_of, user_elsewhere
from tests.helpers.site.ends import GO_ON, KEY, TASKS
from tests.helpers.store import make_due, make_seen, text_of
from tests.helpers.visitors import Browser


@pytest.fixture(autouse=True)
def cleans_along_at_once(monkeypatch) -> None:
    """A new session takes along what is due or too many, be it one."""
    monkeypatch.setattr(eviction, "ALONG_MIN", 1)


@pytest.fixture
def site(settings) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site) -> Browser:
    return Browser(request.param())


def test_a_receiver_gets_who_why_and_when_and_nothing_else(batches, redis, new_session) -> None:
    before_begin = redis.time()
    session = new_session("7", colour="a secret colour")
    before = redis.time()
    # It is told once, though named twice.
    [ended] = online.end(session.sid, session.sid)
    after = redis.time()
    told = batches[-1]
    assert told == {"signal": sessions_ended, "sender": EndedSession, "sessions": [ended], "request": None}
    assert (ended.sid, ended.user_id, ended.reason) == (session.sid, "7", Reason.KICKED)
    assert json.dumps(ended.reason) == '"kicked"'
    assert before_begin[0] - 0.001 <= ended.created_at.timestamp() <= before[0] + before[1] / 1e6
    # The time is the server's, and aware. What is told is in whole milliseconds.
    assert ended.ended_at.tzinfo is UTC
    assert before[0] + before[1] / 1e6 - 0.001 <= ended.ended_at.timestamp() <= after[0] + after[1] / 1e6
    shown = repr(told)
    # Compared before the assert: pytest would print the key.
    shows_key, shows_data = session.session_key in shown, "a secret colour" in shown
    assert not shows_key
    assert not shows_data


@pytest.mark.parametrize(
    "user_id",
    ["a:b:", "ü" * 127 + "x", "a\x00b\nc", "*"],
    ids=["colons", "255 bytes of umlauts", "control characters", "pattern"],
)
@pytest.mark.usefixtures("partitions")
def test_any_user_id_arrives_intact(told, redis, new_session, user_id: str) -> None:
    sids = [new_session(user_id).sid for _ in range(2)]
    assert {found.sid for found in online.sessions(user_ids=[user_id])} == {*sids}
    make_due(redis, sids[0])
    assert sum(cleaning.expire_sessions()) == 1
    online.end(sids[1])
    assert ends(told) == [(sids[0], user_id, "expired"), (sids[1], user_id, "kicked")]


WAYS_TO_EXPIRE: dict[str, Callable[[], object]] = {
    "cleaner": lambda: list(cleaning.expire_sessions()),
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
    "cleaner": lambda: list(cleaning.evict_sessions()),
    "cleansessions": lambda: call_command("cleansessions", verbosity=0),
    "create": lambda: add_session("7"),
}


@pytest.mark.parametrize("way", WAYS_TO_DELETE)
@pytest.mark.parametrize("user_id", ["7", ""], ids=["user", "guest"])
@pytest.mark.usefixtures("partitions")
def test_what_code_deletes_is_invalidated(told, new_session, way: str, user_id: str) -> None:
    session = new_session(user_id, colour="blue")
    sid = session.sid
    new_session("7")
    WAYS_TO_DELETE[way](session.session_key)
    assert ends(told) == [(sid, user_id, "invalidated")]


@pytest.mark.parametrize("way", WAYS_TO_EXPIRE)
@pytest.mark.usefixtures("partitions")
def test_what_is_due_expires_whoever_finds_it(told, redis, new_session, way: str) -> None:
    session, _ = new_session("7"), new_session("7")
    make_due(redis, session.sid)
    WAYS_TO_EXPIRE[way]()
    assert ends(told) == [(session.sid, "7", "expired")]
    assert notice_of(session).reason == "expired"
    assert not redis.hexists(keyspace().of_sid(session.sid).login, session.sid)
    WAYS_TO_EXPIRE[way]()
    assert len(told) == 1


@pytest.mark.parametrize("way", WAYS_TO_EVICT)
def test_what_is_too_much_is_evicted(told, redis, new_session, settings, partitions, way: str) -> None:
    session, *_ = [new_session("7") for _ in range(3)]
    make_seen(redis, session.sid, 1000)
    # All sessions of a user are in one partition, which has its share of the maximum.
    settings.REDSESS = {"MAX_SESSIONS": partitions * (3 if way == "create" else 2)}
    WAYS_TO_EVICT[way]()
    assert ends(told) == [(session.sid, "7", "evicted")]
    assert notice_of(session).reason == "evicted"


@pytest.mark.parametrize(("count", "size"), [(600, 1), (7, 400_000)], ids=["many", "large"])
@pytest.mark.usefixtures("partitions")
def test_every_end_of_those_that_take_several_calls_is_told(told, new_session, count: int, size: int) -> None:
    sids = [new_session(f"user {number % 50}", text=text_of(size)).sid for number in range(count)]
    assert len(online.end(*sids)) == count
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.usefixtures("partitions")
def test_of_two_cleaners_at_once_one_tells_each_end(told, redis, new_session) -> None:
    # Due only when all are there: each create would clean up others.
    sids = [new_session(f"user {number % 9}").sid for number in range(150)]
    make_due(redis, *sids)
    both = threading.Barrier(2)

    def clean() -> None:
        both.wait(10)
        list(cleaning.expire_sessions(batch_size=7))

    threads = [threading.Thread(target=clean) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.sid for each in told) == sorted(sids)


@pytest.mark.parametrize(
    ("at", "kept", "user_id"), [(18, None, "\ufffd"), (17, 26, "")], ids=["the user is no text", "cut short"]
)
def test_the_end_of_a_damaged_record_is_told_as_any_other(
    told, redis, new_session, at: int, kept: int | None, user_id: str
) -> None:
    # The second one's user id would go on for longer than it does itself.
    session, other = new_session("7"), new_session("8")
    partition = keyspace().of_sid(session.sid)
    record = redis.hget(partition.login, session.sid)
    redis.hset(partition.login, session.sid, record[:at] + b"\xff" + record[at + 1 : kept])
    make_due(redis, session.sid, other.sid)
    assert sum(cleaning.expire_sessions()) == 2
    assert sorted(ends(told)) == sorted([(session.sid, user_id, "expired"), (other.sid, "8", "expired")])
    # Whose it was nobody knew: the user's list still has it.
    redis.flushall()


def counted(redis) -> dict[bytes, bytes]:
    """What the store has counted of ends, by reason."""
    totals = [redis.hgetall(partition.totals) for partition in keyspace().partitions]
    return {reason: count for each in totals for reason, count in each.items() if reason != b"created"}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("user", ["7", ""])
def test_neither_a_rotation_nor_use_is_an_end(redis, told, new_session, user: str) -> None:
    session = new_session(user, colour="blue")
    session["colour"] = "red"
    session.save()
    session.cycle_key()
    session.save()
    assert SessionStore(session.session_key)["colour"] == "red"
    session.pop(SESSION_KEY, None)
    session.save()
    assert told == []
    assert counted(redis) == {}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("again", [False, True], ids=["", "that must try again"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_sign_in_is_no_end(redis, told, new_session, again: bool, is_async: bool) -> None:
    # Where the home of the user is elsewhere, the first try has made a session there, and takes it back.
    session = SessionStore(new_session(colour="blue").session_key)
    session.cycle_key()
    session[SESSION_KEY] = user_elsewhere(session.stored_sid)
    session.signed_in()
    if again:
        other = SessionStore(session.pending.rotates_from)
        other["size"] = 1
        other.save()
    async_to_sync(session.asave)() if is_async else session.save()
    assert (session["colour"], session.get("size"), online.count()) == ("blue", 1 if again else None, 1)
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
    list(cleaning.expire_sessions())
    SessionStore().flush()
    SessionStore("no such session " + "x" * 20).delete()
    assert told == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["/create/", "delete", "adelete"])
def test_receivers_may_use_the_database_and_be_asynchronous(
    browser, told, connect, redis, new_session, end: str
) -> None:
    heard = []

    async def receive(sessions, **named) -> None:
        await asyncio.sleep(0)
        heard.extend(each.sid for each in sessions)

    connect(receive)
    connect(lambda sessions, **named: User.objects.bulk_create(User(username=each.sid) for each in sessions))
    sessions = [new_session("8") for _ in range(5)]
    if end in WAYS_TO_DELETE:
        for number, session in enumerate(sessions, 1):
            WAYS_TO_DELETE[end](session.session_key)
            # They are called before that returns.
            assert len(heard) == number
    else:
        make_due(redis, *(session.sid for session in sessions))
        browser.get(f"{browser.views}{end}")
    assert heard == [each.sid for each in told]
    assert sorted(heard) == sorted(session.sid for session in sessions)
    assert set(User.objects.values_list("username", flat=True)) == set(heard)


class BrokenReceiverError(Exception):
    pass


@pytest.fixture
def failures(connect, caplog) -> Callable[[], int]:
    """Connect two receivers that raise, one of them asynchronous; return a function that counts what is logged."""

    def fails(**named) -> None:
        raise BrokenReceiverError

    async def fails_too(**named) -> None:
        raise BrokenReceiverError

    connect(fails)
    connect(fails_too)

    def count() -> int:
        lines = [line for line in caplog.records if line.name == "django.dispatch" and line.levelno == logging.ERROR]
        assert all(line.exc_info and line.exc_info[0] is BrokenReceiverError for line in lines)
        return len(lines)

    return count


# The receiver that is told is connected last.
def test_a_receiver_that_raises_is_logged_and_stops_neither_what_ends_nor_a_request(
    browser, alice, redis, new_session, failures, told
) -> None:
    sessions = [new_session("7") for _ in range(7)]
    make_due(redis, *(session.sid for session in sessions[2:]))
    assert sum(cleaning.expire_sessions(batch_size=2)) == 5
    for way, session in zip(("delete", "adelete"), sessions, strict=False):
        WAYS_TO_DELETE[way](session.session_key)
    # The cleaner tells in batches of two, and then each delete of one.
    assert (len(told), failures()) == (7, 2 * (3 + 2))
    browser.sign_in(alice)
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    for path in ("create", "sign-out"):
        assert browser.get(f"{browser.views}/{path}/").status_code == 200
    assert [each.reason for each in told[7:]] == ["expired"] * 5 + ["logout"]
    assert failures() == 2 * (3 + 2 + 1 + 1)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("first", ["kicked", "logout"])
def test_a_receiver_may_end_other_sessions(browser, alice, told, connect, new_session, first: str) -> None:
    user_id = str(alice.pk)
    others = [new_session(user_id).sid for _ in range(2)]
    browser.sign_in(alice)
    own = browser.sid

    def end_all(sessions, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[sessions[0].user_id])))

    connect(end_all)
    if first == "kicked":
        online.end(own)
    else:
        browser.get(f"{browser.views}/sign-out/")
    assert ends(told)[0] == (own, user_id, first)
    assert sorted(ends(told)[1:]) == sorted((sid, user_id, "kicked") for sid in others)


@pytest.mark.usefixtures("partitions")
def test_signing_in_ends_another_users_session_and_no_guests_and_signing_out_is_a_logout(
    browser, alice, new_session, told
) -> None:
    bob = User.objects.create_user("bob")
    browser.cookie = new_session(colour="blue").session_key
    browser.get(f"{browser.views}/sign-in/alice/")
    assert browser.get("/who/").content == b"alice"
    assert told == []
    of_alice = browser.sid
    browser.get(f"{browser.views}/sign-in/bob/")
    assert browser.get("/who/").content == b"bob"
    assert ends(told) == [(of_alice, str(alice.pk), "invalidated")]
    of_bob = browser.sid
    assert browser.get(f"{browser.views}/sign-out/").content == b"out"
    assert ends(told)[1:] == [(of_bob, str(bob.pk), "logout")]


def test_a_new_password_invalidates_the_other_sessions(browser, alice, told) -> None:
    browser.sign_in(alice)
    sid = browser.sid
    alice.set_password("another")
    alice.save()
    assert browser.get("/who/").content == b"nobody"
    assert ends(told) == [(sid, str(alice.pk), "invalidated")]


def test_a_view_that_fails_has_its_ends_told_once(browser, new_session, told) -> None:
    sid = new_session("7").sid
    assert browser.get(f"/fail/{sid}/").status_code == 500
    browser.get("/read/colour/")
    assert ends(told) == [(sid, "7", "kicked")]


@pytest.mark.parametrize("middleware", ["NoAnswer", "Fails"])
def test_ends_are_told_though_a_middleware_above_gives_another_answer(
    site, settings, redis, told, new_session, middleware: str
) -> None:
    settings.MIDDLEWARE = [f"tests.helpers.site.middleware.{middleware}", *settings.MIDDLEWARE]
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


def test_a_request_that_loses_its_session_has_its_ends_told(browser, new_session, told) -> None:
    own, other = new_session("7", colour="blue"), new_session("8")
    own_sid = own.sid
    browser.cookie = own.session_key
    assert browser.get(f"/lose/{other.sid}/").status_code == 400
    assert ends(told) == [(other.sid, "8", "kicked"), (own_sid, "7", "invalidated")]


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


servers = pytest.mark.parametrize("ask", [ask_over_wsgi, ask_over_asgi], ids=["wsgi", "asgi"])


# Django warns where a stream does not suit the way the site is served: that is on purpose here.
@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning")
@pytest.mark.django_db
@pytest.mark.parametrize("view", ["/create/", "/async/create/", "/stream/", "/async/stream/"])
@servers
def test_what_creates_removed_is_told_after_the_last_byte(redis, connect, new_session, site, view: str, ask) -> None:
    order: list[str] = []
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    connect(lambda sessions, **named: order.extend(f"told of one {each.reason}" for each in sessions))
    ask(view, order)
    out = order.index("all is out")
    # In how many parts a stream comes depends on the server.
    assert (order[0], "".join(order[1:out])) == ("200", "created" if "create" in view else "begun, and done")
    assert order[out + 1 :] == ["told of one expired"] * 5


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume:Warning")
@pytest.mark.django_db
@servers
def test_what_ends_while_the_answer_goes_out_is_told_at_once(connect, new_session, site, ask):
    order: list[str] = []
    connect(lambda **named: order.append("told"))
    ask(f"/end-in-the-stream/{new_session('7').sid}/", order)
    assert order.count("told") == 1


@pytest.fixture
def batches(connect) -> list[dict[str, Any]]:
    """What receivers of many sessions at once were told, in order."""
    heard: list[dict[str, Any]] = []
    connect(lambda **named: heard.append(named), sessions_began, sessions_ended)
    return heard


def test_a_sign_in_is_told_after_its_response_with_its_request(batches, browser, alice) -> None:
    browser.client.cookies.clear()
    response = browser.post("/login/", {"username": "alice", "password": "secret"})
    assert response.status_code == 302
    [told] = batches
    [begun] = told["sessions"]
    [found] = online.of_user(alice)
    assert (told["signal"], told["sender"]) == (sessions_began, BegunSession)
    assert told["request"].path == "/login/"
    assert begun == (found.sid, str(alice.pk), found.created_at, None, found.address, found.user_agent)


@pytest.mark.usefixtures("partitions")
def test_whoever_signs_in_again_replaces_a_sign_in_and_a_plain_save_tells_nothing(batches, new_session) -> None:
    session = new_session("7")
    [first] = batches.pop()["sessions"]
    session["colour"] = "blue"
    session.save()
    session.cycle_key()
    session.save()
    new_session("")
    assert batches == []
    # Else both sign-ins could be in the same millisecond.
    threading.Event().wait(0.002)
    session.signed_in()
    session.save()
    [again] = batches.pop()["sessions"]
    assert (again.sid, again.user_id, again.replaces) == (session.sid, "7", first.created_at)
    assert again.created_at > first.created_at


@pytest.mark.usefixtures("partitions")
def test_ends_are_told_in_batches_with_login_and_last_seen(batches, redis, new_session) -> None:
    sessions = [new_session("7"), new_session(""), new_session("ü:8")]
    rows = {each.sid: each for each in online.find([session.sid for session in sessions])}
    batches.clear()
    online.end(*rows, message="Gone.")
    told = [each for batch in batches for each in batch["sessions"]]
    assert {batch["request"] for batch in batches} == {None}
    assert {each.sid for each in told} == set(rows)
    for each in told:
        row = rows[each.sid]
        assert (each.user_id, each.created_at) == (row.user_id, row.created_at)
        assert each.last_seen_at == (row.last_seen_at if row.user_id else None)
        assert (each.ended_by, each.message) == ("", "Gone.")


def test_an_end_in_a_request_says_who_ended_it(batches, browser, alice, new_session) -> None:
    other = new_session(str(alice.pk))
    browser.client.force_login(alice)
    batches.clear()
    browser.post(f"/account/sessions/{other.sid}/end/")
    ends = [each for batch in batches if batch["sender"] is EndedSession for each in batch["sessions"]]
    assert [(each.sid, each.ended_by) for each in ends] == [(other.sid, str(alice.pk))]


def test_a_cleaner_tells_of_many_at_once_and_nobody_of_more_than_250(batches, redis, new_session) -> None:
    make_due(redis, *(new_session("7").sid for _ in range(300)))
    batches.clear()
    assert sum(cleaning.expire_sessions(batch_size=250)) == 300
    assert sorted(len(batch["sessions"]) for batch in batches) == [50, 250]
