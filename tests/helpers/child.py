"""
A web server's process that a test can run by another clock, or kill between two commands.

``Child`` is the test's side. The process waits for operations and runs each in a fork of itself, so that one which is
killed costs neither the start of Python nor a word about the fork. What an operation is called is the name of a
function below; what it is given and what it returns is JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from testproject.servers import Server

Moment = Literal["before", "half", "after"]
MOMENTS: tuple[Moment, ...] = ("before", "half", "after")
"""When it dies: with nothing of the command sent, with half of it, or with all of it and no reply yet."""

# What a client says when it connects.
GREETINGS = {"HELLO", "AUTH", "SELECT", "CLIENT", "PING"}


class Ran(NamedTuple):
    """``result`` is what the operation returned; None where the process was killed."""

    killed: bool
    result: Any = None


class Child:
    """A process whose sessions are on ``server``. Its clock is ahead of the machine's by so many seconds."""

    def __init__(self, server: Server, *, ahead_by_seconds: int = 0) -> None:
        self._server = server
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.child", str(ahead_by_seconds)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "DJANGO_SETTINGS_MODULE": "testproject.settings", "REDIS_URL": server.url},
        )

    def run(
        self, operation: Callable[..., Any], *args: Any, settings: dict[str, Any], die: tuple[int, Moment] | None = None
    ) -> Ran:
        """
        Run ``operation`` with these Django settings on top of the shop's.

        With ``die``, the process is killed at the so-many-th command that it sends, where it sends as many. Returns
        when the server has done with what it was sent.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        clients = self._clients()
        order = {"operation": operation.__name__, "args": args, "settings": settings, "die": die}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        until = time.monotonic() + 10
        while self._clients() > clients:
            assert time.monotonic() < until
            time.sleep(0.001)
        return Ran(*json.loads(answer))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()

    def _clients(self) -> int:
        return int(self._server.client.info("clients")["connected_clients"])


def shift_clock(seconds: int) -> None:
    """Put every clock of this process ahead. Modules that are imported later know no other."""
    import datetime

    true_time, true_time_ns = time.time, time.time_ns

    class Shifted(datetime.datetime):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> Shifted:
            return cls.fromtimestamp(time.time(), tz)

        @classmethod
        def utcnow(cls) -> Shifted:
            return cls.now(datetime.UTC).replace(tzinfo=None)

        @classmethod
        def today(cls) -> Shifted:
            return cls.now()

    time.time = lambda: true_time() + seconds
    time.time_ns = lambda: true_time_ns() + seconds * 10**9
    datetime.datetime = Shifted  # type: ignore[misc]


def die_at(number: int, moment: Moment) -> None:
    """Have this process killed when it sends its ``number``-th command, over whichever client."""
    import redis.asyncio.connection

    sent = 0

    def due(command: Any) -> bytes | None:
        # The whole of the command that is the last, or None.
        nonlocal sent
        packed = b"".join([command] if isinstance(command, bytes) else command)
        sent += packed.split(b"\r\n", 3)[2].decode() not in GREETINGS
        return packed if sent == number else None

    def kill() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    def watch_socket() -> None:
        send = socket.socket.sendall

        def sendall(self: Any, data: Any, *flags: int) -> None:
            if (packed := due(bytes(data))) is not None:
                if moment != "before":
                    send(self, packed if moment == "after" else packed[: len(packed) // 2])
                kill()
            send(self, data, *flags)

        socket.socket.sendall = sendall  # type: ignore[assignment, method-assign]

    def watch_asynchronous(connection: Any) -> None:
        send = connection.send_packed_command

        async def send_packed_command(self: Any, command: Any, check_health: bool = True) -> None:
            if (packed := due(command)) is not None:
                if moment != "before":
                    await send(self, packed if moment == "after" else packed[: len(packed) // 2], check_health)
                kill()
            await send(self, command, check_health)

        connection.send_packed_command = send_packed_command

    def watch_writer() -> None:
        # What is short goes to it without redis-py's detour.
        write = asyncio.StreamWriter.write

        def written(self: Any, data: Any) -> None:
            if (packed := due(bytes(data))) is not None:
                if moment != "before":
                    write(self, packed if moment == "after" else packed[: len(packed) // 2])
                kill()
            write(self, data)

        asyncio.StreamWriter.write = written  # type: ignore[method-assign]

    watch_writer()
    watch_socket()
    watch_asynchronous(redis.asyncio.connection.AbstractConnection)


def main() -> None:
    if seconds := int(sys.argv[1]):
        shift_clock(seconds)
    import django

    django.setup()
    # Here, and not in each fork: it takes longer than all that they do. Nothing connects yet.
    from django.conf import settings
    from django_redis import get_redis_connection

    from tests.helpers import every_operation

    get_redis_connection(settings.SESSION_CACHE_ALIAS)

    for line in sys.stdin:
        order = json.loads(line)
        read_end, write_end = os.pipe()
        pid = os.fork()
        if pid == 0:
            with os.fdopen(write_end, "w") as answer:
                answer.write(json.dumps(carry_out(every_operation, order)))
            os._exit(0)
        os.close(write_end)
        with os.fdopen(read_end) as answer:
            result = answer.read()
        _, status = os.waitpid(pid, 0)
        killed = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        print(json.dumps([True] if killed else [False, json.loads(result)]), flush=True)


def carry_out(operations: Any, order: dict[str, Any]) -> Any:
    from django.conf import settings

    for name, value in order["settings"].items():
        setattr(settings, name, value)
    if order["die"]:
        die_at(*order["die"])
    operation = getattr(operations, order["operation"])
    result = operation(*order["args"])
    return asyncio.run(result) if asyncio.iscoroutine(result) else result


if __name__ == "__main__":
    main()
