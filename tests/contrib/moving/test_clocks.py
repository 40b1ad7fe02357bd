"""A web server whose clock is an hour off moves sessions as the others do: nobody is signed out, deadlines stay."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

import pytest
import time_machine
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.backends.file import SessionStore as FileSession
from django.contrib.sessions.models import Session
from django.db.models.functions import Now
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.moving import SessionStore
from django_redsess.contrib.moving.sources import source
from django_redsess.contrib.moving.sources.engines import now_here
from testproject.databases import programs
from tests.helpers.store import Client

BACKENDS = "django.contrib.sessions.backends"
OFF = [timedelta(hours=1), timedelta(hours=-1)]

CACHES = {
    "django-redis": {"BACKEND": "django_redis.cache.RedisCache"},
    "Django's Redis cache": {"BACKEND": "django.core.cache.backends.redis.RedisCache"},
    "django-valkey": {"BACKEND": "django_valkey.cache.ValkeyCache"},
}


def off(by: timedelta) -> Any:
    return time_machine.travel(datetime.now(UTC) + by)


@pytest.fixture(params=["db", "signed_cookies", "redis_sessions", *CACHES])
def saved(request: pytest.FixtureRequest, moving: Any, server: Any, monkeypatch: Any) -> Callable[[int], str]:
    """Return a function that saves a session that has so many seconds left, and returns its key."""
    name = request.param
    if name in CACHES:
        moving.CACHES = {**moving.CACHES, "before": {**CACHES[name], "LOCATION": server.url}}
        named: Any = {"SESSION_ENGINE": f"{BACKENDS}.cache", "SESSION_CACHE_ALIAS": "before"}
    elif name == "redis_sessions":
        there = import_module("redis_sessions.session")
        monkeypatch.setattr(there.settings, "SESSION_REDIS_URL", server.url)
        monkeypatch.setattr(there.RedisServer, "_RedisServer__redis", {})
        named = "redis_sessions.session"
    else:
        named = f"{BACKENDS}.{name}"
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": named}

    def save(seconds: int) -> str:
        if name == "signed_cookies":
            moving.SESSION_COOKIE_AGE = seconds
        session = source().open_session(None, Client())
        session["basket"] = 1
        if name != "signed_cookies":
            session.set_expiry(seconds)
        session.save()
        return str(session.session_key)

    return save


@pytest.mark.filterwarnings("ignore:Call to deprecated setex")
@pytest.mark.parametrize("by", OFF, ids=["ahead", "behind"])
def test_the_clock_of_a_process_changes_no_deadline(saved, step, redis, left_alone, by: timedelta) -> None:
    key = saved(1800)
    expected = timezone.now() + timedelta(seconds=1800)
    with step(1), off(by):
        assert SessionStore(key)["basket"] == 1
    with step(2), off(by):
        assert SessionStore(key)["basket"] == 1
        [here] = online.sessions(guests=True)
    assert abs((here.expires_at - expected).total_seconds()) < 3
    redis.flushall()


@pytest.mark.parametrize("use_tz", [True, False])
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Auckland"])
def test_rows_of_sqlite_end_when_they_end(moving, step, use_tz: bool, zone: str) -> None:
    moving.USE_TZ, moving.TIME_ZONE = use_tz, zone
    old = DatabaseSession()
    old["basket"] = 1
    old.set_expiry(60)
    old.save()
    over = DatabaseSession()
    over["basket"] = 2
    over.save()
    Session.objects.filter(pk=over.session_key).update(expire_date=timezone.now() - timedelta(seconds=2))
    [(key, row)] = source().iter_rows()
    assert key == old.session_key
    assert row is not None
    assert abs(row.deadline_ms - now_here() - 60_000) < 3000
    assert source().read_row(over.session_key) is None
    assert source().count_rows() == 1


@pytest.mark.skipif(programs() is None, reason="no PostgreSQL, or no psycopg")
@pytest.mark.slow
@pytest.mark.parametrize("use_tz", [True, False])
def test_rows_of_postgresql_end_by_its_clock(moving, step, request, use_tz: bool) -> None:
    moving.USE_TZ, moving.TIME_ZONE = use_tz, "Pacific/Auckland"
    # Its connection has the zone of the settings.
    request.getfixturevalue("postgresql")
    old = DatabaseSession()
    old["basket"] = 1
    old.set_expiry(1800)
    old.save()
    key = old.session_key
    for by in OFF:
        with off(by):
            [(_, row)] = source().iter_rows()
            assert row is not None
            assert abs(row.deadline_ms - now_here() - 1_800_000) < 3000
            with step(2):
                assert SessionStore(key)["basket"] == 1
            Session.objects.update(expire_date=Now() - timedelta(seconds=2))
            assert source().read_row(key) is None
            Session.objects.update(expire_date=Now() + timedelta(seconds=1800))


def test_a_file_has_what_is_left_by_the_clock_of_its_computer(moving, tmp_path, monkeypatch) -> None:
    moving.SESSION_FILE_PATH = str(tmp_path)
    monkeypatch.setattr(FileSession, "_storage_path", str(tmp_path), raising=False)
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.file"}
    moving.SESSION_COOKIE_AGE = 1800
    old = FileSession()
    old["basket"] = 1
    old.save()
    for by in OFF:
        with off(by):
            now = timezone.now().timestamp()
            os.utime(old._key_to_file(), (now, now))
            row = source().read_row(old.session_key)
            assert row is not None
            assert abs(row.deadline_ms - now_here() - 1_800_000) < 3000
