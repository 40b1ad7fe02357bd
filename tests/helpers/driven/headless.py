"""allauth's own API of a user's sessions, in a site that has ours, too: both list and end the same sessions."""

import json
import os
import time
from functools import partial
from typing import Any

import redis
from allauth.headless.contrib.ninja.security import x_session_token_auth
from allauth.headless.contrib.rest_framework.authentication import XSessionTokenAuthentication
from django.apps import apps
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.test import override_settings
from django.urls import include, path, reverse
from rest_framework.response import Response
from rest_framework.views import APIView

from django_redsess import online
from django_redsess.accounts.reauthentication import GIVEN_KEY, RECENT_SECONDS
from django_redsess.signals import EndedSession, Reason, sessions_ended
from tests.helpers.driven.pages import Browser
from tests.helpers.oracle import disagreements
from tests.helpers.store import make_older, sid_of
from tests.project.docs.pages import DOCS, blocks

PASSWORD = "/api/v1/me/reauthenticate"
ALLAUTHS, OURS = "/_allauth/browser/v1/auth/", "/api/v1/me/sessions"


class ByRest(APIView):
    """Who allauth's class for Django REST framework takes the sender for."""

    authentication_classes = (XSessionTokenAuthentication,)

    def get(self, request: Any) -> Response:
        return Response(request.user.username)


def by_ninja(request: HttpRequest) -> HttpResponse:
    """As a view of django-ninja that asks with allauth's class."""
    return HttpResponse(x_session_token_auth(request).username)


urlpatterns = [
    path("by-rest/", ByRest.as_view()),
    path("by-ninja/", by_ninja),
    path("_allauth/", include("allauth.headless.urls")),
    path("accounts/", include("allauth.urls")),
    path("", include("tests.helpers.site.urls")),
]


def __getattr__(name: str) -> Any:
    if name != "UserSessionsAdapter":
        raise AttributeError(name)
    # As the guide has it. It is read late: without allauth's settings, this module is imported for its URLs.
    [guide] = [block.text for block in blocks(DOCS / "howto/allauth.rst") if f"class {name}(" in block.text]
    names: dict[str, Any] = {}
    exec(guide, names)
    return names[name]


def signed_in(address: str) -> Browser:
    browser = Browser(REMOTE_ADDR=address)
    answer = browser.post(
        ALLAUTHS + "login", {"username": "ada", "password": "lovelace"}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.text
    return browser


def key(browser: Browser) -> str:
    return browser.cookies["sessionid"].value


def listed(browser: Browser) -> dict[str, dict[str, Any]]:
    """Return the sessions that allauth lists, by address."""
    answer = browser.get(ALLAUTHS + "sessions")
    assert answer.status_code == 200, answer.text
    return {each["ip"]: each for each in answer.json()["data"]}


def listed_by_us(browser: Browser) -> dict[str, dict[str, Any]]:
    answer = browser.get(OURS)
    assert answer.status_code == 200, answer.text
    return {each["address"]: each for each in answer.json()["sessions"]}


def both_end(user: User, told: list[tuple[str, Reason]]) -> None:
    """What allauth's API ends is gone from ours, and the other way round."""
    here, there, third = (signed_in(f"192.0.2.{number}") for number in (1, 2, 3))
    allauths, ours = listed(here), listed_by_us(here)
    assert set(allauths) == set(ours) == {"192.0.2.1", "192.0.2.2", "192.0.2.3"}
    for address, theirs in allauths.items():
        assert set(theirs) - set(ours[address]) == {"ip"}
        for name in ("user_agent", "is_current"):
            assert theirs[name] == ours[address][name]
    assert [each["ip"] for each in allauths.values() if each["is_current"]] == ["192.0.2.1"]

    ids = [allauths["192.0.2.2"]["id"]]
    ended = here.delete(ALLAUTHS + "sessions", json.dumps({"sessions": ids}), content_type="application/json")
    assert ended.status_code == 200, ended.text
    # The reason is that of the guide's adapter.
    assert told == [(sid_of(key(there)), Reason.KICKED)]
    assert there.get(ALLAUTHS + "sessions").status_code == 401
    assert set(listed(here)) == set(listed_by_us(here)) == {"192.0.2.1", "192.0.2.3"}

    assert here.delete(f"{OURS}/{sid_of(key(third))}").status_code == 204
    assert third.get(ALLAUTHS + "sessions").status_code == 401
    assert set(listed(here)) == {"192.0.2.1"}
    assert [each.sid for each in online.of_user(user)] == [sid_of(key(here))]

    # The one in use: signed out, and nothing is left of it.
    ids = [each["id"] for each in listed(here).values()]
    out = here.delete(ALLAUTHS + "sessions", json.dumps({"sessions": ids}), content_type="application/json")
    assert out.status_code == 401, out.text
    assert online.of_user(user) == []


def allauth_is_asked(user: User, client: redis.Redis) -> None:
    """Where allauth asks, our API takes no password: it says where allauth does, and goes on after that."""
    here, there = signed_in("192.0.2.1"), signed_in("192.0.2.2")
    make_older(client, sid_of(key(here)), RECENT_SECONDS + 1)
    session = here.session
    for method in session["account_authentication_methods"]:
        method["at"] -= RECENT_SECONDS + 1
    session.save()
    url, allauths = f"{OURS}/{sid_of(key(there))}", reverse("headless:browser:account:reauthenticate")
    for answer in (
        here.delete(url),
        here.delete(OURS),
        here.post(PASSWORD, {"password": "lovelace"}, content_type="application/json"),
        here.delete(url),
    ):
        problem = answer.json()
        assert (answer.status_code, problem["type"].rpartition("#")[2]) == (403, "authentication-required")
        assert problem["url"] == allauths
    # What our form has found is nothing to allauth, and its page asks, too.
    session = here.session
    session[GIVEN_KEY] = int(time.time() * 1000)
    session.save()
    assert here.delete(url).status_code == 403
    asked = here.post("/account/sessions/end-others/")
    assert (asked.status_code, asked["Location"].partition("?")[0]) == (302, reverse("account_reauthenticate"))
    given = here.post(allauths, {"password": "lovelace"}, content_type="application/json")
    assert given.status_code == 200, given.text
    assert here.delete(url).status_code == 204
    assert [each.sid for each in online.of_user(user)] == [sid_of(key(here))]
    here.post("/logout/")


def pages_are_named(user: User, client: redis.Redis) -> None:
    """Without allauth's API, its page is named: that of a second factor where a password is not enough."""
    here = signed_in("192.0.2.1")
    make_older(client, sid_of(key(here)), RECENT_SECONDS + 1)
    give = partial(here.post, PASSWORD, {"password": "lovelace"}, content_type="application/json")
    with override_settings(ROOT_URLCONF="tests.helpers.driven.allauths_pages"):
        assert give().json()["url"] == reverse("account_reauthenticate")
        with override_settings(ACCOUNT_REAUTHENTICATION_METHODS=["code"]):
            EmailAddress = apps.get_model("account", "EmailAddress")
            EmailAddress.objects.create(user=user, email="ada@shop.example", verified=True, primary=True)
            assert give().json()["url"] == reverse("account_request_reauthentication_code")
    # With neither, our form asks, if allauth takes a password.
    with override_settings(ROOT_URLCONF="tests.helpers.site.urls"):
        assert give().status_code == 204


def apps_send_a_header(user: User, client: redis.Redis) -> None:
    """A session of allauth's API for apps is touched, has address and browser, and gets no cookie."""
    online.end_user(user)
    url = "/_allauth/app/v1/auth/"
    given = {"username": "ada", "password": "lovelace"}
    sender: dict[str, Any] = {"REMOTE_ADDR": "192.0.2.9", "HTTP_USER_AGENT": "Shop/1.0 (Telephone)"}
    answer = Browser(**sender).post(url + "login", given, content_type="application/json")
    assert (answer.status_code, list(answer.cookies)) == (200, []), answer.text
    key = answer.json()["meta"]["session_token"]
    [session] = online.of_user(user)
    assert (session.address, session.user_agent) == ("192.0.2.9", "Shop/1.0 (Telephone)")
    for path_of_view in (url + "session", url + "sessions", "/by-rest/", "/by-ninja/"):
        make_older(client, session.sid, 2000)
        before = online.of_user(user)[0]
        answer = Browser(**sender, HTTP_X_SESSION_TOKEN=key).get(path_of_view)
        assert (answer.status_code, list(answer.cookies)) == (200, []), answer.text
        after = online.of_user(user)[0]
        assert after.last_seen_at > before.last_seen_at
        assert after.expires_at > before.expires_at
    Browser(HTTP_X_SESSION_TOKEN=key).delete(url + "session")
    assert online.of_user(user) == []


def main() -> None:
    user = User.objects.create_user("ada", password="lovelace")
    told: list[tuple[str, Reason]] = []

    def receive(sessions: list[EndedSession], **_: Any) -> None:
        told.extend((each.sid, each.reason) for each in sessions)

    sessions_ended.connect(receive)
    both_end(user, told)
    client = redis.from_url(os.environ["REDIS_URL"])
    allauth_is_asked(user, client)
    pages_are_named(user, client)
    apps_send_a_header(user, client)
    assert not disagreements(client)
