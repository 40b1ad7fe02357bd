"""The log, observers and receivers of the signal are told of requests without proof for bound sessions."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from django.http import HttpRequest

from django_redsess import forks, observers
from django_redsess.clock import monotonic
from django_redsess.session.binding import Binding
from django_redsess.session.client import read_client
from django_redsess.session.record import Record
from django_redsess.signals import UnprovenRequest, asend_signals, hold_events, send_signals
from django_redsess.transport.steps import time_of

TOLD_SECONDS = 60
"""For how long other such requests of a session are not told: neither to the log nor by the signal."""

TOLD_MAX = 1000
"""Of how many sessions a process remembers when it has told. If there are more, some are told again earlier."""

logger = logging.getLogger("django.security.DeviceBound")
_told: dict[str, float] = {}
_lock = forks.Lock()
_sending: set[asyncio.Task[None]] = set()


def tell(request: Any, sid: str, record: Record, binding: Binding, *, skipped: str, refused: bool) -> None:
    """
    Tell that ``request`` has brought the key of the session ``sid`` without proof.

    Observers are told each time, the log and the signal once a minute a session. Nobody gets a key, a proof or the text
    of a header but the user agent.
    """
    observers.notify_event("session_not_proven", outcome="refused" if refused else "opened")
    if not _is_due(sid):
        return
    client = read_client(request)
    done = "refused" if refused else "opened all the same"
    text = "A request without proof for the device-bound session %s was %s: address %s, skipped %s, user agent %r"
    logger.warning(text, sid, done, client.address or "unknown", skipped or "nothing", client.user_agent)
    unproven = UnprovenRequest(
        sid=sid,
        user_id=record.user_id,
        created_at=time_of(record.login_ms),
        address=client.address,
        user_agent=client.user_agent,
        skipped=skipped,
        never_refreshed=binding.proved_at == binding.bound_at,
        refused=refused,
    )
    if not hold_events([unproven]):
        _send(unproven, request if isinstance(request, HttpRequest) else None)


def _is_due(sid: str) -> bool:
    """Tell whether this session was not told in the last minute, and note that it is told now."""
    now = monotonic()
    with _lock:
        told_at = _told.get(sid)
        if told_at is not None and now - told_at < TOLD_SECONDS:
            return False
        # The oldest comes first.
        _told.pop(sid, None)
        if len(_told) >= TOLD_MAX:
            del _told[next(iter(_told))]
        _told[sid] = now
        return True


def _send(unproven: UnprovenRequest, request: HttpRequest | None) -> None:
    """Send the signal now: no middleware of ours answers the request, as with a socket."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        send_signals([unproven], request)
        return
    # Receivers may be slow, and the loop keeps no reference to a task.
    task = loop.create_task(asend_signals([unproven]))
    _sending.add(task)
    task.add_done_callback(_sending.discard)
