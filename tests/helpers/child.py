"""
A web server's process that a test can run by another clock, or kill between two commands.

``Child`` is the test's side. The process waits for operations and runs each in a fork of itself, so that one which is
killed costs neither the start of Python nor a word about the fork. What an operation is called is the name of a
function below; what it is given and what it returns is JSON.
"""

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
from typing import Any, Literal, NamedTuple

import time_machine

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


def die_at(number: int, moment: Moment) -> None:
    """Have this process killed when it sends its ``number``-th command, over whichever client."""
    from redis.asyncio.connection import AbstractConnection

    sent = 0

    def part_of(command: Any) -> bytes | None:
        """Return what is sent of the command that is the last. None for one that is not."""
        nonlocal sent
        packed = b"".join([command] if isinstance(command, bytes) else command)
        sent += packed.split(b"\r\n", 3)[2].decode() not in GREETINGS
        length = {"before": 0, "half": len(packed) // 2, "after": len(packed)}[moment]
        return packed[:length] if sent == number else None

    def watched(send: Callable[..., None]) -> Callable[..., None]:
        def watching(self: Any, data: Any, *flags: int) -> None:
            part = part_of(bytes(data))
            send(self, data if part is None else part, *flags)
            if part is not None:
                os.kill(os.getpid(), signal.SIGKILL)

        return watching

    send_packed = AbstractConnection.send_packed_command

    async def send_packed_command(self: Any, command: Any, check_health: bool = True) -> None:
        part = part_of(command)
        await send_packed(self, command if part is None else part, check_health)
        if part is not None:
            os.kill(os.getpid(), signal.SIGKILL)

    socket.socket.sendall = watched(socket.socket.sendall)
    AbstractConnection.send_packed_command = send_packed_command
    # What is short goes to it without redis-py's detour.
    asyncio.StreamWriter.write = watched(asyncio.StreamWriter.write)


def main() -> None:
    if seconds := int(sys.argv[1]):
        time_machine.travel(time.time() + seconds).start()
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
