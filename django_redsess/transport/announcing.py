"""
When the signal ``session_ended`` is sent.

The process whose command ended a session sends it, once: immediately, or after the response if a request through our
middleware is under way. It is never sent if that process is killed before, or if the reply to its command was lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

from django_redsess.signals import EndedSession, Reason, session_ended
from django_redsess.transport.keys import is_sid


class EndedSessions(Collection[EndedSession]):
    """The sessions that one command ended, as its reply has them. They are decoded only when somebody iterates."""

    def __init__(self, at_milliseconds: bytes, groups: Sequence[Any]) -> None:
        self._at = at_milliseconds
        self._groups = list(zip(groups[::3], groups[1::3], groups[2::3], strict=True))

    def __len__(self) -> int:
        return sum(count for _, count, _ in self._groups)

    def __iter__(self) -> Iterator[EndedSession]:
        at = datetime.fromtimestamp(int(self._at) / 1000, UTC)
        for reason, _, packed in self._groups:
            why, start = Reason(reason.decode()), 0
            # See with_ended in common.lua. A foreign record may have any text as its user, and a name that is no sid.
            while start < len(packed):
                end = start + 21 + packed[start + 20]
                sid = packed[start : start + 20].decode(errors="replace")
                if is_sid(sid):
                    yield EndedSession(sid, packed[start + 21 : end].decode(errors="replace"), why, at)
                start = end

    def __contains__(self, ended: object) -> bool:
        return ended in list(self)


class Answering:
    """Context in which ``request`` is answered. Signals of sessions that end meanwhile are sent after the response."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self._ended: list[EndedSession] = []
        self._over = False

    def __enter__(self) -> Answering:
        self._token = _answering.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _answering.reset(self._token)
        self._over = True
        if self._ended:
            self._send_at_the_end()

    def hold(self, ended: Collection[EndedSession]) -> bool:
        """Keep ``ended`` for later. False if the response was already sent: a task may outlive its request."""
        if not self._over:
            self._ended.extend(ended)
        return not self._over

    def send(self) -> None:
        """Send the signals that were kept."""
        self._over = True
        ended, self._ended = self._ended, []
        for each in ended:
            session_ended.send_robust(EndedSession, **each._asdict())

    def _send_at_the_end(self) -> None:
        # Receivers may be slow: the visitor has the response by then. Django closes the request together with the
        # response that is sent, even if other middleware replaced ours.
        close = self.request.close

        def closing() -> None:
            close()
            self.send()

        self.request.close = closing  # type: ignore[method-assign]


_answering: ContextVar[Answering | None] = ContextVar("django_redsess_answering", default=None)


def request_answered() -> HttpRequest | None:
    """Return the request that is being answered; None outside of requests, and without our middleware."""
    answering = _answering.get()
    return None if answering is None else answering.request


def hold(ended: Collection[EndedSession]) -> bool:
    """Keep ``ended`` for after the response, if a request is under way. False if the signals are to be sent now."""
    # Where nobody listens, there is no need to read what the reply says.
    if not ended or not session_ended.receivers:
        return True
    answering = _answering.get()
    return answering is not None and answering.hold(ended)
