"""Django's error reports have no password and no session key, whatever fails while they are passed on."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import django
import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.models import User
from django.core import mail
from django.core.signing import BadSignature
from django.db import OperationalError
from django.http import HttpResponse
from django.test import Client
from django.urls import path
from django.utils.log import AdminEmailHandler

from django_redsess.contrib import api
from tests.helpers.accounts import PASSWORD, sid_of, sign_in
from tests.helpers.admin_pages import END
from tests.helpers.store import make_older

pytestmark = pytest.mark.django_db

LIST = "/account/sessions/"


class Directory(BaseBackend):
    """A site's own backend, whose server is away. Its variables have the password, under various names."""

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **more: Any) -> Any:
        secret = {"bind": [username, password]}
        try:
            self.ask(secret["bind"])
        except OSError as error:
            raise OperationalError("the directory does not answer") from error

    def ask(self, words: Any) -> None:
        raise OSError("no route to host")


class PassingOn(BaseBackend):
    """Raises what the site's own code raises that knows nothing of passwords."""

    def authenticate(self, request: Any, **credentials: Any) -> Any:
        raise BadSignature("not signed")


@pytest.fixture
def reports(settings: Any) -> Iterator[list[Any]]:
    """The mails that Django sends about errors: as text, and as HTML, with the variables of each frame."""
    address = "ada@example.com"
    settings.DEBUG, settings.ADMINS = False, [address] if django.VERSION >= (6, 0) else [("Ada", address)]
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}
    handler, logger = AdminEmailHandler(include_html=True), logging.getLogger("django.request")
    handler.setLevel(logging.ERROR)
    logger.addHandler(handler)
    yield mail.outbox
    logger.removeHandler(handler)


def by_api(client: Client, other: str) -> Any:
    return client.post("/api/v1/me/reauthenticate", {"password": PASSWORD}, content_type="application/json")


def on_the_page(client: Client, other: str) -> Any:
    return client.post(f"{LIST}{other}/end/", {"password": PASSWORD})


def on_the_page_of_all_others(client: Client, other: str) -> Any:
    return client.post(f"{LIST}end-others/", {"password": PASSWORD})


def on_the_page_of_a_stranger(client: Client, other: str) -> Any:
    return client.post(f"{LIST}not-me/", {"password": PASSWORD})


def in_the_admin(client: Client, other: str) -> Any:
    return client.post(END, {"sids": other, "password": PASSWORD})


@pytest.mark.parametrize("backend", [Directory, PassingOn])
@pytest.mark.parametrize(
    "give", [by_api, on_the_page, on_the_page_of_all_others, on_the_page_of_a_stranger, in_the_admin]
)
def test_the_password_is_in_no_report(redis, settings, reports, give: Callable[..., Any], backend) -> None:
    user = User.objects.create_superuser("alice", password=PASSWORD)
    here, there = sign_in(user), sign_in(user)
    make_older(redis, sid_of(here), 301)
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.{backend.__name__}", "django.contrib.auth.backends.ModelBackend"]
    here.raise_request_exception = False
    assert give(here, sid_of(there)).status_code == 500
    text = text_of(reports)
    # It is the report of this error, and says where it was raised.
    assert "in authenticate" in text
    is_told = PASSWORD in text
    assert not is_told


def failing(request: Any) -> Any:
    raise BadSignature("not signed")


def test_a_form_for_the_api_is_in_no_report(settings, reports) -> None:
    settings.ROOT_URLCONF = __name__
    client = Client(raise_request_exception=False)
    assert client.post("/failing/v1/me/reauthenticate", {"password": PASSWORD}).status_code == 500
    text = text_of(reports)
    assert "in failing" in text
    is_told = PASSWORD in text
    assert not is_told


class Broken:
    """A value that no serializer takes."""


def test_the_session_key_is_in_no_report(alice, settings, reports) -> None:
    settings.ROOT_URLCONF = __name__
    client = sign_in(alice)
    client.raise_request_exception = False
    key = client.cookies["sessionid"].value
    for name in ("breaks", "breaks-with-a-new-key", "breaks-later", "breaks-later-with-a-new-key"):
        assert client.get(f"/{name}/").status_code == 500
        assert f"TypeError at /{name}/" in text_of(reports)
    text = text_of(reports)
    is_told = any(each in text for each in (key, *NEW_KEYS))
    assert not is_told


NEW_KEYS: list[str] = []


def breaks_later(request: Any) -> HttpResponse:
    request.session["broken"] = Broken()
    return HttpResponse()


def breaks(request: Any) -> HttpResponse:
    response = breaks_later(request)
    request.session.save()
    return response


def with_a_new_key(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    def cycles(request: Any) -> HttpResponse:
        request.session.cycle_key()
        NEW_KEYS.append(str(request.session.session_key))
        return view(request)

    return cycles


urlpatterns = [
    path("failing/", api.urls(auth=failing)),
    path("breaks/", breaks),
    path("breaks-with-a-new-key/", with_a_new_key(breaks)),
    path("breaks-later/", breaks_later),
    path("breaks-later-with-a-new-key/", with_a_new_key(breaks_later)),
]


def text_of(mails: list[Any]) -> str:
    # Django's own handler sends mails, too, as text only.
    assert any(each.alternatives for each in mails)
    return "".join(each.body + "".join(str(content) for content, _ in each.alternatives) for each in mails)
