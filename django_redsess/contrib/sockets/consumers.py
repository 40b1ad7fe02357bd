"""Consumers of Channels that close when the session has ended. Public. It needs the extra ``channels``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from channels.consumer import SyncConsumer
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import override

from django_redsess.contrib.sockets.ended_sessions import End, WatchedSession, ends
from django_redsess.contrib.sockets.handshakes import CLOSE_CODE, ask_for_proof, language_of, refuse
from django_redsess.exceptions import SessionNotProven

__all__ = ["SessionConsumerMixin"]


class SessionConsumerMixin:
    """
    Closes the socket when its session has ended.

    It goes before one of Channels' asynchronous consumers for WebSockets::

        class Chat(SessionConsumerMixin, AsyncJsonWebsocketConsumer): ...

    The scope needs a session: wrap the consumer in ``AuthMiddlewareStack`` or ``SessionMiddlewareStack``. From
    ``accept()`` on, the session is watched. When it ends, :meth:`session_ended` is called within two seconds.

    ``accept()`` raises ImproperlyConfigured if the scope has no session, and what
    :func:`~django_redsess.contrib.sockets.ends` raises. A socket whose session is bound to a device is refused if the
    request that opens it brings no proof. A derived class of a synchronous consumer raises TypeError.
    """

    session_passive = False
    """Whether messages that the browser sends do not count as use. Set it to True if the page sends them by itself."""

    watched_session: WatchedSession | None = None
    """The session that is watched. None before ``accept()``."""

    _ending: asyncio.Task[None] | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if issubclass(cls, SyncConsumer):
            raise TypeError(f"{cls.__name__} must derive from an asynchronous consumer, to use SessionConsumerMixin.")

    async def session_ended(self, end: End) -> None:
        """
        Tell the browser that its session is over, and close the socket with the code 4401.

        The message is the JSON ``{"type": "session_ended", "reason": …, "message": …, "message_code": …}``, with the
        values of ``end``, in the language of the request that opened the socket. It comes before the close: not every
        server of ASGI sends the reason of a close. Override this method to say something else.
        """
        with override(language_of(self.scope)):  # type: ignore[attr-defined]
            words = {"message": end.message, "message_code": end.message_code}
        content = {"type": "session_ended", "reason": end.reason, **words}
        consumer: Any = self
        if hasattr(self, "send_json"):
            await consumer.send_json(content)
        else:
            await consumer.send(text_data=json.dumps(content))
        await consumer.close(code=CLOSE_CODE, reason=end.reason)

    async def accept(self, *args: Any, **kwargs: Any) -> None:
        """Accept the socket, and watch its session from now on."""
        scope: dict[str, Any] = self.scope  # type: ignore[attr-defined]
        if "session" not in scope:
            raise ImproperlyConfigured(
                f"The scope of {type(self).__name__} has no session. Wrap the consumer in AuthMiddlewareStack or "
                "SessionMiddlewareStack."
            )
        # If no middleware has asked.
        await ask_for_proof(scope["session"], scope)
        self.watched_session = await self._watching.enter_async_context(ends(scope["session"]))
        await super().accept(*args, **kwargs)  # type: ignore[misc]
        self._ending = asyncio.create_task(self._await_end(self.watched_session))

    async def websocket_connect(self, message: dict[str, Any]) -> None:
        """Open the socket. Refuse it if its session is bound to a device, and the request brought no proof."""
        try:
            await super().websocket_connect(message)  # type: ignore[misc]
        except SessionNotProven as error:
            await refuse(error, self.scope, self.base_send)  # type: ignore[attr-defined]

    async def websocket_receive(self, message: dict[str, Any]) -> None:
        """Take a message of the browser."""
        if self.watched_session is not None and not self.session_passive:
            self.watched_session.used()
        await super().websocket_receive(message)  # type: ignore[misc]

    async def websocket_disconnect(self, message: dict[str, Any]) -> None:
        """Take the end of the connection. Nothing is sent from now on."""
        await self._stop()
        await super().websocket_disconnect(message)  # type: ignore[misc]

    async def __call__(self, scope: Any, receive: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        """Serve the socket until it is closed."""
        closed = False

        async def send_until_closed(message: dict[str, Any]) -> None:
            # A handler may be about to send something when the session ends.
            nonlocal closed
            if not closed:
                closed = message["type"] in ("websocket.close", "websocket.http.response.body")
                await send(message)

        async with AsyncExitStack() as self._watching:
            try:
                await super().__call__(scope, receive, send_until_closed)  # type: ignore[misc]
            finally:
                await self._stop()

    async def _await_end(self, watched: WatchedSession) -> None:
        await self.session_ended(await watched.wait())

    async def _stop(self) -> None:
        ending, self._ending = self._ending, None
        if ending is not None:
            ending.cancel()
            await asyncio.wait((ending,))
            if not ending.cancelled():
                ending.exception()
