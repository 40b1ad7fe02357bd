"""The request that opens a socket: whether it may open a session that is bound to a device, and its refusal."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any

from django.core.handlers.asgi import ASGIRequest
from django.utils.translation import get_language_from_request

from django_redsess.exceptions import SessionNotProven
from django_redsess.responses import unavailable_response
from django_redsess.session import binding
from django_redsess.session.store import SessionStore

CLOSE_CODE = 4401
"""The code with which sockets of ended sessions are closed. Codes from 4000 on are for applications."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


async def ask_for_proof(session: Any, scope: dict[str, Any]) -> None:
    """
    Have the guard asked whether the request of ``scope`` may open ``session``. Nothing is loaded without a guard.

    Raises SessionNotProven if it may not. A session of another engine, or one for which the guard was asked, is let be.
    """
    if binding.guard is None or not isinstance(session, SessionStore) or session.brought_by is not None:
        return
    request = _request_of(scope)
    if session.snapshot.record is not None:
        # It was loaded before the request was known, and its user is in the scope: it can't go on as nobody. So the
        # guard gets a path that no setting can name. LOGIN_URL may have an empty one: "https://id.example".
        request.path = request.path_info = "\n"
        # Not type(): Channels has a lazy object around the session.
        session = session.__class__(session.session_key)
    session.brought_by = request
    await session.arun_steps(session.proving())


async def refuse(error: SessionNotProven, scope: dict[str, Any], send: Send) -> None:
    """
    Answer the request of ``scope`` with 401.

    A socket whose server can't do that is closed: browsers then get a 403, or the code 4401.
    """
    is_socket = scope["type"] == "websocket"
    if is_socket and "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": CLOSE_CODE})
        return
    response = unavailable_response(_request_of(scope), error)
    fields = [*response.items(), *(("Set-Cookie", each.OutputString()) for each in response.cookies.values())]
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in fields]
    kind = "websocket.http.response" if is_socket else "http.response"
    await send({"type": f"{kind}.start", "status": response.status_code, "headers": headers})
    await send({"type": f"{kind}.body", "body": response.content})


def language_of(scope: dict[str, Any]) -> str:
    """Return the language that Django's ``LocaleMiddleware`` would choose for the request of ``scope``."""
    return get_language_from_request(_request_of(scope))


def _request_of(scope: dict[str, Any]) -> ASGIRequest:
    return ASGIRequest({"method": "GET", **scope}, BytesIO())
