"""``check --deploy`` names each setting that is missing for level 2 of OWASP ASVS 5.0."""

from typing import Any

import pytest

from django_redsess.conf import PROFILES
from tests.helpers.checks import found, messages

SECURE_COOKIE = {
    "SESSION_COOKIE_NAME": "__Host-sessionid",
    "SESSION_COOKIE_SECURE": True,
    "SESSION_COOKIE_HTTPONLY": True,
    "SESSION_COOKIE_SAMESITE": "Lax",
}


def missing() -> list[str]:
    ours = ("W047", "W093", "W094", "W095", "W096")
    # They are about a deployment only.
    assert not set(found()) & set(ours)
    return [each for each in found(deploy=True) if each in ours]


def with_cookie(settings: Any, **changes: object) -> None:
    for name, value in {**SECURE_COOKIE, **changes}.items():
        setattr(settings, name, value)


@pytest.mark.parametrize(
    ("redsess", "ids"),
    [
        ({}, ["W047", "W093", "W094"]),
        ({"IDLE_TIMEOUT": 600}, ["W047", "W094"]),
        ({"SLIDING": True, "ABSOLUTE_TIMEOUT": 600}, ["W047"]),
        ({"MAX_SESSIONS_PER_USER": "shop.people.sessions_of"}, ["W093", "W094"]),
        ({"PROFILE": "strict"}, []),
        ({"PROFILE": "strict", "IDLE_TIMEOUT": None}, ["W093"]),
        ({"PROFILE": "strict", "REAUTHENTICATE": False, "END_ON_DELETION": False}, ["W095", "W095"]),
    ],
)
def test_each_setting_that_is_missing_is_named_and_the_profile_has_them_all(settings, redsess, ids: list[str]) -> None:
    with_cookie(settings)
    settings.REDSESS = redsess
    assert missing() == ids


def test_saves_with_each_request_are_an_idle_timeout(settings) -> None:
    settings.REDSESS, settings.SESSION_SAVE_EVERY_REQUEST = {}, True
    assert missing() == ["W047", "W094"]


@pytest.mark.parametrize("name", ["shop", "__Secure-shop"])
def test_it_keeps_the_name_that_the_cookie_has(settings, name: str) -> None:
    with_cookie(settings, SESSION_COOKIE_NAME=name)
    settings.REDSESS = {"PROFILE": "strict"}
    [said] = [each for each in messages(deploy=True) if each.id == "django_redsess.W096"]
    assert "'__Host-shop'" in str(said.hint)


@pytest.mark.parametrize(
    ("changes", "ids"),
    [
        ({}, []),
        ({"SESSION_COOKIE_NAME": "sessionid"}, ["W096"]),
        ({"SESSION_COOKIE_NAME": "__Secure-sessionid"}, ["W096"]),
        # The cookie of several hosts can't have the other prefix.
        ({"SESSION_COOKIE_NAME": "__Secure-sessionid", "SESSION_COOKIE_DOMAIN": "example.com"}, []),
        ({"SESSION_COOKIE_DOMAIN": "example.com"}, ["W096"]),
        ({"SESSION_COOKIE_PATH": "/shop/"}, ["W096"]),
        ({"SESSION_COOKIE_SAMESITE": None}, ["W096"]),
        ({"SESSION_COOKIE_SAMESITE": "None", "SESSION_COOKIE_NAME": "id"}, ["W096", "W096"]),
    ],
)
def test_the_profile_asks_for_a_cookie_that_no_other_host_can_set(settings, changes, ids: list[str]) -> None:
    with_cookie(settings, **changes)
    settings.REDSESS = {"PROFILE": "strict"}
    assert missing() == ids
    # Without the profile, nobody has said that the site is to have all this.
    settings.REDSESS = PROFILES["strict"]
    assert missing() == []


def test_a_message_names_setting_requirement_and_what_to_do(settings) -> None:
    settings.REDSESS = {"REAUTHENTICATE": False}
    told = {each.id: each for each in messages(deploy=True)}
    for number, name in (("W047", "MAX_SESSIONS_PER_USER"), ("W093", "IDLE_TIMEOUT"), ("W094", "ABSOLUTE_TIMEOUT")):
        each = told[f"django_redsess.{number}"]
        assert each.msg.startswith(f"REDSESS['{name}'] ")
        assert "OWASP ASVS 5.0, 7." in each.msg
        assert "REDSESS['PROFILE'] to 'strict'" in each.hint
    assert told["django_redsess.W095"].msg.startswith("REDSESS['REAUTHENTICATE'] is False: ")


def test_of_another_engine_or_no_dict_nothing_is_said(settings) -> None:
    settings.REDSESS = ["PROFILE"]
    assert missing() == []
    settings.REDSESS, settings.SESSION_ENGINE = {}, "django.contrib.sessions.backends.db"
    assert missing() == []
