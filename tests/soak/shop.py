"""What runs: the servers behind a sentinel, the web processes, the cleaner, and their settings."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import psutil
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import override_settings

from testproject.servers import Server, available
from testproject.shop.models import Product
from tests.helpers.balancing import Balancer
from tests.helpers.clocks import LIBRARIES, stepped
from tests.helpers.oracle import disagreements
from tests.helpers.running import ROOT, Gunicorn, Running, run_python
from tests.helpers.sentinels import Watched, watched
from tests.helpers.site.accounts import NEW_PASSWORD

PATIENCE_MS = 8_000
"""A sentinel acts when a server has not answered for so long: on a busy machine, most answer late now and then."""

TIMEOUT = 2
"""Seconds that a web process waits for an answer, for the same reason."""

# The old master refuses once it has lost its replicas; and else nothing else than a step of the clock makes them late.
OPTIONS = ("--min-replicas-to-write", "1", "--min-replicas-max-lag", "8")

KINDS = {
    "threads": ("testproject.wsgi", "--workers=2", "--threads=4"),
    "asyncio": ("testproject.asgi", "--workers=1", "--worker-class=asgi"),
}
"""The sites, which the balancer chooses among."""


@dataclass
class Release:
    """What a deploy may change."""

    prefix: str = "soak0"
    partitions: int = 1
    encrypt: bool = False
    keys: list[str] = field(default_factory=lambda: ["the first key of a soak, which is long enough for its checks"])
    engine: str = "django_redsess.backend"
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def redsess(self) -> dict[str, Any]:
        return {"PREFIX": self.prefix, "PARTITIONS": self.partitions, "ENCRYPT": self.encrypt, **self.more}

    def lines(self, caches: dict[str, Any]) -> str:
        return (
            "from tests.soak.settings import *\n"
            f"SECRET_KEY, *SECRET_KEY_FALLBACKS = {self.keys!r}\n"
            f"SESSION_ENGINE = {self.engine!r}\n"
            f"REDSESS = {{**REDSESS, **{self.redsess!r}}}\n"
            f"CACHES = {{**CACHES, **{caches!r}}}\n"
        )


class Shop:
    """All processes. They end with :func:`running`."""

    def __init__(self, folder: Path, servers: Watched, clock: Path | None) -> None:
        self.servers, self.clock, self.release = servers, clock, Release()
        self.ahead_by_seconds = 0
        self._folder, self._number = folder, count(1)
        self._settings = ""
        self.write_settings()
        self._sites = {kind: self._new_site(kind) for kind in KINDS}
        for site in self._sites.values():
            site.__enter__()
        self.balancer = Balancer(list(self._sites.values()))
        self.cleaner = self.new_cleaner()

    def write_settings(self) -> None:
        """Write the release for the processes that are started from now on."""
        self._settings = f"soak_release_{next(self._number)}"
        (self._folder / f"{self._settings}.py").write_text(self.release.lines(self.servers.caches(timeout=TIMEOUT)))

    # Web processes and the cleaner.

    def replace(self, kind: str) -> None:
        """Start another site of this kind with the present settings, drain the one before, and stop it."""
        old, new = self._sites[kind], self._new_site(kind).__enter__()
        self._sites[kind] = new
        self.balancer.add(new)
        self.balancer.drain(old)
        status = old.stop()
        assert status == 0, f"gunicorn ended with {status}: {old.log[-2000:]}"

    def web_pids(self) -> list[int]:
        """Return the web processes of sites that are not drained."""
        return [child.pid for site in [*self.balancer.sites] for child in psutil.Process(site.process.pid).children()]

    def is_served(self) -> bool:
        """Tell whether each site has all its web processes."""
        return len(self.web_pids()) == 3

    def new_cleaner(self) -> Running:
        options = ("--forever", "--verbosity=0", f"--settings={self._settings}", f"--pythonpath={self._folder}")
        return Running(self._folder, "", "cleansessions", *options)

    def replace_cleaner(self) -> None:
        status, said = self.cleaner.stop()
        self.cleaner = self.new_cleaner()
        assert status == 0, f"cleansessions ended with {status}: {said[-2000:]}"

    def command(self, *arguments: str) -> str:
        """Run a command of manage.py. Raises AssertionError, with what it said, if it fails."""
        return run_python("testproject/manage.py", *arguments, **self._environment)

    # Servers.

    def step(self, seconds: int) -> None:
        """Step the clock of all servers."""
        assert self.clock
        self.ahead_by_seconds += seconds
        stepped(self.clock, self.ahead_by_seconds)

    def restart(self, server: Server) -> None:
        """Start a server that has been killed, as a replica: without its data."""
        server.start()
        server.client.replicaof("127.0.0.1", self.servers.master().port)

    def server_pids(self) -> list[int]:
        return [server.process.pid for server in self.servers.servers]

    def disagreements(self) -> list[str]:
        """Ask the oracle of the tests. Nobody may write meanwhile."""
        with override_settings(REDSESS=self.release.redsess):
            return disagreements(self.servers.master().client)

    def delete_keys(self, prefix: str) -> None:
        """Delete what is left of a store from which all has moved."""
        client = self.servers.master().client
        for name in client.scan_iter(f"{{{prefix}*", count=1000):
            client.unlink(name)

    def close(self) -> None:
        self.cleaner.kill()
        for site in self._sites.values():
            site.stop()

    @property
    def _environment(self) -> dict[str, str]:
        return {
            "DJANGO_SETTINGS_MODULE": self._settings,
            "PYTHONPATH": f"{self._folder}:{ROOT}",
            "REDSESS_DEMO_DIR": str(self._folder),
            "HISTORY": "1",
        }

    def _new_site(self, kind: str) -> Gunicorn:
        application, *options = KINDS[kind]
        return Gunicorn(self._folder, *options, "--log-level=warning", application=application, **self._environment)


@contextmanager
def running(folder: Path, names: Collection[str], products: Collection[str]) -> Iterator[Shop]:
    """Start the shop with these users and products. End all its processes."""
    call_command("migrate", verbosity=0)
    password = make_password(NEW_PASSWORD)
    User.objects.bulk_create([User(username=name, password=password) for name in names])
    Product.objects.bulk_create([Product(slug=slug, name=slug) for slug in products])
    clock = folder / "clock" if LIBRARIES else None
    environment = stepped(clock) if clock else None
    with ExitStack() as ended:
        start = partial(watched, available()["valkey"], folder, *OPTIONS, replicas=2, patience_ms=PATIENCE_MS)
        servers = ended.enter_context(start(environment=environment))
        shop = Shop(folder, servers, clock)
        ended.callback(shop.close)
        yield shop
