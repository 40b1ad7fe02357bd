"""Other stores are listed completely, or not at all: "None is left" is said of nothing that was not seen."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest
from django.contrib.sessions.backends.file import SessionStore as FileSession
from django.contrib.sessions.models import Session
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from django_redsess.contrib.moving import Row, SessionStore, Source
from django_redsess.contrib.moving.sources import source
from tests.helpers.store import Client

BACKENDS = "django.contrib.sessions.backends"

CACHES = {
    "django-redis": {"BACKEND": "django_redis.cache.RedisCache", "OPTIONS": {"IGNORE_EXCEPTIONS": True}},
    "Django's Redis cache": {"BACKEND": "django.core.cache.backends.redis.RedisCache"},
    "django-valkey": {"BACKEND": "django_valkey.cache.ValkeyCache"},
}

SHARDS = {"OPTIONS": {"CLIENT_CLASS": "django_redis.client.ShardClient"}}


def behind(key: str, prefix: str, version: int) -> str:
    return f"{version}/{key}/{prefix}"


def hashed(key: str, prefix: str, version: int) -> str:
    return hashlib.sha256(f"{prefix}{version}{key}".encode()).hexdigest()


def checked(key: str, prefix: str, version: int) -> str:
    return f"{prefix}:{hash(key) % 10_000_000}:{key}"


def summed(key: str, prefix: str, version: int) -> str:
    return f"{prefix}:{sum(key.encode()) % 3}:{key}"


def rarely_other(key: str, prefix: str, version: int) -> str:
    return f"{prefix}:{'z' if key.endswith('z') else ''}:{key}"


def old_cache(moving: Any, **entry: Any) -> None:
    moving.CACHES = {**moving.CACHES, "before": entry}
    named = {"SESSION_ENGINE": f"{BACKENDS}.cache", "SESSION_CACHE_ALIAS": "before"}
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": named}


def saved(number: int) -> str:
    session = source().open_session(None, Client())
    session["basket"] = number
    session.save()
    return str(session.session_key)


@pytest.mark.parametrize("cache", [*CACHES])
@pytest.mark.parametrize("prefix", ["", "shop", "shop:prod", "a:b:c", "[shop]", "sh*p", "sh?p\\", "{shop}"])
def test_a_cache_of_any_prefix_is_listed(moving, step, server, redis, left_alone, capsys, cache, prefix) -> None:
    old_cache(moving, **CACHES[cache], LOCATION=server.url, KEY_PREFIX=prefix, VERSION=2)
    keys = [saved(number) for number in range(3)]
    # Of other sites, and of another engine.
    for name in ("other", "shop:other", "shXp", "s"):
        redis.set(f"{name}:2:django.contrib.sessions.cache{'0' * 32}", b"x")
    source().cache.set("django.contrib.sessions.cached_db" + "0" * 32, {"basket": 9})
    assert {key: row.data["basket"] for key, row in source().iter_rows() if row} == {
        key: n for n, key in enumerate(keys)
    }
    assert len(dict(source().iter_rows())) == 3
    with step(2):
        call_command("movesessions")
        call_command("movesessions", finish=True)
        assert "Deleted 3 rows" in capsys.readouterr().out
        assert [SessionStore(key)["basket"] for key in keys] == [0, 1, 2]
    redis.flushall()


@pytest.mark.parametrize("cache", [*CACHES])
@pytest.mark.parametrize(
    ("function", "is_listed"),
    [(behind, True), (hashed, False), (checked, False), (summed, False), (rarely_other, False)],
)
def test_a_cache_is_listed_if_its_names_tell_the_keys(
    moving, step, server, redis, left_alone, capsys, cache, function: Callable[..., str], is_listed: bool
) -> None:
    old_cache(moving, **CACHES[cache], LOCATION=server.url, KEY_PREFIX="shop", KEY_FUNCTION=function)
    key = saved(1)
    with step(2):
        if is_listed:
            call_command("movesessions")
            assert "Moved 1 sessions" in capsys.readouterr().out
        else:
            for options in ({"dry_run": True}, {}, {"finish": True}, {"back": True}):
                with pytest.raises(CommandError, match="SESSION_COOKIE_AGE"):
                    call_command("movesessions", **options)
            assert source().read_row(key) is not None
        assert SessionStore(key)["basket"] == 1
    redis.flushall()


@pytest.mark.filterwarnings("ignore:set on sharded client")
def test_caches_that_do_not_list_their_keys_are_refused(moving, step, server, left_alone, redis, tmp_path) -> None:
    caches = "django.core.cache.backends"
    entries: list[dict[str, Any]] = [
        {"BACKEND": f"{caches}.locmem.LocMemCache", "LOCATION": "listing"},
        {"BACKEND": f"{caches}.filebased.FileBasedCache", "LOCATION": str(tmp_path)},
        {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": [server.url], **SHARDS},
    ]
    for entry in entries:
        old_cache(moving, **entry)
        key = saved(1)
        with step(2):
            for options in ({}, {"finish": True}):
                with pytest.raises(CommandError, match="SESSION_COOKIE_AGE"):
                    call_command("movesessions", **options)
            assert SessionStore(key)["basket"] == 1
    redis.flushall()


@pytest.fixture
def folder(moving: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    moving.SESSION_FILE_PATH = str(tmp_path)
    monkeypatch.setattr(FileSession, "_storage_path", str(tmp_path), raising=False)
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.file"}
    return tmp_path


def test_files_of_another_sites_cookie_are_left_alone(moving, folder, step, capsys) -> None:
    for name in ("sessionid2", "session", "session[id]", "sessionid"):
        moving.SESSION_COOKIE_NAME = name
        for number in range(2):
            saved(number)
    (folder / "sessionid0123_out_x").touch()
    for name, files in (("sessionid", 7), ("session[id]", 5)):
        moving.SESSION_COOKIE_NAME = name
        with step(2):
            call_command("movesessions")
            call_command("movesessions", finish=True)
        assert "Deleted 2 rows of sessions that are or were here. None is left." in capsys.readouterr().out
        assert len(list(folder.iterdir())) == files


def test_files_in_no_named_folder_are_not_listed(moving, folder, step) -> None:
    del moving.SESSION_FILE_PATH
    key = saved(1)
    with step(2):
        with pytest.raises(CommandError, match="SESSION_FILE_PATH"):
            call_command("movesessions")
        assert SessionStore(key)["basket"] == 1


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
@pytest.mark.parametrize("prefix", ["", "shop", "sh[o]p", "s*", "a:b"])
def test_redis_sessions_of_any_prefix_are_listed(
    moving, step, server, redis, left_alone, monkeypatch, capsys, prefix
) -> None:
    there = import_module("redis_sessions.session")
    monkeypatch.setattr(there.settings, "SESSION_REDIS_URL", server.url)
    monkeypatch.setattr(there.RedisServer, "_RedisServer__redis", {})
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": "redis_sessions.session"}
    for other in ("other", f"{prefix}:more" if prefix else "more"):
        monkeypatch.setattr(there.settings, "SESSION_REDIS_PREFIX", other)
        saved(9)
    monkeypatch.setattr(there.settings, "SESSION_REDIS_PREFIX", prefix)
    keys = {saved(number) for number in range(2)}
    assert {key for key, row in source().iter_rows() if row} == keys
    with step(2):
        call_command("movesessions")
        call_command("movesessions", finish=True)
        assert "None is left" in capsys.readouterr().out
    monkeypatch.setattr(there.settings, "SESSION_REDIS_POOL", [{"url": server.url}])
    with pytest.raises(ImproperlyConfigured, match="SESSION_REDIS_POOL"):
        list(source().iter_rows())
    redis.flushall()


def test_signed_cookies_are_in_the_browsers(moving, step) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.signed_cookies"}
    with step(2):
        for options in ({}, {"finish": True}):
            with pytest.raises(CommandError, match="SESSION_COOKIE_AGE"):
                call_command("movesessions", **options)


class NamedTwice(Source):
    """A store that lists its sessions twice, as SCAN may."""

    def read_row(self, key: str) -> Row | None:
        found = Session.objects.filter(pk=key).first()
        return found and Row(found.get_decoded(), int(found.expire_date.timestamp() * 1000))

    def delete_row(self, key: str) -> None:
        Session.objects.filter(pk=key).delete()

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        keys = [str(key) for key in Session.objects.values_list("pk", flat=True)]
        found = self.read_rows(keys)
        for key in keys + keys:
            yield key, found[key]


def test_what_is_listed_twice_is_counted_once(moving, old_session, step, capsys) -> None:
    for number in range(3):
        old_session(basket=number)
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{__name__}.NamedTwice", "MOVES": True}
    call_command("movesessions", dry_run=True)
    assert "Would move 3 sessions. 0 had been moved before." in capsys.readouterr().out
    call_command("movesessions")
    assert "Moved 3 sessions. 0 had been moved before. When" in capsys.readouterr().out
    call_command("movesessions", finish=True)
    assert "Deleted 3 rows of sessions that are or were here. None is left." in capsys.readouterr().out
