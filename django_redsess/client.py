"""
Running a script on the server of a partition: connections, repeating, and what is an outage.

Connections are those of the django-redis cache ``CACHES[SESSION_CACHE_ALIAS]``, with its address, credentials and
time-outs. Where the caller awaits, they come from a client for asyncio that is made after the same description.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from collections.abc import AsyncGenerator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import redis
import redis.asyncio
from django.conf import settings
from django.core.signals import setting_changed
from django_redis import get_redis_connection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoPermissionError, NoScriptError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

if TYPE_CHECKING:
    from django_redsess.keys import Partition
    from django_redsess.scripts import Script

REPEATS = 1
"""How often a command is sent again when the connection broke. With the time-outs that the README recommends, half a
second each, a request waits one second at most."""

KEYS_OF_SESSION_MAX = 11
"""How many keys a script has that is about one session. Those of lists may have hundreds, and each time others."""

UNREACHABLE = (RedisConnectionError, RedisTimeoutError)

REFUSALS = (
    *("ASK ", "BUSY ", "CLUSTERDOWN", "LOADING", "MASTERDOWN", "MISCONF", "MOVED ", "NOREPLICAS", "OOM", "READONLY"),
    "TRYAGAIN",
)
"""How the answers of a server begin that works, but can't do this now."""

FORBIDDEN = (
    *("ACL failure in script", "The user executing the script can't"),
    *("unknown command", "Unknown command", "Unknown Redis command"),
    *("DB index is out of range", "SELECT is not allowed", "DENIED"),
)
"""How the answers of a server begin that does not let us do what we need, or does not know it: until a person changes
an ACL, a renamed command or an address. (Those of redis-py's NoPermissionError do, too.)"""

Part = str | bytes
"""What a name or an argument is, besides a number."""

logger = logging.getLogger("django_redsess")


class SessionStoreUnavailable(Exception):  # noqa: N818
    """
    The server that holds the sessions can't be reached in time, or can't do now, or not for us, what it was asked to;
    or too many requests change one session at once.

    This is neither a missing key nor a missing session: nobody is signed out by it, and the same cookie works
    afterwards. The middleware answers 503.
    """


class _Outage:
    """
    What this process knows of an outage, so that it is logged once when it begins and once when it is over.

    ``only_the_same``: it is over when one of the scripts works that met it, and not when any does. ``tells_each``: each
    script that meets it is logged, since another may lack something else.
    """

    def __init__(self, *, only_the_same: bool, tells_each: bool = False) -> None:
        self._only_the_same, self._tells_each = only_the_same, tells_each
        self._lock = threading.Lock()
        self._met_by: set[str] = set()
        self._since = 0.0

    @property
    def known(self) -> bool:
        return bool(self._met_by)

    def met(self, script: Script, error: Exception) -> None:
        with self._lock:
            begins = not self._met_by
            told = script.name in self._met_by if self._tells_each else not begins
            self._met_by.add(script.name)
            if begins:
                self._since = time.monotonic()
        if not told:
            where = f" ({_place_of(error, script)})" if self._tells_each else ""
            logger.error("Sessions can't be reached: %s: %s%s", type(error).__name__, _words_of(error), where)

    def worked(self, script: Script) -> None:
        if not self._met_by:
            return
        with self._lock:
            over = bool(self._met_by) and not (self._only_the_same and script.name not in self._met_by)
            if over:
                self._met_by.clear()
        if over:
            logger.info("Sessions are reached again, after %.1f seconds.", time.monotonic() - self._since)


out_of_reach = _Outage(only_the_same=False)

# A full server still loads: it has recovered when what it refused works again.
refusing = _Outage(only_the_same=True)

forbidding = _Outage(only_the_same=True, tells_each=True)


class _Attempt:
    """What is to be sent, and what an answer means. Sending itself differs only in being awaited or not."""

    def __init__(
        self, script: Script, keys: tuple[Part, ...], args: Sequence[Part | int], once: Sequence[Part | int]
    ) -> None:
        self.script, self.keys, self.args, self.once = script, keys, args, once
        self.by_digest = True
        # While an outage is known, repeating would only make everybody wait longer.
        self.repeats = REPEATS if script.repeatable and not out_of_reach.known else 0

    @property
    def packed(self) -> list[bytes]:
        """The command as the server reads it. redis-py would take longer, since it looks at each part anew."""
        how = ("EVALSHA", self.script.digest) if self.by_digest else ("EVAL", self.script.text)
        head = (_kept_head if len(self.keys) <= KEYS_OF_SESSION_MAX else _head)(*how, self.keys)
        args = (*self.args, *self.once)
        return [b"*%d\r\n%b%b" % (3 + len(self.keys) + len(args), head, _packed(*args))]

    def succeeded(self) -> None:
        out_of_reach.worked(self.script)
        refusing.worked(self.script)
        forbidding.worked(self.script)

    def failed(self, error: RedisError) -> None:
        """Prepare for being sent again; else raise what the caller is to know."""
        if isinstance(error, NoScriptError):
            # The server has been restarted, or told to forget: this time it gets the text.
            self.by_digest = False
        elif isinstance(error, UNREACHABLE) and self.repeats:
            self.repeats -= 1
            self.once = ()
        elif _is_forbidden(error):
            forbidding.met(self.script, error)
            raise SessionStoreUnavailable(f"The server that holds the sessions refuses: {_words_of(error)}") from error
        elif _is_outage(error):
            outage = out_of_reach if isinstance(error, UNREACHABLE) else refusing
            outage.met(self.script, error)
            raise SessionStoreUnavailable("The server that holds the sessions can't be reached.") from error
        else:
            raise error


def _head(command: str, script: str, keys: tuple[Part, ...]) -> bytes:
    return _packed(command, script, len(keys), *keys)


# It is the same for all sessions of a partition.
_kept_head = lru_cache(maxsize=1024)(_head)


def _packed(*parts: Part | int) -> bytes:
    encoded = [part if type(part) is bytes else str(part).encode() for part in parts]
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in encoded])


def run(
    partition: Partition,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
) -> Any:
    """
    Run ``script`` on the server of ``partition``, and return its reply.

    A command whose connection broke is repeated once, where the script allows it, and then without the arguments
    ``once``, which come last. Raises SessionStoreUnavailable in an outage, and redis-py's ResponseError when the server
    refuses for any other reason.
    """
    connections = pool()
    attempt = _Attempt(script, keys, args, once)
    while True:
        try:
            reply = _exchange(connections, attempt.packed)
        except RedisError as error:
            attempt.failed(error)
        else:
            attempt.succeeded()
            return reply


async def arun(
    partition: Partition,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
) -> Any:
    """Do as :func:`run` does, on a connection of the running event loop."""
    connections: Any = (await _asyncio_client()).connection_pool
    attempt = _Attempt(script, keys, args, once)
    while True:
        try:
            reply = await _aexchange(connections, attempt.packed)
        except RedisError as error:
            attempt.failed(error)
        else:
            attempt.succeeded()
            return reply


def ask(*command: Part | int) -> Any:
    """Send a command that is no script, once, and return its reply. Raises redis-py's RedisError."""
    return _exchange(pool(), [b"*%d\r\n%b" % (len(command), _packed(*command))])


# A reply belongs to its request. So what is between sending and the end of the reply when anything comes in between (a
# time-out, the exception of a signal or a greenlet, the end of a task) closes the connection: its reply would be taken
# for that of the next request. Not all connections of redis-py see to that themselves, those behind Sentinel for one.
# Not by execute_command(), which repeats as it is told to, and looks after what we don't use.


def _exchange(connections: Any, packed: list[bytes]) -> Any:
    connection = connections.get_connection()
    answered = False
    try:
        connection.send_packed_command(packed)
        try:
            reply = connection.read_response()
        except ResponseError:
            answered = True
            raise
        answered = True
    finally:
        if not answered:
            connection.disconnect()
        connections.release(connection)
    return reply


async def _aexchange(connections: Any, packed: list[bytes]) -> Any:
    connection = await connections.get_connection()
    answered = False
    try:
        await connection.send_packed_command(packed)
        try:
            reply = await connection.read_response()
        except ResponseError:
            answered = True
            raise
        answered = True
    finally:
        if not answered:
            await connection.disconnect(nowait=True)
        await connections.release(connection)
    return reply


# The same holds for what redis-py sends first on a new connection, and where nothing but its own errors closes one.


def _greet(connection: Any) -> None:
    try:
        connection.on_connect()
    except BaseException:
        connection.disconnect()
        raise


async def _agreet(connection: Any) -> None:
    try:
        await connection.on_connect()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise


_pool: Any = None


def pool() -> Any:
    """Return the connections that sessions use: django-redis has one pool for each address in a process."""
    global _pool
    if _pool is None:
        _pool = get_redis_connection(settings.SESSION_CACHE_ALIAS).connection_pool
        _pool.connection_kwargs.setdefault("redis_connect_func", _greet)
    return _pool


def _forget_pool(*, setting: str, **kwargs: Any) -> None:
    global _pool
    if setting in ("CACHES", "SESSION_CACHE_ALIAS"):
        _pool = None


setting_changed.connect(_forget_pool)


def _is_outage(error: RedisError) -> bool:
    if isinstance(error, UNREACHABLE):
        return True
    # redis-py takes the code off the message where it has a class for it, and then the class tells.
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
        isinstance(error, ResponseError) and str(error).startswith(FORBIDDEN)
    )


def _words_of(error: Exception) -> str:
    # Some servers repeat what they were sent, and tell where in the script it was.
    return re.split(", with args| script: ", str(error))[0]


def _place_of(error: Exception, script: Script) -> str:
    # Redis 7.0 does not name the command of a script that it refuses, but its line.
    at = re.search(r"@user_script:(\d+)", str(error))
    line = script.text.splitlines()[int(at[1]) - 1] if at else ""
    return " ".join([*re.findall(r'call\("(\w+)"', line), "in the script", script.name])


_OF_LOOP: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Any, tuple[redis.asyncio.Redis, Any]]] = WeakKeyDictionary()
_OF_LOOP_LOCK = threading.Lock()

# What describes a connection in both halves of redis-py. The rest (parser, retries, what the pools tell each other)
# is each half's own.
_COMMON_OPTIONS = frozenset(
    (
        *("host", "port", "path", "db", "username", "password", "credential_provider", "client_name", "protocol"),
        *("socket_timeout", "socket_connect_timeout", "socket_keepalive", "socket_keepalive_options"),
        *("ssl_keyfile", "ssl_certfile", "ssl_password", "ssl_ca_certs", "ssl_ca_data", "ssl_ca_path", "ssl_cert_reqs"),
        *("ssl_check_hostname", "ssl_min_version", "ssl_ciphers", "health_check_interval"),
    )
)


async def _asyncio_client() -> redis.asyncio.Redis:
    # A connection belongs to the event loop that opened it, so each loop has a client of its own.
    connections = pool()
    loop = asyncio.get_running_loop()
    clients = _OF_LOOP.get(loop)
    if clients is None:
        with _OF_LOOP_LOCK:
            # One that ended without notice: its connections refer to it, so nothing else would let it go.
            for closed in [other for other in _OF_LOOP if other.is_closed()]:
                del _OF_LOOP[closed]
            clients = _OF_LOOP.setdefault(loop, {})
    if connections not in clients:
        client = _asyncio_twin(connections)
        lifetime = _lifetime(client)
        clients[connections] = client, lifetime
        await anext(lifetime)
    return clients[connections][0]


async def _lifetime(client: redis.asyncio.Redis) -> AsyncGenerator[None]:
    # An event loop that ends closes the asynchronous generators that are under way in it: the only notice there is.
    try:
        yield
    finally:
        with _OF_LOOP_LOCK:
            _OF_LOOP.pop(asyncio.get_running_loop(), None)
        manager = getattr(client.connection_pool, "sentinel_manager", None)
        for each in (client, *(manager.sentinels if manager else ())):
            await each.connection_pool.disconnect()


class _WaitingSentinelPool(redis.asyncio.sentinel.SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
    """Asks the sentinels for the address, and lets tasks wait for a connection."""


def _asyncio_twin(pool: Any) -> redis.asyncio.Redis:
    options = {name: value for name, value in pool.connection_kwargs.items() if name in _COMMON_OPTIONS}
    options["redis_connect_func"] = _agreet
    # A loop may have any number of requests under way, where a process has so many threads: who finds no connection
    # free waits for one, as long as the pool says, or as for an answer.
    waiting = {
        "max_connections": pool.max_connections,
        "timeout": getattr(pool, "timeout", options.get("socket_timeout")),
    }
    if isinstance(pool, redis.sentinel.SentinelConnectionPool):  # The address is what the sentinels say.
        sentinels = [_asyncio_twin(sentinel.connection_pool) for sentinel in pool.sentinel_manager.sentinels]
        ssl = issubclass(pool.connection_class, redis.sentinel.SentinelManagedSSLConnection)
        manager: Any = redis.asyncio.sentinel.Sentinel([], ssl=ssl, **options)  # type: ignore[no-untyped-call]
        manager.sentinels = sentinels
        master: redis.asyncio.Redis = manager.master_for(
            pool.service_name, connection_pool_class=_WaitingSentinelPool, **waiting
        )
        return master
    connection_class = getattr(redis.asyncio.connection, pool.connection_class.__name__)
    return redis.asyncio.Redis(
        connection_pool=redis.asyncio.BlockingConnectionPool(connection_class=connection_class, **waiting, **options)
    )
