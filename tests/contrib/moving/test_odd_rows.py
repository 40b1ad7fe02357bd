"""Rows that can't be read or moved, and keys of any characters: one of them stops nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db.models.functions import Now
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.moving import Row, SessionStore
from django_redsess.contrib.moving.contents import is_movable, log_unusable_sid
from django_redsess.contrib.moving.sources import source
from tests.helpers.store import sid_of

KEY, GOOD = "0123456789abcdef" * 2, "g" * 32
BACKENDS = "django.contrib.sessions.backends"


@pytest.fixture(autouse=True)
def nothing_logged() -> None:
    log_unusable_sid.cache_clear()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def in_database(key: str, data: Any) -> None:
    packed = data if isinstance(data, str) else DatabaseSession().encode(data)
    Session.objects.create(pk=key, session_data=packed, expire_date=timezone.now() + timedelta(days=3))


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [text for text in caplog.messages if "of the other store" in text]


UNREADABLE = {"spoiled": "spoiled", "list": [1, 2], "empty list": [], "text": DatabaseSession().encode("x")}  # type: ignore[arg-type]
UNMOVABLE = {"levels": {"a": nested(300)}, "user id": {"_auth_user_id": "7" * 300}}


@pytest.mark.parametrize("name", [*UNREADABLE])
def test_a_row_that_can_not_be_read_is_no_session_and_named_once(moving, step, caplog, name: str) -> None:
    in_database(KEY, UNREADABLE[name])
    in_database(GOOD, {"basket": 1})
    for number in (1, 2, 1):
        with step(number):
            session = SessionStore(KEY)
            assert session.load() == {}
            assert session.is_empty()
            session.delete(KEY) if number == 3 else None
    rows = dict(source().iter_rows())
    assert rows[KEY] is None
    assert rows[GOOD].data == {"basket": 1}
    assert source().read_rows([KEY, GOOD]).keys() == {GOOD}
    [line] = told(caplog)
    assert sid_of(KEY) in line
    assert KEY not in line


@pytest.mark.parametrize("name", [*UNMOVABLE])
def test_what_can_not_be_written_here_is_used_there(moving, step, caplog, name: str) -> None:
    in_database(KEY, UNMOVABLE[name])
    assert not is_movable(source().read_row(KEY))
    with step(1):
        session = SessionStore(KEY)
        assert session.load() == UNMOVABLE[name]
        session["basket"] = 1
        session.save()
        assert SessionStore(KEY)["basket"] == 1
    assert told(caplog) == []
    with step(2):
        session = SessionStore(KEY)
        assert session.load() == {}
        assert session.session_key is None
        assert not SessionStore(KEY).load()
        [line] = told(caplog)
        assert sid_of(KEY) in line
        SessionStore(KEY).delete(KEY)
        assert source().read_row(KEY) is None
    assert online.count(guests=True) == 0


@pytest.mark.parametrize("expiry", [10**12, 10**30, -(10**12), "never", 1.5, [1]])
def test_an_odd_expiry_moves(moving, step, expiry: Any) -> None:
    in_database(KEY, {"_auth_user_id": "7", "_session_expiry": expiry})
    for number in (1, 2):
        with step(number):
            assert SessionStore(KEY)["_session_expiry"] == expiry
    assert online.count() == 1


@pytest.mark.unit
@pytest.mark.parametrize(
    ("row", "can_move"),
    [
        (Row({}), True),
        (Row({"_auth_user_id": 7}, 10**12), True),
        (Row([]), False),  # type: ignore[arg-type]
        (Row(None), False),  # type: ignore[arg-type]
        (Row({"_auth_user_id": "\ud800"}), False),
        (Row({"_auth_user_id": "ü" * 128}), False),
        (Row({"a": nested(199)}), True),
        (Row({"a": nested(201)}), False),
        (Row({}, -1), False),
        (Row({}, 10**17), False),
    ],
)
def test_what_can_be_written_here(row: Row, can_move: bool) -> None:
    assert is_movable(row) == can_move


ODD_KEYS = ["ABCDEFGH12345678", "schlüssel-ärger", "with space", "a" * 39 + "/", "../../etc/passwd", "x{y}*[z]"]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_each_key_that_the_old_engine_takes_is_taken(moving, step, partitions, key: str) -> None:
    for user in ({}, {"_auth_user_id": "7"}):
        Session.objects.all().delete()
        in_database(key + "0" * bool(user) if len(key) < 40 else key[bool(user) :], {"basket": 1, **user})
        [(name, row)] = source().iter_rows()
        assert row is not None
        with step(1):
            session = SessionStore(name)
            session["basket"] += 1
            session.save()
            assert session.session_key == name
        assert DatabaseSession(name)["basket"] == 2
        with step(2):
            moved = SessionStore(name)
            assert moved["basket"] == 2
            # The browser gets a key that can be one here.
            assert moved.modified
            assert len(moved.session_key) == 32
            assert SessionStore(name)["basket"] == SessionStore(moved.session_key)["basket"] == 2
            SessionStore(name).flush()
            assert SessionStore(name).load() == SessionStore(moved.session_key).load() == {}
        assert source().read_row(name) is None


@pytest.mark.parametrize("key", ["", "short", "with\nbreak", "with\x00nul"])
def test_a_row_whose_key_nobody_can_have_is_left(moving, step, caplog, key: str) -> None:
    in_database(key, {"basket": 1})
    in_database(GOOD, {"basket": 2})
    rows = dict(source().iter_rows())
    assert rows[key] is None
    assert rows[GOOD] is not None
    [line] = told(caplog)
    assert "\n" not in line
    for number in (1, 2):
        with step(number):
            assert SessionStore(key).load() == {}


def test_a_key_of_other_capitals_is_another_key(moving, monkeypatch) -> None:
    in_database("abcdefgh", {"basket": 1})
    # As where a database takes capitals for small letters.
    monkeypatch.setattr(
        type(source()), "_live", property(lambda self: Insensitive(self.model._default_manager.annotate(there=Now())))
    )
    assert source().read_row("abcdefgh") is not None
    assert source().read_row("ABCDEFGH") is None


class Insensitive:
    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def filter(self, session_key: str) -> Any:
        return self.rows.filter(session_key__iexact=session_key)


class Gone:
    """Its pickles can't be read once it is away."""


REDIS = {
    "django-redis": {"BACKEND": "django_redis.cache.RedisCache"},
    "Django's Redis cache": {"BACKEND": "django.core.cache.backends.redis.RedisCache"},
    "django-valkey": {"BACKEND": "django_valkey.cache.ValkeyCache"},
}


@pytest.fixture(params=[*REDIS])
def cached(request: pytest.FixtureRequest, moving: Any, server: Any) -> Callable[[str], str]:
    """Return a function that returns the full name of a session in the old cache."""
    moving.CACHES = {**moving.CACHES, "before": {**REDIS[request.param], "LOCATION": server.url}}
    named = {"SESSION_ENGINE": f"{BACKENDS}.cache", "SESSION_CACHE_ALIAS": "before"}
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": named}
    return lambda key: str(source().cache.make_key(source().prefix + key))  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["class", "cut", "list", "number", "text", "type"])
def test_an_odd_value_in_a_cache_is_no_session(cached, step, server, redis, left_alone, caplog, kind: str) -> None:
    good = source().open_session(None, online_client())
    good["basket"] = 1
    good.save()
    name, client = cached(KEY), redis
    if kind == "type":
        client.rpush(name, "one")
    else:
        values: dict[str, Any] = {
            "class": pickle.dumps({"a": Gone()}).replace(b"Gone", b"Went"),
            "cut": pickle.dumps({"basket": 1})[:-3],
            "list": pickle.dumps([1]),
            "number": 7,
            "text": pickle.dumps("x"),
        }
        client.set(name, values[kind])
    for number in (1, 2):
        with step(number):
            session = SessionStore(KEY)
            assert session.load() == {}
            assert session.is_empty()
    rows = dict(source().iter_rows())
    assert rows[KEY] is None
    assert rows[good.session_key].data == {"basket": 1}
    [line] = told(caplog)
    assert KEY not in line
    client.delete(name, cached(good.session_key))


def online_client() -> Any:
    from tests.helpers.store import Client

    return Client("192.0.2.1", "Mozilla/5.0")


def test_an_odd_file_is_no_session(moving, step, tmp_path, monkeypatch, caplog) -> None:
    from django.contrib.sessions.backends.file import SessionStore as FileSession

    moving.SESSION_FILE_PATH = str(tmp_path)
    monkeypatch.setattr(FileSession, "_storage_path", str(tmp_path), raising=False)
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": f"{BACKENDS}.file"}
    good = FileSession()
    good["basket"] = 1
    good.save()
    start, encode = tmp_path / good.file_prefix, good.encode
    odd = {
        "a": "", "b": "spoiled", "c": "\xff", "d": encode([1]), "e": encode({"_session_expiry": "never"}),
        "f": encode({"_session_expiry": [1]}),
    }  # fmt: skip
    for letter, text in odd.items():
        start.with_name(start.name + letter * 32).write_text(text, encoding="latin-1")
    start.with_name(start.name + "d1" * 16).mkdir()
    for number in (1, 2):
        for letter in (*odd, "d1"):
            with step(number):
                assert SessionStore(letter * (32 // len(letter))).load() == {}
    rows = dict(source().iter_rows())
    assert [key for key, row in rows.items() if row is not None] == [good.session_key]
    assert len(rows) == 8
    assert len(told(caplog)) == 7


def test_the_command_goes_on_after_odd_rows(moving, step, partitions, capsys) -> None:
    for number, data in enumerate([*UNREADABLE.values(), {"_session_expiry": 10**12}, {"_session_expiry": [1]}]):
        in_database(f"{number}" * 32, data)
    for key in ("", "short", *ODD_KEYS):
        in_database(key, {"basket": 1})
    in_database("z" * 32, {"_auth_user_id": "7", "basket": 1})
    with step(2):
        call_command("movesessions")
        assert f"Moved {2 + len(ODD_KEYS) + 1} sessions." in capsys.readouterr().out
        for key in ("z" * 32, *ODD_KEYS):
            assert SessionStore(key)["basket"] == 1
