"""Views whose requests are answered one at a time: none reads what another is about to change."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from django_redsess.backend import SessionStore
from tests.helpers.serving import serving

REQUESTS = 200

pytestmark = pytest.mark.both_servers


@pytest.mark.on_cluster
def test_two_hundred_requests_at_once_count_to_two_hundred(site_settings, partitions, new_session, locks) -> None:
    cookie = new_session(number=0).session_key
    with serving(REQUESTS) as site, ThreadPoolExecutor(REQUESTS) as pool:
        answers = list(pool.map(lambda _: site.ask("/locks/count/", cookie), range(REQUESTS)))
    assert {answer.status for answer in answers} == {200}
    assert sorted(int(answer.text) for answer in answers) == list(range(REQUESTS))
    assert SessionStore(cookie)["number"] == REQUESTS


@pytest.mark.on_cluster
def test_two_hundred_tasks_of_one_event_loop_count_to_two_hundred(site_settings, partitions, new_session) -> None:
    cookie = new_session(number=0).session_key

    async def ask() -> str:
        client = AsyncClient()
        client.cookies["sessionid"] = cookie
        response = await client.get("/locks/async/count/")
        assert response.status_code == 200
        return str(response.content.decode())

    async def ask_together() -> list[str]:
        return await asyncio.gather(*(ask() for _ in range(REQUESTS)))

    assert sorted(map(int, async_to_sync(ask_together)())) == list(range(REQUESTS))
    assert SessionStore(cookie)["number"] == REQUESTS
