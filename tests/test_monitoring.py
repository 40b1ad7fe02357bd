"""What watches over a site gets from it: whether it is ready, and its metrics."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any

import pytest
import redis as redis_py
from django.test import AsyncClient, Client, override_settings
from prometheus_client.parser import text_string_to_metric_families

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.prometheus import metrics_page
from django_redsess.exceptions import SessionStoreUnavailable
from testproject.servers import Server
from tests.helpers.outages import BUDGET, TIMEOUT, caches, close_connections, frozen, full, replica, without_replicas
from tests.helpers.permissions import listed
from tests.helpers.store import keyspace, pool, sid_of


class Own(redis_py.Connection):
    """A class of the site's own."""


OBSERVED = "django_redsess.contrib.prometheus.observer.Observer"
# Django's test client raises what the site has not answered.
CLIENT = Client()


@pytest.fixture
def impatient(settings: Any, own_server: Server) -> Iterator[Server]:
    """Keep the sessions on a server of this test's own, and wait for it as briefly as a site does."""
    settings.CACHES = caches(own_server.url, timeout=TIMEOUT)
    assert ask_ready() == (200, {"ready": True})
    yield own_server
    close_connections()


def ask_ready() -> tuple[int, dict[str, Any]]:
    response = CLIENT.get("/ready")
    assert response.headers["Content-Type"] == "application/json"
    assert "no-store" in response.headers["Cache-Control"]
    assert not response.cookies
    return response.status_code, json.loads(response.content)


def scraped(client: Any = CLIENT) -> dict[tuple[str, ...], float]:
    """Ask for the metrics. Each is under its name and the values of its labels, ordered by their names."""
    response = client.get("/metrics")
    assert response.status_code == 200
    assert response.headers["Content-Type"].startswith("text/plain; version=")
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(response.content.decode())
        for sample in family.samples
    }


def stopped(server: Server) -> AbstractContextManager[None]:
    class Stopped(AbstractContextManager[None]):
        def __enter__(self) -> None:
            server.stop()

        def __exit__(self, *error: object) -> None:
            server.start()

    return Stopped()


OUTAGES: dict[str, Callable[[Server], AbstractContextManager[None]]] = {
    "full": lambda server: full(server.client),
    "read_only": replica,
    "no_replicas": without_replicas,
    "unreachable": stopped,
    "timeout": frozen,
}


@pytest.mark.parametrize("cause", OUTAGES)
def test_not_ready_while_sessions_cannot_be_read_and_written(impatient: Server, cause: str, caplog) -> None:
    with OUTAGES[cause](impatient):
        began = time.monotonic()
        status, answer = ask_ready()
        assert time.monotonic() - began < BUDGET
        assert (status, answer) == (503, {"ready": False, "cause": cause})
        assert ask_ready() == (status, answer)
    assert ask_ready() == (200, {"ready": True})
    # It is no error of the site.
    assert not [record for record in caplog.records if record.name == "django.request"]


def test_not_ready_with_settings_that_do_not_suit_the_store(settings, new_session) -> None:
    # Other tests have emptied the store, and this process does not know.
    pool().invalidate()
    new_session()
    with override_settings(REDSESS={**settings.REDSESS, "PARTITIONS": 4}):
        assert ask_ready() == (503, {"ready": False, "cause": "error"})
        assert scraped()["redsess_up",] == 0
    assert ask_ready() == (200, {"ready": True})


@pytest.mark.usefixtures("partitions")
@pytest.mark.on_cluster
def test_ready_changes_nothing(redis, partitions) -> None:
    assert ask_ready() == (200, {"ready": True})
    for partition in keyspace().partitions:
        assert not redis.exists(partition.login)
        assert not redis.exists(partition.expire)


@pytest.mark.one_server
@pytest.mark.usefixtures("partitions")
def test_ready_is_one_round_trip_and_opens_no_session(round_trips, new_session, commands, partitions) -> None:
    CLIENT.cookies["sessionid"] = new_session("7").session_key
    ask_ready()
    round_trips()
    commands()
    assert ask_ready() == (200, {"ready": True})
    assert round_trips() == 1
    # What a load asks, and one script. The server's time is asked by its own.
    asked = {"hget": 1, "zscore": 1, "time": 1, "zadd": 2, "evalsha": 1}
    asked = {name: count * partitions for name, count in asked.items()}
    assert commands() == {**asked, "time": 1 + partitions, "config|resetstat": 1}
    CLIENT.cookies.clear()


def test_ready_answers_from_an_event_loop(impatient: Server) -> None:
    async def ask() -> int:
        response = await AsyncClient().get("/ready")
        return response.status_code

    assert asyncio.run(ask()) == 200
    with full(impatient.client):
        assert asyncio.run(ask()) == 503


async def aask_ready() -> int:
    response = await AsyncClient().get("/ready")
    return response.status_code


@pytest.mark.both_servers
def test_ready_is_what_requests_are_for_a_user_without_one_right(impatient: Server, settings) -> None:
    rules = listed()
    url = impatient.url.replace("//", "//shop:secret@")

    def may(*allowed: str) -> None:
        impatient.client.execute_command("ACL", "SETUSER", "shop", "reset", *allowed)

    def works(work: Callable[[], object]) -> bool:
        try:
            work()
        except SessionStoreUnavailable:
            return False
        return True

    def change() -> None:
        session = SessionStore(known)
        session["number"] = session.get("number", 0) + 1
        session.save()

    def begin_and_end() -> None:
        session = SessionStore()
        session["_auth_user_id"] = "7"
        session.save()
        session.flush()

    may(*rules)
    settings.CACHES = caches(url, timeout=TIMEOUT)
    guest = SessionStore()
    guest["number"] = 0
    guest.save()
    known = guest.session_key
    assert (ask_ready()[0], works(change), works(begin_and_end)) == (200, True, True)
    for right in [rule for rule in rules if rule.startswith("+")]:
        may(*(set(rules) - {right}))
        (status, answer), in_loop = ask_ready(), asyncio.run(aask_ready())
        # The connections of a new loop are new ones.
        assert status == in_loop or right == "+select", right
        assert answer["ready"] or answer["cause"] == "forbidden", right
        if status == 200:
            assert works(change), right
        else:
            assert not (works(change) and works(begin_and_end)), right
        may(*rules)
        assert ask_ready()[0] == 200
        assert works(change)
    may(*rules, "-hexists", "-zpopmax", "-info")
    assert ask_ready()[0] == 200


def test_ready_asks_on_the_connections_that_serve_the_request(impatient: Server, settings) -> None:
    settings.CACHES = caches(f"{impatient.url}?client_name=of-loops", timeout=TIMEOUT)
    # Threads can use it, and event loops have no counterpart.
    settings.CACHES["sessions"]["OPTIONS"]["CONNECTION_POOL_KWARGS"] = {"connection_class": Own}
    assert ask_ready() == (200, {"ready": True})
    assert asyncio.run(aask_ready()) == 503


def test_both_pages_answer_only_to_reading() -> None:
    for path in ("/ready", "/metrics"):
        assert CLIENT.post(path).status_code == 405
        assert CLIENT.head(path).status_code == 200


@pytest.mark.usefixtures("partitions")
@pytest.mark.on_cluster
def test_metrics_have_the_numbers_of_the_store(settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS": 50, "MAX_GUESTS": 20}
    sessions = [new_session(str(number)) for number in range(3)] + [new_session() for _ in range(2)]
    online.end(sid_of(sessions[0].session_key))
    found = scraped()
    assert {
        ("redsess_up",): 1,
        ("redsess_sessions", "signed_in"): 2,
        ("redsess_sessions", "guest"): 2,
        ("redsess_sessions_active", "signed_in"): 2,
        ("redsess_sessions_active", "guest"): 2,
        ("redsess_sessions_limit",): 50,
        ("redsess_guests_limit",): 20,
        ("redsess_sessions_created_total",): 5,
        ("redsess_sessions_ended_total", "kicked"): 1,
        ("redsess_sessions_ended_total", "evicted"): 0,
        ("redsess_cleaner_lag_seconds",): 0,
    }.items() <= found.items()
    assert ("redsess_cleaner_seen_timestamp_seconds",) not in found


@pytest.mark.one_server
@pytest.mark.usefixtures("partitions")
def test_the_store_is_asked_once_in_ten_seconds_by_however_many(
    commands, round_trips, new_session, monkeypatch, partitions
) -> None:
    CLIENT.cookies["sessionid"] = new_session("7").session_key
    online.totals()
    now = time.monotonic()
    monkeypatch.setattr(metrics_page, "monotonic", lambda: now)
    round_trips()
    commands()
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda _: scraped(Client()), range(16)))
    assert {each["redsess_sessions_created_total",] for each in found} == {1}
    assert round_trips() == 1
    asked = {"hmget": 1, "zcard": 2, "zcount": 2, "zrange": 2}
    asked = {name: count * partitions for name, count in asked.items()}
    assert commands() == {**asked, "time": 1, "config|resetstat": 1}
    new_session("8")
    round_trips()
    assert scraped()["redsess_sessions_created_total",] == 1
    now += 10.1
    assert scraped()["redsess_sessions_created_total",] == 2
    assert round_trips() == 1
    CLIENT.cookies.clear()


@pytest.mark.parametrize("cause", ["unreachable", "timeout"])
def test_a_scrape_in_an_outage_has_no_numbers_of_the_store(impatient: Server, cause: str, monkeypatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr(metrics_page, "monotonic", lambda: now)
    assert scraped()["redsess_up",] == 1
    now += 10.1
    with OUTAGES[cause](impatient):
        began = time.monotonic()
        found = scraped()
        assert time.monotonic() - began < BUDGET
        assert found["redsess_up",] == 0
        stale = "redsess_sessions", "redsess_cleaner", "redsess_guests"
        # A counter of this process has a name that begins like theirs.
        names = {name for name, *_ in found if not name.startswith("redsess_sessions_not_proven")}
        assert not [name for name in names if name.startswith(stale)]
    now += 10.1
    assert scraped()["redsess_up",] == 1
