"""A million sessions, with a cleaner and the admin's list at work: nobody has to wait for either."""

import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
import redis
from django.test import Client

from benchmarks.fill import fill
from django_redsess import online
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import filter_of
from tests.helpers.outages import PATIENCE, caches
from tests.helpers.store import stored

pytestmark = pytest.mark.slow

LIST = "/admin/django_redsess/onlinesession/"


def cpu_seconds(server: redis.Redis) -> float:
    """Read how long the server has been working, however often others had the processor in between."""
    cpu = server.info("cpu")
    return float(cpu["used_cpu_user"] + cpu["used_cpu_sys"])


def fill_part(port: int, due: bool) -> None:
    """Fill in a tenth of a million; half of those that are to be due are."""
    with redis.Redis(port=port) as server:
        for is_due in (due, False):
            fill(server, 50_000, due=is_due, viewed=0)


@pytest.mark.django_db
def test_a_million_sessions_are_cleaned_and_listed_without_a_pause(own_server, start, settings, admin_user) -> None:
    settings.CACHES = caches(own_server.url)
    server = own_server.client
    online.count()
    with ProcessPoolExecutor(2, mp_context=get_context("fork")) as processes:
        list(processes.map(fill_part, [own_server.port] * 10, [True] + [False] * 9))
    visitor = Client()
    visitor.force_login(admin_user)
    server.config_set("slowlog-log-slower-than", 10_000)
    server.slowlog_reset()
    server.config_resetstat()
    cpu_before = cpu_seconds(server)

    # What a batch whose reply comes too late has ended is not counted.
    patient = f"{own_server.url}?socket_timeout={PATIENCE}"
    cleaning = start("cleansessions", "--json", "--verbosity", "0", "--max-sessions", "900000", url=patient)
    pages = 0
    while cleaning.process.poll() is None:
        for query in ("", "?p=2500", "?p=4999", "?o=1", "?q=nobody"):
            assert visitor.get(f"{LIST}{query}").status_code == 200
            pages += 1
    status, errors = cleaning.ended()
    assert (status, errors, pages >= 5) == (0, "", True)
    summary = json.loads(cleaning.stdout)
    # Each page has taken out a few that were due.
    assert 30_000 < summary["expired"] <= 50_000
    assert summary["evicted"] == 50_001
    assert stored(server) == online.count() == 900_000
    stats = server.info("commandstats")
    # A machine with others on it stops a process for that long now and then, whatever it does.
    slow = [(entry["duration"], entry["command"][:60]) for entry in server.slowlog_get()]
    assert len(slow) <= stats["cmdstat_evalsha"]["calls"] / 100, slow
    assert cpu_seconds(server) - cpu_before < stats["cmdstat_evalsha"]["calls"] * 0.005
    assert not {"cmdstat_keys", "cmdstat_hgetall", "cmdstat_smembers"} & set(stats)


def test_a_search_of_many_sessions_is_bounded_work(own_server, settings) -> None:
    settings.CACHES = caches(own_server.url)
    server, everywhere = own_server.client, "198.18.0.0/15"
    fill(server, 30_000, viewed=0)
    server.config_resetstat()
    cpu_before = cpu_seconds(server)

    def bytes_sent_by(ask: Callable[[], int], found: int) -> int:
        before = int(server.info("stats")["total_net_output_bytes"])
        assert ask() == found
        return int(server.info("stats")["total_net_output_bytes"]) - before

    for asked in ({"network": everywhere}, {"browser": "Chrome"}, {"system": "Windows", "network": everywhere}):
        assert bytes_sent_by(lambda asked=asked: online.count(**asked), 10_000) < 10_000 * 704
    used, calls = cpu_seconds(server) - cpu_before, server.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert used < calls * 0.005
    ended = BulkEnding(filter_of(None, network="198.18.0.0/16"))
    batch = ended.end_batch()
    assert (len(batch), ended.done) == (250, False)
