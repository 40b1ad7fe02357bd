"""
The signals that sessions have begun or ended, or were not proven, and when they are sent. Public.

The process whose command began or ended a session sends them, once: immediately, or after the response if a request
through our middleware is under way. They are never sent if that process is killed before, or if the reply to its
command was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from django.dispatch import Signal
from django.http import HttpRequest

from django_redsess.user_messages import code_of, message_in_words

__all__ = [
    "BegunSession",
    "EndedSession",
    "Reason",
    "UnprovenRequest",
    "session_not_proven",
    "sessions_began",
    "sessions_ended",
    "user_blocked",
    "user_unblocked",
]

sessions_ended = Signal()
"""
Sent when sessions have ended. The sender is :class:`EndedSession`.

Receivers get ``sessions``, a list of one to 250 of them, each told once; and ``request``, the request that ended them,
or None. If a receiver raises, the error is logged to ``django.dispatch``, and the other receivers are still called. The
signal is not sent when a session gets another key.
"""

sessions_began = Signal()
"""
Sent when users have signed in, and their sessions are stored. The sender is :class:`BegunSession`.

Receivers get ``sessions``, a list of up to 250, and most often of one; and ``request``, the request that signed in, or
None. It is not sent for a sign-in whose session was not stored, as after an error 500, nor for a guest's session.
"""

session_not_proven = Signal()
"""
Sent when a request has brought the cookie of a session that is bound to a device, and no proof that it comes from this
device. The sender is :class:`UnprovenRequest`. Only ``django_redsess.contrib.device_bound`` sends it.

Receivers get ``sessions``, a list of them, and most often of one; and ``request``, which may be the request that opens
a socket. Each process sends the signal at most once a minute for a session.
"""

BATCH_MAX = 250
"""The most sessions that receivers get at once."""


user_blocked = Signal()
"""
Sent when a user was blocked, or a block has got another time or message, and all sessions of the user have ended. The
sender is :class:`django_redsess.online.Block`. Receivers get its fields as keyword arguments: ``user_id``, ``until``,
``stored_message``, ``by`` and ``internal_note``; and ``message`` and ``message_code``.

It is sent at once, also within a request. An error of a receiver is logged to ``django.dispatch``.
"""

user_unblocked = Signal()
"""
Sent by each call of :func:`django_redsess.online.unblock`, with ``user_id``, even if there was no block: a receiver
that keeps copies of blocks may have one that the server has lost. It is not sent when a block is over by itself.
"""


class Reason(StrEnum):
    """Why a session has ended."""

    LOGOUT = "logout"
    """Its user signed out."""
    INVALIDATED = "invalidated"
    """The site ended it: another user signed in, the account or its password changed, or ``flush()`` was called."""
    EXPIRED = "expired"
    """Its deadline has passed."""
    EVICTED = "evicted"
    """There were too many sessions, or the server was full. Guests' sessions go first, the longest unseen first."""
    KICKED = "kicked"
    """Somebody ended it: an administrator, its user on another device, or code such as ``online.end()``."""
    REPLACED = "replaced"
    """Its user signed in elsewhere, and would have had more sessions than the limit or the ceiling allows."""


class EndedSession(NamedTuple):
    """
    A session that has ended.

    ``user_id`` is the primary key as text, ``""`` for a guest. ``ended_at`` is when it ended. ``created_at`` is when
    its user signed in, and ``last_seen_at`` when it was last seen: None for a guest. ``ended_by`` is the primary key as
    text of the user whose request ended it, for the reasons ``kicked`` and ``invalidated``: ``""`` if no request did,
    as in a command. ``message`` is what its user is told, in the active language, and ``message_code`` is its code if
    it is a ready-made one: see :func:`django_redsess.online.ready_message`. ``stored_message`` has both, for a later
    reader in another language. ``internal_note`` is what the administrator who ended it has written for other
    administrators. All times are aware datetimes of the server's clock.
    """

    sid: str
    user_id: str
    reason: Reason
    ended_at: datetime
    created_at: datetime | None = None
    last_seen_at: datetime | None = None
    ended_by: str = ""
    stored_message: str = ""
    internal_note: str = ""

    @property
    def message(self) -> str:
        return message_in_words(self.stored_message)

    @property
    def message_code(self) -> str:
        return code_of(self.stored_message)


class EndedByCommand(Collection[EndedSession]):
    """Sessions that one command ended. ``internal_note`` is the note of each that was kicked."""

    internal_note = ""


class BegunSession(NamedTuple):
    """
    A session in which a user has signed in.

    ``user_id`` is the primary key as text. ``created_at`` is when, an aware datetime of the server's clock.
    ``replaces`` is the login time that the session had before, if the same user signs in again. ``address`` and
    ``user_agent`` are what the session stores of the client.
    """

    sid: str
    user_id: str
    created_at: datetime
    replaces: datetime | None
    address: str
    user_agent: str


class UnprovenRequest(NamedTuple):
    """
    A request that has brought the cookie of a session bound to a device, and no proof that it comes from this device.

    ``user_id`` is the primary key as text. ``created_at`` is when the user signed in, an aware datetime of the server's
    clock. ``address`` and ``user_agent`` are those of the request. ``skipped`` is why its browser could not prove
    itself, if it says so: ``"unreachable"``, ``"server_error"`` or ``"quota_exceeded"``, and ``"other"`` for other
    words. ``never_refreshed`` is whether the device has proved nothing since the session was bound: its browser may
    have refused the binding. ``refused`` is False if the request has opened the session all the same, because
    :confval:`DEVICE_BOUND` is ``"observe"``.
    """

    sid: str
    user_id: str
    created_at: datetime
    address: str
    user_agent: str
    skipped: str
    never_refreshed: bool
    refused: bool


Event = BegunSession | EndedSession | UnprovenRequest


class RequestScope:
    """
    Context in which ``request`` is answered. The signals are kept, and sent after the response.

    ``visit_of`` makes the visit of a session that this request brings.
    """

    def __init__(self, request: HttpRequest, visit_of: Callable[[HttpRequest], Any]) -> None:
        self.request, self.visit_of = request, visit_of
        self._held: list[Event] = []
        self._over = False

    def __enter__(self) -> Self:
        self._token = _scope.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _scope.reset(self._token)
        self._over = True
        if not self._held:
            return
        # Receivers may be slow: the visitor has the response by then. Django closes the request together with the
        # response that is sent, even if other middleware replaced ours.
        close = self.request.close

        def closing() -> None:
            close()
            self.send_held()

        self.request.close = closing  # type: ignore[method-assign]

    def hold_back(self, events: Collection[Event]) -> bool:
        """Keep ``events`` for later. False if the signals were already sent: a task may outlive its request."""
        if not self._over:
            self._held.extend(events)
        return not self._over

    def send_held(self) -> None:
        """Send the signals that were kept."""
        self._over = True
        held, self._held = self._held, []
        send_signals(held, self.request)


_scope: ContextVar[RequestScope | None] = ContextVar("django_redsess_scope", default=None)


class AdministratorActions:
    """The sessions that were kicked in a context, and the users who were blocked: see :func:`collect_actions`."""

    def __init__(self, internal_note: str) -> None:
        self.internal_note = internal_note
        self.kicked: list[EndedSession] = []
        self.blocked: list[str] = []


_done: ContextVar[AdministratorActions | None] = ContextVar("django_redsess_done", default=None)


@contextmanager
def collect_actions(internal_note: str = "") -> Iterator[AdministratorActions]:
    """
    Return a context that collects which sessions are kicked in it, and which users are blocked, even if it fails.

    Receivers of ``sessions_ended`` get ``internal_note`` with each session that is kicked.
    ``hold_events`` and ``note_block`` fill it. ``django_redsess.admin.log_entries.saving_ends`` reads it.
    """
    done = AdministratorActions(internal_note)
    token = _done.set(done)
    try:
        yield done
    finally:
        _done.reset(token)


def note_block(user_id: str) -> None:
    """Add a blocked user to the context of :func:`collect_actions`, if there is one."""
    if (done := _done.get()) is not None:
        done.blocked.append(user_id)


def request_scope() -> RequestScope | None:
    """Return the context of the request that is being answered, if our middleware answers one."""
    return _scope.get()


def request_answered() -> HttpRequest | None:
    """Return the request that is being answered; None outside of requests, and without our middleware."""
    scope = _scope.get()
    return None if scope is None else scope.request


def hold_events(events: Collection[Event]) -> bool:
    """Keep ``events`` for after the response, if a request is under way. False if signals are to be sent now."""
    if not events:
        return True
    if (done := _done.get()) is not None:
        if isinstance(events, EndedByCommand):
            events.internal_note = done.internal_note
        done.kicked += (each for each in events if isinstance(each, EndedSession) and each.reason is Reason.KICKED)
    # Without receivers, the reply need not be read.
    if not signals_are_wanted():
        return True
    scope = _scope.get()
    return scope is not None and scope.hold_back(events)


def signals_are_wanted() -> bool:
    """Tell whether a signal of this module about sessions has a receiver."""
    return bool(sessions_began.receivers) or bool(session_not_proven.receivers) or ends_are_wanted()


def ends_are_wanted() -> bool:
    """Tell whether ``sessions_ended`` has a receiver. Only then do scripts name what they end: that is slow."""
    return bool(sessions_ended.receivers)


def send_signals(events: Iterable[Event], request: HttpRequest | None = None) -> None:
    """Send the signals about ``events``. ``request`` is the one in which they happened, if any."""
    for signal, sender, facts in _signals_to_send(events, request):
        signal.send_robust(sender, **facts)


async def asend_signals(events: Iterable[Event]) -> None:
    """Async variant of :func:`send_signals`."""
    for signal, sender, facts in _signals_to_send(events, None):
        await signal.asend_robust(sender, **facts)


def _signals_to_send(
    events: Iterable[Event], request: HttpRequest | None
) -> Iterator[tuple[Signal, type[Event], dict[str, Any]]]:
    held = list(events)
    kinds: tuple[tuple[Signal, type[Event]], ...] = (
        (sessions_began, BegunSession),
        (session_not_proven, UnprovenRequest),
        (sessions_ended, EndedSession),
    )
    for signal, kind in kinds:
        batch = [each for each in held if isinstance(each, kind)] if signal.receivers else []
        for start in range(0, len(batch), BATCH_MAX):
            yield signal, kind, {"sessions": batch[start : start + BATCH_MAX], "request": request}
