"""
Observers are told of each operation on the store, and of rare events: for metrics and traces. Public.

``REDSESS["OBSERVERS"]`` names them. Where it names none, nothing is called and nothing is asked.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from django.conf import settings
from django.utils.module_loading import import_string

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
    What a class that ``REDSESS["OBSERVERS"]`` names has to offer. It is made once in a process, without arguments.

    Its methods are called in the thread, or in the task, whose operation it was: so a tracer finds the span of the
    request. They must return at once, since each request waits for them. In an event loop, all requests do. One that
    raises is logged, and not called again in this process.
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


class NotMade(NamedTuple):
    """Why the observer of this ``path`` could not be made, and what a person can do."""

    path: str
    why: str
    hint: str


chosen: tuple[Observer, ...] = ()
"""Those that ``REDSESS["OBSERVERS"]`` names, without those that could not be made or have raised."""

not_made: list[NotMade] = []
"""Those that could not be made. The site runs without them, and a check tells of them."""

_named: tuple[str, ...] = ()


def choose() -> bool:
    """
    Make the observers that the setting names. Return if it names others than before.

    One that can't be made is logged and left out. A setting of the wrong kind is left to the checks.
    """
    global chosen, _named
    redsess = getattr(settings, "REDSESS", {})
    given = redsess.get("OBSERVERS", ()) if isinstance(redsess, Mapping) else ()
    named = tuple(given) if Conf.OBSERVERS.rule.allows(given) else ()
    if named == _named:
        return False
    not_made.clear()
    chosen, _named = tuple(observer for path in named if (observer := _made(path))), named
    return True


def _made(path: str) -> Observer | None:
    try:
        observer: Observer = import_string(path)()
    except Exception as error:
        package = (getattr(error, "name", None) or "").partition(".")[0] if isinstance(error, ImportError) else ""
        why, hint = f"{type(error).__name__}: {error}", "It must name a class that is made without arguments."
        if package in EXTRAS:
            why = f"the package {package} is missing"
            hint = f"Install it: pip install 'django-redsess[{EXTRAS[package]}]'."
        not_made.append(NotMade(path, why, hint))
        logger.error("The observer %s can't be made, and is left out: %s. %s", path, why, hint)
        return None
    return observer


def operation(name: str, server: Server, seconds: float, error: BaseException | None) -> None:
    """Tell all observers of an operation."""
    for observer in chosen:
        try:
            observer.operation(name, server, seconds, error)
        except Exception:
            _leave_out(observer)


def event(name: str, **facts: object) -> None:
    """Tell all observers of an event."""
    for observer in chosen:
        try:
            observer.event(name, **facts)
        except Exception:
            _leave_out(observer)


def _leave_out(observer: Observer) -> None:
    """Log the present exception, and call ``observer`` no more."""
    global chosen
    chosen = tuple(other for other in chosen if other is not observer)
    logger.exception("%s failed, and is not called again in this process.", type(observer).__qualname__)
