"""Members of staff with single permissions: nothing learned that they may not see, always named, always asked."""

from __future__ import annotations

import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import path

from benchmarks.fill import fill
from django_redsess import ending
from django_redsess.admin import OnlineSessionAdmin, UserSessionsMixin
from django_redsess.models import OnlineSession
from tests.support.admin_pages import CONFIRM, LIST, Page, answer, asked, staff, told
from tests.support.online import sign_in

pytestmark = pytest.mark.django_db

VIEW, END = "view_onlinesession", "end_onlinesession"

# A test fills them with the pages of the site that it makes.
urlpatterns: list[Any] = []


@pytest.fixture
def users(db: None) -> dict[str, User]:
    return {
        name: User.objects.create_user(name, email=f"{name}.q7@example.com", last_name=f"Surname of {name}")
        for name in ("alice", "bob", "carol")
    }


@pytest.fixture
def sids(users: dict[str, User], new_session: Any) -> dict[str, str]:
    """The sid of a session of each user, alice's the oldest."""
    return dict(zip(users, sign_in(new_session, *(str(user.pk) for user in users.values())), strict=True))


@pytest.fixture
def serve(settings: Any) -> Iterator[Callable[..., None]]:
    """Return a function that has an admin site with these pages in place of the shop's: sessions', and users'."""

    def serve(sessions: type[OnlineSessionAdmin], users: type[admin.ModelAdmin[Any]] | None = UserAdmin) -> None:
        site = admin.AdminSite()
        site.register(OnlineSession, sessions)
        if users is not None:
            site.register(User, users)
        urlpatterns[:] = [path("admin/", site.urls)]
        settings.ROOT_URLCONF = __name__

    yield serve
    urlpatterns.clear()


# What may not be seen is not to be guessed.


def guessed(client: Client, beginning: str, letters: str) -> str:
    """Spell out letter by letter what a search finds, beginning with what somebody knows."""
    known = beginning
    while more := [letter for letter in letters if Page(client.get(LIST, {"q": known + letter})).names == ["alice"]]:
        known += more[0]
    return known


def test_nobody_spells_out_an_address_that_they_may_not_see(client: Client, sids: dict[str, str]) -> None:
    staff(client, VIEW)
    assert guessed(client, "alice", ".@q7" + string.ascii_lowercase) == "alice"
    assert Page(client.get(LIST, {"q": "Surname of alice"})).names == []
    assert Page(client.get(LIST, {"q": "LIC"})).names == ["alice"]
    assert Page(client.get(LIST, {"q": sids["bob"]})).names == ["bob"]
    assert "Search by user name or session id" in Page(client.get(LIST)).text


def test_who_may_see_users_searches_as_on_their_page(client: Client, sids: dict[str, str]) -> None:
    staff(client, VIEW, "view_user")
    assert Page(client.get(LIST, {"q": "alice.q7@"})).names == ["alice"]
    assert "Search as on the page of users, or by session id" in Page(client.get(LIST)).text


def test_without_a_page_of_users_only_user_names_are_searched(
    client: Client, sids: dict[str, str], serve: Callable[..., None]
) -> None:
    serve(OnlineSessionAdmin, None)
    staff(client, VIEW, "view_user")
    assert Page(client.get(LIST, {"q": "alice.q7@"})).names == []
    assert Page(client.get(LIST, {"q": "alice"})).names == ["alice"]
    assert "Search by user name or session id" in Page(client.get(LIST)).text


def test_who_may_see_some_users_searches_among_those(
    client: Client, users: dict[str, User], sids: dict[str, str], serve: Callable[..., None]
) -> None:
    class OwnBranch(UserAdmin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(username="bob").prefetch_related("groups")

    serve(OnlineSessionAdmin, OwnBranch)
    staff(client, VIEW, "view_user")
    assert Page(client.get(LIST, {"q": "q7@example"})).names == ["bob"]
    assert Page(client.get(LIST, {"q": "alice"})).names == []
    User.objects.filter(username__in=["alice", "bob"]).update(is_staff=True)
    assert Page(client.get(LIST, {"staff": "1"})).names == ["bob"]


def test_who_is_staff_is_told_to_those_who_may_see_users(
    client: Client, users: dict[str, User], sids: dict[str, str]
) -> None:
    User.objects.filter(username="bob").update(is_staff=True)
    staff(client, VIEW, END)
    assert "Staff only" not in Page(client.get(LIST)).links
    response = client.get(LIST, {"staff": "1"}, follow=True)
    assert set(Page(response).names) == {"alice", "bob", "carol", "staff"}
    assert asked(client.get(CONFIRM, {"staff": "1"}, follow=True)) == 0
    staff(client, VIEW, "view_user", name="personnel")
    assert Page(client.get(LIST, {"staff": "1"})).names == ["personnel", "bob"]


def test_users_who_are_not_online_are_named_to_those_who_may_see_users(
    client: Client, users: dict[str, User], set_limit: Callable[..., None]
) -> None:
    set_limit(7)
    staff(client, VIEW, END)
    for url in (LIST, CONFIRM):
        page = Page(client.get(url, {"user": users["bob"].pk}, follow=True))
        assert "bob" not in page.text
        assert "7" not in page.text.replace(f"{users['bob'].pk}", "")
    staff(client, VIEW, END, "view_user", name="personnel")
    assert "bob" in Page(client.get(LIST, {"user": users["bob"].pk})).text


# Whose sessions were ended is in the history, whatever was posted.


@pytest.mark.parametrize("fields", [{"together": "on"}, {"together": "on", "ended": "5000", "total": "5000"}], ids=str)
@pytest.mark.parametrize("query", ["", "?q=b", "?who=everyone"])
def test_no_form_keeps_names_out_of_the_history(
    client: Client, users: dict[str, User], sids: dict[str, str], query: str, fields: dict[str, str]
) -> None:
    staff(client, VIEW, END)
    answer(client, client.get(CONFIRM + query), **fields)
    named = {str(users[name].pk) for name in ("bob",)} if query == "?q=b" else {str(user.pk) for user in users.values()}
    assert {entry.object_id for entry in LogEntry.objects.all()} == named


def test_each_request_of_an_ending_names_its_users(
    client: Client, redis: Any, monkeypatch: pytest.MonkeyPatch, users: dict[str, User], sids: dict[str, str]
) -> None:
    monkeypatch.setattr(ending, "END_MAX", 250)
    monkeypatch.setattr(ending, "LINES_MAX", 100)
    fill(redis, 250, viewed=0)
    staff(client, VIEW, END)
    response = answer(client, client.get(CONFIRM))
    # So many have one line together, and the rest has its own lines.
    assert [entry.object_id for entry in LogEntry.objects.all()] == [None]
    answer(client, response)
    named = LogEntry.objects.exclude(object_id=None)
    assert named.count() == LogEntry.objects.count() - 1 == 3


@pytest.mark.parametrize("progress", ["[100000000000, 3]", "100000000000", "x:y:z", "another's", "of another list"])
def test_how_many_were_ended_is_not_believed(
    client: Client,
    redis: Any,
    monkeypatch: pytest.MonkeyPatch,
    users: dict[str, User],
    sids: dict[str, str],
    progress: str,
) -> None:
    monkeypatch.setattr(ending, "END_MAX", 250)
    fill(redis, 600, viewed=0)
    if progress in ("another's", "of another list"):
        staff(client, VIEW, END, name="colleague")
        going_on = answer(client, client.get(CONFIRM + "?who=everyone"))
        progress = Page(going_on).fields["progress"]
    staff(client, VIEW, END)
    question = client.get(CONFIRM)
    number = asked(question)
    response = answer(client, question, progress=progress, ended="100000000000", total="100000000000")
    assert "100,000,000,000" not in Page(response).text
    assert "100000000000" not in Page(response).text
    assert asked(response) == number
