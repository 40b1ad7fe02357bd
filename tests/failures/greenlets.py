"""
Visitors in greenlets: each must find its own session.

A program, since all of a process is made of greenlets or nothing. Its arguments are the URL of a server (of a cluster
those of several nodes, with commas), and the secret key of the site whose sessions are there. The time of the visitors
is up at any moment; it prints how many loads were interrupted, and how many found what they should.

With a third argument, the class of the alias's pool, there are more visitors at once than connections, and the cache of
the same alias between them. It prints how many signed in, how many found their sessions, and how many found what they
had put into the cache.
"""

from __future__ import annotations

import sys

from gevent import monkey

monkey.patch_all()

import random  # noqa: E402
from collections import Counter  # noqa: E402

import django  # noqa: E402
import gevent  # noqa: E402
from django.conf import settings  # noqa: E402

from tests.helpers.clusters import FEW_PARTITIONS, caches_at  # noqa: E402
from tests.helpers.outages import PATIENCE, caches  # noqa: E402

url, secret_key, *pool_class = sys.argv[1:]
on_cluster = "," in url
made = caches_at(url) if on_cluster else caches(url, timeout=30 if pool_class else PATIENCE)
if pool_class:
    made["sessions"]["OPTIONS"]["CONNECTION_POOL_CLASS"] = pool_class[0]

settings.configure(
    SECRET_KEY=secret_key,
    INSTALLED_APPS=["django_redsess"],
    SESSION_ENGINE="django_redsess.backend",
    SESSION_CACHE_ALIAS="sessions",
    CACHES=made,
    REDSESS={"PARTITIONS": FEW_PARTITIONS} if on_cluster else {},
)
django.setup()

from django.core.cache import caches as django_caches  # noqa: E402

from django_redsess.backend import SessionStore  # noqa: E402
from django_redsess.transport import connections  # noqa: E402

count = Counter[str]()


def begin(number: int) -> SessionStore:
    session = SessionStore()
    session["number"] = number
    session.save()
    return session


def visit_in_a_hurry(number: int) -> None:
    key, most = begin(number).session_key, 0.02
    for turn in range(50):
        if turn % 10 == 0:
            # New connections have more to send, and to wait for.
            for pool in connections.pool().nodes():
                pool.close_idle()
        with gevent.Timeout(random.uniform(0, most), False):
            assert SessionStore(key)["number"] == number
            count["own"] += 1
            # Half of the loads are to be interrupted, whatever the speed of the machine.
            most /= 1.2
            continue
        count["interrupted"] += 1
        most *= 1.2


def visit(number: int) -> None:
    session = begin(number)
    session.cycle_key()
    session.save()
    count["signed in"] += 1
    found = SessionStore(session.session_key)["number"]
    count["own"] += found == number


def use_cache() -> None:
    # One after another: redis-py's own pool lets nobody wait.
    for number in range(300):
        django_caches["sessions"].set("number", number)
        found = django_caches["sessions"].get("number")
        count["cached"] += found == number
    django_caches["sessions"].delete("number")


if pool_class:
    greenlets = [gevent.spawn(use_cache), *(gevent.spawn(visit, number) for number in range(300))]
    told = "signed in", "own", "cached"
else:
    greenlets = [gevent.spawn(visit_in_a_hurry, number) for number in range(10)]
    told = "interrupted", "own"
gevent.joinall(greenlets, raise_error=True)
print(*(count[name] for name in told))
