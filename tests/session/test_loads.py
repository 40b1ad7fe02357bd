"""A session object that loads its session more than once: by tasks or threads at once, after its end, in a rotation."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth import SESSION_KEY

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.store import sid_of, stored

pytestmark = [pytest.mark.on_cluster, pytest.mark.usefixtures("partitions")]

TOGETHER = 4


@pytest.fixture(params=[{}, {"SLIDING": True}, {"IDLE_TIMEOUT": 600}], ids=["plain", "sliding", "idle"])
def deadlines(request, settings) -> None:
    """Run the test with deadlines that stay, and with those that a load may move."""
    settings.REDSESS = {**settings.REDSESS, **request.param}


def assert_all_stored(key: str) -> None:
    found = SessionStore(key).load()
    assert {f"of {number}": found.get(f"of {number}") for number in range(TOGETHER)} == {
        f"of {number}": number for number in range(TOGETHER)
    }


@pytest.mark.usefixtures("deadlines")
@pytest.mark.parametrize("saves", [False, True])
def test_tasks_that_look_first_at_the_same_time_lose_nothing(new_session, saves: bool) -> None:
    key = new_session("7", colour="blue").session_key

    async def use(session: SessionStore, number: int) -> None:
        assert await session.aget("colour") == "blue"
        await session.aset(f"of {number}", number)
        if saves:
            await session.asave()

    async def visit() -> None:
        session = SessionStore(key)
        await asyncio.gather(*(use(session, number) for number in range(TOGETHER)))
        await session.asave()

    asyncio.run(visit())
    assert_all_stored(key)


def test_threads_that_look_first_at_the_same_time_lose_nothing(new_session) -> None:
    with ThreadPoolExecutor(TOGETHER) as threads:
        for _ in range(20):
            session = SessionStore(new_session("7", colour="blue").session_key)

            def use(number: int, session: SessionStore = session) -> None:
                assert session["colour"] == "blue"
                session[f"of {number}"] = number

            list(threads.map(use, range(TOGETHER)))
            session.save()
            assert_all_stored(session.session_key)


async def look_and_load(session: SessionStore) -> None:
    await session.aload()


async def look_at_once(session: SessionStore) -> None:
    await asyncio.gather(session.aload(), session.aload())


@pytest.mark.parametrize("look", [look_and_load, look_at_once])
@pytest.mark.parametrize("user", ["7", ""])
def test_a_session_that_has_ended_since_the_first_load_does_not_begin_anew(
    new_session, redis, user: str, look: Callable[[SessionStore], Awaitable[None]]
) -> None:
    key = new_session(user, colour="blue").session_key

    async def visit() -> SessionStore:
        session = SessionStore(key)
        await session.aset("size", "L")
        await asyncio.to_thread(online.end, sid_of(key))
        await look(session)
        return session

    session = asyncio.run(visit())
    assert (session.session_key, session.is_empty(), session.get(SESSION_KEY), session.get("colour")) == (
        None,
        True,
        None,
        None,
    )
    # What comes then is a guest's.
    session["size"] = "M"
    session.save()
    assert SessionStore(session.session_key).load() == {"size": "M"}
    assert stored(redis) == 1


def test_a_session_with_a_new_key_is_loaded_before_its_save(new_session, redis) -> None:
    session = SessionStore(new_session("7", colour="blue").session_key)
    session.cycle_key()
    key = session.session_key
    assert session.load()["colour"] == "blue"
    session["size"] = "L"
    session.save()
    assert session.session_key == key
    found = SessionStore(key).load()
    assert (found["colour"], found["size"], found[SESSION_KEY]) == ("blue", "L", "7")
    assert stored(redis) == 1
