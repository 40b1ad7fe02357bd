"""Which errors are an outage and which are a bug, and what is logged when an outage begins and when it is over."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable

import redis
from redis.exceptions import AuthenticationError, InvalidResponse, NoPermissionError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess import forks, observers
from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.causes import message_of, setting_to_change, words_of

UNREACHABLE = (RedisConnectionError, RedisTimeoutError)

NOT_LOCAL = "Script attempted to access a non local key"
"""Prefix of the error for a script whose keys are being migrated."""

REFUSALS = (
    *("ASK ", "BUSY ", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED ", "NOREPLICAS", "OOM", "READONLY"),
    *("TRYAGAIN", NOT_LOCAL),
)
"""Error prefixes of a server that is up but refusing. The last two are of a cluster that moves the keys elsewhere."""

FOREIGN = "WRONGTYPE"
"""Prefix of the error for a key of ours that another program has written with another type."""

FORBIDDEN = (
    *("ACL failure in script", "The user executing the script can't"),
    *("unknown command", "Unknown command", "Unknown Redis command"),
    *("DB index is out of range", "SELECT is not allowed", "DENIED"),
    FOREIGN,
)
"""Error prefixes of a server that forbids a command, does not know it, or has a foreign value under a key of ours. Such
an outage lasts until a person changes an ACL, a renamed command, an address or the key. redis-py's NoPermissionError
means the same."""

logger = logging.getLogger("django_redsess")


class _Outage:
    """
    An outage, as far as this process knows. It is logged once when it begins and once when it is over.

    It keeps the names of the scripts and pipelines that met it. With ``only_the_same``, the outage is over when one of
    these names works; without, when any name does. With ``tells_each``, each name that meets it is logged, since each
    may lack another permission.
    """

    def __init__(self, server: Outages, *, only_the_same: bool, tells_each: bool = False) -> None:
        self._server, self._only_the_same, self._tells_each = server, only_the_same, tells_each
        self._lock = forks.Lock()
        self._met_by: set[str] = set()
        self._since = 0.0

    @property
    def is_known(self) -> bool:
        return bool(self._met_by)

    def affects(self, name: str) -> bool:
        return name in self._met_by

    def note_failure(self, name: str, error: Exception, *, command: str = "") -> None:
        """Note that ``name`` met ``error``. With ``tells_each``, ``command`` is logged instead of the name."""
        with self._lock:
            begins = not self._met_by
            told = name in self._met_by if self._tells_each else not begins
            self._met_by.add(name)
            self._server.under_way.add(self)
            if begins:
                self._since = monotonic()
        if begins:
            observers.notify_event("outage_begun", server=self._server.name, error=type(error).__name__)
        if not told:
            where = f" ({command or name})" if self._tells_each else ""
            words = words_of(error)
            logger.error("Sessions%s can't be reached: %s: %s%s", self._server.of, type(error).__name__, words, where)

    def note_success(self, name: str) -> None:
        if not self._only_the_same or name in self._met_by:
            self.finish("are reached again")

    def finish(self, how: str) -> None:
        with self._lock:
            over = bool(self._met_by)
            self._met_by.clear()
            self._server.under_way.discard(self)
        if over:
            seconds = monotonic() - self._since
            logger.info("Sessions%s %s, after %.1f seconds.", self._server.of, how, seconds)
            observers.notify_event("outage_over", server=self._server.name, seconds=seconds)


class Outages:
    """
    The outages of one server, as far as this process knows.

    In a cluster, it is one node, or a hash slot that is moving. The log names it by ``name``, as in ``node 10.0.0.1``.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.of = f" of {name}" if name else ""
        self.under_way: set[_Outage] = set()
        """The outages that are not over."""
        self.out_of_reach = _Outage(self, only_the_same=False)
        # A full server still answers reads. It has recovered when a refused operation works again.
        self.refusing = _Outage(self, only_the_same=True)
        self.forbidding = _Outage(self, only_the_same=True, tells_each=True)

    def affects(self, name: str) -> bool:
        """Tell whether ``name`` has met an outage that is not over."""
        return any(outage.affects(name) for outage in self.under_way.copy())

    def note_success(self, name: str) -> None:
        """Note that ``name`` got its reply."""
        for outage in self.under_way.copy():
            outage.note_success(name)

    def finish(self, how: str) -> None:
        """Note that the outages are over, and log ``how``."""
        for outage in self.under_way.copy():
            outage.finish(how)

    def judge(self, error: RedisError, name: str, *, text: str = "") -> Exception:
        """
        Return the exception to raise for ``error``. Note the outage if it is one.

        ``name`` is the name of the operation, ``text`` the text of the script.
        """
        if _is_forbidden(error):
            command = _refused_command(error, name, text)
            self.forbidding.note_failure(name, error, command=command)
            return _unavailable(f"{message_of(error)} ({command})", error, lasts=True)
        if _is_outage(error):
            outage = self.refusing if isinstance(error, ResponseError) else self.out_of_reach
            outage.note_failure(name, error)
            if isinstance(error, (AuthenticationError, InvalidResponse)):
                return _unavailable(message_of(error), error, lasts=True)
            return _unavailable("The server that holds the sessions can't be reached.", error, lasts=False)
        return error


def forbidden(commands: Iterable[str]) -> SessionStoreUnavailable:
    """Return the exception to raise if the server forbids these ``commands``. Nothing is logged."""
    error = NoPermissionError(f"this user has no permissions to run {', '.join(sorted(commands))}")
    return _unavailable(message_of(error), error, lasts=True)


def _unavailable(message: str, error: Exception, *, lasts: bool) -> SessionStoreUnavailable:
    raised = SessionStoreUnavailable(message)
    # A passing outage says no more than that to visitors.
    raised.cause = message if lasts else message_of(error)
    raised.setting, raised.lasts = setting_to_change(error), lasts
    return raised


def _is_outage(error: RedisError) -> bool:
    # Another kind of server gives an invalid response.
    return isinstance(error, (*UNREACHABLE, InvalidResponse)) or is_refusal(error)


def is_refusal(error: RedisError) -> bool:
    """Tell whether the server refuses for now, as it does when it is full."""
    # redis-py takes the code of an error off the message if it has a class for that code.
    return isinstance(error, ResponseError) and (
        str(error).startswith(REFUSALS)
        or isinstance(
            error,
            (
                redis.exceptions.AskError,  # MovedError is one: the address is that of a cluster's node.
                redis.exceptions.ClusterDownError,
                redis.exceptions.OutOfMemoryError,
                redis.exceptions.ReadOnlyError,
                redis.exceptions.TryAgainError,
            ),
        )
    )


def _is_forbidden(error: RedisError) -> bool:
    return isinstance(error, NoPermissionError) or (
        # If a script has caught an error and raised it again, the server puts its general code before it.
        isinstance(error, ResponseError) and str(error).removeprefix("ERR ").startswith(FORBIDDEN)
    )


def is_moving(error: BaseException | None) -> bool:
    """Tell whether a cluster refuses a command because it is moving the keys to another node."""
    # MovedError is an AskError, too.
    return type(error) in (redis.exceptions.AskError, redis.exceptions.TryAgainError) or str(error).startswith(
        NOT_LOCAL
    )


def is_foreign(error: BaseException | None) -> bool:
    """Tell whether another program has written a key of ours with another type."""
    return str(error).startswith(FOREIGN)


def _refused_command(error: Exception, name: str, text: str) -> str:
    if not text:
        return name
    # Redis 7.0 names the line of the script, and not the refused command.
    at = re.search(r"@user_script:(\d+)", str(error))
    line = text.splitlines()[int(at[1]) - 1] if at else ""
    return " ".join([*re.findall(r'call\("(\w+)"', line), "in the script", name])
