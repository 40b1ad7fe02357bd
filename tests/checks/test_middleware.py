"""What is found wrong with the list of middleware, and with the session's cookie."""

import re
from typing import Any

import pytest
import qsessions.middleware
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.core.checks import run_checks

from django_redsess import middleware
from tests.helpers.checks import found, messages
from tests.helpers.site import SESSION as OURS
from tests.helpers.site import VIEWED

DJANGOS = "django.contrib.sessions.middleware.SessionMiddleware"


class OwnViewedItems(middleware.ViewedItemsMiddleware): ...


class OwnMiddleware(middleware.SessionMiddleware): ...


class OwnAuthentication(AuthenticationMiddleware): ...


class OwnOfDjangos(DjangoSessionMiddleware): ...


class OwnOfPeer(qsessions.middleware.SessionMiddleware): ...


def test_a_site_without_our_middleware_is_warned(settings) -> None:
    for replaced in ([], [DJANGOS], [f"{__name__}.OwnOfDjangos"], ["no.such.Middleware"]):
        settings.MIDDLEWARE = replaced
        assert "W005" in found(), replaced


@pytest.mark.parametrize(
    "other",
    ["user_sessions.middleware.SessionMiddleware", "qsessions.middleware.SessionMiddleware", f"{__name__}.OwnOfPeer"],
)
@pytest.mark.parametrize("ours", [[], [OURS]])
def test_the_middleware_of_an_engine_that_gave_place_to_ours_is_refused(settings, other: str, ours: list[str]) -> None:
    settings.MIDDLEWARE = [other, *ours, *(name for name in settings.MIDDLEWARE if name != OURS)]
    assert found() == ["E058"]
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    assert "E058" not in found()


@pytest.mark.parametrize("path", [OURS, f"{__name__}.OwnMiddleware"])
def test_our_middleware_may_be_subclassed_and_stand_beside_what_cannot_be_imported(settings, path: str) -> None:
    others = [name for name in settings.MIDDLEWARE if name != OURS]
    settings.MIDDLEWARE = [path, *others, "no.such.Middleware", f"{__name__}.found"]
    assert found() == []


@pytest.mark.parametrize("other", [DJANGOS, f"{__name__}.OwnOfDjangos", f"{__name__}.OwnMiddleware", OURS])
def test_a_second_session_middleware_is_refused(settings, other: str) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, other]
    assert found() == ["E006"]


def test_of_two_session_middlewares_ours_is_to_stay_where_the_upper_one_is(settings) -> None:
    # What Django says of ours below AuthenticationMiddleware leads to this.
    settings.MIDDLEWARE = [DJANGOS, *(name for name in settings.MIDDLEWARE if name != OURS), OURS]
    [error] = messages()
    assert error.id == "django_redsess.E006"
    assert f"Keep {OURS!r} only, in the place of {DJANGOS!r}" in error.hint


@pytest.mark.parametrize(
    ("needing", "given"),
    [
        ("django.contrib.auth.middleware.AuthenticationMiddleware", {}),
        (f"{__name__}.OwnAuthentication", {}),
        ("django.contrib.messages.middleware.MessageMiddleware", {}),
        ("django.middleware.csrf.CsrfViewMiddleware", {"CSRF_USE_SESSIONS": True}),
    ],
)
def test_our_middleware_must_stand_above_what_needs_the_session(settings, needing: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        setattr(settings, name, value)
    settings.MIDDLEWARE = [needing, OURS, VIEWED]
    assert found() == ["E019"]


def test_our_middleware_may_stand_below_what_needs_no_session(settings) -> None:
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
    needing_none = ["django.middleware.csrf.CsrfViewMiddleware", "django.contrib.messages.middleware.MessageMiddleware"]
    settings.MIDDLEWARE = [*needing_none, OURS, VIEWED]
    assert found() == []


def test_named_views_without_what_records_them_are_warned_of(settings) -> None:
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != VIEWED]
    assert found() == ["W014"]
    settings.REDSESS = {}
    assert found() == []


@pytest.mark.parametrize("own", [VIEWED, f"{__name__}.OwnViewedItems"])
def test_what_records_views_must_stand_below_what_opens_sessions(settings, own: str) -> None:
    settings.MIDDLEWARE = [own, *(name for name in settings.MIDDLEWARE if name != VIEWED)]
    assert found() == ["E015"]


def found_for_deployment() -> list[str]:
    """All that is said of the flags of the session's cookie, by Django or by us."""
    told = run_checks(include_deployment_checks=True)
    return sorted(message.id for message in told if re.search("SESSION_COOKIE_(SECURE|HTTPONLY)", message.msg))


@pytest.mark.parametrize(
    ("middleware", "apps", "warnings"),
    [
        (OURS, [], ["django_redsess.W021", "django_redsess.W022"]),
        (f"{__name__}.OwnMiddleware", [], ["django_redsess.W021", "django_redsess.W022"]),
        # What Django says itself is not said twice.
        (OURS, ["django.contrib.sessions"], ["security.W010", "security.W013"]),
        (DJANGOS, [], ["security.W011", "security.W014"]),
    ],
)
def test_cookies_without_flags_are_warned_of_once(settings, middleware: str, apps, warnings: list[str]) -> None:
    settings.SESSION_COOKIE_HTTPONLY = False
    settings.MIDDLEWARE = [middleware if name == OURS else name for name in settings.MIDDLEWARE]
    others = [name for name in settings.INSTALLED_APPS if name != "django.contrib.sessions"]
    settings.INSTALLED_APPS = [*apps, *others]
    assert found_for_deployment() == warnings
    assert set(warnings).isdisjoint(message.id for message in run_checks())
    settings.SESSION_COOKIE_SECURE = settings.SESSION_COOKIE_HTTPONLY = True
    assert found_for_deployment() == []
