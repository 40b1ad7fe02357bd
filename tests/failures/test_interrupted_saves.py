"""A task is cancelled while it waits for the reply to its save, and saves once more: nothing that it wrote is lost."""

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest
from django.contrib.auth import SESSION_KEY

from django_redsess.backend import SessionStore
from django_redsess.transport.keys import bucket_of_user, key_in_bucket
from tests.helpers.outages import OURS, caches
from tests.helpers.store import keyspace, sid_of, stored

pytestmark = [pytest.mark.usefixtures("known_scripts", "users_in_no_table"), pytest.mark.both_servers]

USER = "7"


async def sign_in(session: SessionStore) -> None:
    await session.acycle_key()
    await session.aset(SESSION_KEY, USER)


async def get_other_deadline(session: SessionStore) -> None:
    await session.aset_expiry(100)


async def write(session: SessionStore) -> None:
    await session.aset("colour", "red")


Change = Callable[[SessionStore], Awaitable[None]]


async def saved_in_two(proxy, bucket: int, change: Change, lost: int) -> tuple[SessionStore, bool]:
    """
    Change a guest's session, and save it: the first time, the reply after so many others does not come in time.

    Return the session, and whether there was such a reply.
    """
    session = SessionStore(key_in_bucket(bucket, bytes(range(62))))
    await session.aset("size", "L")
    await session.asave(must_create=True)
    await change(session)
    await session.aset("first", 1)
    before = proxy.lost
    proxy.lose_reply(OURS, skip=lost, hang=True)
    try:
        async with asyncio.timeout(0.3):
            await session.asave()
    except TimeoutError:
        assert proxy.lost > before
    proxy.restore()
    await session.aset("second", 2)
    await session.asave()
    return session, proxy.lost > before


@pytest.mark.parametrize("change", [sign_in, SessionStore.acycle_key, get_other_deadline, write])
@pytest.mark.parametrize(("partitions", "at_home"), [(1, True), (4, True), (4, False)], indirect=["partitions"])
def test_what_is_written_after_an_interrupted_save_is_stored(
    proxy, settings, redis, partitions: int, at_home: bool, change: Change
) -> None:
    settings.CACHES = caches(proxy.url, timeout=5)
    bucket = bucket_of_user(USER) ^ (0 if at_home else 512)

    async def visit(lost: int) -> bool:
        session, was_lost = await saved_in_two(proxy, bucket, change, lost)
        found = await SessionStore(session.session_key).aload()
        expected = {"size": "L", "first": 1, "second": 2}
        assert {name: found.get(name) for name in expected} == expected
        # Later saves know what is stored.
        await session.aset("third", 3)
        await session.asave()
        assert (await SessionStore(session.session_key).aload())["third"] == 3
        # It lives once.
        assert stored(redis) == 1
        if change is sign_in:
            names = redis.zrange(keyspace().of_user(USER).online_user_of(USER), 0, -1)
            assert names == [sid_of(session.session_key).encode()]
        await session.aflush()
        return was_lost

    for lost in itertools.count():
        if not asyncio.run(visit(lost)):
            assert lost > 0
            break
