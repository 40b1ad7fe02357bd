"""The settings of this app: the dict ``REDSESS``, every key optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from django.conf import settings
from django.core.signals import setting_changed

T = TypeVar("T")


class Conf:
    """Read ``settings.REDSESS``; again when a test overrides it, which takes effect at once."""

    _given: Mapping[str, Any] | None = None

    @property
    def PREFIX(self) -> str:
        """What every Redis key begins with, in braces. Two sites on one server differ in it."""
        return self._read("PREFIX", "redsess")

    @property
    def MAX_SESSIONS(self) -> int:
        """How many sessions are kept; above that the ones longest unseen are evicted."""
        return self._read("MAX_SESSIONS", 10_000_000)

    @property
    def TOUCH_INTERVAL(self) -> int:
        """Seconds that must pass before a request writes again that its session was seen."""
        return self._read("TOUCH_INTERVAL", 10)

    @property
    def PARTITIONS(self) -> int:
        """How many partitions the sessions are spread over: a power of two, for the life of the store."""
        return self._read("PARTITIONS", 1)

    @property
    def IDLE_TIMEOUT(self) -> int | None:
        """Seconds without an active request after which a session expires; None for no such limit."""
        return self._read("IDLE_TIMEOUT", None)

    @property
    def ABSOLUTE_TIMEOUT(self) -> int | None:
        """Seconds after sign-in when a session expires, whatever happens in between; None for no such limit."""
        return self._read("ABSOLUTE_TIMEOUT", None)

    @property
    def SLIDING(self) -> bool:
        """Whether each active request prolongs its session by its full age, and the cookie with it."""
        return self._read("SLIDING", False)

    @property
    def PASSIVE_PATHS(self) -> Sequence[str]:
        """Path prefixes of requests that nobody made by hand, polling for one: they prolong no session."""
        nothing: Sequence[str] = ()
        return self._read("PASSIVE_PATHS", nothing)

    @property
    def PASSIVE_HEADER(self) -> str:
        """The request header that marks a request as passive when its value is ``1``."""
        return self._read("PASSIVE_HEADER", "X-Session-Passive")

    @property
    def TRUSTED_PROXIES(self) -> int:
        """How many proxies of yours a request passes: so many entries of X-Forwarded-For are believed."""
        return self._read("TRUSTED_PROXIES", 0)

    @property
    def CLIENT_ADDRESS(self) -> str:
        """How much of the client's address is kept: ``full``, ``truncated`` to its network, or ``none``."""
        return self._read("CLIENT_ADDRESS", "full")

    @property
    def VIEWED_VIEWS(self) -> Mapping[str, str]:
        """Which views show an item: view name, as ``reverse()`` takes it → the URL keyword that names the item."""
        nothing: Mapping[str, str] = {}
        return self._read("VIEWED_VIEWS", nothing)

    @property
    def VIEWED_GUESTS(self) -> bool:
        """Whether a guest without a session gets one, and its cookie, for viewing an item."""
        return self._read("VIEWED_GUESTS", False)

    @property
    def VIEWED_RESOLVE(self) -> str | None:
        """Dotted path of a function that takes a list of item ids and returns a mapping of these to objects."""
        return self._read("VIEWED_RESOLVE", None)

    @property
    def VIEWED_PER_SESSION(self) -> int:
        """How many viewed items are kept for a session: the newest."""
        return self._read("VIEWED_PER_SESSION", 25)

    @property
    def VIEWED_LIMIT(self) -> int:
        """How many items ``cleanviewed`` keeps the views of: the most viewed."""
        return self._read("VIEWED_LIMIT", 100_000)

    def _read(self, name: str, default: T) -> T:
        # Django's settings take a microsecond to ask, and a request asks for a dozen of ours.
        if self._given is None:
            self._given = getattr(settings, "REDSESS", {})
        value: T = self._given.get(name, default)
        return value

    def _changed(self, *, setting: str, **kwargs: Any) -> None:
        if setting == "REDSESS":
            self._given = None


conf = Conf()
setting_changed.connect(conf._changed)
