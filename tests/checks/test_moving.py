from functools import partial

import pytest
from django.core import checks
from django.core.management import call_command

from django_redsess.checks import moving as moving_checks
from django_redsess.moving import SessionStore, Source

DATABASE = "django.contrib.sessions.backends.db"


def found(check) -> list[str]:
    return [each.id.removeprefix("django_redsess.") for each in check()]


class Unwritten(Source):
    """A source that can only be read."""


@pytest.mark.unit
@pytest.mark.parametrize(
    ("engine", "redsess", "expected"),
    [
        ("moving", {"MOVE_FROM": DATABASE}, []),
        ("moving", {"MOVE_FROM": DATABASE, "MOVES": True}, []),
        ("moving", {"MOVE_FROM": {"PREFIX": "old", "PARTITIONS": 4}}, []),
        ("moving", {}, ["E059"]),
        ("moving", {"MOVE_FROM": "no.where"}, ["E059"]),
        ("moving", {"MOVE_FROM": f"{__name__}.Unwritten"}, ["E061"]),
        ("moving", {"MOVE_FROM": f"{__name__}.Unwritten", "MOVES": True}, []),
        ("moving", {"MOVE_FROM": {"PARTITIONS": 4}}, ["E062"]),
        ("backend", {"MOVE_FROM": DATABASE}, ["W060"]),
        ("backend", {"MOVES": True}, ["W060"]),
        ("backend", {}, []),
    ],
)
def test_what_the_settings_say(store_settings, engine: str, redsess: dict, expected: list[str]) -> None:
    store_settings.SESSION_ENGINE = f"django_redsess.{engine}"
    store_settings.REDSESS = redsess
    assert found(moving_checks.check_source) == expected


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
    store_settings.SESSION_ENGINE = "django_redsess.moving"
    store_settings.REDSESS = {**store_settings.REDSESS, "MOVE_FROM": DATABASE, "MOVES": True}
    assert found(moving_checks.check_duration) == []
    SessionStore(old.session_key).load()
    assert found(moving_checks.check_duration) == []
    store_settings.SESSION_COOKIE_AGE = -1
    assert found(moving_checks.check_duration) == ["W063"]
    assert found(partial(moving_checks.check_rows, databases=["default"])) == []
    store_settings.SESSION_ENGINE = "django_redsess.backend"
    assert found(partial(moving_checks.check_rows, databases=["default"])) == ["W064"]
    store_settings.SESSION_COOKIE_AGE = 1000
    store_settings.SESSION_ENGINE = "django_redsess.moving"
    call_command("movesessions", finish=True, verbosity=0)
    store_settings.SESSION_ENGINE = "django_redsess.backend"
    assert found(partial(moving_checks.check_rows, databases=["default"])) == []
