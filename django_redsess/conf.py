"""The settings of this app: the dict ``REDSESS``, every key optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.core.signals import setting_changed

T = TypeVar("T")


class Conf:
    """
    Read ``settings.REDSESS``, each value once; and anew when a test overrides it, which takes effect at once.

    A request asks for a dozen of them, and Django takes a microsecond to tell what is in its settings.
    """

    @cached_property
    def PREFIX(self) -> str:
        """What every Redis key begins with, in braces. Two sites on one server differ in it."""
        return self._read("PREFIX", "redsess")

    @cached_property
    def MAX_SESSIONS(self) -> int:
        """How many sessions are kept; above that the ones longest unseen are evicted, guests' before others."""
        return self._read("MAX_SESSIONS", 10_000_000)

    @cached_property
    def MAX_GUESTS(self) -> int | None:
        """How many guests' sessions are kept at most; None for as many as those with a user leave room for."""
        return self._read("MAX_GUESTS", None)

    @cached_property
    def MAX_SESSIONS_PER_USER(self) -> int | str | None:
        """How many sessions a user may have, or a dotted path of a function that takes the user; None for no limit."""
        return self._read("MAX_SESSIONS_PER_USER", None)

    @cached_property
    def SESSION_LIMIT_POLICY(self) -> str:
        """What a sign-in above that does: ``end_oldest``, ``end_least_recent``, or ``refuse``, when it is refused."""
        return self._read("SESSION_LIMIT_POLICY", "end_oldest")

    @cached_property
    def END_ON_DEACTIVATION(self) -> bool:
        """Whether a user's sessions end when the user is saved with ``is_active`` off."""
        return self._read("END_ON_DEACTIVATION", True)

    @cached_property
    def END_ON_DELETION(self) -> bool:
        """Whether a user's sessions end when the user is deleted."""
        return self._read("END_ON_DELETION", True)

    @cached_property
    def END_ON_PASSWORD_CHANGE(self) -> bool:
        """Whether a user's other sessions end when the user is saved with another password."""
        return self._read("END_ON_PASSWORD_CHANGE", True)

    @cached_property
    def TOUCH_INTERVAL(self) -> int:
        """The steps, in seconds, in which last seen is noted: of the requests within one, only the first writes."""
        return self._read("TOUCH_INTERVAL", 10)

    @cached_property
    def PARTITIONS(self) -> int:
        """How many partitions the sessions are spread over: a power of two, for the life of the store."""
        return self._read("PARTITIONS", 1)

    @cached_property
    def IDLE_TIMEOUT(self) -> int | None:
        """Seconds without an active request after which a session expires; None for no such limit."""
        return self._read("IDLE_TIMEOUT", None)

    @cached_property
    def ABSOLUTE_TIMEOUT(self) -> int | None:
        """Seconds after sign-in when a session expires, whatever happens in between; None for no such limit."""
        return self._read("ABSOLUTE_TIMEOUT", None)

    @cached_property
    def SLIDING(self) -> bool:
        """Whether each active request prolongs its session by its full age, and the cookie with it."""
        return self._read("SLIDING", False)

    @cached_property
    def PASSIVE_PATHS(self) -> Sequence[str]:
        """Path prefixes of requests that nobody made by hand, polling for one: they prolong no session."""
        nothing: Sequence[str] = ()
        return self._read("PASSIVE_PATHS", nothing)

    @cached_property
    def PASSIVE_HEADER(self) -> str:
        """The request header that marks a request as passive when its value is ``1``."""
        return self._read("PASSIVE_HEADER", "X-Session-Passive")

    @cached_property
    def TRUSTED_PROXIES(self) -> int:
        """How many proxies of yours a request passes: so many entries of X-Forwarded-For are believed."""
        return self._read("TRUSTED_PROXIES", 0)

    @cached_property
    def CLIENT_ADDRESS(self) -> str:
        """How much of the client's address is kept: ``full``, ``truncated`` to its network, or ``none``."""
        return self._read("CLIENT_ADDRESS", "full")

    @cached_property
    def HIDDEN_VALUES(self) -> Sequence[str]:
        """Top-level keys of sessions whose values the admin shows to nobody, besides those of Django's own secrets."""
        nothing: Sequence[str] = ()
        return self._read("HIDDEN_VALUES", nothing)

    @cached_property
    def VIEWED_VIEWS(self) -> Mapping[str, str]:
        """Which views show an item: view name, as ``reverse()`` takes it → the URL keyword that names the item."""
        nothing: Mapping[str, str] = {}
        return self._read("VIEWED_VIEWS", nothing)

    @cached_property
    def VIEWED_GUESTS(self) -> bool:
        """Whether a guest without a session gets one, and its cookie, for viewing an item."""
        return self._read("VIEWED_GUESTS", False)

    @cached_property
    def VIEWED_RESOLVE(self) -> str | None:
        """Dotted path of a function that takes a list of item ids and returns a mapping of these to objects."""
        return self._read("VIEWED_RESOLVE", None)

    @cached_property
    def VIEWED_PER_SESSION(self) -> int:
        """How many viewed items are kept for a session: the newest."""
        return self._read("VIEWED_PER_SESSION", 25)

    @cached_property
    def VIEWED_LIMIT(self) -> int:
        """How many items the views are kept of: the most viewed."""
        return self._read("VIEWED_LIMIT", 100_000)

    def _read(self, name: str, default: T) -> T:
        given: Mapping[str, T] = getattr(settings, "REDSESS", {})
        return given.get(name, default)

    def forget(self, *, setting: str = "REDSESS", **kwargs: Any) -> None:
        """Read all values anew, if it is our setting that has changed: receives Django's signal."""
        if setting == "REDSESS":
            self.__dict__.clear()


conf = Conf()
setting_changed.connect(conf.forget)
