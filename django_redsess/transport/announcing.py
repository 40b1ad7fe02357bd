"""
When the signal that a session has ended is sent.

It is sent once for each session, by the process whose command ended it: at once, or after the answer where a request
through our middleware is under way. What a process has not sent when it is killed, or when the reply to its command was
lost, nobody sends.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest

from django_redsess.signals import Ended, Reason, session_ended
from django_redsess.transport.keys import is_sid


class Endings(Collection[Ended]):
    """Sessions that ended with one command, as its reply has them: read only if somebody wants to know."""

    def __init__(self, at_milliseconds: bytes, groups: Sequence[Any]) -> None:
        self._at = at_milliseconds
        self._groups = list(zip(groups[::3], groups[1::3], groups[2::3], strict=True))

    def __len__(self) -> int:
        return sum(count for _, count, _ in self._groups)

    def __iter__(self) -> Iterator[Ended]:
        at = datetime.fromtimestamp(int(self._at) / 1000, UTC)
        for reason, _, packed in self._groups:
            why, start = Reason(reason.decode()), 0
            # See with_ended in remove.lua. Somebody else's record may name anything as its user, and be of no session.
            while start < len(packed):
                end = start + 21 + packed[start + 20]
                sid = packed[start : start + 20].decode(errors="replace")
                if is_sid(sid):
                    yield Ended(sid, packed[start + 21 : end].decode(errors="replace"), why, at)
                start = end

    def __contains__(self, ended: object) -> bool:
        return ended in list(self)


class Answering:
    """The answering of ``request``, as a context: what ends meanwhile is told of when the answer has been sent."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self._ended: list[Ended] = []
        self._over = False

    def __enter__(self) -> Answering:
        self._token = _answering.set(self)
        return self

    def __exit__(self, *error: object) -> None:
        _answering.reset(self._token)
        self._over = True
        if self._ended:
            self._send_at_the_end()

    def hold(self, ended: Collection[Ended]) -> bool:
        """Keep ``ended`` for later. False when later is over: a task may outlive the request that began it."""
        if not self._over:
            self._ended.extend(ended)
        return not self._over

    def send(self) -> None:
        """Send the signal for each that is kept, now."""
        self._over = True
        ended, self._ended = self._ended, []
        for each in ended:
            session_ended.send_robust(Ended, **each._asdict())

    def _send_at_the_end(self) -> None:
        # Receivers may take their time: the visitor has the answer by then. Django closes the request with the answer
        # that is sent in the end, whatever other middleware made of ours.
        close = self.request.close

        def closing() -> None:
            close()
            self.send()

        self.request.close = closing  # type: ignore[method-assign]


_answering: ContextVar[Answering | None] = ContextVar("django_redsess_answering", default=None)


def request_answered() -> HttpRequest | None:
    """Return the request that is answered where this is asked; None outside of requests, and without our middleware."""
    answering = _answering.get()
    return None if answering is None else answering.request


def is_held(ended: Collection[Ended]) -> bool:
    """Tell whether no signal is sent now: it is kept for after the answer, or nobody listens."""
    # Where nobody listens, there is no need to read what the reply says.
    if not ended or not session_ended.receivers:
        return True
    answering = _answering.get()
    return answering is not None and answering.hold(ended)
