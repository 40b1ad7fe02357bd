"""What somebody sees who may not sign in for a time: in a form, on a page, and where the block comes last."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.forms import AdminAuthenticationForm
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import include, path
from django.utils import timezone

import django_redsess
from django_redsess import online
from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from tests.helpers.accounts import PASSWORD, count, is_gone, sign_in
from tests.helpers.both import paths
from tests.helpers.site import views
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

TEMPLATES_OF_APP = {
    "BACKEND": "django.template.backends.django.DjangoTemplates",
    "DIRS": [Path(django_redsess.__file__).parent / "templates"],
}

GIVEN = {"username": "alice", "password": PASSWORD}

urlpatterns = [
    *paths("write/<key>/<value>/", views.write),
    *paths("write-and-save/<key>/<value>/", views.write_and_save),
    *paths("sign-in/<names>/", views.sign_in),
    *paths("who/", views.who),
    path("", include("testproject.urls")),
]
"""A site that has no page for 403."""


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request) -> Browser:
    return Browser(request.param())


@pytest.fixture
def plain_site(site: Any) -> Any:
    site.ROOT_URLCONF = __name__
    site.TEMPLATES = [TEMPLATES_OF_APP]
    return site


def block(user: User) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), message="Call <us>.")


class AdminForm(SessionLimitAuthenticationForm, AdminAuthenticationForm):
    """As the docstring of the form says."""


@pytest.mark.parametrize("form", [SessionLimitAuthenticationForm, AdminForm])
def test_the_form_tells_who_knows_the_password_and_nobody_else(alice, form) -> None:
    User.objects.filter(pk=alice.pk).update(is_staff=True)
    block(alice)
    [error] = form(None, GIVEN).errors.as_data()["__all__"]
    assert error.code == "blocked"
    assert str(error.message).endswith("Call <us>.")
    [error] = form(None, {**GIVEN, "password": "wrong"}).errors.as_data()["__all__"]
    assert error.code == "invalid_login"
    online.unblock(alice)
    assert form(None, GIVEN).is_valid()


def test_the_guests_basket_stays_and_the_sign_in_works_once_the_block_is_lifted(client, alice, round_trips) -> None:
    client.get("/swap/basket/lamp/")
    block(alice)
    response = client.post("/sign-in-by-form/", GIVEN)
    assert response.content.decode().endswith("Call <us>.")
    assert client.get("/swap/basket/lamp/").content == b"lamp"
    online.unblock(alice)
    assert client.post("/sign-in-by-form/", GIVEN).content == b"done"
    assert client.get("/who/").content == b"alice"
    # Form and signal ask once: load, ask, save.
    round_trips()
    client.post("/sign-in-by-form/", GIVEN)
    assert round_trips() == 3


WAYS = ["sign-in/alice", "write/_auth_user_id/{pk}", "write-and-save/_auth_user_id/{pk}"]
"""Sign in; by hand, so that the save at the end of the request is refused; by hand, with a save in the view."""


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["ours", "of the site", "handler of the site", "JSON"])
def test_the_answer_is_a_403_that_says_until_when(site, request, browser, alice, way: str, kind: str) -> None:
    if kind != "handler of the site":
        request.getfixturevalue("plain_site")
    if kind == "of the site":
        pages = {"403.html": "Sorry, {{ user|default:'nobody' }}. {{ exception }}"}
        options = {
            "loaders": [("django.template.loaders.locmem.Loader", pages)],
            "context_processors": ["django.contrib.auth.context_processors.auth"],
        }
        site.TEMPLATES = [{"BACKEND": TEMPLATES_OF_APP["BACKEND"], "OPTIONS": options}]
    browser.get("/write/colour/blue/")
    guest = browser.sid
    block(alice)
    headers = {"accept": "application/json"} if kind == "JSON" else {"accept": "text/html"}
    response = browser.get(f"{browser.views}/{way.format(pk=alice.pk)}/", headers=headers)
    text = response.json()["detail"] if kind == "JSON" else response.content.decode()
    assert response.status_code == 403
    assert "until" in text
    assert "Call &lt;us&gt;." in text or ("Call <us>." in text and kind in ("JSON", "handler of the site"))
    assert text.startswith("Sorry, AnonymousUser.") is (kind == "of the site")
    # As after a refusal by a limit.
    assert online.get(guest) is None
    assert count(alice) == 0
    assert browser.get("/who/").content == b"nobody"
    if kind in ("ours", "JSON"):
        assert is_gone(response)
        assert response.headers["Cache-Control"] == "no-store"


def test_a_site_without_templates_of_apps_answers_with_djangos_page(plain_site, client, alice) -> None:
    plain_site.TEMPLATES = []
    block(alice)
    assert client.get("/sign-in/alice/").status_code == 403


def test_a_block_that_comes_while_a_sign_in_is_answered_is_in_time(browser, alice, meanwhile) -> None:
    browser.get("/write/colour/blue/")
    meanwhile(lambda: block(alice))
    assert browser.get(f"{browser.views}/write/_auth_user_id/{alice.pk}/").status_code == 403
    assert count(alice) == 0
    assert browser.get("/who/").content == b"nobody"


def test_who_is_signed_in_is_told_why(alice) -> None:
    there = sign_in(alice)
    block(alice)
    assert there.get("/who-and-messages/").content.decode().endswith("Call &lt;us&gt;.")
    # The test client signs in as login() does.
    with pytest.raises(Exception, match="until"):
        sign_in(alice)


def test_who_blocks_the_own_user_goes_on_as_a_guest(browser, alice, meanwhile) -> None:
    browser.sign_in(alice)
    meanwhile(lambda: block(alice))
    # The view changes the session after that.
    assert browser.get("/write/colour/blue/").status_code == 200
    assert browser.get("/who/").content == b"nobody"
    assert count(alice) == 0
