"""The part of a user's page that tells of sessions, and the action that ends those of several users."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, path

from django_redsess.admin import OnlineSessionAdmin, UserSessionsMixin
from django_redsess.admin.log_entries import save_lift
from django_redsess.models import OnlineSession
from tests.helpers.admin_pages import Page, answer, asked, left, staff, told
from tests.helpers.online import sign_in
from tests.helpers.store import make_due

pytestmark = pytest.mark.django_db

USERS = "/admin/auth/user/"

VIEW, END = "view_onlinesession", "end_onlinesession"


class PlainUserAdmin(UserSessionsMixin, admin.ModelAdmin):
    """Without fieldsets: Django makes them of the form's fields."""


class FieldsUserAdmin(UserSessionsMixin, admin.ModelAdmin):
    fields = ("username", "email")
    readonly_fields = ("email",)


class OwnPlaceUserAdmin(UserSessionsMixin, admin.ModelAdmin):
    """Says itself where the sessions are."""

    fieldsets = ((None, {"fields": ("username", "online_sessions")}),)


SITES = {kind: admin.AdminSite() for kind in (PlainUserAdmin, FieldsUserAdmin, OwnPlaceUserAdmin)}
for kind, site in SITES.items():
    site.register(User, kind)
    site.register(OnlineSession, OnlineSessionAdmin)

# Each test fills them with the pages of one of these admins.
urlpatterns: list[Any] = []


@pytest.fixture(params=SITES, ids=lambda kind: kind.__name__)
def kind(request: pytest.FixtureRequest, settings: Any) -> type[UserSessionsMixin]:
    """Each way to use the mixin, on a site of its own."""
    urlpatterns[:] = [path("admin/", SITES[request.param].urls)]
    clear_url_caches()
    settings.ROOT_URLCONF = __name__
    return request.param


@pytest.fixture
def sids(users, new_session) -> list[str]:
    """The sids of two sessions of alice, then one of bob and one of carol."""
    return sign_in(new_session, *(str(users[name].pk) for name in ("alice", "alice", "bob", "carol")))


def page_of(user: User) -> str:
    return f"{USERS}{user.pk}/change/"


def select(client: Client, *users: User, across: bool = False, query: str = "") -> Any:
    """Choose the action for these users, or for all that the list has."""
    fields = {"action": "end_sessions", "_selected_action": [user.pk for user in users], "index": "0"}
    return client.post(USERS + query, {**fields, "select_across": str(int(across))})


def may(client: Client, *permissions: str, name: str = "staff") -> Client:
    """Sign in as a member of staff who may change users, and has these permissions too."""
    return staff(client, "view_user", "change_user", "add_user", "delete_user", *permissions, name=name)


def test_a_users_page_counts_the_sessions_and_links_to_them_and_saves_as_ever(admin_client, redis, users, sids) -> None:
    page = Page(admin_client.get(page_of(users["alice"])))
    found = Page(admin_client.get(page.links["2 sessions"]))
    assert found.sids == [sids[1], sids[0]]
    dates = {"date_joined_0": "2020-01-01", "date_joined_1": "00:00:00"}
    changes = {"username": "alice", "first_name": "Alice", "is_active": "on", **dates}
    assert admin_client.post(page_of(users["alice"]), changes).status_code == 302
    assert User.objects.filter(first_name="Alice").exists()
    make_due(redis, sids[0])
    assert "1 session" in Page(admin_client.get(page_of(users["alice"]))).links
    # There are none of a user who is added.
    assert "online_sessions" not in admin_client.get(USERS + "add/").text
    password = {"password1": "zaunkönig-88", "password2": "zaunkönig-88", "usable_password": "true"}
    admin_client.post(USERS + "add/", {"username": "dave", **password})
    assert User.objects.filter(username="dave").exists()
    assert set(sids[1:]) < left()


@pytest.mark.parametrize("permissions", [(), (VIEW,), (END,)], ids=str)
def test_who_may_not_end_has_no_action_and_no_button(client, users, sids, permissions) -> None:
    may(client, *permissions)
    response = client.get(page_of(users["alice"]))
    assert response.status_code == 200
    assert ("2 sessions" in Page(response).links) == (VIEW in permissions)
    assert ("onlinesession" in response.text) == (VIEW in permissions)
    assert "/onlinesession/confirm/" not in response.text
    assert "end_sessions" not in client.get(USERS).text
    select(client, users["alice"])
    assert left() == {*sids, client.session.sid}


@pytest.mark.parametrize("way", ["action", "action on a search", "link"])
def test_all_sessions_of_the_users_that_were_chosen_are_ended(client, users, sids, way) -> None:
    User.objects.filter(username="carol").update(is_superuser=True)
    may(client, VIEW, END)
    links = Page(client.get(page_of(users["alice"]))).links
    response = {
        "action": lambda: select(client, users["alice"], users["carol"]),
        "action on a search": lambda: select(client, users["alice"], across=True, query="?q=a&is_superuser__exact=0"),
        "link": lambda: client.get(links["End all of them"]),
    }[way]()
    assert asked(response) == 2
    assert set(sids) < left()
    response = answer(client, response, message="Moved")
    assert told(response).endswith("2 sessions of alice were ended.")
    assert left() == {*sids[2:], client.session.sid}
    entry = LogEntry.objects.get()
    assert (entry.object_id, entry.change_message) == (str(users["alice"].pk), "Ended 2 sessions. Message: Moved")
    assert not any("/confirm/" in href for href in Page(client.get(page_of(users["alice"]))).links.values())


@pytest.mark.parametrize("permissions", [(), (VIEW,), ("view_signin",), (VIEW, "view_signin")], ids=str)
def test_a_users_history_links_to_what_it_does_not_have(client, users, permissions) -> None:
    may(client, *permissions)
    alice = users["alice"]
    links = {
        "Sign-ins of this user": (f"/admin/redsess_history/signin/?user={alice.pk}", "view_signin"),
        "Online sessions of this user": (f"/admin/django_redsess/onlinesession/?user={alice.pk}", VIEW),
    }
    before = Page(client.get(f"{USERS}{alice.pk}/history/"))
    assert "change history" in before.text
    save_lift(client.get(page_of(alice)).wsgi_request, str(alice.pk), alice)
    after = Page(client.get(f"{USERS}{alice.pk}/history/"))
    assert "Lifted the block." in after.text
    for page in (before, after):
        for text, (url, permission) in links.items():
            assert page.links.get(text) == (url if permission in permissions else None)


def test_a_thousand_users_are_taken_and_more_are_refused(admin_client, users, sids) -> None:
    User.objects.bulk_create(User(username=f"more{number:03}") for number in range(997))
    assert User.objects.count() == 1001
    response = select(admin_client, users["alice"], across=True)
    assert response.status_code == 302
    assert "at most 1000 users" in told(admin_client.get(response.headers["Location"]))
    assert left() == {*sids, admin_client.session.sid}
    User.objects.get(username="more000").delete()
    response = select(admin_client, users["alice"], across=True)
    # The administrator's own stays.
    assert asked(response) == 4
    answer(admin_client, response)
    assert left() == {admin_client.session.sid}


def test_each_admin_with_the_mixin_tells_of_the_sessions_once_and_ends_them(kind, admin_client, users, sids) -> None:
    assert Page(admin_client.get(page_of(users["alice"]))).text.count("2 sessions") == 1
    assert admin_client.get(USERS + "add/").status_code == 200
    # Who may only view has no button.
    page = may(Client(), VIEW).get(page_of(users["alice"]))
    assert Page(page).text.count("2 sessions") == 1
    assert "/onlinesession/confirm/" not in page.text
    # And who may not view is told nothing.
    client = may(Client(), name="other")
    page = client.get(page_of(users["alice"]))
    assert page.status_code == 200
    assert "2 sessions" not in Page(page).text
    assert "/onlinesession/" not in page.text
    assert "field-online_sessions" not in client.get(USERS + "add/").text
    response = select(admin_client, users["alice"])
    assert asked(response) == 2
    answer(admin_client, response)
    assert not set(sids[:2]) & left()


def test_without_an_admin_of_sessions_a_users_page_has_none_of_them(admin_client, users, sids, settings) -> None:
    site = admin.AdminSite()
    site.register(User, PlainUserAdmin)
    urlpatterns[:] = [path("admin/", site.urls)]
    clear_url_caches()
    settings.ROOT_URLCONF = __name__
    for url in (USERS, page_of(users["alice"])):
        response = admin_client.get(url)
        assert response.status_code == 200
        assert "onlinesession" not in response.text
        assert "end_sessions" not in response.text
