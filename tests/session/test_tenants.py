"""Tenants with a table of users each, in one database of the server: a PREFIX that is a function tells them apart."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import AsyncClient, Client, override_settings

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import keyspace, sid_of
from tests.helpers.checks import messages
from tests.helpers.site import MIDDLEWARE
from tests.helpers.site.people import person
from tests.helpers.visitors import Browser

tenant: ContextVar[Any] = ContextVar("tenant")


def prefix() -> Any:
    return tenant.get()


@contextmanager
def of(name: Any) -> Iterator[None]:
    before = tenant.set(name)
    try:
        yield
    finally:
        tenant.reset(before)


@pytest.fixture(params=[1, 4])
def tenants(request, settings, redis, users_in_no_table) -> Iterator[None]:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    before = settings.REDSESS
    settings.REDSESS = {"PREFIX": prefix, "PARTITIONS": request.param, "MAX_SESSIONS_PER_USER": 1}
    yield
    settings.REDSESS = before
    redis.flushall()


@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_tenants_do_not_see_each_others_sessions(tenants, redis, client: type[Client] | type[AsyncClient]) -> None:
    browsers: dict[str, Browser] = {}
    for name in ("berlin", "paris"):
        with of(name):
            browsers[name] = Browser(client())
            browsers[name].sign_in(person("7"))
            browsers[name].post(f"{browsers[name].views}/write/colour/{name}/")
    # The limit of one session has ended neither.
    for name, browser in browsers.items():
        with of(name):
            assert browser.get(f"{browser.views}/read/colour/").content == name.encode()
            assert [session.sid for session in online.sessions(user_ids=["7"])] == [browser.sid]
    cookie = str(browsers["berlin"].cookie)
    sid = sid_of(cookie)
    with of("berlin"):
        record = redis.hget(keyspace().of_sid(sid).login, sid)
    with of("paris"):
        assert SessionStore(cookie).load() == {}
        # A copy in Redis is worth nothing.
        home = keyspace().of_sid(sid)
        redis.hset(home.login, sid, record)
        redis.zadd(home.expire, {sid: 2**50})
        assert SessionStore(cookie).load() == {}
        redis.hdel(home.login, sid)
        redis.zrem(home.expire, sid)
        assert online.end_user(person("7")) == 1
        assert online.count() == 0
    with of("berlin"):
        assert (online.count(), SessionStore(cookie)["colour"]) == (1, "berlin")


def test_tasks_of_two_tenants_on_one_event_loop(tenants) -> None:
    async def visit(name: str) -> Any:
        tenant.set(name)
        session = SessionStore()
        await session.aset("_auth_user_id", "7")
        await session.aset("tenant", name)
        await session.asave()
        for _ in range(5):
            session = SessionStore(session.session_key)
            assert await session.aget("tenant") == name
            await session.aset("again", True)
            await session.asave()
        return await online.acount()

    async def visit_all() -> list[int]:
        return await asyncio.gather(*(visit(name) for name in ("berlin", "paris", "rome")))

    assert asyncio.run(visit_all()) == [1, 1, 1]


@pytest.mark.parametrize("returned", [None, "", "a{b}", "shop:0", 5, ["shop"]])
def test_what_is_no_prefix_is_one_clear_error(tenants, returned: Any) -> None:
    with of(returned):
        for use in (SessionStore("k" * 32).load, online.count, SessionStore().create):
            with pytest.raises(ImproperlyConfigured, match=r"REDSESS\['PREFIX'\] must .*; it (is|returned) "):
                use()


USER_TABLES = [({"TENANT_APPS": ["django.contrib.auth"]}, 1), ({"TENANT_APPS": ["shop"]}, 0), ({}, 0)]


@pytest.mark.parametrize(("changed", "told"), USER_TABLES)
def test_a_table_of_users_for_each_tenant_is_told_of(settings, changed: dict[str, Any], told: int) -> None:
    for name, value in changed.items():
        setattr(settings, name, value)
    assert [message.id for message in messages()] == ["django_redsess.W046"] * told
    # No tenant is known where checks run.
    with override_settings(REDSESS={"PREFIX": prefix}):
        assert [message.id for message in messages()] == []
