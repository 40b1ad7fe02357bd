"""
Measure how much Python a load, a save and a request run: the number of functions called, and their time.

Each engine has a process of its own. Each operation first runs with the server, and the replies are kept. Then it runs
again and again with those replies, so that it waits for nothing and makes no system call. Only this is measured, in
rounds that alternate between the engines; pyperf would measure one engine after the other. "With redis-py" is all of
the time. "Own code" is ours without redis-py, whose replies are given back in its place. The code runs warm: in a real
request, between two waits, it takes longer. This needs hiredis: only its way of reading can be given kept replies.

Functions are calls of functions written in Python, counted by ``sys.setprofile``; each step of a generator counts as a
call. "Save" is the difference between "load and save" and "load". Requests go to ``site.py``, from the WSGI handler on.
"Request without it" shows what the middleware adds to a request that does not use its session.
"""

from __future__ import annotations

import gc
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from io import BytesIO
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from types import FrameType
from typing import Any, NamedTuple

import django
import redis.connection
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from tqdm import tqdm

from benchmarks.bare import ALL, side_of
from benchmarks.engines import AGAIN, BASE, OURS
from benchmarks.operations import Run, found
from benchmarks.ratios import paired
from benchmarks.recording import CLIENT
from benchmarks.stores import Servers, Stores, pin
from django_redsess.transport import sending

OPERATIONS = {"load": "load", "change": "load and save"}
"""Operations, and their names in results."""

REQUESTS = {"none": "request without it", "read": "request that reads", "write": "request that writes"}
"""Views, and their names in results."""

SAVE = "save"
SESSIONS = 500


class Cost(NamedTuple):
    """The cost of an operation. ``own`` are microseconds of our own code, None for another engine."""

    functions: float
    functions_of_redis_py: float
    own: list[float] | None
    with_redis_py: list[float]


def measured(
    binary: Path, *, engines: Sequence[str] = (OURS, BASE, AGAIN), rounds: int = 30, count: int = 200
) -> list[dict[str, Any]]:
    """
    Measure ``engines``, the base among them, and return the entries of "python".

    In each of the ``rounds`` each operation is done ``count`` times. ``ratio`` compares the whole time, with redis-py,
    with that of the base.
    """
    with ExitStack() as stack:
        servers = stack.enter_context(closing(Servers(binary)))
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), _configure, (name, servers.stores)))
            for name in engines
        }
        costs: dict[str, dict[str, Cost]] = {name: {} for name in engines}
        for operation, called in (OPERATIONS | REQUESTS).items():
            for name, process in processes.items():
                functions = process.submit(_functions, operation, count).result()
                costs[name][called] = Cost(*functions, [] if name == OURS and operation in OPERATIONS else None, [])
            for _ in tqdm(range(rounds), desc=f"Python: {called}", unit="round", disable=None):
                for name in random.sample(list(engines), len(engines)):
                    own, all_of_it = processes[name].submit(_microseconds, count).result()
                    costs[name][called].with_redis_py.append(all_of_it)
                    if (of_ours := costs[name][called].own) is not None:
                        of_ours.append(own)
    return [
        _entry(name, called, cost, base)
        for name in engines
        for (called, cost), base in zip(_with_save(costs[name]), dict(_with_save(costs[BASE])).values(), strict=True)
    ]


def _with_save(costs: dict[str, Cost]) -> Iterator[tuple[str, Cost]]:
    load, both = (costs[name] for name in OPERATIONS.values())
    yield from costs.items()

    def above(more: list[float] | None, less: list[float] | None) -> list[float]:
        return [one - other for one, other in zip(more or [], less or [], strict=True)]

    own = None if load.own is None else above(both.own, load.own)
    rest = (both.functions - load.functions, both.functions_of_redis_py - load.functions_of_redis_py)
    yield SAVE, Cost(*rest, own, above(both.with_redis_py, load.with_redis_py))


def _entry(engine: str, operation: str, cost: Cost, base: Cost) -> dict[str, Any]:
    return {
        "engine": engine,
        "operation": operation,
        "functions": cost.functions,
        "functions_of_redis_py": cost.functions_of_redis_py,
        "functions_besides": cost.functions - cost.functions_of_redis_py,
        "own_microseconds": None if cost.own is None else median(cost.own),
        "microseconds": median(cost.with_redis_py),
        **paired(cost.with_redis_py, base.with_redis_py)._asdict(),
    }


# What follows runs in the process of an engine.


class Socket:
    """A socket that keeps the replies that it receives, or gives kept replies instead of asking the server."""

    replies: list[bytes]
    """What was received after each send, in order. All sockets of the process share it."""
    place: int | None = None
    """The number of the next reply; None while replies are being kept."""

    def __init__(self, real: Any) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def sendall(self, data: bytes) -> None:
        if Socket.place is None:
            self.real.sendall(data)
            Socket.replies.append(b"")
        else:
            Socket.place += 1

    def recv_into(self, buffer: Any, *args: Any) -> int:
        if Socket.place is None:
            size: int = self.real.recv_into(buffer, *args)
            Socket.replies[-1] += bytes(memoryview(buffer)[:size])
            return size
        reply = Socket.replies[Socket.place - 1]
        buffer[: len(reply)] = reply
        return len(reply)


def _configure(name: str, stores: Stores) -> None:
    pin(os.getpid(), core=1)
    connection_class: Any = redis.connection.Connection
    connect = connection_class._connect
    connection_class._connect = lambda self: Socket(connect(self))
    Socket.replies = []
    settings.configure(**ALL[name].settings(stores))
    django.setup()
    global _side
    _side = side_of(name)
    _side.fill(SESSIONS)


_side: Any
_run: Run
_answers: list[list[Any]]


def _functions(operation: str, count: int) -> tuple[float, float]:
    """Prepare ``operation``, keep its replies, and count the function calls of one."""
    global _run, _answers
    # The first time opens connections and loads scripts.
    for _ in range(2):
        _run = _requests(operation, count) if operation in REQUESTS else _side.prepare(operation, count)
        Socket.replies, _answers = [], []
        with _sending(_kept(sending.send)):
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
    of_redis_py = sum(number for file, number in ours.items() if f"{os.sep}redis{os.sep}" in file)
    return sum(ours.values()) / count, of_redis_py / count


def _requests(view: str, count: int) -> Run:
    handler: Any = get_wsgi_application()
    environment = {
        "REQUEST_METHOD": "GET",
        "PATH_INFO": f"/{view}/",
        "SCRIPT_NAME": "",
        "SERVER_PROTOCOL": "HTTP/1.1",
        "SERVER_NAME": CLIENT.address,
        "SERVER_PORT": "80",
        "wsgi.url_scheme": "http",
        "REMOTE_ADDR": CLIENT.address,
        "HTTP_USER_AGENT": CLIENT.user_agent,
    }
    keys = _side.some(count)

    def answered(status: str, headers: Sequence[tuple[str, str]]) -> None:
        found(status == "200 OK")

    def run() -> None:
        for key in keys:
            cookie = {"HTTP_COOKIE": f"sessionid={key}", "wsgi.input": BytesIO()}
            handler(environment | cookie, answered).close()

    return run


def _microseconds(count: int) -> tuple[float, float]:
    """Repeat the operation with kept replies. Return the time of our own code, and the time with redis-py."""
    answers = iter(_answers)
    with _sending(lambda *_: list(next(answers))):
        own = _timed(count) if _answers else 0.0
    with _replayed():
        return own, _timed(count)


def _timed(count: int) -> float:
    gc.collect()
    start = time.process_time()
    _run()
    return (time.process_time() - start) / count * 1e6


def _kept(send: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    def keep(*args: Any) -> list[Any]:
        _answers.append(send(*args))
        return list(_answers[-1])

    return keep


@contextmanager
def _sending(send: Callable[..., list[Any]]) -> Iterator[None]:
    usual, sending.send = sending.send, send
    try:
        yield
    finally:
        sending.send = usual


@contextmanager
def _replayed() -> Iterator[None]:
    Socket.place = 0
    try:
        yield
    finally:
        Socket.place = None
