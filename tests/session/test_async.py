"""The asynchronous half of the engine: the same steps, awaited."""

import asyncio

import pytest
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.test import AsyncClient

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport import connections

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers]


def test_native_methods_create_load_save_rotate_and_end(monkeypatch) -> None:
    async def use_them() -> None:
        session = SessionStore()
        await session.aset("colour", "blue")
        await session.asave()
        key = session.session_key
        assert await session.aexists(key)
        assert await SessionStore(key).aget("colour") == "blue"
        await session.acycle_key()
        await session.aset("_auth_user_id", "7")
        await session.asave()
        assert not await session.aexists(key)
        assert await SessionStore(session.session_key).aget("_auth_user_id") == "7"
        await session.aflush()
        assert session.session_key is None
        await session.acreate()
        assert await session.aexists(session.session_key)
        late = SessionStore(session.session_key)
        await late.aset("colour", "red")
        await session.adelete()
        with pytest.raises(UpdateError):
            await late.asave()
        assert not await session.aexists(session.session_key)
        assert await session.aload() == {}

    # Nothing is sent by the synchronous half.
    monkeypatch.setattr(connections, "send", None)
    asyncio.run(use_them())


def test_one_session_object_serves_both_halves(new_session) -> None:
    session = SessionStore(new_session(colour="blue").session_key)

    async def change() -> None:
        assert await session.aget("colour") == "blue"
        await session.aset("size", 1)
        await session.asave()

    asyncio.run(change())
    session["size"] = 2
    session.save()
    assert dict(SessionStore(session.session_key).items()) == {"colour": "blue", "size": 2}


@pytest.mark.django_db(transaction=True)
def test_a_visit_over_asynchronous_views(settings) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    User.objects.create_user("alice")

    async def visit() -> None:
        browser = AsyncClient()
        assert (await browser.get("/async/sign-in/alice/")).status_code == 200
        assert (await browser.get("/async/both/")).content == b"alice"
        assert (await browser.get("/synchronous/")).content == b"alice"
        session = SessionStore(browser.cookies["sessionid"].value)
        assert {"by index", "awaited", "by a synchronous view"} < set(await session.akeys())
        response = await browser.get("/async/sign-out/")
        assert response.cookies["sessionid"].value == ""

    asyncio.run(visit())
    assert online.count() == 0
