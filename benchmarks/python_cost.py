"""
Measure how much Python a load and a save run: the number of functions called, and their time.

Each engine has a process of its own. Each operation first runs with the server, and the replies are kept. Then it runs
again and again with those replies, so that it waits for nothing and makes no system call. Only this is measured, in
rounds that alternate between the engines; pyperf would measure one engine after the other. The code runs warm: in a
real request, between two waits, it takes longer. This needs hiredis: only its way of reading can be given kept replies.

Functions are calls of functions written in Python, counted by ``sys.setprofile``; each step of a generator counts as a
call.
"""

from __future__ import annotations

import gc
import os
import random
import socket
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

import django
import redis.connection
from django.conf import settings
from tqdm import tqdm

from benchmarks.engines import AGAIN, BASE, ENGINES, OURS
from benchmarks.operations import Run, Side, side_of
from benchmarks.ratios import paired
from benchmarks.stores import Servers, Stores, pin

OPERATIONS = {"load": "load", "change": "load and save"}
"""Operations, and their names in results."""

SESSIONS = 500


class Cost(NamedTuple):
    """What one of an operation costs: functions called, and microseconds of CPU time in each round."""

    functions: float
    functions_of_ours: float
    functions_of_redis_py: float
    microseconds: list[float]


def measured(
    binary: Path, *, engines: Sequence[str] = (OURS, BASE, AGAIN), rounds: int = 30, count: int = 200
) -> list[dict[str, Any]]:
    """
    Measure ``engines``, the base among them, and return the entries of "python".

    In each of the ``rounds`` each operation is done ``count`` times. ``ratio`` compares the time with that of the base.
    """
    with ExitStack() as stack:
        servers = stack.enter_context(closing(Servers(binary)))
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), configure, (name, servers.stores)))
            for name in engines
        }
        costs: dict[str, dict[str, Cost]] = {name: {} for name in engines}
        for operation, called in OPERATIONS.items():
            for name, process in processes.items():
                functions = process.submit(functions_of, operation, count).result()
                costs[name][called] = Cost(*functions, [])
            for _ in tqdm(range(rounds), desc=f"Python: {called}", unit="round", disable=None):
                for name in random.sample(list(engines), len(engines)):
                    costs[name][called].microseconds.append(processes[name].submit(microseconds_of, count).result())
    return [_entry(name, called, cost, costs[BASE][called]) for name in engines for called, cost in costs[name].items()]


def _entry(engine: str, operation: str, cost: Cost, base: Cost) -> dict[str, Any]:
    return {
        "engine": engine,
        "operation": operation,
        "functions": cost.functions,
        "functions_of_redis_py": cost.functions_of_redis_py,
        "functions_of_ours": cost.functions_of_ours,
        "microseconds": median(cost.microseconds),
        **paired(cost.microseconds, base.microseconds)._asdict(),
    }


# What follows runs in the process of an engine.


class Socket(socket.socket):
    """A socket that keeps the replies that it receives, or gives kept replies instead of asking the server."""

    replies: list[bytes]
    """What was received after each send, in order. All sockets of the process share it."""
    place: int | None = None
    """The number of the next reply; None while replies are being kept."""

    def __init__(self, real: Any) -> None:
        seconds = real.gettimeout()
        super().__init__(real.family, real.type, real.proto, fileno=real.detach())
        self.settimeout(seconds)

    def sendall(self, data: Any, flags: int = 0) -> None:
        if Socket.place is None:
            super().sendall(data)
            Socket.replies.append(b"")
        else:
            Socket.place += 1

    def recv_into(self, buffer: Any, *args: Any) -> int:
        if Socket.place is None:
            size: int = super().recv_into(buffer, *args)
            Socket.replies[-1] += bytes(memoryview(buffer)[:size])
            return size
        reply = Socket.replies[Socket.place - 1]
        buffer[: len(reply)] = reply
        return len(reply)


def configure(name: str, stores: Stores, **more: Any) -> None:
    """Configure this process for the engine ``name``. ``more`` are other settings, or other values of them."""
    pin(os.getpid(), core=1)
    connection_class: Any = redis.connection.Connection
    connect = connection_class._connect
    connection_class._connect = lambda self: Socket(connect(self))
    Socket.replies = []
    settings.configure(**{**ENGINES[name].settings(stores), **more})
    django.setup()
    use(side_of(name))


def use(side: Side) -> None:
    """Fill the store of ``side``, and measure its operations from now on."""
    global _side
    _side = side
    _side.fill(SESSIONS)


_side: Any
_run: Run


def functions_of(operation: str, count: int) -> tuple[float, float, float]:
    """Prepare ``operation``, keep its replies, and count the function calls of one."""
    global _run
    # The first time opens connections and loads scripts.
    for _ in range(2):
        _run = _side.prepare(operation, count)
        Socket.replies = []
        _side.forget()
        _run()
        _side.tidy()
    called: Counter[str] = Counter()

    def count_one(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            called[frame.f_code.co_filename] += 1

    with _replayed():
        sys.setprofile(count_one)
        _run()
        sys.setprofile(None)
    ours = {file: number for file, number in called.items() if not file.startswith(str(Path(__file__).parent))}
    of_engine, of_redis_py = (
        sum(number for file, number in ours.items() if f"{os.sep}{name}{os.sep}" in file)
        for name in ("django_redsess", "redis")
    )
    return sum(ours.values()) / count, of_engine / count, of_redis_py / count


def microseconds_of(count: int) -> float:
    """Repeat the operation with kept replies, and return the CPU time of one."""
    gc.collect()
    with _replayed():
        start = time.process_time()
        _run()
        return (time.process_time() - start) / count * 1e6


@contextmanager
def _replayed() -> Iterator[None]:
    # What is remembered would not be asked for, and the kept replies would be too many.
    _side.forget()
    Socket.place = 0
    try:
        yield
    finally:
        Socket.place = None
