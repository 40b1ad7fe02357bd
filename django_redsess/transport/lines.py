"""
The private parts of redis-py that sessions use. No other module does.

With them, an exchange takes a third of the calls. They are looked up when a connection is opened. Where one of them is
missing, there is no line, and the exchange takes redis-py's public way.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

try:
    from redis._parsers import _AsyncHiredisParser, _HiredisParser
    from redis._parsers.hiredis import NOT_ENOUGH_DATA
except ImportError:  # Private names may move.
    _AsyncHiredisParser = _HiredisParser = NOT_ENOUGH_DATA = None  # type: ignore[assignment, misc]

try:
    from hiredis import PushNotification
except ImportError:  # None is installed, or one that does not know them.
    PushNotification: Any = None  # type: ignore[no-redef]


class Line(NamedTuple):
    """What lies beneath an open connection: its socket, redis-py's parser with hiredis, hiredis' reader, a buffer."""

    sock: Any
    parser: Any
    reader: Any
    buffer: Any


class LoopLine(NamedTuple):
    """
    What lies beneath an open connection of an event loop.

    ``at_eof`` tells whether the server has closed it. ``write`` is None for a connection that redis-py looks after
    before it writes. ``parser`` and ``reader`` are None without hiredis.
    """

    at_eof: Callable[[], bool]
    write: Callable[[bytes], None] | None
    parser: Any
    reader: Any


def line_of(connection: Any) -> Line | None:
    """Return the line of an open connection, or None if its exchanges take the public way."""
    parser = getattr(connection, "_parser", None)
    if parser is None or type(parser) is not _HiredisParser or connection.health_check_interval:
        return None
    line = Line(socket_of(connection), parser, getattr(parser, "_reader", None), getattr(parser, "_buffer", None))
    return None if None in (line.sock, line.reader, line.buffer) else line


def loop_line_of(connection: Any) -> LoopLine | None:
    """Return the line of an open connection of an event loop, or None if its exchanges take the public way."""
    at_eof = getattr(getattr(connection, "_reader", None), "at_eof", None)
    if at_eof is None:
        return None
    write = getattr(getattr(connection, "_writer", None), "write", None)
    parser = getattr(connection, "_parser", None)
    reader = getattr(parser, "_reader", None) if type(parser) is _AsyncHiredisParser else None
    return LoopLine(at_eof, None if connection.health_check_interval else write, parser, reader)


def socket_of(connection: Any) -> Any:
    """Return the socket of an open connection; None if it is not known."""
    sock = getattr(connection, "_sock", None)
    # What only acts as a socket, as in fakeredis, has neither its methods nor its replies.
    return sock if isinstance(sock, socket.socket) else None


def retries_of(retry: Any) -> int:
    """Return how often redis-py's ``retry`` repeats a command; 1 if that is not known."""
    if hasattr(retry, "get_retries"):
        return int(retry.get_retries())
    # redis-py 5 has no public name for it.
    return int(getattr(retry, "_retries", 1))


def send_and_read(line: Line, packed: bytes, answers: list[Any], replies: int) -> None:
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
