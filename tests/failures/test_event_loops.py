"""Many event loops, one after another and at once: each has connections of its own, and none stays open behind it."""

import asyncio
import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from tests.helpers.running import wait_until
from tests.helpers.store import stored
from tests.helpers.visitors import Browser


@pytest.fixture
def baseline(redis, site) -> int:
    """The connections that there are when nothing asynchronous is under way."""
    SessionStore().exists("k" * 32)
    return len(redis.client_list())


def assert_back_to(baseline: int, redis: Any) -> None:
    # The server notices a moment later that a connection was closed.
    wait_until(lambda: len(redis.client_list()) <= baseline)
    # What was not closed would warn now, and a warning is an error.
    gc.collect()


async def save_and_load(number: int) -> None:
    session = SessionStore()
    await session.aset("number", number)
    await session.asave()
    opened = SessionStore(session.session_key)
    assert await opened.aload() == {"number": number}
    await opened.aset("colour", "blue")
    await opened.asave()
    assert await SessionStore(session.session_key).aload() == {"number": number, "colour": "blue"}
    await opened.adelete()
    assert not await opened.aexists(str(session.session_key))


def in_threads(*work: Any) -> None:
    """Do each in a thread of its own; fail if one fails."""
    with ThreadPoolExecutor(len(work)) as pool:
        for done in [pool.submit(each) for each in work]:
            done.result()


@pytest.mark.parametrize("calls", [8, pytest.param(350, marks=pytest.mark.slow)])
def test_loops_in_three_threads_one_for_all_calls_and_one_for_each(redis, baseline: int, calls: int) -> None:
    async def many() -> None:
        for batch in range(calls // 4):
            await asyncio.gather(*(save_and_load(batch * 5 + number) for number in range(5)))

    def one_for_each() -> None:
        for number in range(calls):
            async_to_sync(save_and_load)(number)

    def closed_without_a_word() -> None:
        """As a program does that makes its loop itself; closing its asynchronous generators is part of that."""
        for number in range(4):
            loop = asyncio.new_event_loop()
            loop.run_until_complete(save_and_load(number))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    for work in (lambda: asyncio.run(many()), one_for_each, closed_without_a_word):
        in_threads(work, work, work)
        assert_back_to(baseline, redis)
    assert stored(redis) == 0


def test_the_same_threads_use_both_ways_in_turns(redis, baseline: int) -> None:
    def both() -> None:
        for number in range(8):
            session = SessionStore()
            session["number"] = number
            session.save()
            assert async_to_sync(SessionStore(session.session_key).aload)() == {"number": number}
            async_to_sync(session.aset)("number", -1)
            session.save()
            async_to_sync(session.adelete)()

    in_threads(both, both, both)
    # Those of the pool that threads share stay, one for each.
    assert_back_to(baseline + 3, redis)


def test_a_loop_that_one_keeps_uses_its_connection_again(proxy, baseline: int) -> None:
    async def many() -> None:
        for number in range(15):
            await save_and_load(number)

    before = proxy.accepted
    asyncio.run(many())
    assert proxy.accepted == before + 1


@pytest.mark.django_db
def test_requests_over_asgi_leave_no_connection(alice, redis, baseline: int) -> None:
    browser = Browser(AsyncClient())
    browser.sign_in(alice)
    for number in range(6):
        assert browser.post(f"/async/write/number/{number}/").status_code == 200
        assert browser.get("/async/who/").content == b"alice"
        assert browser.get("/who/").content == b"alice"
    assert_back_to(baseline, redis)


def test_an_outage_leaves_no_connection(proxy, redis, baseline: int) -> None:
    async def meet_outage() -> None:
        with pytest.raises(SessionStoreUnavailable):
            await SessionStore("k" * 32).aload()

    proxy.refuse()
    for _ in range(6):
        async_to_sync(meet_outage)()
    proxy.restore()
    async_to_sync(save_and_load)(1)
    assert_back_to(baseline, redis)
