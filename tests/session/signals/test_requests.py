"""When ends are told that happen in requests: once, and after the response."""

import asyncio
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest
from django.contrib.auth.models import User
from django.core.handlers.asgi import ASGIHandler
from django.core.handlers.wsgi import WSGIHandler
from django.test import AsyncClient, Client

from django_redsess.backend import SessionStore
from tests.helpers.behind import make_due
from tests.helpers.ends import ends
from tests.helpers.site.ends import GO_ON, KEY, TASKS
from tests.helpers.visitors import Browser


@pytest.mark.usefixtures("partitions")
def test_signing_out_is_a_logout(browser, alice, told) -> None:
    browser.sign_in(alice)
    sid = browser.sid
    assert browser.get(f"{browser.views}/sign-out/").content == b"out"
    assert ends(told) == [(sid, str(alice.pk), "logout")]


@pytest.mark.usefixtures("partitions")
def test_another_user_who_signs_in_invalidates_the_session_and_a_guest_does_not(browser, alice, told) -> None:
    User.objects.create_user("bob")
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    browser.cookie = guest.session_key
    browser.get(f"{browser.views}/sign-in/alice/")
    assert browser.get("/who/").content == b"alice"
    assert told == []
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
