"""A store with sessions, and an administrator who looks at the admin's pages of it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import redis
from django.contrib.admin.utils import quote
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings
from tqdm import tqdm

from benchmarks.fill import fill
from django_redsess import online
from django_redsess.session import script_calls
from django_redsess.signals import Reason
from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.servers import Server

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LIST = "/admin/django_redsess/onlinesession/"
PER_PAGE = 100

COUNT = "online.count()"
"""Measured like a page, though it is none."""

CLERKS = 100
"""How many users are staff and are called "clerk", with the administrator: they fill a page in both stores."""

USERS_AT_ONCE = 5000
MINUTES = 24 * 60

ORDERS = {"sign-in": "login_at", "last seen": "seen_at"}
FILTERS = {"active in 5 minutes": "active=5m", "active in an hour": "active=1h", "active in a day": "active=1d"}


class Run(NamedTuple):
    """One request for a page. ``server_ms`` is the time of its ``scripts``, as the server counts it."""

    ms: float
    server_ms: float
    scripts: int
    rows: int


@dataclass
class Side:
    """A store, the browser of its administrator, and the address of each page."""

    name: str
    sessions: int
    server: Server
    browser: Client
    addresses: dict[str, str]

    @contextmanager
    def chosen(self) -> Iterator[None]:
        """Use this store meanwhile."""
        with override_settings(SESSION_CACHE_ALIAS=self.name):
            yield

    @property
    def pages(self) -> list[str]:
        return [*self.addresses, COUNT]

    def get(self, page: str) -> str:
        """Request ``page``, and return its HTML."""
        if page == COUNT:
            assert online.count() == self.sessions
            return ""
        response = self.browser.get(self.addresses[page])
        assert response.status_code == 200, f"{page}: {response.status_code}"
        return response.text

    def measure(self, page: str) -> Run:
        """Request ``page``, and measure it."""
        with self.chosen():
            script_calls.time().run()  # A real process agrees with its store once, and not for each page.
            calls, microseconds = self._scripts()
            start = time.perf_counter()
            text = self.get(page)
            seconds = time.perf_counter() - start
            calls_then, microseconds_then = self._scripts()
        server_ms = (microseconds_then - microseconds) / 1000
        rows = text.count('name="_selected_action"')
        return Run(seconds * 1000, server_ms, calls_then - calls, rows)

    def queries(self, page: str, administrator: User) -> int:
        """Count the queries of ``page`` on the table of users, without the one for the administrator."""
        with self.chosen(), CaptureQueriesContext(connection) as captured:
            self.get(page)
        table, own = f'FROM "{administrator._meta.db_table}"', f'"id" = {administrator.pk} '
        return sum(table in query["sql"] and own not in query["sql"] for query in captured)

    def see_the_newest(self) -> None:
        """Mark a page of sessions in each partition as just seen, so that the filter "active" always fills a page."""
        with self.chosen():
            for partition in keyspace().partitions:
                sids = self.server.client.zrange(partition.recent, -PER_PAGE, -1)
                start = int(time.time() * 1000) - len(sids)
                times: dict[Any, int] = {sid: start + number for number, sid in enumerate(sids)}
                self.server.client.zadd(partition.recent, times, xx=True, gt=True)

    def _scripts(self) -> tuple[int, int]:
        stats: dict[str, Any] = self.server.client.info("commandstats")
        ran = [stats.get(f"cmdstat_{name}", {}) for name in ("evalsha", "eval")]
        return sum(each.get("calls", 0) for each in ran), sum(each.get("usec", 0) for each in ran)


def addresses(sessions: int, sid: str, user_id: str) -> dict[str, str]:
    """Return the address of each page, by name, of a store with this number of ``sessions``, ``sid`` among them."""
    last = math.ceil(sessions / PER_PAGE)
    queries = {
        f"{order}{direction}: {place} page": f"o={sign}{column_of(field)}{page}"
        for order, field in ORDERS.items()
        for direction, sign in {", latest first": "-", "": ""}.items()
        for place, page in {"first": "", "middle": f"&p={(last + 1) // 2}", "last": f"&p={last}"}.items()
    }
    queries[f"sign-in, latest first: page {PER_PAGE}"] = f"p={min(PER_PAGE, last)}"
    queries["everyone: first page"] = "who=everyone"
    queries["everyone: middle page"] = f"who=everyone&p={(last + 1) // 2}"
    queries |= {f"{name}: first page": query for name, query in FILTERS.items()}
    queries["active in a day: middle page"] = f"active=1d&p={(last + 1) // 2}"
    queries |= {"staff": "staff=1", "one user": f"user={user_id}"}
    queries |= {"search by name": "q=clerk", "search by sid": f"q={sid}"}
    return {page: f"{LIST}?{query}" for page, query in queries.items()} | {"a session": f"{LIST}{quote(sid)}/change/"}


def column_of(field: str) -> int:
    """Return the number of the column that is ordered by ``field``; the check boxes are column 0."""
    from django_redsess.admin.sessions import OnlineSessionAdmin as Admin

    columns = [getattr(getattr(Admin, name, None), "admin_order_field", name) for name in Admin.list_display]
    return columns.index(field) + 1


def create_users(count: int, clerks: int) -> User:
    """Create users with the ids 1 to ``count``, and return the last, who is the administrator."""
    from django.contrib.auth.models import User

    def of(number: int) -> User:
        is_clerk, is_last = number < clerks, number == count
        name = f"{'clerk' if is_clerk or is_last else 'shopper'}-{number}"
        return User(pk=number, username=name, password="!", is_staff=is_clerk or is_last, is_superuser=is_last)

    call_command("migrate", verbosity=0)
    with transaction.atomic(), tqdm(total=count, unit="user", unit_scale=True, disable=None) as progress:
        for first in range(1, count + 1, USERS_AT_ONCE):
            numbers = range(first, min(first + USERS_AT_ONCE, count + 1))
            User.objects.bulk_create(map(of, numbers))
            progress.update(len(numbers))
    return User.objects.get(pk=count)


def filled(name: str, sessions: int, server: Server, administrator: User, user_id: str) -> Side:
    """Fill the store on ``server``; the administrator signs in last."""
    made = Side(name, sessions, server, Client(), {})
    with made.chosen():
        fill(server.client, sessions - 1)
        add_samples(server.client, sessions)
        made.browser.force_login(administrator)
        [middle] = online.sessions(offset=sessions // 2, limit=1)
    made.addresses = addresses(sessions, middle.sid, user_id)
    return made


def cache_of(server: Server | Cluster) -> dict[str, Any]:
    """Return the entry of CACHES for ``server``."""
    options: dict[str, Any] = {"SOCKET_TIMEOUT": 60}
    if isinstance(server, Server):
        return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": options}
    options["CONNECTION_FACTORY"] = "django_redsess.cluster.ClusterConnectionFactory"
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.urls, "OPTIONS": options}


def add_samples(client: redis.Redis | redis.RedisCluster, sessions: int) -> None:
    """Store a sample for each minute of a day: more users by day than by night, and half as many guests."""
    partitions = keyspace().partitions
    this_minute = int(time.time()) // 60 * 60_000
    for partition in partitions:
        notes = {}
        for ago in range(MINUTES):
            signed_in = int(sessions / len(partitions) * (0.75 + 0.25 * math.cos(ago / MINUTES * math.tau)))
            minute = this_minute - ago * 60_000
            totals = [sessions * 10 - ago] + [sessions - ago] * len(Reason)
            notes[" ".join(map(str, (minute, signed_in, signed_in // 2, *totals)))] = minute
        client.zadd(partition.samples, notes)
