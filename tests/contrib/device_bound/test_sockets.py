"""Sockets and Channels' consumers for HTTP open a session that is bound to a device only with its proof."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from channels.auth import AuthMiddleware, AuthMiddlewareStack
from channels.generic.http import AsyncHttpConsumer
from channels.generic.websocket import AsyncWebsocketConsumer
from channels.routing import ProtocolTypeRouter, URLRouter
from channels.security.websocket import AllowedHostsOriginValidator
from channels.sessions import CookieMiddleware, SessionMiddleware, SessionMiddlewareStack
from channels.testing import HttpCommunicator, WebsocketCommunicator
from django.urls import path
from websockets.exceptions import InvalidStatus

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound import protocol
from django_redsess.contrib.device_bound.sockets import SessionProofMiddleware
from django_redsess.contrib.sockets.consumers import SessionConsumerMixin
from testproject import servers
from tests.contrib.sockets.serving import Site, said_until_closed
from tests.contrib.sockets.test_servers import answers
from tests.helpers.sign_ins import sign_in
from tests.helpers.store import Binding

# Channels closes connections to the database that other tests may have left.
pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("users_in_no_table", "device_bound")]

ID = bytes(range(8))
DENIES = {"websocket.http.response": {}}


def now_ms() -> int:
    return int(time.time() * 1000)


def bound(user_id: str = "7") -> SessionStore:
    """Return a session that was bound to a device an hour ago."""
    session, at = sign_in(user_id), now_ms() - 3_600_000
    session.bind(Binding(ID, at, at, b"\2" * 33))
    session.save()
    return session


def proof(binding_id: bytes = ID, *, seconds_ago: int = 0) -> str:
    return protocol.make_proof(binding_id, now_ms() - seconds_ago * 1000)


def cookies(session: SessionStore, proof: str | None) -> str:
    text = f"sessionid={session.session_key}"
    return text if proof is None else f"{text}; sessionid_proof={proof}"


class Echo(AsyncWebsocketConsumer):
    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        await self.send(text_data=f"{text_data} {self.scope['user'].pk}")


class MixedEcho(SessionConsumerMixin, Echo):
    pass


class Page(AsyncHttpConsumer):
    async def handle(self, body: bytes) -> None:
        await self.send_response(200, str(self.scope["user"].pk).encode())


def proven(inner: Any) -> Any:
    return CookieMiddleware(SessionMiddleware(SessionProofMiddleware(AuthMiddleware(inner))))


ASKS = [
    pytest.param(proven(Echo.as_asgi()), id="middleware"),
    pytest.param(AuthMiddlewareStack(MixedEcho.as_asgi()), id="mixin"),
    pytest.param(proven(MixedEcho.as_asgi()), id="both"),
]


def opened(application: Any, session: SessionStore, proof: str | None, **scope: Any) -> WebsocketCommunicator:
    found = WebsocketCommunicator(application, "/chat/", headers=[(b"cookie", cookies(session, proof).encode())])
    found.scope.update(scope)
    return found


def said(communicator: WebsocketCommunicator) -> Any:
    """Return what the socket of user 7 echoes, or how it was refused."""

    @async_to_sync
    async def talk() -> Any:
        await communicator.send_input({"type": "websocket.connect"})
        first = await communicator.receive_output(timeout=20)
        if first["type"] != "websocket.accept":
            rest = [await communicator.receive_output(timeout=20)] if "http" in first["type"] else []
            # Nothing else opens it, and the consumer leaves.
            assert await communicator.receive_nothing()
            await communicator.disconnect()
            return first, *rest
        await communicator.send_to(text_data="hello")
        echoed = await communicator.receive_from(timeout=20)
        await communicator.disconnect()
        return echoed

    return talk()


@pytest.mark.parametrize("application", ASKS)
def test_a_socket_opens_with_the_proof_only(application) -> None:
    session = bound()
    assert said(opened(application, session, proof())) == "hello 7"
    for wrong in (None, "x", proof(b"another1"), proof(seconds_ago=3600)):
        assert said(opened(application, session, wrong)) == ({"type": "websocket.close", "code": 4401},)
    assert online.get(str(session.sid)) is not None


@pytest.mark.parametrize("application", ASKS)
def test_a_server_that_can_answers_with_401(application) -> None:
    begin, body = said(opened(application, bound(), proof(seconds_ago=3600), extensions=DENIES))
    assert (begin["type"], begin["status"]) == ("websocket.http.response.start", 401)
    headers = dict(begin["headers"])
    # The browser then asks for another one.
    assert headers[b"set-cookie"].startswith(b'sessionid_proof=""')
    assert b"no-store" in headers[b"cache-control"]
    assert body["body"]


@pytest.mark.parametrize("application", ASKS)
def test_sockets_of_sessions_that_are_not_bound_open(application) -> None:
    assert said(opened(application, sign_in("7"), None)) == "hello 7"
    guest = SessionStore()
    guest["basket"] = 1
    guest.save()
    assert said(opened(application, guest, None)) == "hello None"


@pytest.mark.parametrize("application", ASKS)
def test_where_nobody_is_refused_sockets_open(application, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND": "observe"}
    assert said(opened(application, bound(), None)) == "hello 7"


@pytest.mark.parametrize("application", ASKS)
def test_no_path_lets_a_socket_of_a_user_open_without_proof(application, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_OPEN_PATHS": ("/chat/",)}
    assert said(opened(application, bound(), None)) != "hello 7"


@pytest.mark.parametrize("application", ASKS)
@pytest.mark.parametrize("hosts", [["*"], ["shop.example"]])
def test_the_host_of_the_sign_in_page_lets_no_socket_open_without_proof(application, settings, hosts) -> None:
    settings.LOGIN_URL, settings.ALLOWED_HOSTS = "https://id.example", hosts
    socket = opened(application, bound(), None)
    socket.scope["headers"].append((b"host", b"id.example"))
    assert said(socket) == ({"type": "websocket.close", "code": 4401},)


def test_a_socket_goes_on_when_its_proof_ends(settings) -> None:
    communicator = opened(proven(MixedEcho.as_asgi()), bound(), proof(seconds_ago=500))

    @async_to_sync
    async def talk() -> str:
        assert (await communicator.connect(timeout=20))[0]
        settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_SECONDS": 300}
        await communicator.send_to(text_data="still")
        echoed = await communicator.receive_from(timeout=20)
        await communicator.disconnect()
        return str(echoed)

    assert talk() == "still 7"


def test_a_consumer_for_http_answers_with_the_proof_only() -> None:
    session, application = bound(), proven(Page.as_asgi())

    def status(proof: str | None) -> int:
        headers = [(b"cookie", cookies(session, proof).encode())]
        found = async_to_sync(HttpCommunicator(application, "GET", "/", headers=headers).get_response)(timeout=20)
        return int(found["status"])

    assert (status(proof()), status(None)) == (200, 401)


@pytest.fixture
def found(own_checks, settings, monkeypatch) -> Callable[[str | None], list[str]]:
    """Return a function that returns what the check finds in the application of ASGI at a path."""
    from django_redsess.contrib.device_bound.checks import check_sockets

    def find(path: str | None) -> list[str]:
        settings.ASGI_APPLICATION = path
        return [str(each.id) for each in check_sockets()]

    return find


ROUTES = [path("chat/", Echo.as_asgi()), path("page/", Page.as_asgi())]


@pytest.mark.parametrize(
    ("sockets", "is_told"),
    [
        (AllowedHostsOriginValidator(AuthMiddlewareStack(URLRouter(ROUTES))), True),
        (URLRouter([path("a/", proven(Echo.as_asgi())), path("b/", SessionMiddlewareStack(Echo.as_asgi()))]), True),
        # The middleware of users has loaded the session by then.
        (AuthMiddlewareStack(SessionProofMiddleware(URLRouter(ROUTES))), True),
        (AllowedHostsOriginValidator(proven(URLRouter(ROUTES))), False),
        (
            URLRouter(
                [path("a/", SessionMiddlewareStack(URLRouter([path("", SessionProofMiddleware(Page.as_asgi()))])))]
            ),
            False,
        ),
        (URLRouter(ROUTES), False),
    ],
)
def test_a_check_finds_sockets_that_ask_for_no_proof(found, monkeypatch, sockets: Any, is_told: bool) -> None:
    application = ProtocolTypeRouter({"http": Page.as_asgi(), "websocket": sockets})
    monkeypatch.setitem(sys.modules, "asgi_of_a_site", SimpleNamespace(application=application))
    assert found("asgi_of_a_site.application") == (["django_redsess.W128"] if is_told else [])


@pytest.mark.parametrize("wrong", [None, "no.such.application", "django_redsess.no_name"])
def test_the_check_leaves_it_to_others_that_there_is_no_application(found, wrong: str | None) -> None:
    assert found(wrong) == []


PROVEN = "CookieMiddleware(SessionMiddleware(SessionProofMiddleware(AuthMiddleware(sockets))))"


@pytest.fixture(scope="module")
def site_of(server: servers.Server, tmp_path_factory: Any) -> Iterator[Callable[[str], Site]]:
    """Return a function that starts each program for all tests here, when it is first asked for."""

    def start(program: str) -> Site:
        site = Site(
            tmp_path_factory.mktemp(program),
            program,
            server.url,
            settings='INSTALLED_APPS = [*INSTALLED_APPS, "django_redsess.contrib.device_bound"]\n',
            replaced={
                "from channels.auth import AuthMiddlewareStack": "from channels.auth import AuthMiddleware\n"
                "from channels.sessions import CookieMiddleware, SessionMiddleware\n"
                "from django_redsess.contrib.device_bound.sockets import SessionProofMiddleware",
                "AuthMiddlewareStack(sockets)": PROVEN,
            },
        )
        started.callback(site.close)
        return site

    with ExitStack() as started:
        yield cache(start)


@pytest.mark.parametrize(("program", "status"), [("uvicorn", 401), pytest.param("daphne", 403, marks=pytest.mark.slow)])
def test_a_real_server_refuses_a_copy_and_opens_the_browsers_socket(
    site_of: Callable[[str], Site], program: str, status: int
) -> None:
    site, session = site_of(program), bound()
    with pytest.raises(InvalidStatus) as refused:
        site.chat(str(session.session_key))
    assert refused.value.response.status_code == status
    chat = site.chat(str(session.session_key), sessionid_proof=proof())
    assert answers(chat)
    online.end(str(session.sid))
    assert said_until_closed(chat)[1] == 4401
    site.hang_up()
    assert "Traceback" not in site.said
