"""
Measure what it costs to watch sessions, and how soon an end is known: ``python -m benchmarks.watching``.

Sessions are watched in one event loop, each as by an open socket. For each number of them, the CPU time of this process
and of the server is printed, in milliseconds a second: while nobody uses a socket, and while a tenth of them is used in
each second. Then another process ends sessions, each at a random moment and in one of several ways. Printed are the
median and the longest time until the end is known, in seconds. The server is started for this.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AsyncExitStack, closing
from datetime import UTC, datetime, timedelta
from multiprocessing import get_context
from statistics import median
from typing import Any

import django
import psutil
import redis
from django.conf import settings

from testproject import servers

USED = 0.1
"""The part of the sockets that is used in each second, where some are used."""

SIDE_BY_SIDE = 20
"""How many sessions are ended in the same time, at random moments of two seconds."""


def _configure(url: str, partitions: int) -> None:
    settings.configure(
        SECRET_KEY="of the benchmark",
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_redsess"],
        SESSION_ENGINE="django_redsess.backend",
        SESSION_CACHE_ALIAS="sessions",
        CACHES={"sessions": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": url}},
        REDSESS={"PARTITIONS": partitions},
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        USE_TZ=True,
    )
    django.setup()


def measured(sockets: list[int], partitions: int, seconds: int, ends: int) -> list[tuple[int, str, float, float]]:
    """
    Return the number of sockets, how they are used, and milliseconds of Python and of the server in a second.

    It needs a process without settings. ``ends`` is how many sessions end in each way, after that.
    """
    with closing(servers.Server(servers.available()["valkey"])) as server:
        _configure(server.url, partitions)
        context = get_context("spawn")
        with ProcessPoolExecutor(1, context, _other_process, (server.url, partitions)) as other:
            return asyncio.run(_measured(server, other, sockets, seconds, ends))


async def _measured(
    server: servers.Server, other: Executor, sockets: list[int], seconds: int, ends: int
) -> list[tuple[int, str, float, float]]:
    from django_redsess.backend import SessionStore
    from django_redsess.contrib.sockets.ended_sessions import WatchedSession
    from django_redsess.contrib.sockets.ended_sessions import ends as watch

    async def opened(user_id: int) -> tuple[SessionStore, WatchedSession]:
        session = SessionStore()
        await session.aset("_auth_user_id", str(user_id))
        await session.acreate()
        return session, await open_ones.enter_async_context(watch(session))

    found = []
    process = psutil.Process(server.process.pid)
    print(f"{'sockets':>8} {'':12} {'Python':>8} {'server':>8}  milliseconds a second")
    async with AsyncExitStack() as open_ones:
        watched: list[WatchedSession] = []
        for number in sorted(sockets):
            while len(watched) < number:
                watched.append((await opened(len(watched) + 1))[1])
            for name, used in (("idle", 0), ("a tenth used", int(number * USED))):
                before, of_server = time.process_time(), process.cpu_times()
                for _ in range(seconds):
                    for each in random.sample(watched, used):
                        each.used()
                    await asyncio.sleep(1)
                python, after = time.process_time() - before, process.cpu_times()
                served = after.user + after.system - of_server.user - of_server.system
                found.append((number, name, python / seconds * 1000, served / seconds * 1000))
                print(f"{number:8} {name:12} {found[-1][2]:8.1f} {found[-1][3]:8.1f}", flush=True)
        print(f"\n{'':36} {'median':>8} {'longest':>8}  seconds until the end is known, {len(watched)} sockets")
        for number, way in enumerate(WAYS):
            taken: list[float] = []
            while len(taken) < ends:
                few = min(SIDE_BY_SIDE, ends - len(taken))
                # In the other process, the user ids of each way begin with another thousand.
                several = [await opened(1_000_000 + number * 1000 + len(taken) + each) for each in range(few)]
                taken += await asyncio.gather(*(_time_of(other, way, *each) for each in several))
            print(f"{way:36} {median(taken):8.2f} {max(taken):8.2f}", flush=True)
    return found


async def _time_of(other: Executor, way: str, session: Any, watched: Any) -> float:
    await asyncio.sleep(random.uniform(0, 2))
    loop = asyncio.get_running_loop()
    ended = loop.run_in_executor(other, _end, way, session.session_key, session["_auth_user_id"])
    known = asyncio.ensure_future(watched.wait())
    # An end that fails would be waited for in vain.
    began = await ended
    await known
    return time.monotonic() - began


# What follows runs in the other process.


def _other_process(url: str, partitions: int) -> None:
    from django.core.management import call_command

    _configure(url, partitions)
    call_command("migrate", verbosity=0)
    global _client
    _client = redis.Redis.from_url(url)


_client: redis.Redis


def _kick(session: Any, user: Any) -> None:
    from django_redsess import online

    online.end(session.sid, message="We have closed for today.")


def _sign_out(session: Any, user: Any) -> None:
    session.flush()


def _expire(session: Any, user: Any) -> None:
    from django_redsess.transport.keys import keyspace

    _client.zadd(keyspace().of_sid(session.sid).expire, {session.sid: int(time.time() * 1000)})


def _give_away(session: Any, user: Any) -> None:
    session["_auth_user_id"] = f"{user.pk}9"
    session.cycle_key()
    session.save()


def _block(session: Any, user: Any) -> None:
    from django_redsess import online

    online.block(user, until=datetime.now(UTC) + timedelta(days=1))


def _log_out_everywhere(session: Any, user: Any) -> None:
    from django_redsess.accounts import logout_everywhere

    logout_everywhere(user)


WAYS: dict[str, Callable[[Any, Any], None]] = {
    "kicked": _kick,
    "signed out": _sign_out,
    "expired, without a cleaner": _expire,
    "another user, with a new key": _give_away,
    "blocked": _block,
    "signed out everywhere": _log_out_everywhere,
}


def _end(way: str, session_key: str, user_id: str) -> float:
    """End a session, and return when that began, by the clock that all processes share."""
    from django.contrib.auth.models import User

    from django_redsess.backend import SessionStore

    session = SessionStore(session_key)
    session.load()
    user = User.objects.create_user(f"user {user_id}", id=int(user_id), password="first")
    began = time.monotonic()
    WAYS[way](session, user)
    return began


if __name__ == "__main__":
    # What the other process runs is imported there under its own name.
    from benchmarks import watching

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sockets", type=int, nargs="+", default=[1000, 9000])
    parser.add_argument("--partitions", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--ends", type=int, default=60, help="how many sessions end in each way")
    given = parser.parse_args()
    watching.measured(given.sockets, given.partitions, given.seconds, given.ends)
