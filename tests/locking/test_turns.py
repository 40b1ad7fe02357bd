"""Views whose requests are answered one at a time: none reads what another is about to change."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from django_redsess.backend import SessionStore
from tests.helpers.backends import entry
from tests.helpers.properties import cases
from tests.helpers.running import wait_until
from tests.helpers.serving import serving
from tests.helpers.store import keyspace, sid_of

REQUESTS = cases(200)

pytestmark = pytest.mark.both_servers


@pytest.mark.on_cluster
def test_each_of_many_requests_at_once_counts(site_settings, partitions, new_session, locks) -> None:
    cookie = new_session(number=0).session_key
    with serving(REQUESTS) as site, ThreadPoolExecutor(REQUESTS) as pool:
        answers = list(pool.map(lambda _: site.ask("/locks/patient/count/", cookie), range(REQUESTS)))
    assert {answer.status for answer in answers} == {200}
    assert sorted(int(answer.text) for answer in answers) == list(range(REQUESTS))
    assert SessionStore(cookie)["number"] == REQUESTS


@pytest.mark.on_cluster
def test_each_of_many_tasks_of_one_event_loop_counts(site_settings, partitions, new_session) -> None:
    cookie = new_session(number=0).session_key

    async def ask() -> str:
        client = AsyncClient()
        client.cookies["sessionid"] = cookie
        response = await client.get("/locks/async/patient/count/")
        assert response.status_code == 200
        return str(response.content.decode())

    async def ask_together() -> list[str]:
        return await asyncio.gather(*(ask() for _ in range(REQUESTS)))

    assert sorted(map(int, async_to_sync(ask_together)())) == list(range(REQUESTS))
    assert SessionStore(cookie)["number"] == REQUESTS


def test_requests_that_wait_hold_no_connection(site_settings, settings, redis, new_session, server) -> None:
    """With two connections for twenty requests, each of which would wait two seconds at most for one."""
    # django-redis finds a pool by its address, and by nothing else.
    url = f"{server.url}?client_name=two"
    settings.CACHES = {
        "sessions": entry("django-redis", url, pool_class="BlockingConnectionPool", max_connections=2, timeout=2)
    }
    cookie = new_session(number=0).session_key
    with serving(20) as site:
        let_on = site.ask_held("/locks/count/", cookie)
        answers = [site.ask_meanwhile("/locks/count/", cookie) for _ in range(19)]
        waiting = keyspace().of_sid(sid_of(cookie)).waiting_of(sid_of(cookie))
        wait_until(lambda: redis.zcard(waiting) == 19)
        # There is one for another session, too.
        assert site.ask("/held/read/number/", new_session(number=7).session_key).text == "7"
        let_on()
        assert {answer.result(20).status for answer in answers} == {200}
    assert SessionStore(cookie)["number"] == 20
