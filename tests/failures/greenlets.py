"""
Visitors in greenlets, whose time is up at any moment: each must find its own session.

A program, since all of a process is made of greenlets or nothing. Its arguments are the URL of a server (of a cluster
those of several nodes, with commas), and the secret key of the site whose sessions are there. It prints how many loads
were interrupted, and how many found what they should.
"""

from __future__ import annotations

import sys

from gevent import monkey

monkey.patch_all()

import random  # noqa: E402

import django  # noqa: E402
import gevent  # noqa: E402
from django.conf import settings  # noqa: E402

from tests.helpers.clusters import caches_at  # noqa: E402
from tests.helpers.on_clusters import PARTITIONS  # noqa: E402
from tests.helpers.outages import caches  # noqa: E402

url = sys.argv[1]
on_cluster = "," in url

settings.configure(
    SECRET_KEY=sys.argv[2],
    INSTALLED_APPS=["django_redsess"],
    SESSION_ENGINE="django_redsess.backend",
    SESSION_CACHE_ALIAS="sessions",
    CACHES=caches_at(url) if on_cluster else caches(url),
    REDSESS={"PARTITIONS": PARTITIONS} if on_cluster else {},
)
django.setup()

from django_redsess.backend import SessionStore  # noqa: E402
from django_redsess.transport import connections  # noqa: E402

interrupted = own = 0


def visit(number: int) -> None:
    global interrupted, own
    session = SessionStore()
    session["number"] = number
    session.save()
    key = session.session_key
    for turn in range(100):
        if turn % 10 == 0:
            # New connections have more to send, and to wait for.
            for pool in connections.pool().nodes():
                pool.lose_idle()
        with gevent.Timeout(random.uniform(0, 0.02), False):
            assert SessionStore(key)["number"] == number
            own += 1
            continue
        interrupted += 1


greenlets = [gevent.spawn(visit, number) for number in range(10)]
gevent.joinall(greenlets, raise_error=True)
print(interrupted, own)
