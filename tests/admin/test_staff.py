"""Members of staff with single permissions: nothing learned that they may not see, always named, always asked."""

import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.urls import clear_url_caches, include, path
from django.utils import timezone

from benchmarks.fill import fill
from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin, UserSessionsMixin, ending, log_entries
from django_redsess.models import OnlineSession
from django_redsess.online import ending as ending_of_many
from tests.helpers.admin_pages import CONFIRM, LIST, Page, answer, asked, left, milliseconds_ago, page_of, staff, told
from tests.helpers.admin_pages import END as ENDING
from tests.helpers.online import sign_in
from tests.helpers.store import make_seen

pytestmark = pytest.mark.django_db

VIEW, END, END_ALL = "view_onlinesession", "end_onlinesession", "end_all_onlinesession"
BLOCK, BLOCKED, UNBLOCK = "block_user", LIST + "blocked/", LIST + "unblock/"

# A test fills them with the pages of the site that it makes.
urlpatterns: list[Any] = []
handler403 = "tests.helpers.site.urls.handler403"


@pytest.fixture
def users(db) -> dict[str, User]:
    return {
        name: User.objects.create_user(name, email=f"{name}.q7@example.com", last_name=f"Surname of {name}")
        for name in ("alice", "bob", "carol")
    }


@pytest.fixture
def serve(settings) -> Iterator[Callable[..., None]]:
    """Return a function that has an admin site with these pages in place of the shop's: sessions', and users'."""

    def serve(sessions: type[OnlineSessionAdmin], users: type[admin.ModelAdmin] | None = UserAdmin) -> None:
        site = admin.AdminSite()
        site.register(OnlineSession, sessions)
        if users is not None:
            site.register(User, users)
        urlpatterns[:] = [path("admin/", site.urls), path("", include("testproject.shop.urls"))]
        clear_url_caches()
        settings.ROOT_URLCONF = __name__

    yield serve
    urlpatterns.clear()


class OwnBranch(UserAdmin):
    """Has a list of users with nobody but bob."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(username="bob").prefetch_related("groups")


def test_a_search_finds_users_by_what_may_be_seen_of_them(client, sids, serve) -> None:
    def found(**query: str) -> list[str]:
        return Page(client.get(LIST, query)).names

    staff(client, VIEW)
    # Else an address can be spelt out letter by letter.
    for letter in ".@q7":
        assert found(q=f"alice{letter}") == []
    assert found(q="Surname of alice") == []
    assert found(q="LIC") == ["alice"]
    assert found(q=sids["bob"]) == ["bob"]
    # Who may see users searches as on their page; without such a page, only user names are searched.
    staff(client, VIEW, "view_user", name="personnel")
    assert found(q="alice.q7@") == ["alice"]
    serve(OnlineSessionAdmin, None)
    assert (found(q="alice.q7@"), found(q="alice")) == ([], ["alice"])
    # Who may see some users searches among those.
    serve(OnlineSessionAdmin, OwnBranch)
    assert (found(q="q7@example"), found(q="alice")) == (["bob"], [])
    User.objects.filter(username__in=["alice", "bob"]).update(is_staff=True)
    assert found(staff="true") == ["bob"]


def test_who_is_staff_is_told_to_those_who_may_see_users(client, users, sids) -> None:
    User.objects.filter(username="bob").update(is_staff=True)
    staff(client, VIEW, END, END_ALL)
    assert "Staff only" not in Page(client.get(LIST)).links
    response = client.get(LIST, {"staff": "true"}, follow=True)
    assert set(Page(response).names) == {"alice", "bob", "carol", "staff"}
    assert asked(client.get(CONFIRM, {"staff": "true"}, follow=True)) == 0
    staff(client, VIEW, "view_user", name="personnel")
    assert Page(client.get(LIST, {"staff": "true"})).names == ["personnel", "bob"]


def test_who_is_not_signed_in_is_told_to_those_who_may_see_that_user(client, users, serve, set_limit) -> None:
    set_limit(7)
    # Of somebody whom they may not see, the pages tell what they tell of nobody.
    staff(client, VIEW, END, END_ALL)
    texts = [Page(client.get(LIST, {"q": name})).text.replace(name, "…") for name in ("alice", "nonam")]
    times = re.compile(r"As of \S+( [ap]\.m\.)?")
    assert times.sub("", texts[0]) == times.sub("", texts[1])
    asked_about = [Page(client.get(CONFIRM, {"user": pk})).text for pk in (users["alice"].pk, 10**6)]
    assert asked_about[0] == asked_about[1]
    text = Page(client.get(LIST, {"user": users["bob"].pk}, follow=True)).text
    assert ("bob" in text, "At most" in text) == (False, False)
    serve(OnlineSessionAdmin, OwnBranch)
    staff(client, VIEW, "view_user", name="personnel")
    for query, is_told in (({"q": "bob"}, True), ({"q": "alice"}, False), ({"user": users["alice"].pk}, False)):
        assert ("is not signed in" in Page(client.get(LIST, query)).text) == is_told
    for name in ("bob", "alice"):
        text = Page(client.get(LIST, {"user": users[name].pk})).text
        assert (name in text, "At most" in text) == (name == "bob", name == "bob")
    # Nor does a site that lists a part say who is in the other.
    serve(NotBob)
    User.objects.create_user("dora")
    for name, is_told in (("bob", False), ("dora", True)):
        assert ("is not signed in" in Page(client.get(LIST, {"q": name})).text) == is_told


@pytest.mark.parametrize("query", ["", "guests=true"])
def test_everyones_sessions_are_ended_with_a_permission_of_its_own(client, users, sids, query: str) -> None:
    everybody = left()
    staff(client, VIEW, END)
    page = Page(client.get(f"{LIST}?{query}"))
    assert not [text for text in page.links if text.startswith("End these") or "everyone else" in text]
    needed = "takes the permission"
    assert needed in told(client.get(f"{CONFIRM}?{query}", follow=True))
    action = {"action": "end_selected", "_selected_action": ["x"], "select_across": "1"}
    assert needed in told(client.post(f"{LIST}?{query}", action, follow=True))
    assert client.post(ENDING, {"query": query, "latest": str(10**15)}).status_code == 403
    assert left() >= everybody
    # A part of them needs none.
    answer(client, client.get(CONFIRM, {"user": users["bob"].pk}))
    assert left() == everybody - {sids["bob"]} | {client.session.sid}
    staff(client, VIEW, END, END_ALL, name="head")
    answer(client, client.get(f"{CONFIRM}?{query}"))
    assert left() == {client.session.sid}


@pytest.mark.parametrize("query", ["", "?q=b"])
def test_no_form_keeps_names_out_of_the_history(client, users, sids, query: str) -> None:
    staff(client, VIEW, END, END_ALL)
    answer(client, client.get(CONFIRM + query), together="on", ended="5000", total="5000")
    named = {str(users[name].pk) for name in ("bob",)} if query == "?q=b" else {str(user.pk) for user in users.values()}
    assert {entry.object_id for entry in LogEntry.objects.all()} == named


def test_each_request_of_an_ending_names_its_users(client, redis, monkeypatch, users, sids) -> None:
    monkeypatch.setattr(ending, "END_MAX", 250)
    monkeypatch.setattr(log_entries, "ENTRIES_MAX", 100)
    fill(redis, 250, viewed=0)
    staff(client, VIEW, END, END_ALL)
    response = answer(client, client.get(CONFIRM))
    # So many have one line together, and the rest has its own lines.
    assert [entry.object_id for entry in LogEntry.objects.all()] == [None]
    answer(client, response)
    named = LogEntry.objects.exclude(object_id=None)
    assert named.count() == LogEntry.objects.count() - 1 == 3


@pytest.mark.parametrize("position", ["0:-inf:", "0:0:", "3:0:x", "9999999:0:x", "0:nan:", "x:y:z"])
def test_no_position_and_no_number_lets_anybody_end_more(client, users, sids, serve, position) -> None:
    serve(NotToEnd)
    staff(client, VIEW, END, END_ALL)
    for query, ended in ((f"user={users['bob'].pk}", set()), ("active=5m&q=alice", {sids["alice"]})):
        before = left()
        fields = {"query": query, "latest": str(milliseconds_ago(0)), "number": "100000000000", "position": position}
        assert client.post(ENDING, fields).status_code in (200, 302)
        assert before - left() <= ended


def forbidden(request: Any, session: OnlineSession | None) -> bool:
    return session is not None and session.user is not None and session.user.get_username() == "bob"


class NotBob(OnlineSessionAdmin):
    """Has a list without bob."""

    def get_queryset(self, request: Any) -> Any:
        others = User.objects.exclude(username="bob")
        return super().get_queryset(request).of_users([str(user.pk) for user in others])  # type: ignore[attr-defined]


class NotToSee(OnlineSessionAdmin):
    """Shows bob in the list, as any admin does that has no queryset of its own, and no more of him."""

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) and not forbidden(request, obj)


class NotToEnd(OnlineSessionAdmin):
    """Shows all of bob, and lets nobody end his sessions."""

    def has_end_permission(self, request: Any, obj: Any = None) -> bool:
        return super().has_end_permission(request, obj) and not forbidden(request, obj)


@pytest.mark.parametrize("kind", [NotBob, NotToSee, NotToEnd], ids=lambda kind: kind.__name__)
@pytest.mark.usefixtures("partitions")
def test_a_session_that_a_rule_forbids_to_end_stays_whatever_is_posted(client, users, sids, serve, kind) -> None:
    serve(kind)
    staff(client, VIEW, END, END_ALL)
    assert asked(client.get(CONFIRM, {"sid": sids["bob"]}, follow=True)) == 0
    selected = {"action": "end_selected", "_selected_action": list(sids.values())}
    assert asked(client.post(LIST, selected, follow=True)) == 2
    queries = ["", f"user={users['bob'].pk}", "q=bob", "active=5m&guests=true", "o=4"]
    latest = [{"latest": str(10**15), "query": query} for query in queries]
    for fields in ({"sids": sids["bob"]}, {"sids": f"{sids['bob']} {'x' * 20}"}, *latest):
        assert client.post(ENDING, fields, follow=True).status_code == 200
        assert online.get(sids["bob"]) is not None, fields
    assert left() == {sids["bob"], client.session.sid}
    assert not LogEntry.objects.filter(object_id=str(users["bob"].pk)).exists()


class UsersWithSessions(UserSessionsMixin, UserAdmin):
    pass


@pytest.mark.parametrize("kind", [NotBob, NotToSee], ids=lambda kind: kind.__name__)
def test_a_session_that_a_rule_forbids_to_see_is_not_looked_up(client, users, sids, serve, kind) -> None:
    serve(kind, UsersWithSessions)
    staff(client, VIEW, END, END_ALL, "view_user", "change_user")
    assert client.get(page_of(sids["bob"])).status_code in (302, 403)
    assert client.get(page_of(sids["alice"])).status_code == 200
    assert Page(client.get(LIST, {"q": sids["bob"]})).rows == []
    unknown = [client.get(CONFIRM, {"sid": sid}, follow=True) for sid in (sids["bob"], "x" * 20)]
    assert told(unknown[0]) == told(unknown[1])
    if kind is NotBob:
        for name, count in (("alice", 1), ("bob", 0)):
            page = Page(client.get(f"/admin/auth/user/{users[name].pk}/change/"))
            assert ("1 session" in page.links, "not signed in" in page.text) == (bool(count), not count)


class AccountsButBobs(UsersWithSessions):
    """Has a list of users without bob."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(username="bob")


class AccountsNotToSee(UsersWithSessions):
    """Shows bob in the list of users, and nobody his page."""

    def has_view_permission(self, request: Any, obj: Any = None) -> bool:
        return super().has_view_permission(request, obj) and (obj is None or obj.username != "bob")


def block(user: User, message: str, by: User | None = None) -> None:
    online.block(user, until=timezone.now() + timedelta(hours=1), message=message, by=by)


def places_of_a_block(user: User) -> list[str]:
    """Where the admin says that a user is blocked."""
    return [BLOCKED, f"{LIST}?q={user.username}", f"/admin/auth/user/{user.pk}/change/"]


LIMITED = [
    *((kind, UsersWithSessions) for kind in (NotBob, NotToSee, NotToEnd)),
    *((OnlineSessionAdmin, kind) for kind in (AccountsButBobs, AccountsNotToSee)),
]


@pytest.mark.parametrize(("of_sessions", "of_users"), LIMITED, ids=lambda kind: kind.__name__)
def test_a_block_is_seen_set_and_lifted_by_who_may_see_and_end_that_user(
    client, users, serve, of_sessions, of_users
) -> None:
    serve(of_sessions, of_users)
    staff(client, VIEW, END, BLOCK, "view_user")
    bob, alice = users["bob"], users["alice"]
    assert 'name="block"' not in client.get(CONFIRM, {"user": bob.pk}, follow=True).text
    assert client.post(ENDING, {"block": f"1 {bob.pk}"}).status_code == 403
    assert online.blocked() == []
    block(bob, "A secret.")
    block(alice, "Call us.", by=bob)
    for url in places_of_a_block(bob):
        assert "A secret." not in Page(client.get(url, follow=True)).text, url
    [table] = Page(client.get(BLOCKED)).tables
    # Who has blocked is named as far as that user may be seen.
    named = f"user {bob.pk}" if of_users is not UsersWithSessions else "bob"
    assert [row[:1] + row[2:4] for row in table[1:]] == [["alice", "Call us.", named]]
    assert client.post(UNBLOCK, {"user": bob.pk}).status_code == 403
    assert client.post(UNBLOCK, {"user": alice.pk}).status_code == 302
    assert [each.user_id for each in online.blocked()] == [str(bob.pk)]


@pytest.mark.parametrize("may", [True, False])
def test_a_block_is_told_to_who_may_block(client, users, serve, may: bool) -> None:
    serve(OnlineSessionAdmin, UsersWithSessions)
    staff(client, VIEW, END, "view_user", *([BLOCK] if may else []))
    block(users["bob"], "A secret.")
    for url in places_of_a_block(users["bob"])[0 if may else 1 :]:
        text = Page(client.get(url)).text
        assert ("A secret." in text, "Blocked until" in text or url == BLOCKED) == (may, may), url


def test_a_rule_is_about_sessions_and_not_users(client, users, serve, new_session) -> None:
    mine, hidden, shown = sign_in(new_session, *[str(users["alice"].pk)] * 3)
    new_session(str(User.objects.create_superuser("root").pk))

    class NotOne(OnlineSessionAdmin):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return super().has_view_permission(request, obj) and (obj is None or obj.sid != hidden)

        def has_end_permission(self, request: Any, obj: Any = None) -> bool:
            """Let also those end a superuser's sessions who are none."""
            return super().has_end_permission(request)

    serve(NotOne)
    staff(client, VIEW, END, END_ALL)
    text = client.get(page_of(mine)).text
    assert (page_of(shown) in text, page_of(hidden) in text) == (True, False)
    client.post(ENDING, {"latest": str(10**15)})
    assert left() == {hidden, client.session.sid}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("query", ["", "?guests=true"])
def test_rules_are_asked_in_each_request(client, redis, monkeypatch, users, sids, serve, new_session, query) -> None:
    class OddStay(OnlineSessionAdmin):
        def has_end_permission(self, request: Any, obj: Any = None) -> bool:
            return super().has_end_permission(request, obj) and (obj is None or obj.sid < "T")

    monkeypatch.setattr(ending, "END_MAX", 10)
    monkeypatch.setattr(ending_of_many, "AT_ONCE_MAX", 10)
    serve(OddStay)
    fill(redis, 36, viewed=0)
    staff(client, VIEW, END, END_ALL)
    before = left()
    question = client.get(CONFIRM + query)
    newcomer = sign_in(new_session, str(users["alice"].pk))[0]
    response, positions = answer(client, question), list[str]()
    # The first question did not name this one.
    assert newcomer in left()
    while asked(response):
        # Each request goes on where the last one stopped.
        positions.append(Page(response).fields["position"])
        assert len({*positions, ""}) == len(positions) + 1 < 10
        response = answer(client, response)
    assert positions
    assert left() - {newcomer} == {sid for sid in before if sid >= "T"} | {client.session.sid}


def test_a_list_of_those_seen_lately_stays_one(client, redis, sids, serve) -> None:
    class SeenLately(OnlineSessionAdmin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).active(600)  # type: ignore[attr-defined]

    make_seen(redis, sids["bob"], milliseconds_ago(3000))
    serve(SeenLately)
    staff(client, VIEW, END, END_ALL)
    for query in ("", "?active=1h", "?active=1d", "?active=1d&guests=true"):
        assert sids["bob"] not in Page(client.get(LIST + query)).sids
        assert sids["alice"] in Page(client.get(LIST + query)).sids
    answer(client, client.get(CONFIRM + "?active=1d"))
    assert left() == {sids["bob"], client.session.sid}


def test_values_of_the_keys_that_a_setting_names_are_hidden(admin_client, new_session, settings) -> None:
    sid = new_session("7", oauth_token="value-of-a-token", basket="value-of-a-basket").sid
    assert "value-of-a-token" in admin_client.get(page_of(sid)).text
    settings.REDSESS = {**settings.REDSESS, "HIDDEN_VALUES": ["oauth_token"]}
    text = admin_client.get(page_of(sid)).text
    assert "value-of-a-token" not in text
    assert "oauth_token" in text
    assert "value-of-a-basket" in text
