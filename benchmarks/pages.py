"""
Measure the admin's list of sessions with few sessions and with many, side by side.

Each of the two stores has a server of its own, and both run all the time. In a round each page is requested from both
stores, one right after the other, in random order. A ratio compares the two requests of one round. A request is
measured from the middleware to the last byte, with the chart above the list. Django's test client replaces browser and
web server. Each session has a user of its own. Both stores share one database of users: SQLite, in a temporary folder.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import django
from django.contrib.admin.utils import quote
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client
from django.test.utils import override_settings
from tqdm import tqdm

from benchmarks.fill import fill
from benchmarks.ratios import paired
from testproject.servers import Server

if TYPE_CHECKING:
    from django.contrib.auth.models import User

LIST = "/admin/django_redsess/onlinesession/"
PER_PAGE = 100
CLERKS = 100
"""How many users are staff and are called "clerk", with the administrator: they fill a page in both stores."""
USERS_AT_ONCE = 5000


def measured(
    kind: str, binary: Path, *, few: int = 1000, many: int = 1_000_000, rounds: int = 9
) -> list[dict[str, Any]]:
    """
    Compare stores with ``few`` and ``many`` sessions, and return the entries of "pages".

    ``binary`` is the program of a server of this ``kind``. Each page is requested from both stores in each of the
    ``rounds``. This process must not have settings so far: it gets those of the demo shop.
    """
    with tempfile.TemporaryDirectory(prefix="redsess-bench-") as folder:
        # The settings of the shop put their database there.
        os.environ.update(REDSESS_DEMO_DIR=folder, DJANGO_SETTINGS_MODULE="testproject.settings")
        django.setup()
        with closing(Server(binary)) as small, closing(Server(binary)) as large, closing(connection):
            caches = {str(size): _cache_of(server) for size, server in ((few, small), (many, large))}
            with override_settings(DEBUG=False, CACHES=caches):
                administrator = _administrator(many, min(CLERKS, few))
                sides = [_filled(size, administrator) for size in (few, many)]
                taken = _compared(sides, rounds)
    return [
        {
            "server": kind,
            "page": page,
            "few": few,
            "many": many,
            **paired(of_many, of_few)._asdict(),
            "few_ms": median(of_few),
            "many_ms": median(of_many),
        }
        for page, (of_few, of_many) in taken.items()
    ]


class Side:
    """A store with this number of ``sessions``, the browser of its administrator, and the address of each page."""

    def __init__(self, sessions: int, browser: Client, addresses: dict[str, str]) -> None:
        self.sessions, self.browser, self.addresses = sessions, browser, addresses

    def milliseconds(self, page: str) -> float:
        """Request ``page``, and return how long that takes."""
        from django_redsess.session import reading

        with override_settings(SESSION_CACHE_ALIAS=str(self.sessions)):
            reading.read_time().run()  # A real process agrees with its store once, and not for each page.
            start = time.perf_counter()
            response = self.browser.get(self.addresses[page])
            seconds = time.perf_counter() - start
        if response.status_code != 200:
            raise RuntimeError(f"{page} was answered with {response.status_code}.")
        return seconds * 1000


def _compared(sides: list[Side], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    pages = list(sides[0].addresses)
    taken: dict[str, tuple[list[float], list[float]]] = {page: ([], []) for page in pages}
    with tqdm(total=(rounds + 1) * len(pages), unit="page", desc="pages", disable=None) as progress:
        for number in range(rounds + 1):
            # Collect the garbage of the last round now, so that no page pays for it.
            gc.collect()
            for page in random.sample(pages, len(pages)):
                for index in random.sample([0, 1], 2):
                    milliseconds = sides[index].milliseconds(page)
                    # The first round opens connections and compiles templates.
                    if number:
                        taken[page][index].append(milliseconds)
                progress.update()
    return taken


def _addresses(sessions: int, sid: str, user_id: str) -> dict[str, str]:
    from django_redsess.admin.sessions import OnlineSessionAdmin as Admin

    columns = [getattr(getattr(Admin, name, None), "admin_order_field", name) for name in Admin.list_display]
    seen = columns.index("last_seen_at") + 1  # The check boxes are column 0.
    last = -(-sessions // PER_PAGE)
    queries = {
        "first page": "",
        "middle page": f"p={(last + 1) // 2}",
        "last page": f"p={last}",
        "last seen: first page": f"o=-{seen}",
        "last seen: middle page": f"o=-{seen}&p={(last + 1) // 2}",
        "everyone: first page": "guests=true",
        "active in a day": "active=1d",
        "staff": "staff=true",
        "one user": f"user={user_id}",
        "search by name": "q=clerk",
        "search by sid": f"q={sid}",
    }
    return {page: f"{LIST}?{query}" for page, query in queries.items()} | {"a session": f"{LIST}{quote(sid)}/change/"}


def _administrator(users: int, clerks: int) -> User:
    """Create users with the ids 1 to ``users``, and return the last, who is the administrator."""
    from django.contrib.auth.models import User

    def of(number: int) -> User:
        is_clerk, is_last = number < clerks, number == users
        name = f"{'clerk' if is_clerk or is_last else 'shopper'}-{number}"
        return User(pk=number, username=name, password="!", is_staff=is_clerk or is_last, is_superuser=is_last)

    call_command("migrate", verbosity=0)
    with transaction.atomic():
        User.objects.bulk_create(map(of, range(1, users + 1)), batch_size=USERS_AT_ONCE)
    return User.objects.get(pk=users)


def _filled(sessions: int, administrator: User) -> Side:
    from django_redis import get_redis_connection

    from django_redsess import online

    browser = Client()
    with override_settings(SESSION_CACHE_ALIAS=str(sessions)):
        fill(get_redis_connection(str(sessions)), sessions - 1)
        browser.force_login(administrator)
        [middle] = online.sessions(offset=sessions // 2, limit=1)
    return Side(sessions, browser, _addresses(sessions, middle.sid, str(sessions // 2)))


def _cache_of(server: Server) -> dict[str, Any]:
    options = {"SOCKET_TIMEOUT": 60}
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": server.url, "OPTIONS": options}
