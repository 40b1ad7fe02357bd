"""
More visitors at once than connections, each in a greenlet, and the cache of the same alias between them.

A program, since all of a process is made of greenlets or nothing. Its arguments are the URL of a server, the secret key
of the site whose sessions are there, and the class of the alias's pool. It prints how many signed in, how many found
their sessions, and how many found what they had put into the cache.
"""

from __future__ import annotations

import sys

from gevent import monkey

monkey.patch_all()

import django  # noqa: E402
import gevent  # noqa: E402
from django.conf import settings  # noqa: E402

from tests.helpers.outages import caches  # noqa: E402

made = caches(sys.argv[1], timeout=30)
made["sessions"]["OPTIONS"]["CONNECTION_POOL_CLASS"] = sys.argv[3]
settings.configure(
    SECRET_KEY=sys.argv[2],
    INSTALLED_APPS=["django_redsess"],
    SESSION_ENGINE="django_redsess.backend",
    SESSION_CACHE_ALIAS="sessions",
    CACHES=made,
)
django.setup()

from django.core.cache import caches as django_caches  # noqa: E402

from django_redsess.backend import SessionStore  # noqa: E402

signed_in = own = cached = 0


def visit(number: int) -> None:
    global signed_in, own
    session = SessionStore()
    session["number"] = number
    session.save()
    session.cycle_key()
    session.save()
    signed_in += 1
    found = SessionStore(session.session_key)["number"]
    own += found == number


def use_cache() -> None:
    global cached
    # One after another: redis-py's own pool lets nobody wait.
    for number in range(300):
        django_caches["sessions"].set("number", number)
        found = django_caches["sessions"].get("number")
        cached += found == number
    django_caches["sessions"].delete("number")


greenlets = [gevent.spawn(use_cache), *(gevent.spawn(visit, number) for number in range(300))]
gevent.joinall(greenlets, raise_error=True)
print(signed_in, own, cached)
