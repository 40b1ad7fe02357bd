"""The settings of this app: the dict ``REDSESS``. Every key is optional."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.core.signals import setting_changed

T = TypeVar("T")


class Conf:
    """
    The values of ``settings.REDSESS``, or their defaults.

    Each value is read once, and again after a test has overridden the setting: a request reads a dozen of them, and
    Django takes a microsecond for each.
    """

    @cached_property
    def PREFIX(self) -> str:
        """The prefix of all Redis keys. Two sites on one server need different ones."""
        return self._read("PREFIX", "redsess")

    @cached_property
    def MAX_SESSIONS(self) -> int:
        """The most sessions. Above it, the ones longest unseen are evicted, guests' first."""
        return self._read("MAX_SESSIONS", 10_000_000)

    @cached_property
    def MAX_GUESTS(self) -> int | None:
        """The most guests' sessions; None for as many as ``MAX_SESSIONS`` leaves room for."""
        return self._read("MAX_GUESTS", None)

    @cached_property
    def MAX_SESSIONS_PER_USER(self) -> int | str | None:
        """The most sessions of a user, or the dotted path of a function that takes the user; None for no limit."""
        return self._read("MAX_SESSIONS_PER_USER", None)

    @cached_property
    def SESSION_LIMIT_POLICY(self) -> str:
        """What a sign-in above that limit does: ``end_oldest`` or ``end_least_recent`` session, or ``refuse`` it."""
        return self._read("SESSION_LIMIT_POLICY", "end_oldest")

    @cached_property
    def END_ON_DEACTIVATION(self) -> bool:
        """Whether a user's sessions end when the user is saved with ``is_active`` False."""
        return self._read("END_ON_DEACTIVATION", True)

    @cached_property
    def END_ON_DELETION(self) -> bool:
        """Whether a user's sessions end when the user is deleted."""
        return self._read("END_ON_DELETION", True)

    @cached_property
    def END_ON_PASSWORD_CHANGE(self) -> bool:
        """Whether a user's other sessions end when the user is saved with a new password."""
        return self._read("END_ON_PASSWORD_CHANGE", True)

    @cached_property
    def TOUCH_INTERVAL(self) -> int:
        """Seconds between two updates of when a session was last seen: requests in between write nothing."""
        return self._read("TOUCH_INTERVAL", 10)

    @cached_property
    def PARTITIONS(self) -> int:
        """The number of partitions: a power of two, which can't change during the life of the store."""
        return self._read("PARTITIONS", 1)

    @cached_property
    def IDLE_TIMEOUT(self) -> int | None:
        """A session expires so many seconds after its last active request; None for no such limit."""
        return self._read("IDLE_TIMEOUT", None)

    @cached_property
    def ABSOLUTE_TIMEOUT(self) -> int | None:
        """A session expires so many seconds after the sign-in, used or not; None for no such limit."""
        return self._read("ABSOLUTE_TIMEOUT", None)

    @cached_property
    def SLIDING(self) -> bool:
        """Whether each active request gives the session, and its cookie, its full age again."""
        return self._read("SLIDING", False)

    @cached_property
    def PASSIVE_PATHS(self) -> Sequence[str]:
        """Path prefixes of passive requests, such as polling: they do not extend the session."""
        nothing: Sequence[str] = ()
        return self._read("PASSIVE_PATHS", nothing)

    @cached_property
    def PASSIVE_HEADER(self) -> str:
        """The request header that marks a request as passive when its value is ``1``."""
        return self._read("PASSIVE_HEADER", "X-Session-Passive")

    @cached_property
    def TRUSTED_PROXIES(self) -> int:
        """The number of your own proxies in front of the site: so many entries of X-Forwarded-For are trusted."""
        return self._read("TRUSTED_PROXIES", 0)

    @cached_property
    def CLIENT_ADDRESS(self) -> str:
        """How much of the client's address is kept: ``full``, ``truncated`` to its network, or ``none``."""
        return self._read("CLIENT_ADDRESS", "full")

    @cached_property
    def HIDDEN_VALUES(self) -> Sequence[str]:
        """Top-level keys of sessions whose values the admin never shows, in addition to Django's own secrets."""
        nothing: Sequence[str] = ()
        return self._read("HIDDEN_VALUES", nothing)

    @cached_property
    def VIEWED_VIEWS(self) -> Mapping[str, str]:
        """The views that show an item: view name, as for ``reverse()``, to the URL keyword with the item's id."""
        nothing: Mapping[str, str] = {}
        return self._read("VIEWED_VIEWS", nothing)

    @cached_property
    def VIEWED_GUESTS(self) -> bool:
        """Whether a guest without a session gets one, and a cookie, by viewing an item."""
        return self._read("VIEWED_GUESTS", False)

    @cached_property
    def VIEWED_RESOLVE(self) -> str | None:
        """The dotted path of a function that takes a list of item ids and returns a mapping of ids to objects."""
        return self._read("VIEWED_RESOLVE", None)

    @cached_property
    def VIEWED_PER_SESSION(self) -> int:
        """The most viewed items of a session: the newest are kept."""
        return self._read("VIEWED_PER_SESSION", 25)

    @cached_property
    def VIEWED_LIMIT(self) -> int:
        """The most items whose views are counted: the most viewed are kept."""
        return self._read("VIEWED_LIMIT", 100_000)

    def _read(self, name: str, default: T) -> T:
        redsess: Mapping[str, T] = getattr(settings, "REDSESS", {})
        return redsess.get(name, default)

    def forget(self, *, setting: str = "REDSESS", **kwargs: Any) -> None:
        """Receive Django's signal ``setting_changed``: forget all values if REDSESS has changed."""
        if setting == "REDSESS":
            self.__dict__.clear()


conf = Conf()
setting_changed.connect(conf.forget)
