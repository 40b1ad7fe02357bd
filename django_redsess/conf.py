"""The settings of this app: the dict ``REDSESS``. Every key is optional."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, TypeVar

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.functional import Promise
from django.utils.translation import gettext_lazy

T = TypeVar("T")

END_MESSAGES: Sequence[str | Promise] = (
    gettext_lazy("Somebody else may have known your password. Please change it."),
    gettext_lazy("This device was reported lost."),
    gettext_lazy("Your permissions have changed. Please sign in again."),
)

prefix_of_test: Callable[[], str | None] | None = None
"""Returns the prefix of the store that a test has for itself, or None. ``testing`` puts it here."""


class _Prefix(cached_property[Any]):
    """A text is cached, as by ``cached_property``. A function is kept, and called each time."""

    def __get__(self, conf: Any, owner: Any = None) -> Any:
        if conf is None:
            return self
        prefix = conf.__dict__.get("prefix_function") or self.func(conf)
        if not callable(prefix):
            # Found there from now on, without a call.
            conf.__dict__["PREFIX"] = prefix
            return prefix
        conf.__dict__["prefix_function"] = prefix
        returned = prefix()
        if not isinstance(returned, str):
            raise ImproperlyConfigured(f"The function REDSESS['PREFIX'] must return a text; it returned {returned!r}.")
        return returned


class Conf:
    """
    The values of ``settings.REDSESS``, or their defaults.

    Each value is cached, because a request reads a dozen of them and Django takes a microsecond for each. A test that
    overrides the setting clears the cache.
    """

    @_Prefix
    def PREFIX(self) -> str | Callable[[], str]:
        """
        The prefix of all Redis keys. Two sites on one server, or two tables of users, need different prefixes.

        The value is a text, or a function without arguments that returns it. The function is called at each operation.
        """
        return (prefix_of_test and prefix_of_test()) or self._read("PREFIX", "redsess")

    @cached_property
    def MAX_SESSIONS(self) -> int:
        """The maximum number of sessions. Above it, sessions are evicted: guests' first, the longest unseen first."""
        return self._read("MAX_SESSIONS", 10_000_000)

    @cached_property
    def MAX_GUESTS(self) -> int | None:
        """The maximum number of guests' sessions. None: no limit except ``MAX_SESSIONS``."""
        return self._read("MAX_GUESTS", None)

    @cached_property
    def MAX_SESSIONS_PER_USER(self) -> int | str | None:
        """
        The maximum number of sessions of one user. None: no limit.

        The value is an integer, or the dotted path of a function that takes the user.
        """
        return self._read("MAX_SESSIONS_PER_USER", None)

    @cached_property
    def USER_SESSIONS_CEILING(self) -> int | None:
        """
        The maximum number of sessions of a user for whom ``MAX_SESSIONS_PER_USER`` sets no limit. None: no ceiling.

        A sign-in above it ends the user's session that was not used for the longest time.
        """
        return self._read("USER_SESSIONS_CEILING", 1000)

    @cached_property
    def SESSION_LIMIT_POLICY(self) -> str:
        """
        What happens at a sign-in above ``MAX_SESSIONS_PER_USER``.

        ``end_oldest`` and ``end_least_recent`` end another session of the user. ``refuse`` refuses the sign-in.
        """
        return self._read("SESSION_LIMIT_POLICY", "end_oldest")

    @cached_property
    def END_ON_DEACTIVATION(self) -> bool:
        """Whether a user's sessions end when a save sets the user's ``is_active`` to False."""
        return self._read("END_ON_DEACTIVATION", True)

    @cached_property
    def END_MESSAGES(self) -> Sequence[str | Promise]:
        """The reasons to choose from when an administrator ends sessions. Their users read them."""
        return self._read("END_MESSAGES", END_MESSAGES)

    @cached_property
    def END_ON_DELETION(self) -> bool:
        """Whether a user's sessions end when the user is deleted."""
        return self._read("END_ON_DELETION", True)

    @cached_property
    def END_ON_PASSWORD_CHANGE(self) -> bool:
        """Whether a user's sessions end when the user is saved with a new password. The present session stays."""
        return self._read("END_ON_PASSWORD_CHANGE", True)

    @cached_property
    def CONFIRM_ENDS(self) -> tuple[int, int] | None:
        """
        How many replicas are to confirm an end, and how many milliseconds it waits for them. None: it does not wait.

        It is for sessions that are kicked, that end when the account changes, or that a sign-in ends above
        ``MAX_SESSIONS_PER_USER``.
        """
        return self._read("CONFIRM_ENDS", None)

    @cached_property
    def TOUCH_INTERVAL(self) -> int:
        """Seconds between two updates of a session's last-seen time. Requests in between do not update it."""
        return self._read("TOUCH_INTERVAL", 10)

    @cached_property
    def PARTITIONS(self) -> int:
        """The number of partitions, a power of two. It can't change during the life of the store."""
        return self._read("PARTITIONS", 1)

    @cached_property
    def IDLE_TIMEOUT(self) -> int | None:
        """The seconds after its last active request at which a session expires. None: no idle time-out."""
        return self._read("IDLE_TIMEOUT", None)

    @cached_property
    def ABSOLUTE_TIMEOUT(self) -> int | None:
        """The seconds after sign-in at which a session expires, used or not. None: no absolute time-out."""
        return self._read("ABSOLUTE_TIMEOUT", None)

    @cached_property
    def SLIDING(self) -> bool:
        """Whether each active request restarts the age of the session and of its cookie. If not, only a save does."""
        return self._read("SLIDING", False)

    @cached_property
    def PASSIVE_PATHS(self) -> Sequence[str]:
        """Path prefixes of passive requests, such as polling. A passive request does not prolong the session."""
        nothing: Sequence[str] = ()
        return self._read("PASSIVE_PATHS", nothing)

    @cached_property
    def PASSIVE_HEADER(self) -> str:
        """The request header that marks a request as passive when its value is ``1``."""
        return self._read("PASSIVE_HEADER", "X-Session-Passive")

    @cached_property
    def TRUSTED_PROXIES(self) -> int:
        """
        The number of your own proxies in front of the site. So many entries of X-Forwarded-For are trusted.

        With 0, the header is ignored, and the client's address is ``REMOTE_ADDR``.
        """
        return self._read("TRUSTED_PROXIES", 0)

    @cached_property
    def CLIENT_ADDRESS(self) -> str:
        """How much of the client's address is stored: ``full``, only the network (``truncated``), or ``none``."""
        return self._read("CLIENT_ADDRESS", "full")

    @cached_property
    def INDEX_ADDRESSES(self) -> bool:
        """
        Whether an index finds the sessions of an address or a network.

        Without it, only the newest 10 000 sign-ins are looked through.
        """
        return self._read("INDEX_ADDRESSES", False)

    @cached_property
    def HIDDEN_VALUES(self) -> Sequence[str]:
        """Top-level keys of session data whose values the admin never shows. Django's own secrets are always hidden."""
        nothing: Sequence[str] = ()
        return self._read("HIDDEN_VALUES", nothing)

    @cached_property
    def VIEWED_VIEWS(self) -> Mapping[str, str]:
        """
        The views that show an item.

        Each key is a view name, as for ``reverse()``. Its value is the URL keyword that has the item's id.
        """
        nothing: Mapping[str, str] = {}
        return self._read("VIEWED_VIEWS", nothing)

    @cached_property
    def VIEWED_GUESTS(self) -> bool:
        """Whether viewing an item starts a session, and sets its cookie, for a guest who has none."""
        return self._read("VIEWED_GUESTS", False)

    @cached_property
    def VIEWED_RESOLVE(self) -> str | None:
        """
        The dotted path of a function that takes a list of item ids and returns a mapping of ids to objects.

        None: items are not resolved to objects.
        """
        return self._read("VIEWED_RESOLVE", None)

    @cached_property
    def VIEWED_PER_SESSION(self) -> int:
        """The maximum number of viewed items in a session. The newest are kept."""
        return self._read("VIEWED_PER_SESSION", 25)

    @cached_property
    def VIEWED_LIMIT(self) -> int:
        """The maximum number of items whose views are counted. The most viewed are kept."""
        return self._read("VIEWED_LIMIT", 100_000)

    def _read(self, name: str, default: T) -> T:
        redsess: Mapping[str, T] = getattr(settings, "REDSESS", {})
        return redsess.get(name, default)

    def forget(self, *, setting: str = "REDSESS", **kwargs: Any) -> None:
        """Receive Django's signal ``setting_changed``. Clear the cache if REDSESS has changed."""
        if setting == "REDSESS":
            self.__dict__.clear()


conf = Conf()
setting_changed.connect(conf.forget)
