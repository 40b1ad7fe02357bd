"""The guide "Django REST framework" does what it says, in a site with the views that it has."""

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_redsess import online
from django_redsess.permissions import Rules
from tests.helpers.outages import TIMEOUT, caches, end_outage
from tests.helpers.site import MIDDLEWARE
from tests.helpers.visitors import Browser, assert_unavailable
from tests.project.docs.projects import import_guide

pytestmark = pytest.mark.django_db(transaction=True)

OWN_URLS = """
from django.contrib.auth import authenticate, login
from rest_framework.response import Response
from rest_framework.views import APIView
from shop.orders import Order

class SignIn(APIView):
    def post(self, request):
        login(request, authenticate(request, username="bob", password="correct-horse"))
        return Response({"user": str(request.user)})

urlpatterns += [path("orders/", Order.as_view()), path("sign-in/", SignIn.as_view())]
"""

API = "/api/sessions/"


@pytest.fixture(autouse=True)
def shop(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The site of the guide."""
    settings.INSTALLED_APPS = [*settings.INSTALLED_APPS, "rest_framework"]
    settings.MIDDLEWARE, settings.ROOT_URLCONF = MIDDLEWARE, "shop.urls"
    import_guide("drf.rst", ("api", "orders", "urls"), monkeypatch, at_the_end_of_urls=OWN_URLS)


def signed_in(name: str, *permissions: str, **more: Any) -> Any:
    user = User.objects.create_user(name, password="correct-horse", **more)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    browser = Browser(Client(headers={"Accept": "application/json"}))
    browser.sign_in(user)
    return browser


def by_password(name: str) -> Client:
    given = base64.b64encode(f"{name}:correct-horse".encode()).decode()
    return Client(headers={"Accept": "application/json", "Authorization": f"Basic {given}"})


def names_in(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.content
    return sorted(each["user"] for each in answer.json()["results"])


def test_the_rules_of_the_admin_hold() -> None:
    alice, bob, root = signed_in("alice"), signed_in("bob"), signed_in("root", is_superuser=True)
    viewer = signed_in("viewer", "view_onlinesession")
    staff = signed_in("staff", "view_onlinesession", "end_onlinesession")
    assert Client().get(API).status_code == alice.get(API).status_code == 403
    assert names_in(viewer.get(API)) == ["alice", "bob", "root", "staff", "viewer"]
    page = staff.get(API, data={"limit": 2, "offset": 1}).json()
    assert (page["count"], len(page["results"])) == (5, 2)
    url = f"{API}{bob.sid}/"
    assert viewer.get(url).json()["user"] == "bob"
    assert viewer.client.delete(url).status_code == 403
    assert staff.client.delete(f"{API}{root.sid}/").status_code == 403
    assert staff.client.delete(url).status_code == 204
    assert staff.client.delete(url).status_code == staff.get(url).status_code == 404
    assert names_in(staff.get(API)) == ["alice", "root", "staff", "viewer"]
    ended = bob.get(API)
    assert (ended.status_code, ended["X-Session-Ended"]) == (403, "kicked")
    assert root.client.delete(f"{API}{root.sid}/").status_code == 204


class OnlyBob(Rules):
    def visible_sessions(self, user: Any, sessions: Any) -> Any:
        return sessions.of_users([str(User.objects.get(username="bob").pk)])


def test_rules_of_the_sites_own_hold(settings: Any) -> None:
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.OnlyBob"}
    alice, bob = signed_in("alice"), signed_in("bob")
    staff = signed_in("staff", "view_onlinesession", "end_onlinesession")
    assert names_in(staff.get(API)) == ["bob"]
    assert staff.client.delete(f"{API}{alice.sid}/").status_code == 404
    assert staff.client.delete(f"{API}{bob.sid}/").status_code == 204
    assert [online.get(each.sid or "") is not None for each in (alice, bob)] == [True, False]


@pytest.mark.usefixtures("partitions")
def test_an_offset_beyond_all_lists_is_an_empty_page() -> None:
    staff = signed_in("staff", "view_onlinesession")
    assert names_in(staff.get(API, data={"offset": 10_000})) == []


def test_sessions_need_the_csrf_token() -> None:
    staff, bob = signed_in("staff", "view_onlinesession", "end_onlinesession"), signed_in("bob")
    staff.client.handler.enforce_csrf_checks = True
    url, token = f"{API}{bob.sid}/", "a" * 32
    assert "CSRF" in staff.client.delete(url).json()["detail"]
    staff.client.cookies["csrftoken"] = token
    assert staff.client.delete(url, headers={"X-CSRFToken": token}).status_code == 204


def test_who_brings_a_password_has_no_session_and_needs_none(proxy: Any, settings: Any, round_trips: Any) -> None:
    settings.CACHES = caches(proxy.url, timeout=TIMEOUT)
    end_outage()
    alice = signed_in("alice", "view_onlinesession")
    User.objects.create_user("bob", password="correct-horse")
    with_password = by_password("bob")
    round_trips()
    assert with_password.get(API).status_code == 403
    assert round_trips() == 0
    assert names_in(by_password("alice").get(API)) == ["alice"]
    proxy.refuse()
    answer = alice.get(API)
    assert_unavailable(answer)
    assert set(answer.json()) == {"type", "detail"}
    assert with_password.get(API).status_code == 403
    proxy.restore()
    end_outage()
    assert names_in(alice.get(API)) == ["alice"]


def test_a_sign_in_begins_a_session_and_a_block_refuses_it_with_its_text() -> None:
    bob = User.objects.create_user("bob", password="correct-horse")
    here = Browser(Client())
    assert here.post("/sign-in/").json() == {"user": "bob"}
    assert [each.sid for each in online.of_user(bob)] == [here.sid]
    online.block(bob, until=datetime.now(UTC) + timedelta(hours=1), message="Please call us.")
    refused = Browser(Client()).post("/sign-in/")
    assert (refused.status_code, "Please call us." in refused.json()["detail"]) == (403, True)


def test_requests_of_one_session_count_one_after_the_other() -> None:
    bob = signed_in("bob")
    assert [bob.post("/orders/").json() for _ in range(3)] == [{"orders": number} for number in (1, 2, 3)]
    # Each of these begins a session, as the guide says.
    assert [by_password("bob").post("/orders/").json() for _ in range(2)] == [{"orders": 1}] * 2
    assert online.count(guests="only") == 2
