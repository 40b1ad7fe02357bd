"""
Sending to the server that holds the sessions: scripts, and pipelines of plain commands.

A request is repeated here when its connection broke. The connections are those of
:mod:`django_redsess.transport.connections`; :mod:`django_redsess.transport.outage` says what is an outage.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from redis._parsers import _AsyncHiredisParser, _HiredisParser
from redis._parsers.hiredis import NOT_ENOUGH_DATA
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.connections import clock, loop_pool, pool
from django_redsess.transport.outage import UNREACHABLE, judge, out_of_reach, refusing, under_way, worked

try:
    from hiredis import PushNotification
except ImportError:  # None is installed, or one that does not know them.
    PushNotification: Any = None  # type: ignore[no-redef]

if TYPE_CHECKING:
    from django_redsess.transport.keys import Partition
    from django_redsess.transport.scripts import Script

__all__ = [
    "UNREACHABLE",
    "Part",
    "SessionStoreUnavailable",
    "afetch",
    "arun",
    "ask",
    "clock",
    "fetch",
    "packed",
    "pool",
    "run",
]

REPEATS = 1
"""How often a command is sent again when the connection broke. With the time-outs that the README recommends, half a
second each, a request waits one second at most."""

KEYS_OF_SESSION_MAX = 11
"""How many keys a script has that is about one session. Those of lists may have hundreds, and each time others."""

WRITTEN_AT_ONCE = 16 * 1024
"""Bytes that an event loop takes without being waited for. redis-py makes a task for each command that it sends."""

Part = str | bytes
"""What a name or an argument is, besides a number."""


def packed(command: str, *parts: Part | int) -> bytes:
    """Return a plain command as the server reads it. redis-py would take longer, since it looks at each part anew."""
    return b"*%d\r\n%b" % (1 + len(parts), _packed(command, *parts))


def _packed(*parts: Part | int) -> bytes:
    read = b""
    for part in parts:
        encoded = part if type(part) is bytes else str(part).encode()
        read += b"$%d\r\n%b\r\n" % (len(encoded), encoded)
    return read


def _head(command: str, script: str, keys: tuple[Part, ...]) -> bytes:
    return _packed(command, script, len(keys), *keys)


# It is the same for all sessions of a partition.
_kept_head = lru_cache(maxsize=1024)(_head)


class _Failures:
    """What becomes of a request that fails: it is sent again, or the caller is to know."""

    text = ""
    repeats = REPEATS

    def __init__(self, name: str) -> None:
        self.name = name

    def failed(self, error: RedisError) -> None:
        """Return where it is to be sent again; else raise what the caller is to know."""
        if self.repeats and _is_passing(error):
            self.repeats -= 1
            return
        raised = judge(error, self.name, text=self.text)
        if raised is error:
            raise error
        raise raised from error


def _is_passing(error: RedisError) -> bool:
    # While an outage is known, repeating would only make everybody wait longer.
    if isinstance(error, ReadOnlyError):
        # A master that was demoted: a new connection may find the one that took its place.
        return not refusing.known
    return isinstance(error, UNREACHABLE) and not out_of_reach.known


class _Run(_Failures):
    """A script with its keys and arguments, and the plain commands that are sent in front of it."""

    def __init__(
        self,
        script: Script,
        keys: tuple[Part, ...],
        args: Sequence[Part | int],
        once: Sequence[Part | int],
        before: bytes,
        replies: int,
    ) -> None:
        self.name, self.repeats = script.task, REPEATS if script.repeatable else 0
        self.script, self.keys, self.args, self.once = script, keys, args, once
        self.before, self.replies = before, replies
        self.has_before = bool(replies)
        self.first: list[Any] = []
        self.by_digest = True

    @property
    def text(self) -> str:  # type: ignore[override]
        return self.script.text

    @property
    def packed(self) -> bytes:
        how = ("EVALSHA", self.script.digest) if self.by_digest else ("EVAL", self.script.text)
        head = (_kept_head if len(self.keys) <= KEYS_OF_SESSION_MAX else _head)(*how, self.keys)
        args = (*self.args, *self.once)
        return b"%b*%d\r\n%b%b" % (self.before, 3 + len(self.keys) + len(args), head, _packed(*args))

    def result(self, answers: list[Any]) -> Any:
        reply = answers.pop()
        if self.replies:
            self.first = answers
        if isinstance(reply, ResponseError):
            raise reply
        # A short way that leaves its task to another has done nothing.
        if under_way and (reply or self.script.task == self.script.name):
            worked(self.name)
        return (reply, self.first) if self.has_before else reply

    def failed(self, error: RedisError) -> None:
        if isinstance(error, NoScriptError):
            # The server has been restarted, or told to forget: this time it gets the text, and that alone.
            self.by_digest = False
            self.before, self.replies = b"", 0
            return
        super().failed(error)
        self.once = ()


def run(
    partition: Partition,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
    *,
    before: bytes = b"",
    replies: int = 0,
) -> Any:
    """
    Run ``script`` on the server of ``partition``, and return its reply.

    ``before`` are plain commands of :func:`packed` that are sent in front of it. They have ``replies`` replies, and
    where that is not 0, what is returned is ``(reply, [those replies])``; an error among them is there as an exception,
    and does not disturb.

    A command whose connection broke is repeated once, where the script allows it, and then without the arguments
    ``once``, which come last. Raises SessionStoreUnavailable in an outage, and redis-py's ResponseError when the server
    refuses for any other reason.
    """
    connections = pool()
    request = _Run(script, keys, args, once, before, replies)
    while True:
        try:
            return request.result(_exchange(connections, request.packed, request.replies + 1))
        except RedisError as error:
            request.failed(error)


async def arun(
    partition: Partition,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
    *,
    before: bytes = b"",
    replies: int = 0,
) -> Any:
    """Do as :func:`run` does, on a connection of the running event loop."""
    connections = await loop_pool()
    request = _Run(script, keys, args, once, before, replies)
    while True:
        try:
            return request.result(await _aexchange(connections, request.packed, request.replies + 1))
        except RedisError as error:
            request.failed(error)


def fetch(name: str, packed: bytes, replies: int, needed: int = 1, *, connections: Any = None) -> list[Any]:
    """
    Send plain commands, one or several of :func:`packed`, on one connection, and return their replies.

    All are read, though an earlier one is an error; errors are there as exceptions. The first ``needed`` decide: where
    one is an error, this raises what :func:`run` raises. Errors of later ones do not disturb, except for that of a
    master that was demoted: all is sent once more on a new connection. It must be harmless if that happens. ``name``
    stands for what is asked, where it meets an outage; ``connections`` are those of :func:`pool`, from who has them.
    """
    connections = connections or pool()
    failures = None
    while True:
        try:
            answers = _exchange(connections, packed, replies)
            for answer in answers[:needed]:
                if isinstance(answer, ResponseError):
                    raise answer
        except RedisError as error:
            failures = failures or _Failures(name)
            failures.failed(error)
        else:
            if under_way:
                worked(name)
            return answers


async def afetch(name: str, packed: bytes, replies: int, needed: int = 1) -> list[Any]:
    """Do as :func:`fetch` does, on a connection of the running event loop."""
    connections = await loop_pool()
    failures = None
    while True:
        try:
            answers = await _aexchange(connections, packed, replies)
            for answer in answers[:needed]:
                if isinstance(answer, ResponseError):
                    raise answer
        except RedisError as error:
            failures = failures or _Failures(name)
            failures.failed(error)
        else:
            if under_way:
                worked(name)
            return answers


def ask(command: str, *parts: Part | int) -> Any:
    """Send a command that is no script, once, and return its reply. Raises redis-py's RedisError."""
    (reply,) = _exchange(pool(), packed(command, *parts), 1)
    if isinstance(reply, ResponseError):
        raise reply
    return reply


# A reply belongs to its request. So what is between sending and the end of the last reply when anything comes in
# between (a time-out, the exception of a signal or a greenlet, the end of a task) closes the connection: its replies
# would be taken for those of the next request. Not all connections of redis-py see to that themselves, those behind
# Sentinel for one. Not by execute_command(), which repeats as it is told to, and looks after what we don't use.


_LOST = (*UNREACHABLE, ReadOnlyError)


def _exchange(connections: Any, packed: bytes, replies: int) -> list[Any]:
    connection = connections.take()
    answers: list[Any] = []
    answered = False
    try:
        if type(connection._parser) is _HiredisParser and not connection.health_check_interval:
            _send_and_read(connection._sock, connection._parser, packed, answers, replies)
        else:
            connection.send_packed_command([packed], connection.health_check_interval)
            while len(answers) < replies:
                try:
                    answers.append(connection.read_response(True))
                except ResponseError as error:
                    answers.append(error)
        for answer in answers:
            if type(answer) is ReadOnlyError:
                raise answer
        answered = True
    except _LOST:
        # The repetition is not to meet the next one that is lost.
        connections.lose_idle()
        raise
    finally:
        if not answered:
            connection.disconnect()
        connections.give(connection)
    return answers


def _send_and_read(sock: Any, parser: Any, packed: bytes, answers: list[Any], replies: int) -> None:
    # As redis-py does with hiredis, in a third of the calls.
    reader, buffer = parser._reader, parser._buffer
    try:
        sock.sendall(packed)
        while len(answers) < replies:
            if not (size := sock.recv_into(buffer)):
                raise RedisConnectionError("Connection closed by server.")
            reader.feed(buffer, 0, size)
            for message in _read_along(reader, answers, replies):
                parser.handle_push_response(message)
    except TimeoutError as error:
        raise RedisTimeoutError("The server did not answer in time.") from error
    except OSError as error:
        raise RedisConnectionError(f"The connection is lost: {error}") from error


async def _aexchange(connections: Any, packed: bytes, replies: int) -> list[Any]:
    connection = await connections.take()
    answers: list[Any] = []
    answered = False
    try:
        if len(packed) < WRITTEN_AT_ONCE and not connection.health_check_interval:
            connection._writer.write(packed)
        else:
            await connection.send_packed_command([packed], connection.health_check_interval)
        while len(answers) < replies:
            try:
                answers.append(await connection.read_response(True))
            except ResponseError as error:
                answers.append(error)
            if len(answers) < replies and type(connection._parser) is _AsyncHiredisParser:
                parser: Any = connection._parser
                for message in _read_along(parser._reader, answers, replies):
                    await parser.handle_push_response(message)
        for answer in answers:
            if type(answer) is ReadOnlyError:
                raise answer
        answered = True
    except _LOST:
        await connections.lose_idle()
        raise
    finally:
        if not answered:
            await connection.disconnect(nowait=True)
        await connections.give(connection)
    return answers


def _read_along(reader: Any, answers: list[Any], replies: int) -> list[Any]:
    """Add the replies that came along with the first, and return messages between them that are none."""
    # hiredis has them ready, and redis-py takes five calls for each. (Its own parsers have nothing ready.)
    messages = []
    while len(answers) < replies and (answer := reader.gets(False)) is not NOT_ENOUGH_DATA:
        if type(answer) is PushNotification:
            messages.append(answer)
        elif isinstance(answer, RedisConnectionError):
            # As redis-py does: LOADING, say.
            raise answer
        else:
            answers.append(answer)
    return messages
