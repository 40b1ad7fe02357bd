"""What the system checks of device-bound sessions find, each by its number; and that no middleware is in the way."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

import pytest
from django.conf.urls.i18n import i18n_patterns
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import include, path, re_path

from tests.helpers.running import run_python

pytestmark = pytest.mark.unit

APP = "django_redsess.contrib.device_bound"
DOMAIN = "SESSION_COOKIE_DOMAIN"


def elsewhere(request: HttpRequest) -> HttpResponse:
    return HttpResponse("A page for everybody.")


ours = path("device-bound/", include(f"{APP}.urls"))


class Included:
    urlpatterns = [ours]


class Missing:
    urlpatterns = [path("", elsewhere)]


class Broken:
    urlpatterns = None


class Taken:
    urlpatterns = [re_path("^device-bound/ref", elsewhere), ours]


class ByLanguage:
    urlpatterns = i18n_patterns(ours)


class WellKnown:
    @property
    def urlpatterns(self) -> list[Any]:
        views = import_module(f"{APP}.views")
        return [ours, path(".well-known/device-bound-sessions", views.well_known)]


@pytest.fixture
def found(own_checks, settings) -> Callable[[str], list[str]]:
    """Return a function that returns the numbers that a check finds on a site of this app."""
    module: ModuleType = import_module(f"{APP}.checks")
    settings.ROOT_URLCONF = Included
    settings.REDSESS = {}
    return lambda name: [each.id.removeprefix("django_redsess.") for each in getattr(module, f"check_{name}")()]


@pytest.mark.parametrize(
    ("urls", "ids"), [(Included, []), (Missing, ["E120"]), (Taken, ["E120"]), (ByLanguage, ["E120"]), (Broken, [])]
)
def test_both_endpoints_are_urls_of_the_site_at_one_path_in_all_languages(found, settings, urls: type, ids) -> None:
    settings.ROOT_URLCONF = urls
    assert found("urls") == ids


def test_urls_below_a_script_name_are_found(found) -> None:
    from django.urls import set_script_prefix

    set_script_prefix("/shop/")
    try:
        assert found("urls") == []
    finally:
        set_script_prefix("/")


def test_without_our_middleware_nobody_asks_for_a_proof(found, settings) -> None:
    assert found("middleware") == []
    settings.MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
    assert found("middleware") == ["E121"]
    settings.MIDDLEWARE = []
    assert found("middleware") == ["E121"]
    # The sessions of another engine are not bound.
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    assert found("middleware") == []


@pytest.mark.parametrize(
    ("redsess", "ids"),
    [
        ({}, []),
        ({"DEVICE_BOUND_SECONDS": 299}, ["W122"]),
        ({"DEVICE_BOUND_SECONDS": 300}, []),
        # The check of all settings reports it.
        ({"DEVICE_BOUND_SECONDS": "300"}, []),
        ({"DEVICE_BOUND_REQUIRED": "shop.no.such.function"}, ["E123"]),
        ({"DEVICE_BOUND_REQUIRED": "django.conf.urls.i18n.is_language_prefix_patterns_used"}, []),
        ({"DEVICE_BOUND": "observe"}, ["I124"]),
        ({"DEVICE_BOUND": "refuse"}, []),
    ],
)
def test_settings_that_lock_users_out_or_refuse_nobody_are_named(found, settings, redsess, ids: list[str]) -> None:
    settings.REDSESS = redsess
    assert found("device_bound") == ids


@pytest.mark.parametrize(
    ("engine", "redsess", "ids"),
    [
        ("moving", {"MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": False}, ["I125"]),
        ("moving", {"MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": True}, []),
        ("moving.growing", {"MOVE_FROM": {"PREFIX": "before"}, "MOVES": False}, []),
        ("moving.growing", {}, []),
    ],
)
def test_sessions_that_are_still_in_the_store_of_another_engine_are_not_bound(
    found, settings, engine: str, redsess, ids: list[str]
) -> None:
    settings.SESSION_ENGINE, settings.REDSESS = f"django_redsess.contrib.{engine}", redsess
    assert found("device_bound") == ids


def test_subdomains_need_the_origins_and_the_file_of_their_domain(found, settings) -> None:
    settings.ROOT_URLCONF = WellKnown()
    assert found("domain") == []
    setattr(settings, DOMAIN, ".shop.example")
    assert found("domain") == ["W126"]
    settings.REDSESS = {"DEVICE_BOUND_ORIGINS": ["https://www.shop.example"]}
    assert found("domain") == []
    settings.ROOT_URLCONF = Included
    assert found("domain") == ["W126"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("SESSION_COOKIE_SECURE", True), ("SECURE_PROXY_SSL_HEADER", ("HTTP_X_PROTO", "https"))],
)
def test_django_has_to_know_that_the_site_is_served_by_https(found, settings, name: str, value: object) -> None:
    settings.SESSION_COOKIE_SECURE, settings.SECURE_PROXY_SSL_HEADER = False, None
    assert found("https") == ["W127"]
    setattr(settings, name, value)
    assert found("https") == []


@pytest.mark.parametrize(("endpoint", "error"), [("register", "no_session"), ("refresh", "no_session_id")])
def test_no_middleware_of_django_answers_in_place_of_the_endpoints(settings, endpoint: str, error: str) -> None:
    settings.ROOT_URLCONF = Included
    settings.APPEND_SLASH, settings.SECURE_SSL_REDIRECT, settings.CSRF_USE_SESSIONS = True, True, True
    settings.MIDDLEWARE = [
        "django.middleware.security.SecurityMiddleware",
        *settings.MIDDLEWARE,
        "django.contrib.auth.middleware.LoginRequiredMiddleware",
    ]
    browser = Client(enforce_csrf_checks=True)
    answer = browser.post(f"/device-bound/{endpoint}", secure=True)
    assert answer.json() == {"error": error}
    assert browser.get(f"/device-bound/{endpoint}", secure=True).status_code == 405


@pytest.mark.slow
@pytest.mark.parametrize("package", ["jwt", "cryptography"])
def test_a_site_without_the_extra_does_not_start_and_says_what_to_install(package: str) -> None:
    program = f"""
import sys
from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

class Missing:
    def find_spec(name, path=None, target=None):
        if name == "{package}":
            raise ModuleNotFoundError(name=name)

sys.meta_path.insert(0, Missing)
settings.configure(INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth", "{APP}"])
try:
    apps.populate(settings.INSTALLED_APPS)
except ImproperlyConfigured as error:
    print(error)
"""
    assert 'pip install "django-redsess[device-bound]"' in run_python("-c", program)
