from functools import partial

import pytest
from django.core import checks
from django.core.management import call_command

from django_redsess.checks.moving import check_moving_engine, check_rows
from django_redsess.contrib.moving import SessionStore, Source
from django_redsess.contrib.moving.checks import check_duration, check_source
from tests.helpers.backends import entry

DATABASE = "django.contrib.sessions.backends.db"


def found(check) -> list[str]:
    return [each.id.removeprefix("django_redsess.") for each in check()]


class Unwritten(Source):
    """A source that can only be read."""


@pytest.mark.unit
@pytest.mark.parametrize(
    ("engine", "redsess", "expected"),
    [
        ("contrib.moving", {"MOVE_FROM": DATABASE}, []),
        ("contrib.moving", {"MOVE_FROM": DATABASE, "MOVES": True}, []),
        ("contrib.moving", {"MOVE_FROM": {"PREFIX": "old", "PARTITIONS": 4}}, ["E059"]),
        ("contrib.moving.growing", {"MOVE_FROM": {"PREFIX": "old", "PARTITIONS": 4}}, []),
        ("contrib.moving.growing", {"MOVE_TO": {"PREFIX": "new", "PARTITIONS": 4}}, []),
        ("contrib.moving.growing", {"MOVE_TO": {"PREFIX": "new"}, "MOVE_FROM": {"PREFIX": "old"}}, ["E059"]),
        ("contrib.moving.growing", {"MOVE_FROM": DATABASE}, ["E059"]),
        ("contrib.moving.growing", {}, ["E059"]),
        ("contrib.moving", {}, ["E059"]),
        ("contrib.moving", {"MOVE_FROM": "no.where"}, ["E059"]),
        ("contrib.moving", {"MOVE_FROM": f"{__name__}.Unwritten"}, ["E061"]),
        ("contrib.moving", {"MOVE_FROM": f"{__name__}.Unwritten", "MOVES": True}, []),
        ("contrib.moving.growing", {"MOVE_FROM": {"PARTITIONS": 4}}, ["E062"]),
        ("contrib.moving.growing", {"MOVE_TO": {"PARTITIONS": 4}}, ["E062"]),
        ("backend", {"MOVE_TO": {"PREFIX": "new"}}, ["W060"]),
        ("backend", {"MOVE_FROM": DATABASE}, ["W060"]),
        ("backend", {"MOVES": True}, ["W060"]),
        ("backend", {}, []),
    ],
)
def test_what_the_settings_say(store_settings, engine: str, redsess: dict, expected: list[str]) -> None:
    store_settings.SESSION_ENGINE = f"django_redsess.{engine}"
    store_settings.REDSESS = redsess
    assert found(check_moving_engine) + found(check_source) == expected


@pytest.mark.unit
@pytest.mark.parametrize("engine", ["moving", "moving.growing"])
def test_an_engine_without_its_app_is_an_error(store_settings, engine: str) -> None:
    store_settings.SESSION_ENGINE = f"django_redsess.contrib.{engine}"
    app = "django_redsess.contrib.moving"
    store_settings.INSTALLED_APPS = [each for each in store_settings.INSTALLED_APPS if each != app]
    assert found(check_moving_engine) == ["E097"]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, []),
        ({"OPTIONS": {"CLIENT_CLASS": "django_valkey.client.SentinelClient"}}, ["E069"]),
        ({"OPTIONS": {"CONNECTION_POOL_KWARGS": {"cache_enabled": True}}}, ["E070"]),
        ({"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}, ["E004"]),
    ],
)
def test_the_entry_of_the_other_store_is_checked(store_settings, changes: dict, expected: list[str]) -> None:
    store_settings.CACHES = {**store_settings.CACHES, "before": {**entry("django-valkey", "redis://h"), **changes}}
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving.growing"
    store_settings.REDSESS = {"MOVE_FROM": {"SESSION_CACHE_ALIAS": "before", "PREFIX": "old"}}
    assert found(check_source) == expected


@pytest.mark.unit
@pytest.mark.parametrize(("there", "expected"), [("redis://h:7/1", ["E062"]), ("redis://h:7/2", [])])
def test_one_store_by_two_backends_is_told_by_its_address(store_settings, there: str, expected: list[str]) -> None:
    entries = {"before": entry("django-valkey", there), "now": entry("Django", "redis://h:7/1")}
    store_settings.CACHES = {**store_settings.CACHES, **entries}
    store_settings.SESSION_CACHE_ALIAS = "now"
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving.growing"
    store_settings.REDSESS = {"MOVE_FROM": {"SESSION_CACHE_ALIAS": "before", "PARTITIONS": 4}}
    assert found(check_source) == expected


@pytest.mark.parametrize("value", [7, [], {"PREFIX": "a", "SESSION_ENGINE": DATABASE}, {"ALIAS": "sessions"}, "db"])
@pytest.mark.unit
def test_a_value_that_names_no_store_is_refused(store_settings, value: object) -> None:
    store_settings.REDSESS = {"MOVE_FROM": value}
    assert "django_redsess.E003" in [each.id for each in checks.run_checks(tags=[checks.Tags.security])]


def test_a_move_that_takes_too_long_and_rows_that_are_left(store_settings, db, redis) -> None:
    from django.contrib.sessions.backends.db import SessionStore as DatabaseSession

    old = DatabaseSession()
    old["basket"] = 1
    old.save()
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving"
    store_settings.REDSESS = {**store_settings.REDSESS, "MOVE_FROM": DATABASE, "MOVES": True}
    assert found(check_duration) == []
    SessionStore(old.session_key).load()
    assert found(check_duration) == []
    store_settings.SESSION_COOKIE_AGE = -1
    assert found(check_duration) == ["W063"]
    assert found(partial(check_rows, databases=["default"])) == []
    store_settings.SESSION_ENGINE = "django_redsess.backend"
    assert found(partial(check_rows, databases=["default"])) == ["W064"]
    store_settings.SESSION_COOKIE_AGE = 1000
    store_settings.SESSION_ENGINE = "django_redsess.contrib.moving"
    call_command("movesessions", finish=True, verbosity=0)
    store_settings.SESSION_ENGINE = "django_redsess.backend"
    assert found(partial(check_rows, databases=["default"])) == []
