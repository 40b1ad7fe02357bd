"""Each store that sessions can be moved from: what a session becomes here, and what is left there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from importlib import import_module
from itertools import product
from typing import Any

import pytest
import time_machine
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.db import connection

from django_redsess import online, viewed
from django_redsess.backend import SessionStore as OwnSessionStore
from django_redsess.contrib.moving import Row, SessionStore, Source, in_bulk
from django_redsess.contrib.moving.contents import _log_value_once
from django_redsess.contrib.moving.growing.stores import site_stores
from django_redsess.contrib.moving.sources import source
from django_redsess.contrib.moving.sources.engines import CacheSource
from django_redsess.online.listing import moving_from
from tests.contrib.moving.conftest import grow, session_of
from tests.helpers.backends import BACKENDS as BACKENDS_OF_SESSIONS
from tests.helpers.backends import entry
from tests.helpers.store import Store, bucket_of, bucket_of_user, sid_of, using

BACKENDS = "django.contrib.sessions.backends"

CACHES = {
    "django-redis": {"BACKEND": "django_redis.cache.RedisCache", "OPTIONS": {"IGNORE_EXCEPTIONS": True}},
    "Django's Redis cache": {"BACKEND": "django.core.cache.backends.redis.RedisCache"},
    "django-valkey": {"BACKEND": "django_valkey.cache.ValkeyCache", "OPTIONS": {"IGNORE_EXCEPTIONS": True}},
    "memory": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
}
DATABASES = {"db": f"{BACKENDS}.db", "cached_db": f"{BACKENDS}.cached_db"}
OTHERS = {"file": f"{BACKENDS}.file", "redis-sessions": "redis_sessions.session"}
PEERS = {
    "qsessions": "qsessions.backends.db",
    "qsessions: cached": "qsessions.backends.cached_db",
    "user-sessions": "user_sessions.backends.db",
}


# Other packages need not know each release of Django at once.
OF_PACKAGES = [pytest.param(name, marks=pytest.mark.slow) for name in ("redis-sessions", *PEERS)]


@pytest.fixture(params=[*DATABASES, "file", *(f"cache: {name}" for name in CACHES), *OF_PACKAGES])
def old_class(
    request: pytest.FixtureRequest, transactional_db: None, moving: Any, server: Any, tmp_path: Any, monkeypatch: Any
) -> Iterator[type[Any]]:
    """The session class of the engine that the site had before."""
    name = request.param
    path = {**DATABASES, **OTHERS, **PEERS}.get(name, f"{BACKENDS}.cache")
    cache = CACHES.get(name.removeprefix("cache: "), CACHES["memory"])
    location = "moving" if "locmem" in cache["BACKEND"] else server.url
    moving.CACHES = {**moving.CACHES, "before": {**cache, "LOCATION": location}}
    if name == "file":
        moving.SESSION_FILE_PATH = str(tmp_path)
        monkeypatch.setattr(import_module(path).SessionStore, "_storage_path", str(tmp_path), raising=False)
    if name == "redis-sessions":
        there = import_module("redis_sessions.session")
        monkeypatch.setattr(there.settings, "SESSION_REDIS_URL", server.url)
        monkeypatch.setattr(there.settings, "SESSION_REDIS_PREFIX", "before")
        monkeypatch.setattr(there.RedisServer, "_RedisServer__redis", {})
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": {"SESSION_ENGINE": path, "SESSION_CACHE_ALIAS": "before"}}
    if name not in PEERS:
        yield import_module(path).SessionStore
        return
    registered = dict(admin.site._registry)
    moving.INSTALLED_APPS = [*moving.INSTALLED_APPS, path.partition(".")[0]]
    engine = import_module(path).SessionStore
    model = source().model
    User.objects.create(pk=7)
    with connection.schema_editor() as editor:
        editor.create_model(model)
    yield engine
    with connection.schema_editor() as editor:
        editor.delete_model(model)
    # The app has registered its models with the admin, and nobody else takes that back.
    for each in admin.site._registry.keys() - registered.keys():
        admin.site.unregister(each)


@pytest.fixture
def saved_before(old_class: type[Any]) -> Callable[..., str]:
    """Return a function that saves a session by the engine before, and returns its key."""

    def save(**data: Any) -> str:
        session = source().open_session(None, online_client())
        for name, value in data.items():
            session[name] = value
        session.save()
        # django-user-sessions' create() forgets the data.
        for name, value in data.items():
            session[name] = value
        session.save()
        return str(session.session_key)

    return save


def online_client() -> Any:
    from tests.helpers.store import Client

    return Client("192.0.2.1", "Mozilla/5.0")


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_a_session_is_used_there_moved_here_and_ended_everywhere(saved_before, step, redis, left_alone) -> None:
    key = saved_before(_auth_user_id="7", basket={"lamp": 1})
    with step(1):
        session = SessionStore(key)
        assert session["basket"] == {"lamp": 1}
        session["colour"] = "red"
        session.save()
        assert source().read_row(key).data["colour"] == "red"
    before = source().read_row(key)
    with step(2):
        moved = SessionStore(key)
        assert (moved["basket"], moved["colour"]) == ({"lamp": 1}, "red")
        assert moved.session_key == key
        [here] = online.sessions()
        assert abs(here.expires_at.timestamp() - before.deadline_ms / 1000) < 5
        assert abs(here.created_at.timestamp() - time.time()) < 30
        moved["colour"] = "blue"
        moved.save()
        assert source().read_row(key) is not None
        SessionStore(key).flush()
        assert source().read_row(key) is None
        assert SessionStore(key).load() == {}


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_sessions_are_written_back_and_none_that_is_gone(
    old_class, saved_before, step, redis, left_alone, monkeypatch
) -> None:
    used, ended, gone = (saved_before(_auth_user_id="7", basket=1) for _ in range(3))
    gone_before = list[bool]()

    def meanwhile(rows: Any) -> set[str]:
        # A process of the release before, or of step 1, signs out.
        source().delete_row(gone)
        gone_before.append(gone in rows)
        return type(source()).write_rows(source(), rows)

    with step(2):
        for key in (used, ended, gone):
            session = SessionStore(key)
            session["basket"] = 2
            session.save()
        online.end(sid_of(ended))
    with step(1):
        monkeypatch.setattr(source(), "write_rows", meanwhile, raising=False)
        try:
            [page] = in_bulk.bring_rows_back()
        except ImproperlyConfigured:
            pytest.skip("It can't be listed.")
    assert gone_before[0]
    assert (page.done, page.ended, page.left) == (1, 1, 1)
    assert source().read_row(used).data["basket"] == 2
    assert source().read_row(ended) is source().read_row(gone) is None
    # As its own engine reads it, perhaps from a cache.
    assert source().open_session(used, online_client())["basket"] == 2
    redis.flushall()


def in_loop(session: SessionStore) -> dict[str, Any]:
    return asyncio.run(session.aload())


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_guests_and_users_come_as_they_were(saved_before, moving, step, redis, left_alone) -> None:
    for partitions, user, load in product((1, 64), ("", "7"), (SessionStore.load, in_loop)):
        moving.REDSESS = {**moving.REDSESS, "PREFIX": f"of-{partitions}", "PARTITIONS": partitions}
        key = saved_before(basket={"lamp": 1}, **({"_auth_user_id": user} if user else {}))
        before = source().read_row(key)
        with step(2):
            session = SessionStore(key)
            assert load(session) == before.data
            assert (session["basket"], session.get("_auth_user_id", "")) == ({"lamp": 1}, user)
            assert user or session.session_key == key
            assert not user or partitions == 1 or bucket_of(session.session_key) == bucket_of_user(user)
            [here] = online.sessions(guests=True)
            assert (here.user_id or "", here.sid) == (user, session.sid)
            assert abs(here.expires_at.timestamp() - before.deadline_ms / 1000) < 5
            assert len(online.end(here.sid)) == 1
            assert load(SessionStore(key)) == {}
        source().delete_row(key)


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_all_sessions_are_moved_and_their_rows_deleted(saved_before, step, redis, left_alone, capsys) -> None:
    keys = [saved_before(basket=number) for number in range(3)]
    with step(2):
        if isinstance(source(), CacheSource) and hasattr(source().cache, "_expire_info"):
            # Another process does not see what is in the memory of this one.
            with pytest.raises(CommandError):
                call_command("movesessions")
            return
        assert SessionStore(keys[0])["basket"] == 0
        call_command("movesessions")
        assert "Moved 2 sessions. 1 had been moved before." in capsys.readouterr().out
        call_command("movesessions", finish=True)
        assert all(source().read_row(key) is None for key in keys)
        assert [SessionStore(key)["basket"] for key in keys] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
def test_a_session_without_data_keeps_its_cookie(saved_before, step, redis, left_alone) -> None:
    key = saved_before()
    for number in (1, 2, 1):
        with step(number):
            session = SessionStore(key)
            session.load()
            assert not session.is_empty()
            assert session.session_key == key


def test_a_row_that_can_not_be_read_is_no_session(old_session, step) -> None:
    key = old_session(basket=1).session_key
    Session.objects.filter(pk=key).update(session_data="spoiled")
    for number in (1, 2):
        with step(number):
            session = SessionStore(key)
            assert session.load() == {}
            assert session.is_empty()
    assert online.count(guests=True) == 0


def test_a_signed_cookie_gets_a_key_that_stays(moving, step, partitions, settings) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.signed_cookies"}
    before = import_module(f"{BACKENDS}.signed_cookies").SessionStore()
    before.update({"_auth_user_id": "7", "basket": 1})
    before.save()
    with step(1):
        session = SessionStore(before.session_key)
        assert session["basket"] == 1
        assert session.session_key == before.session_key
        session["basket"] = 2
        session.save()
        assert session.session_key not in (None, before.session_key)
        key = session.session_key
    with step(2):
        moved = SessionStore(key)
        assert moved["basket"] == 2
        assert moved.modified
        assert len(moved.session_key) == 32
        moved["basket"] = 3
        moved.save()
        settings.SECRET_KEY_FALLBACKS, settings.SECRET_KEY = [settings.SECRET_KEY], "new"
        for each in (key, moved.session_key):
            again = SessionStore(each)
            assert again["basket"] == 3
            assert again.session_key == moved.session_key
        assert online.count() == 1
        SessionStore(key).flush()
        assert SessionStore(key).load() == {}
        assert SessionStore(moved.session_key).load() == {}


@pytest.fixture(params=BACKENDS_OF_SESSIONS)
def other_store(request: pytest.FixtureRequest, moving: Any, server: Any) -> Store:
    """Another store of this engine: another prefix, one partition, and an entry of CACHES of any backend."""
    named = {"PREFIX": "before", "PARTITIONS": 1, "SESSION_CACHE_ALIAS": "before"}
    moving.CACHES = {**moving.CACHES, "before": entry(request.param, server.url, seconds=5)}
    moving.REDSESS = {**moving.REDSESS, "PARTITIONS": 4}
    grow(moving, **named)
    return site_stores().other


def test_a_store_grows(other_store, step, redis, left_alone, capsys) -> None:
    with using(other_store):
        made = []
        for number in range(8):
            session = OwnSessionStore()
            session.update({"basket": number, "_auth_user_id": str(number)} if number else {"basket": number})
            session.save()
            viewed.record(session, f"lamp-{number}")
            made.append((session.session_key, session.sid))
        before = {each.sid: each for each in online.sessions(guests=True)}
    with step(1):
        assert {each.sid: each for each in online.sessions(guests=True)} == before
        assert moving_from() == ""
        session = session_of(made[0][0])
        session["basket"] = 10
        session.save()
        assert session.session_key == made[0][0]
    assert online.count(guests=True) == 0
    assert moving_from()
    with step(2):
        assert session_of(made[0][0])["basket"] == 10
        call_command("movesessions")
        assert "Moved 7 sessions. When all is well" in capsys.readouterr().out
        assert moving_from() == ""
        here = {each.sid: each for each in online.sessions(guests=True)}
        assert here.keys() == before.keys()
        for sid, there in before.items():
            assert (here[sid].user_id, here[sid].created_at) == (there.user_id, there.created_at)
            # The first one was saved meanwhile: after a second, that moves its deadline by the slack too.
            assert sid == made[0][1] or abs((here[sid].expires_at - there.expires_at).total_seconds()) < 2
            assert here[sid].expires_at >= there.expires_at - timedelta(seconds=2)
        for number, (key, _) in enumerate(made):
            assert session_of(key)["basket"] == (number or 10)
            assert [item.item for item in viewed.recent(session_of(key))] == [f"lamp-{number}"]
        with using(other_store):
            assert online.count(guests=True) == 0
        call_command("cleansessions", check=True)


def test_dates_are_converted_and_values_that_can_not_be_kept_are_named(moving, step, caplog) -> None:
    moving.CACHES = {**moving.CACHES, "before": {**CACHES["memory"], "LOCATION": "pickles"}}
    named = {"SESSION_ENGINE": f"{BACKENDS}.cache", "SESSION_CACHE_ALIAS": "before"}
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": named}
    _log_value_once.cache_clear()
    keys = []
    for _ in range(2):
        before = source().open_session(None, online_client())
        before.set_expiry(datetime.now(UTC) + timedelta(hours=1))
        before.update({"basket": 1, "pair": (1, 2), "secret": {1, 2}, "numbers": {1: "one"}})
        before.save()
        keys.append(before.session_key)
    with step(2):
        for key in keys:
            session = SessionStore(key)
            assert session.load() | {"_session_expiry": ""} == {
                "_session_expiry": "",
                "basket": 1,
                "pair": [1, 2],
                "numbers": {"1": "one"},
            }
            assert 3500 < session.get_expiry_age() <= 3600
    said = [record.getMessage() for record in caplog.records if "that are moved" in record.getMessage()]
    assert sorted(text.split("'")[1] for text in said) == ["numbers", "pair", "secret"]
    assert not any(key in text for key in keys for text in said)


class Shelf(Source):
    """A source of a site's own."""

    kept: dict[str, Row] = {}

    def read_row(self, key: str) -> Row | None:
        return self.kept.get(key)

    def delete_row(self, key: str) -> None:
        self.kept.pop(key, None)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        yield from sorted(self.kept.items())


def test_a_source_of_the_sites_own(moving, step, capsys) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{__name__}.Shelf"}
    Shelf.kept = {str(number) * 32: Row({"basket": number}) for number in range(3)}
    with step(2):
        assert SessionStore("1" * 32)["basket"] == 1
        call_command("movesessions")
        call_command("movesessions", finish=True)
        assert Shelf.kept == {}
        assert [SessionStore(str(number) * 32)["basket"] for number in range(3)] == [0, 1, 2]


@pytest.mark.unit
@pytest.mark.parametrize(
    "named",
    [
        None,
        "nowhere.at.all",
        "django.contrib.auth",
        "tests.contrib.moving.test_sources.DATABASES",
        "collections.OrderedDict",
    ],
)
def test_a_wrong_source_is_named(store_settings, named) -> None:
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving"
    store_settings.REDSESS = {"MOVE_FROM": named}
    with pytest.raises(ImproperlyConfigured, match="MOVE_FROM"):
        source()


def test_signed_cookies_of_one_second_are_different_sessions(moving, step, partitions) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.signed_cookies"}
    keys = []
    with time_machine.travel(datetime.now(UTC), tick=False), step(1):
        for _ in range(2):
            session = SessionStore()
            session["_auth_user_id"] = "7"
            session.save()
            # As Django's login() does, at once.
            session = SessionStore(session.session_key)
            session.load()
            session.cycle_key()
            session["basket"] = 1
            session.save()
            again = SessionStore(session.session_key)
            assert again.load() == {"_auth_user_id": "7", "basket": 1}
            again["basket"] = 2
            again.save()
            keys.append(again.session_key)
    assert len(set(keys)) == 2
    # A process of the release before.
    before = import_module(f"{BACKENDS}.signed_cookies").SessionStore(keys[0])
    assert before["basket"] == 2
    with step(2):
        moved = [SessionStore(key) for key in keys]
        assert [each.load() for each in moved] == [{"_auth_user_id": "7", "basket": 2}] * 2
        assert moved[0].session_key != moved[1].session_key
        moved[0].flush()
        assert SessionStore(keys[0]).load() == {}
        assert SessionStore(keys[1])["basket"] == 2


def test_a_signed_cookie_gets_a_new_key_in_the_second_of_its_first(moving, step) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.signed_cookies"}
    with time_machine.travel(datetime.now(UTC), tick=False):
        before = import_module(f"{BACKENDS}.signed_cookies").SessionStore()
        before["basket"] = 1
        before.save()
        with step(1):
            session = SessionStore(before.session_key)
            session.load()
            session.cycle_key()
            session.save()
            assert SessionStore(session.session_key).load() == {"basket": 1}
            # It ended by its old key.
            assert SessionStore(before.session_key).load() == {}
            loop = SessionStore(session.session_key)
            asyncio.run(cycle(loop))
            assert SessionStore(loop.session_key).load() == {"basket": 1}


async def cycle(session: SessionStore) -> None:
    await session.acycle_key()
    await session.asave()
