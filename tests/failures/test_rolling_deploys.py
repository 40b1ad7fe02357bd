"""
Rolling deploys: two sites on one store, of which one after the other is drained and started with other settings, or as
another release.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import count, permutations
from pathlib import Path

import pytest
import requests
from django.core.management import call_command

from tests.helpers.balancing import Balancer
from tests.helpers.other_release import other_release
from tests.helpers.running import ROOT, Gunicorn, run_python, wait_until
from tests.helpers.store import keyspace, scripts, stored

pytestmark = pytest.mark.slow

SETTINGS = """REDSESS |= {
    "ENCRYPT": True, "IDLE_TIMEOUT": 1800, "ABSOLUTE_TIMEOUT": 86_400, "SLIDING": True, "MAX_SESSIONS_PER_USER": 1
}"""
"""What a release may change at once."""

KEYS = [
    'SECRET_KEY = "old"',
    'SECRET_KEY, SECRET_KEY_FALLBACKS = "old", ["new"]',
    'SECRET_KEY, SECRET_KEY_FALLBACKS = "new", ["old"]',
    'SECRET_KEY = "new"',
]
"""The releases that replace a key."""

MAKE_USER = """
import django
django.setup()
from django.contrib.auth.models import User
from django.core.management import call_command
call_command("migrate", verbosity=0)
User.objects.create_user("alice")
"""


class Visitor:
    """Somebody with one cookie for all sites, whose session has a number that each visit replaces by the next."""

    def __init__(self, site: Gunicorn) -> None:
        self._browser = requests.Session()
        self._browser.trust_env = False
        self.number = 0
        self.get(site, "write/number/0/")
        self.get(site, "sign-in/alice/")

    def visit(self, *sites: Gunicorn) -> None:
        for site in sites:
            self.swap(site)
            assert self.get(site, "who/") == "alice"

    def swap(self, site: Gunicorn) -> None:
        before, self.number = self.number, self.number + 1
        assert self.get(site, f"swap/number/{self.number}/") == str(before)

    def get(self, site: Gunicorn, path: str) -> str:
        answer = self._browser.get(f"{site.address}/{path}", timeout=20)
        assert answer.status_code == 200, (path, answer.status_code)
        return answer.text


@pytest.fixture
def start(server, tmp_path: Path) -> Iterator[Callable[..., Gunicorn]]:
    """Return a function that starts a site whose settings end with these lines. All are in one database."""

    def start(lines: str, *options: str, url: str = server.url, cwd: Path = ROOT) -> Gunicorn:
        name = f"release_{next(numbers)}"
        (tmp_path / f"{name}.py").write_text(f"from tests.helpers.site.settings import *\n{lines}\n")
        environment = {"DJANGO_SETTINGS_MODULE": name, "REDIS_URL": url, "PYTHONPATH": str(tmp_path)}
        return running.enter_context(Gunicorn(tmp_path, *options, cwd=cwd, **environment))

    numbers = count(1)
    settings = {"DJANGO_SETTINGS_MODULE": "tests.helpers.site.settings", "REDSESS_DEMO_DIR": str(tmp_path)}
    run_python("-c", MAKE_USER, **settings)
    with ExitStack() as running:
        yield start


@pytest.fixture
def deploy(start) -> Callable[..., tuple[Visitor, list[Gunicorn]]]:
    """Return a function that deploys releases, one after the other, to two sites while somebody visits both."""

    def deploy(first: str, *later: str) -> tuple[Visitor, list[Gunicorn]]:
        sites = [start(first), start(first)]
        visitor = Visitor(sites[0])
        for release in later:
            for place, other in permutations(range(2)):
                visitor.visit(*sites)
                assert sites[place].stop() == 0
                visitor.visit(sites[other])
                sites[place] = start(release)
                visitor.visit(*sites, *sites)
        return visitor, sites

    return deploy


def test_a_visitor_of_both_sites_goes_on_while_settings_change(deploy, redis, capsys) -> None:
    visitor, sites = deploy("", SETTINGS)
    # All of them hold at the end.
    [(_, deadline)] = redis.zrange(keyspace().partitions[0].expire, 0, -1, withscores=True)
    assert deadline / 1000 - redis.time()[0] < 2000
    call_command("cleansessions", check=True)
    assert "0 sessions are sealed, and 1 encrypted" in capsys.readouterr().out
    Visitor(sites[0]).visit(*sites)
    assert [visitor.get(site, "who/") for site in sites] == ["nobody", "nobody"]
    assert stored(redis) == 1


def test_a_visitor_of_both_sites_goes_on_while_the_secret_key_is_replaced(deploy, redis) -> None:
    # The last release knows the new key alone.
    deploy(*KEYS)
    assert stored(redis) == 1


@pytest.mark.parametrize("workers", [["--worker-class=sync"], ["--threads=4"]], ids=["sync", "threads"])
def test_a_request_under_way_is_answered_and_saved_before_its_site_stops(start, proxy, server, workers) -> None:
    stopped, goes_on = start("", *workers, url=proxy.url), start("")
    visitor = Visitor(goes_on)
    visitor.visit(stopped)

    def stop() -> None:
        stopped.process.terminate()
        wait_until(lambda: "Handling signal: term" in stopped.log)

    proxy.before(scripts.SAVE_FAST.digest, stop)
    visitor.swap(stopped)
    visitor.visit(goes_on)
    assert stopped.process.wait(timeout=30) == 0


def test_a_visitor_goes_on_while_a_site_reloads_its_settings(start, redis, tmp_path: Path, capsys) -> None:
    site = start("", "--threads=4")
    visitor = Visitor(site)
    with (tmp_path / "release_1.py").open("a") as file:
        file.write(SETTINGS)
    site.process.send_signal(signal.SIGHUP)

    def is_reloaded() -> bool:
        visitor.visit(site)
        return site.log.count("Booting worker") == 2 and "Worker exiting" in site.log

    wait_until(is_reloaded)
    visitor.visit(site)
    call_command("cleansessions", check=True)
    assert "0 sessions are sealed, and 1 encrypted" in capsys.readouterr().out


class Load:
    """Visitors who go on at whatever sites run, each in a thread of its own, until they are to ``stop()``."""

    def __init__(self, sites: list[Gunicorn], count: int) -> None:
        self._balancer, self._stopped = Balancer(sites), threading.Event()
        self.visitors = [Visitor(sites[0]) for _ in range(count)]
        self._pool = ThreadPoolExecutor(count)
        self._running = [self._pool.submit(self._go_on, visitor) for visitor in self.visitors]

    @property
    def sites(self) -> list[Gunicorn]:
        return self._balancer.sites

    def _go_on(self, visitor: Visitor) -> None:
        while not self._stopped.is_set():
            with self._balancer.chosen() as site:
                visitor.visit(site)

    def replace(self, site: Gunicorn, started: Callable[[], Gunicorn]) -> None:
        """Drain a site, stop it, and start another in its place."""
        self._balancer.drain(site)
        assert site.stop() == 0
        self._have_all_visited()
        self._balancer.add(started())
        self._have_all_visited()

    def _have_all_visited(self) -> None:
        """Wait until each visitor has been somewhere a few times."""
        goals = [visitor.number + 5 for visitor in self.visitors]
        wait_until(
            lambda: (
                any(each.done() for each in self._running)
                or all(visitor.number >= goal for visitor, goal in zip(self.visitors, goals, strict=True))
            )
        )

    def stop(self) -> None:
        self._stopped.set()
        for each in self._running:
            each.result()
        self._pool.shutdown()


def test_two_releases_serve_one_store_under_load_in_either_order(start, redis, tmp_path, capsys) -> None:
    """Nobody is signed out, and no change is lost, while a release replaces another, and when it is taken back."""
    release = other_release(tmp_path)

    def other() -> Gunicorn:
        return start(imports_from(release.folder), "--workers=2", cwd=release.folder)

    def tree() -> Gunicorn:
        return start(imports_from(ROOT), "--workers=2")

    load = Load([other(), other()], 4)
    for started in (tree, tree, other, other, tree):
        load.replace(load.sites[0], started)
    load.stop()
    for site in load.sites:
        for visitor in load.visitors:
            visitor.visit(site)
    assert stored(redis) == len(load.visitors)
    call_command("cleansessions", check=True)
    # What one release ends has ended for the other.
    of_tree, of_other = load.sites[::-1]
    assert load.visitors[0].get(of_other, "sign-out/") == load.visitors[1].get(of_tree, "sign-out/")
    for visitor, site in ((load.visitors[0], of_tree), (load.visitors[1], of_other)):
        assert visitor.get(site, "who/") == "nobody"


def imports_from(folder: Path) -> str:
    """Settings of a site that does not start with another package than the one in ``folder``."""
    imported = f"import django_redsess\nassert django_redsess.__path__ == [{str(folder / 'django_redsess')!r}]"
    # All visitors are one user.
    return f"{imported}\nREDSESS['MAX_SESSIONS_PER_USER'] = None"
