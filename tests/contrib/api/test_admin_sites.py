"""Administrators of the API are those whom the admin sites in the URLs let in, which may want a second factor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import Client
from django.urls import URLPattern, URLResolver, clear_url_caches, path

from django_redsess import online
from django_redsess.contrib import api
from django_redsess.contrib.history.admin import SignInAdmin
from django_redsess.contrib.history.models import SignIn
from django_redsess.models import OnlineSession
from tests.helpers.accounts import count, sid_of, sign_in
from tests.helpers.admin_pages import LIST, staff
from tests.helpers.api import API, ask, status
from tests.helpers.checks import found, messages

pytestmark = pytest.mark.django_db

PERMISSIONS = ("view_onlinesession", "end_onlinesession", "block_user", "view_signin")

urlpatterns: list[URLPattern | URLResolver] = []

elsewhere: list[URLPattern | URLResolver] = []


class TwoFactorSite(AdminSite):
    """Lets in who has given a second factor, as the admin sites of django-otp and django-two-factor-auth do."""

    def has_permission(self, request: HttpRequest) -> bool:
        return super().has_permission(request) and bool(request.session.get("verified"))


def two_factor(*models: Any) -> TwoFactorSite:
    site = TwoFactorSite(name="two_factor")
    for model, of_model in admin.site._registry.items():
        if not models or model in models:
            site.register(model, type(of_model))
    return site


def serve(settings: Any, *patterns: Any) -> None:
    urlpatterns[:] = [*patterns, path("api/", api.urls())]
    settings.ROOT_URLCONF = __name__
    clear_url_caches()


def verified(client: Client) -> Client:
    session: Any = client.session
    session["verified"] = True
    session.save()
    return client


def asked(alice: User) -> list[tuple[Any, ...]]:
    """All that administrators may ask, with what they need for it."""
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    sid = sid_of(sign_in(alice))
    return [
        ("get", "sessions"),
        ("get", f"sessions/{sid}"),
        ("get", f"users/{alice.pk}/sessions"),
        ("get", "counts"),
        ("get", "sign-ins"),
        ("delete", f"sessions/{sid}"),
        ("post", "sessions/end", {"ids": [sid]}),
        ("put", f"users/{alice.pk}/block", {"until": until}),
        ("get", f"users/{alice.pk}/block"),
        ("delete", f"users/{alice.pk}/block"),
        ("delete", f"users/{alice.pk}/sessions"),
    ]


def test_what_the_mounted_admin_asks_the_api_asks(alice, settings) -> None:
    serve(settings, path("admin/", two_factor().urls))
    by_password = staff(Client(), *PERMISSIONS)
    assert by_password.get(LIST).status_code == 302
    refused = asked(alice)
    assert {status(by_password, *each) for each in refused} == {403}
    assert (count(alice), online.block_of(alice)) == (1, None)
    by_both = verified(by_password)
    assert by_both.get(LIST).status_code == 200
    assert {status(by_both, *each) for each in refused} <= {200, 204}


def test_each_site_with_the_page_has_to_agree(alice, settings) -> None:
    client = staff(Client(), *PERMISSIONS)
    serve(settings, path("admin/", admin.site.urls), path("own/", two_factor().urls))
    assert client.get(LIST).status_code == 200
    assert {status(client, *each) for each in asked(alice)} == {403}
    # A site that has the page of sign-ins alone is asked for these alone.
    serve(settings, path("admin/", admin.site.urls), path("own/", two_factor(SignIn).urls))
    assert [status(client, "get", each) for each in ("sessions", "counts", "sign-ins")] == [200, 200, 403]
    assert [status(verified(client), "get", each) for each in ("sessions", "sign-ins")] == [200, 200]


def with_urls_of_its_own(get_response: Callable[[HttpRequest], HttpResponse]) -> Any:
    def middleware(request: HttpRequest) -> HttpResponse:
        request.urlconf = tuple(elsewhere)  # type: ignore[attr-defined]
        return get_response(request)

    return middleware


def test_the_urls_may_be_those_of_the_request(alice, settings) -> None:
    before = staff(Client(), *PERMISSIONS)
    serve(settings, path("admin/", admin.site.urls))
    assert status(before, "get", "sessions") == 200
    elsewhere[:] = [path("admin/", two_factor().urls), path("api/", api.urls())]
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.with_urls_of_its_own"]
    # A client keeps the middleware that it began with.
    client = Client()
    client.cookies = before.cookies
    assert client.get(LIST).status_code == 302
    assert {status(client, *each) for each in asked(alice)} == {403}
    assert status(verified(client), "get", "sessions") == 200


def test_without_an_admin_in_the_urls_there_are_no_administrators_and_a_check_says_so(alice, settings) -> None:
    client = staff(Client(), *PERMISSIONS)
    serve(settings, path("admin/", two_factor(SignIn).urls))
    assert [status(client, "get", each) for each in ("sessions", "counts", "me/sessions")] == [404, 404, 200]
    assert "W110" in found()
    serve(settings, path("admin/", two_factor().urls))
    assert "W110" not in found()


def test_the_page_of_the_api_says_what_is_let_in(settings) -> None:
    client = staff(Client(), *PERMISSIONS)
    serve(settings, path("own/", two_factor().urls))

    def shown() -> Sequence[Any]:
        context = client.get(API, headers={"Accept": "text/html"}).context
        return context["admin_url"], context["sees_own_only"]

    assert shown() == ("", True)
    verified(client)
    assert shown() == ("/own/", False)


class OwnSignIns(SignInAdmin):
    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(user_id="1")


class OwnUsers(UserAdmin):
    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@pytest.mark.parametrize(("model", "own"), [(SignIn, OwnSignIns), (User, OwnUsers)])
def test_a_check_names_rules_of_all_pages_that_the_api_does_not_ask(settings, model, own) -> None:
    site = two_factor(OnlineSession)
    serve(settings, path("own/", site.urls))
    assert "W099" not in found()
    site.register(model, own)
    assert [each.msg.split()[0] for each in messages() if each.id.endswith("W099")] == [own.__name__]


def test_a_token_is_asked_for_the_same(alice, settings) -> None:
    user = User.objects.get(pk=staff(Client(), *PERMISSIONS).session["_auth_user_id"])
    urlpatterns[:] = [path("admin/", two_factor().urls), path("api/", api.urls(auth=lambda request: user))]
    settings.ROOT_URLCONF = __name__
    clear_url_caches()
    assert {ask(Client(), *each).status_code for each in asked(alice)} == {403}


class VerifiedSite(AdminSite):
    """Asks for what a middleware adds to the user of a session, as ``OTPAdminSite`` of django-otp does."""

    def has_permission(self, request: HttpRequest) -> bool:
        user: Any = request.user
        return super().has_permission(request) and user.is_verified()


def test_a_user_without_what_an_admin_sites_middleware_adds_is_refused(alice, settings) -> None:
    here = staff(Client(), *PERMISSIONS)
    user = User.objects.get(pk=here.session["_auth_user_id"])
    site = VerifiedSite(name="verified")
    for model, of_model in admin.site._registry.items():
        site.register(model, type(of_model))
    tokens = api.urls(auth=lambda request: user if request.headers.get("Authorization") else None)
    urlpatterns[:] = [path("admin/", site.urls), path("api/", tokens)]
    settings.ROOT_URLCONF = __name__
    clear_url_caches()
    script = Client(headers={"Authorization": "Token of a script"})
    answers = [ask(script, *each) for each in asked(alice)]
    assert {answer.status_code for answer in answers} == {403}
    assert all("is_verified" in answer.json()["detail"] for answer in answers)
    assert ask(script, "get", "me/sessions").status_code == 200
    # The page of the API asks about the user of the session, who lacks it, too.
    assert here.get(API, headers={"Accept": "text/html"}).status_code == 200


def test_a_mistake_in_an_admin_site_is_seen(alice, settings) -> None:
    class Mistaken(AdminSite):
        def has_permission(self, request: HttpRequest) -> bool:
            return bool(self.no_such_attribute)  # type: ignore[attr-defined]

    here = staff(Client(), *PERMISSIONS)
    site = Mistaken(name="mistaken")
    site.register(OnlineSession, type(admin.site._registry[OnlineSession]))
    serve(settings, path("admin/", site.urls))
    with pytest.raises(AttributeError):
        ask(here, "get", "sessions")
