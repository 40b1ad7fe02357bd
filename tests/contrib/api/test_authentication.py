"""Who asks besides users who are signed in: what ``auth`` returns."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import clear_url_caches, path

from django_redsess import online
from django_redsess.contrib import api
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in
from tests.helpers.api import ask, get, ids, status

pytestmark = pytest.mark.django_db


def by_name(request: Any) -> Any:
    return User.objects.filter(username=request.headers.get("X-Name", "")).first()


def by_nothing(request: Any) -> Any:
    return request.headers.get("X-Nothing")


urlpatterns = [path("api/", api.urls(auth=[by_name, by_nothing])), path("admin/", admin.site.urls)]


@pytest.fixture(autouse=True)
def site(settings: Any) -> Iterator[None]:
    settings.ROOT_URLCONF = __name__
    clear_url_caches()
    yield
    clear_url_caches()


def named(name: str) -> Client:
    return Client(enforce_csrf_checks=True, headers={"X-Name": name})


def test_a_session_whose_cookie_comes_along_is_not_touched(alice, here) -> None:
    bob = User.objects.create_user("bob", password=PASSWORD)
    both = sign_in(bob)
    key, sid = both.cookies["sessionid"].value, sid_of(both)
    both.handler.enforce_csrf_checks = True
    both.defaults["HTTP_X_NAME"] = "alice"
    assert ids(get(both, "me/sessions")) == [sid_of(here)]
    assert status(both, "get", f"me/sessions/{sid}") == 404
    assert status(both, "delete", f"me/sessions/{sid}") == 404
    assert status(both, "post", "me/reauthenticate", {"password": "wrong"}) == 204
    assert ask(both, "delete", "me/sessions").json() == {"ended": 1, "may_return": False}
    assert (count(alice), count(bob)) == (0, 1)
    # Neither has it another key.
    assert both.cookies["sessionid"].value == key
    assert [each.sid for each in online.of_user(bob)] == [sid]


def test_who_is_deactivated_is_nobody(alice, here) -> None:
    assert get(named("alice"), "me/sessions")["sessions"]
    User.objects.update(is_active=False)
    for method in ("get", "delete"):
        assert status(named("alice"), method, "me/sessions") == 401
    assert count(alice) == 1


def test_what_is_no_user_is_a_mistake_of_the_site(here) -> None:
    with pytest.raises(ImproperlyConfigured, match="must return a user"):
        Client(headers={"X-Nothing": "1"}).get("/api/v1/me/sessions")


def test_a_site_without_the_library_is_told_what_to_install(monkeypatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("django_redsess.contrib.api.", "ninja"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ninja", None)
    with pytest.raises(ImproperlyConfigured, match=r'pip install "django-redsess\[api\]"'):
        api.urls()


def test_a_site_without_the_librarys_scripts_has_no_page(settings) -> None:
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "ninja"]
    clear_url_caches()
    urlpatterns[0] = path("api/", api.urls(auth=by_name))
    assert Client().get("/api/v1/openapi.json").status_code == 200
    assert "operations" in Client().get("/api/v1/", headers={"Accept": "text/html"}).json()
