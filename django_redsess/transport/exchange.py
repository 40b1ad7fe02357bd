"""
Sending bytes to the server that holds the sessions, and reading the replies: once for threads, once for event loops.

The connections are those of :mod:`django_redsess.transport.pools`. Nothing is repeated here.

All private parts of redis-py that sessions use are in this module. With them, an exchange takes a third of the calls.
They are looked up when a connection is opened. Where one of them is missing, the exchange takes redis-py's public
way.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Generator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from redis.exceptions import (
    AskError,
    ClusterDownError,
    MasterDownError,
    MovedError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess.clock import monotonic
from django_redsess.transport.outages import UNREACHABLE

if TYPE_CHECKING:
    from django_redsess.transport.pools import ConnectionPool, LoopPool, Pool

try:
    from redis._parsers import _AsyncHiredisParser, _HiredisParser
    from redis._parsers.hiredis import NOT_ENOUGH_DATA
except ImportError:  # Private names may move.
    _AsyncHiredisParser = _HiredisParser = NOT_ENOUGH_DATA = None  # type: ignore[assignment, misc]

try:
    from hiredis import PushNotification
except ImportError:  # None is installed, or one that does not know them.
    PushNotification: Any = None  # type: ignore[no-redef]


class Internals(NamedTuple):
    """The parts of an open connection: its socket, redis-py's parser with hiredis, hiredis' reader, a buffer."""

    sock: Any
    parser: Any
    reader: Any
    buffer: Any


class LoopInternals(NamedTuple):
    """
    The parts of an open connection of an event loop.

    ``at_eof`` tells whether the server has closed it. ``write`` is None for a connection that redis-py looks after
    before it writes. ``parser`` and ``reader`` are None without hiredis.
    """

    at_eof: Callable[[], bool]
    write: Callable[[bytes], None] | None
    parser: Any
    reader: Any


def internals_of(connection: Any) -> Internals | None:
    """Return the line of an open connection, or None if its exchanges take the public way."""
    parser = getattr(connection, "_parser", None)
    if parser is None or type(parser) is not _HiredisParser or connection.health_check_interval:
        return None
    line = Internals(socket_of(connection), parser, getattr(parser, "_reader", None), getattr(parser, "_buffer", None))
    return None if None in (line.sock, line.reader, line.buffer) else line


def loop_internals_of(connection: Any) -> LoopInternals | None:
    """Return the line of an open connection of an event loop, or None if its exchanges take the public way."""
    at_eof = getattr(getattr(connection, "_reader", None), "at_eof", None)
    if at_eof is None:
        return None
    write = getattr(getattr(connection, "_writer", None), "write", None)
    parser = getattr(connection, "_parser", None)
    reader = getattr(parser, "_reader", None) if type(parser) is _AsyncHiredisParser else None
    return LoopInternals(at_eof, None if connection.health_check_interval else write, parser, reader)


def socket_of(connection: Any) -> Any:
    """Return the socket of an open connection; None if it is not known."""
    sock = getattr(connection, "_sock", None)
    # An object that only acts as a socket, as in fakeredis, has neither the methods nor the replies.
    return sock if isinstance(sock, socket.socket) else None


def retries_of(retry: Any) -> int:
    """Return how often redis-py's ``retry`` repeats a command; 1 if that is not known."""
    if hasattr(retry, "get_retries"):
        return int(retry.get_retries())
    # redis-py 5 has no public name for it.
    return int(getattr(retry, "_retries", 1))


def send_and_read(line: Internals, packed: bytes, answers: list[Any], replies: int) -> None:
    """Send ``packed``, and add so many ``replies`` to ``answers``, as redis-py does it."""
    sock, parser, reader, buffer = line
    try:
        sock.sendall(packed)
        while len(answers) < replies:
            if not (size := sock.recv_into(buffer)):
                raise RedisConnectionError("Connection closed by server.")
            reader.feed(buffer, 0, size)
            for message in read_along(reader, answers, replies):
                parser.handle_push_response(message)
    except TimeoutError as error:
        raise RedisTimeoutError("The server did not answer in time.") from error
    except OSError as error:
        raise RedisConnectionError(f"The connection is lost: {error}") from error


def read_along(reader: Any, answers: list[Any], replies: int) -> list[Any]:
    """Add the replies that hiredis has ready. Return the push messages between them."""
    # redis-py takes five calls for each. Its own parsers have nothing ready.
    messages = []
    while len(answers) < replies and (answer := reader.gets(False)) is not NOT_ENOUGH_DATA:
        if type(answer) is PushNotification:
            messages.append(answer)
        elif isinstance(answer, RedisConnectionError):
            # LOADING, for example. redis-py raises it too.
            raise answer
        else:
            answers.append(answer)
    return messages


WRITTEN_AT_ONCE = 16 * 1024
"""Bytes that an event loop takes without being waited for. redis-py makes a task for each command that it sends."""


@dataclass(slots=True)
class FollowUp:
    """
    Commands to send behind others, on the same connection.

    Their replies may take ``seconds`` longer than others. ``read`` gets them; errors are exceptions, also that of a
    connection that was lost.
    """

    packed: bytes
    replies: int
    seconds: float
    read: Callable[[list[Any]], None]


FollowUpMaker = Callable[[list[Any]], FollowUp | None]
"""A function that gets the replies, and returns what to send behind them, or None."""


@dataclass(slots=True)
class Send:
    """Commands to send ``to`` the server of this pool, packed, how many replies they have, and a follow-up."""

    to: Pool
    packed: bytes
    replies: int
    follow_up: FollowUpMaker | None = None


@dataclass(slots=True)
class Pause:
    """Time to wait, in seconds; shorter if ``until`` is done earlier."""

    seconds: float
    until: Future[None] | None = None

    def __iter__(self) -> Generator[Pause, None, None]:
        yield self


# A reply belongs to its request. Anything may interrupt a request between sending and the end of the last reply: a
# time-out, the exception of a signal or a greenlet, the end of a task. Then the connection is closed, since its replies
# would be taken for those of the next request. Not all connections of redis-py do that themselves: those behind
# Sentinel do not. execute_command() is not used. It repeats by its own rules, and does much that we don't need.


_LOST = (*UNREACHABLE, ReadOnlyError)

_OF_CLUSTER: dict[str, type[ResponseError]] = {
    "ASK": AskError,
    "CLUSTERDOWN": ClusterDownError,
    "MASTERDOWN": MasterDownError,
    "MOVED": MovedError,
    "TRYAGAIN": TryAgainError,
}
"""Types of errors by their codes. Older redis-py gives them to the errors of its own client for clusters only."""


SECONDS_BETWEEN_LOOKS = 1
"""How often sentinels are asked for the master at most, while the master refuses writes for want of replicas."""


def _of_its_type(error: ResponseError) -> ResponseError:
    if type(error) is not ResponseError:
        return error
    code, _, words = str(error).partition(" ")
    return _OF_CLUSTER[code](words) if code in _OF_CLUSTER else error


def _leave_master(connections: ConnectionPool, answers: list[Any]) -> bool:
    """Tell whether to look for the master again after these ``answers``. Raises ReadOnlyError, which says so itself."""
    for number, answer in enumerate(answers):
        if isinstance(answer, ResponseError):
            if isinstance(answer, ReadOnlyError):
                raise answer
            answers[number] = _of_its_type(answer)
            if str(answer).startswith("NOREPLICAS") and connections.is_behind_sentinel:
                # In a failover the replicas leave a master seconds before it is demoted. Or they are just down: then it
                # still is the master, and goes on answering reads.
                now = monotonic()
                if now >= connections.next_look_at:
                    connections.next_look_at = now + SECONDS_BETWEEN_LOOKS
                    return True
    return False


def send(connections: Pool, packed: bytes, replies: int, follow_up: FollowUpMaker | None = None) -> list[Any]:
    """
    Send ``packed`` on one of the ``connections`` of a pool. Return its replies; ``replies`` is their number.

    An error among them is returned as an exception. Raises redis-py's ReadOnlyError for a master that was demoted, and
    its ConnectionError and TimeoutError. A failure of the commands that ``follow_up`` sends raises nothing.
    """
    answers = list[Any]()
    pooled = connections.acquire()
    try:
        try:
            if pooled.internals is not None:
                send_and_read(pooled.internals, packed, answers, replies)
            else:
                connection = pooled.connection
                connection.send_packed_command([packed], connection.health_check_interval)
                _read_replies(connection, answers, replies)
            if _leave_master(connections, answers):
                connections.close_idle()
            elif follow_up is None or _sent_behind(pooled.connection, follow_up(answers)):
                # Unless another request has found another master.
                pooled.is_clean = pooled.master == connections.master
        except _LOST:
            # Else the repetition would meet the next connection that is lost.
            connections.close_idle()
            raise
        finally:
            if not pooled.is_clean:
                pooled.close()
    finally:
        # As put_back() does. But an interruption could come before the first line of that.
        pooled.home.append(pooled)
        if connections.waiters:
            connections.serve_waiters()
    return answers


def _read_replies(connection: Any, answers: list[Any], replies: int, **options: Any) -> None:
    while len(answers) < replies:
        try:
            answers.append(connection.read_response(disable_decoding=True, **options))
        except ResponseError as error:
            answers.append(error)


def _sent_behind(connection: Any, behind: FollowUp | None) -> bool:
    """Send what comes behind. False if the connection must not be used again."""
    if behind is None:
        return True
    answers: list[Any] = []
    try:
        connection.send_packed_command([behind.packed], False)
        sock, usual = socket_of(connection), connection.socket_timeout
        longer = None if usual is None else usual + behind.seconds
        if sock is None:
            _read_replies(connection, answers, behind.replies, timeout=longer)
        else:
            usual = sock.gettimeout()
            sock.settimeout(None if usual is None else usual + behind.seconds)
            _read_replies(connection, answers, behind.replies)
            sock.settimeout(usual)
    except _LOST as error:
        answers.append(error)
    behind.read(answers)
    # A master that was demoted refuses, too.
    return not any(isinstance(answer, Exception) for answer in answers)


async def asend(
    connections: LoopPool, packed: bytes, replies: int, follow_up: FollowUpMaker | None = None
) -> list[Any]:
    """Send and read as :func:`send`, on one of the ``connections`` of an event loop."""
    answers = list[Any]()
    pooled = await connections.acquire()
    connection, internals = pooled.connection, pooled.internals
    try:
        try:
            if internals is not None and internals.write is not None and len(packed) < WRITTEN_AT_ONCE:
                internals.write(packed)
            else:
                await connection.send_packed_command([packed], connection.health_check_interval)
            while len(answers) < replies:
                try:
                    answers.append(await connection.read_response(disable_decoding=True))
                except ResponseError as error:
                    answers.append(error)
                if len(answers) < replies and internals is not None and internals.reader is not None:
                    for message in read_along(internals.reader, answers, replies):
                        await internals.parser.handle_push_response(message)
            if _leave_master(connections, answers):
                await connections.close_idle()
            elif follow_up is None or await _asent_behind(connection, follow_up(answers)):
                # Unless another request has found another master.
                pooled.is_clean = pooled.master == connections.master
        except _LOST:
            await connections.close_idle()
            raise
        finally:
            if not pooled.is_clean:
                await pooled.aclose()
    finally:
        pooled.home.append(pooled)
        if connections.waiters:
            connections.serve_waiters()
    return answers


async def _asent_behind(connection: Any, behind: FollowUp | None) -> bool:
    if behind is None:
        return True
    answers: list[Any] = []
    usual = connection.socket_timeout
    try:
        await connection.send_packed_command([behind.packed], False)
        # Not its argument: with that, redis-py returns None in place of an error.
        connection.socket_timeout = None if usual is None else usual + behind.seconds
        while len(answers) < behind.replies:
            try:
                answers.append(await connection.read_response(disable_decoding=True))
            except ResponseError as error:
                answers.append(error)
    except _LOST as error:
        answers.append(error)
    finally:
        connection.socket_timeout = usual
    behind.read(answers)
    return not any(isinstance(answer, Exception) for answer in answers)
