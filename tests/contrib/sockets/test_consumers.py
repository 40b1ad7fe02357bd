"""The mixin of consumers, in one process: what real servers do with it is in test_servers.py."""

from __future__ import annotations

import json
from typing import Any

import pytest
from channels.generic.websocket import AsyncWebsocketConsumer, WebsocketConsumer
from channels.testing import WebsocketCommunicator
from django.core.exceptions import ImproperlyConfigured

from django_redsess import online
from django_redsess.contrib.sockets import ended_sessions
from django_redsess.contrib.sockets.consumers import SessionConsumerMixin

# Channels closes connections to the database that other tests may have left.
pytestmark = pytest.mark.django_db


class Echo(SessionConsumerMixin, AsyncWebsocketConsumer):
    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if text_data == "fail":
            raise LookupError
        await self.send(text_data=text_data)


def opened(session: Any) -> WebsocketCommunicator:
    communicator = WebsocketCommunicator(Echo.as_asgi(), "/")
    communicator.scope["session"] = session
    return communicator


def test_a_consumer_of_texts_tells_and_closes_and_then_watches_nothing(loop, new_session) -> None:
    session = new_session(user="7")

    async def talk() -> None:
        communicator = opened(session)
        assert (await communicator.connect())[0]
        await online.aend(str(session.sid))
        told = await communicator.receive_from(timeout=20)
        assert told == '{"type": "session_ended", "reason": "kicked", "message": "", "message_code": ""}'
        assert await communicator.receive_output(timeout=20) == {
            "type": "websocket.close",
            "code": 4401,
            "reason": "kicked",
        }
        # A handler that goes on sends nothing more.
        await communicator.send_to(text_data="too late")
        assert await communicator.receive_nothing()
        await communicator.disconnect()
        assert ended_sessions._poller_of_loop()._watched == {}

    loop.run(talk())


@pytest.mark.parametrize(
    ("header", "words"),
    [(b"ar", "أُبلغ عن فقدان هذا الجهاز."), (b"en", "This device was reported lost."), (b"xx", "Ce")],
    ids=["Arabic", "English", "one that we lack"],
)
def test_a_socket_is_told_in_the_language_of_the_request_that_opened_it(loop, new_session, settings, header, words):
    settings.LANGUAGE_CODE = "fr"
    session = new_session(user="7")

    async def talk() -> None:
        communicator = opened(session)
        communicator.scope["headers"] = [(b"accept-language", header)]
        assert (await communicator.connect())[0]
        await online.aend(str(session.sid), message=online.ready_message("lost_device", "Ihr Team"))
        told = json.loads(await communicator.receive_from(timeout=20))
        assert told["message_code"] == "lost_device"
        assert told["message"].startswith(words)
        assert told["message"].endswith("Ihr Team")
        await communicator.disconnect()

    loop.run(talk())


@pytest.mark.parametrize("fails", [False, True])
def test_who_leaves_or_fails_is_watched_no_longer(loop, new_session, fails: bool) -> None:
    session = new_session(user="7")

    async def talk() -> None:
        communicator = opened(session)
        await communicator.connect()
        assert ended_sessions._poller_of_loop()._watched != {}
        if fails:
            await communicator.send_to(text_data="fail")
            with pytest.raises(LookupError):
                await communicator.receive_from(timeout=1)
        else:
            await communicator.disconnect()
        assert ended_sessions._poller_of_loop()._watched == {}

    loop.run(talk())


def test_a_scope_without_a_session_and_a_synchronous_consumer_are_refused(loop) -> None:
    async def connect() -> None:
        await WebsocketCommunicator(Echo.as_asgi(), "/").connect(timeout=1)

    with pytest.raises(ImproperlyConfigured):
        loop.run(connect())
    with pytest.raises(TypeError, match="asynchronous"):
        type("Slow", (SessionConsumerMixin, WebsocketConsumer), {})
