"""Sockets of Channels that open only with the proof of the device to which their session is bound. Public."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django_redsess.contrib.sockets.handshakes import ask_for_proof, refuse
from django_redsess.exceptions import SessionNotProven

__all__ = ["SessionProofMiddleware"]


class SessionProofMiddleware:
    """
    Refuses a socket whose session is bound to a device, if the request that opens it brings no proof.

    It goes between Channels' middleware of sessions and that of users::

        CookieMiddleware(SessionMiddleware(SessionProofMiddleware(AuthMiddleware(sockets))))

    A refused socket gets a 401 before it opens. Where the server can't send that, as Daphne, it is closed with the
    code 4401, and browsers get a 403. A request to one of Channels' consumers for HTTP gets a 401. A socket that is
    open goes on when its proof ends.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        """Serve the connection, or refuse it."""
        try:
            await ask_for_proof(scope.get("session"), scope)
        except SessionNotProven as error:
            if scope["type"] == "websocket":
                # The server tells of the connection first.
                await receive()
            await refuse(error, scope, send)
        else:
            await self.inner(scope, receive, send)


def opens_without_proof(application: Any, *, has_session: bool = False) -> bool:
    """
    Tell whether an ``application`` of ASGI has a part with sessions of Channels for which nobody is asked for a proof.

    It is looked for in Channels' routers and in middleware, and below ``has_session`` there is a session.
    """
    from channels.auth import AuthMiddleware
    from channels.sessions import SessionMiddleware

    if isinstance(application, SessionProofMiddleware):
        return False
    if has_session and isinstance(application, AuthMiddleware):
        return True
    inner = list(_parts_of(application))
    if not inner:
        return has_session
    has_session = has_session or isinstance(application, SessionMiddleware)
    return any(opens_without_proof(each, has_session=has_session) for each in inner)


def _parts_of(application: Any) -> Iterator[Any]:
    """Yield the applications that a router or middleware of Channels calls."""
    from channels.routing import ProtocolTypeRouter, URLRouter

    if isinstance(application, ProtocolTypeRouter):
        yield from application.application_mapping.values()
    if isinstance(application, URLRouter):
        yield from (route.callback for route in application.routes)
    # Middleware of Channels, its middleware that looks at origins, and that of others.
    found = (getattr(application, name, None) for name in ("inner", "application", "app"))
    yield from (part for part in found if part is not None)
