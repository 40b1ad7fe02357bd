"""
Observers get a call for each operation on the store, and for rare events: for metrics and traces. Public.

``REDSESS["OBSERVERS"]`` names them. Without observers, nothing is called and nothing is measured.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_redsess.clock import monotonic
from django_redsess.conf import Conf

__all__ = ["Observer", "Server"]

logger = logging.getLogger("django_redsess")

EXTRAS = {"opentelemetry": "otel", "prometheus_client": "prometheus", "sentry_sdk": "sentry"}
"""Which of our extras brings a package that an observer imports."""


class Server(NamedTuple):
    """
    Where an operation was sent, and as what.

    ``address`` and ``port`` are as configured. Behind Sentinel, ``address`` is the name of the service; for a Unix
    socket it is the path. Without a port, ``port`` is None. ``peer`` is the ``host:port`` of the master or of the
    cluster's node that got the operation, ``""`` for the only server. ``script`` is the name of the Lua script that
    ran, ``""`` for plain commands. ``commands`` is how many commands were sent together. ``command`` is the name of the
    first, such as ``"HGET"``, or ``"EVALSHA"`` if a script is among them.
    """

    address: str
    port: int | None
    database: int
    peer: str = ""
    script: str = ""
    commands: int = 1
    command: str = ""


class Observer(Protocol):
    """
    The protocol of the classes in ``REDSESS["OBSERVERS"]``. Each is instantiated once in a process, without arguments.

    Its methods are called in the thread, or in the task, whose operation it was: so a tracer finds the span of the
    request. They must return at once, since each request waits for them. In an event loop, all requests do.

    An observer that raises is logged, and not called again in this process. An observer that takes more than 5 ms a
    call on average is logged when that adds up to a second, and not called for a minute; the next time for two, up to
    an hour. A call can't be interrupted: if it never returns, its request never ends.
    """

    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        """
        Note an operation, after its last reply, error or repetition.

        ``name`` says what was done, such as ``"read"``, ``"save"`` or ``"sign_in"``. ``seconds`` is how long it took,
        repetitions and waits between them included. ``error`` is what the caller gets:
        :class:`~django_redsess.exceptions.SessionStoreUnavailable` in an outage, an ``asyncio.CancelledError`` or
        ``GeneratorExit`` if the request was interrupted; or None.
        """

    def event(self, name: str, **facts: object) -> None:
        """Note an event. ``facts`` are numbers and texts; which ones, depends on its ``name``."""


class FailedObserver(NamedTuple):
    """Why the observer at ``path`` could not be instantiated, and what a person can do."""

    path: str
    why: str
    hint: str


CALL_SECONDS = 0.005
"""How long a call may take on average. With many busy threads, even a short call waits for the interpreter at times."""

SPARE_SECONDS = 1.0
"""How far an observer may exceed that in all, before it is paused."""

PAUSE_SECONDS, PAUSE_SECONDS_MAX = 60.0, 3600.0
"""How long the first pause is, and the longest: each pause is twice as long as the one before."""


class CalledObserver:
    """An observer that is called, and the time that it has taken since it was instantiated or paused."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.operation, self.event = observer.operation, observer.event
        self.pause, self.pauses_until = PAUSE_SECONDS, 0.0
        self._reset_measure()

    def _reset_measure(self) -> None:
        self.calls, self.seconds, self.excess = 0, 0.0, 0.0

    def took(self, seconds: float, now: float) -> None:
        """Note that a call took ``seconds``, until ``now``. Pause the observer if that is too much."""
        self.excess = max(0.0, self.excess + seconds - CALL_SECONDS)
        # Calls of other threads may return during a pause.
        if self.excess <= SPARE_SECONDS or now < self.pauses_until:
            return
        if now - self.pauses_until > PAUSE_SECONDS_MAX:
            self.pause = PAUSE_SECONDS
        pause, self.pauses_until = self.pause, now + self.pause
        self.pause = min(2 * pause, PAUSE_SECONDS_MAX)
        text = "%s is too slow, and is not called for %.0f s: requests waited for it for %.1f s (calls: %d)."
        logger.warning(text, type(self.observer).__qualname__, pause, self.seconds, self.calls)
        self._reset_measure()


chosen: tuple[CalledObserver, ...] = ()
"""The observers that are called: all in ``REDSESS["OBSERVERS"]`` but those that failed."""

not_made: list[FailedObserver] = []
"""Observers that could not be instantiated. The site runs without them, and a check reports them."""

_named: tuple[str, ...] = ()


def choose_observers() -> None:
    """
    Instantiate the observers in the setting, unless it is the same as before.

    An observer that can't be instantiated is logged and left out. A setting of the wrong kind is left to the checks.
    """
    global chosen, _named
    redsess = getattr(settings, "REDSESS", {})
    given = redsess.get("OBSERVERS", ()) if isinstance(redsess, Mapping) else ()
    named = tuple(given) if Conf.OBSERVERS.rule.allows(given) else ()
    if named != _named:
        not_made.clear()
        chosen, _named = tuple(observer for path in named if (observer := _make_observer(path))), named


def _choose_again(*, setting: str, **kwargs: Any) -> None:
    if setting == "REDSESS":
        choose_observers()


setting_changed.connect(_choose_again)


def _make_observer(path: str) -> CalledObserver | None:
    try:
        return CalledObserver(import_string(path)())
    except Exception as error:
        package = (getattr(error, "name", None) or "").partition(".")[0] if isinstance(error, ImportError) else ""
        why, hint = f"{type(error).__name__}: {error}", "It must name a class that is made without arguments."
        if package in EXTRAS:
            why = f"the package {package} is missing"
            hint = f"Install it: pip install 'django-redsess[{EXTRAS[package]}]'."
        not_made.append(FailedObserver(path, why, hint))
        logger.error("The observer %s can't be made, and is left out: %s. %s", path, why, hint)
        return None


def notify_operation(name: str, server: Server, seconds: float, error: BaseException | None) -> None:
    """Call all observers for an operation."""
    began = monotonic()
    for each in chosen:
        if began < each.pauses_until:
            continue
        try:
            each.operation(name, server, seconds, error)
        except Exception:
            _leave_out(each)
        now = monotonic()
        taken = now - began
        each.calls, each.seconds, began = each.calls + 1, each.seconds + taken, now
        if taken > CALL_SECONDS or each.excess:
            each.took(taken, now)


def notify_event(name: str, **facts: object) -> None:
    """Call all observers for an event."""
    began = monotonic()
    for each in chosen:
        if began < each.pauses_until:
            continue
        try:
            each.event(name, **facts)
        except Exception:
            _leave_out(each)
        now = monotonic()
        taken = now - began
        each.calls, each.seconds, began = each.calls + 1, each.seconds + taken, now
        if taken > CALL_SECONDS or each.excess:
            each.took(taken, now)


def _leave_out(failed: CalledObserver) -> None:
    """Log the present exception, and call the observer no more."""
    global chosen
    chosen = tuple(other for other in chosen if other is not failed)
    logger.exception("%s failed, and is not called again in this process.", type(failed.observer).__qualname__)
