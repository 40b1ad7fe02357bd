"""A site's own rules hold for the pages of the admin and for the API alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.contrib.auth.models import User
from django.core import signing
from django.test import Client
from django.urls import URLResolver, clear_url_caches, path

from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin
from django_redsess.contrib import api
from django_redsess.contrib.api import administration
from django_redsess.contrib.history.models import SignIn
from django_redsess.models import OnlineSession
from django_redsess.permissions import Rules
from tests.admin.visits import from_place
from tests.helpers.accounts import sid_of, sign_in
from tests.helpers.admin_pages import CONFIRM, END, LIST, Page, answer, page_of, staff
from tests.helpers.api import API, ask, get, ids, status, walk
from tests.helpers.checks import found, messages

pytestmark = pytest.mark.django_db

urlpatterns: list[URLResolver] = []

PERMISSIONS = ("view_onlinesession", "end_onlinesession", "end_all_onlinesession", "block_user", "export_onlinesession")


def ids_of_all_but_alice() -> list[str]:
    return [str(user.pk) for user in User.objects.exclude(username="alice")]


class NotListed(Rules):
    def visible_sessions(self, user: Any, sessions: Any) -> Any:
        return sessions.of_users(ids_of_all_but_alice())


class NotToSee(Rules):
    def may_see(self, user: Any, session: Any = None) -> bool:
        return super().may_see(user, session) and str(session) != "alice"


class NotToEnd(Rules):
    def may_end(self, user: Any, session: Any = None) -> bool:
        return super().may_end(user, session) and str(session) != "alice"


class Protected(NotToEnd):
    def protected_user_ids(self, user: Any) -> list[str]:
        return [str(user.pk) for user in User.objects.filter(username="alice")]


class NotToBlock(Rules):
    def may_see_block(self, user: Any, other: Any = None) -> bool:
        return super().may_see_block(user, other) and str(other) != "alice"


RULES = [NotListed, NotToSee, NotToEnd, Protected]


@pytest.fixture
def bob(db) -> User:
    return User.objects.create_user("bob")


@pytest.fixture(params=RULES, ids=lambda rules: rules.__name__)
def rules(request, settings) -> type[Rules]:
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.{request.param.__name__}"}
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def administrator(db) -> Client:
    return staff(Client(), *PERMISSIONS)


def test_who_is_seen(alice, bob, administrator, rules) -> None:
    of_alice, of_bob = sid_of(sign_in(alice)), sid_of(sign_in(bob))
    is_seen = rules in (NotToEnd, Protected)
    # The list of the admin has all rows of its queryset.
    assert (of_alice in Page(administrator.get(LIST)).sids) == (rules is not NotListed)
    assert (of_alice in walk(administrator, "sessions")) == is_seen
    assert (administrator.get(page_of(of_alice)).status_code == 200) == is_seen
    assert (status(administrator, "get", f"sessions/{of_alice}") == 200) == is_seen
    exported = b"".join(administrator.post(f"{LIST}export/", {"format": "json"}).streaming_content).decode()
    assert (of_alice in exported, of_bob in exported) == (is_seen, True)
    assert administrator.get(page_of(of_bob)).status_code == status(administrator, "get", f"sessions/{of_bob}") == 200


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("rules", [NotListed, NotToSee], indirect=True)
def test_hidden_sessions_are_not_counted(alice, bob, administrator, rules) -> None:
    for user in (alice, alice, bob):
        sign_in(user)
    assert get(administrator, "counts") == {"signed_in": 2, "guests": 0, "active": 2}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("rules", [NotListed, NotToSee], indirect=True)
@pytest.mark.parametrize("limit", [1, 2, 50])
def test_no_page_and_no_cursor_tells_of_a_hidden_session(alice, bob, administrator, rules, limit) -> None:
    # The newest, the oldest and those between are hidden.
    hidden, shown = list[str](), list[str]()
    for user in (alice, bob, alice, alice, bob, bob, alice):
        (hidden if user is alice else shown).append(sid_of(sign_in(user)))
    shown.append(sid_of(administrator))
    for query in ({}, {"order": "created_at"}, {"order": "-last_seen_at"}, {"active": "1h"}, {"guests": "true"}):
        pages = pages_of(administrator, "sessions", limit=limit, **query)
        found = [each for page in pages for each in ids(page)]
        assert sorted(found) == sorted(shown)
        assert [len(ids(page)) for page in pages[:-1]] == [limit] * (len(pages) - 1)
        assert ids(pages[-1])
        cursors = "".join(
            signing.b64_decode(page["next_cursor"].partition(":")[0].encode()).decode() for page in pages[:-1]
        )
        assert not [sid for sid in hidden if sid in cursors]
    nobody = pages_of(administrator, f"users/{alice.pk}/sessions", limit=limit)
    assert nobody == [{"sessions": [], "next_cursor": None, "looked_through": None}]


@pytest.mark.parametrize("rules", [NotToSee], indirect=True)
def test_a_rule_for_each_session_is_asked_a_limited_number_of_times(
    alice, bob, administrator, rules, monkeypatch
) -> None:
    for user in (bob, alice, alice, alice, bob):
        sign_in(user)
    monkeypatch.setattr(administration, "SCAN_LIMIT", 2)
    monkeypatch.setattr(administration, "ROWS_AT_ONCE", 1)
    assert ask(administrator, "get", "counts").json()["type"].endswith("#too-many-to-count")
    first, last = pages_of(administrator, "sessions", order="-created_at")
    assert [each["user"] for each in first["sessions"]] == ["bob"]
    assert last == {"sessions": [], "next_cursor": None, "looked_through": {"count": 2, "is_all": False}}


@pytest.mark.parametrize("rules", [NotToSee], indirect=True)
def test_a_search_tells_of_no_hidden_session(alice, bob, administrator, rules, new_session) -> None:
    for user in (alice, bob, alice):
        from_place(new_session(str(user.pk)), "198.51.100.7")
    pages = pages_of(administrator, "sessions", limit=1, network="198.51.100.0/24")
    assert [[each["user"] for each in page["sessions"]] for page in pages] == [["bob"]]
    assert pages[0]["looked_through"] is None


class NotToSeeSignIns(Rules):
    def may_see_sign_in(self, user: Any, sign_in: Any = None) -> bool:
        return super().may_see_sign_in(user) and (sign_in is None or str(sign_in.user) != "alice")


@pytest.mark.parametrize("rules", [NotToSeeSignIns], indirect=True)
def test_a_list_of_sign_ins_tells_of_no_hidden_one(alice, bob, rules) -> None:
    client = staff(Client(), "view_signin")
    for number, user in enumerate((alice, bob, alice, alice, bob, alice)):
        SignIn.objects.create(user_id=user.pk, login_ms=1_700_000_000_000 + number)
    pages = pages_of(client, "sign-ins", limit=1, user=[alice.pk, bob.pk])
    assert [[each["user_id"] for each in page["sign_ins"]] for page in pages] == [[str(bob.pk)]] * 2
    assert [page["next_cursor"] is None for page in pages] == [False, True]


def pages_of(client: Client, path: str, **query: Any) -> list[Any]:
    pages = [get(client, path, **query)]
    while pages[-1]["next_cursor"]:
        pages.append(get(client, path, **query, cursor=pages[-1]["next_cursor"]))
    return pages


@pytest.mark.usefixtures("partitions")
def test_whose_sessions_the_admin_ends(alice, bob, administrator, rules) -> None:
    of_alice, of_bob = sid_of(sign_in(alice)), sid_of(sign_in(bob))
    administrator.post(END, {"sids": of_alice})
    administrator.post(END, {"query": f"user={alice.pk}", "latest": str(10**15)})
    assert online.get(of_alice)
    answer(administrator, administrator.get(CONFIRM))
    assert (online.get(of_alice) is None, online.get(of_bob)) == (False, None)


def test_whose_sessions_the_api_ends(alice, bob, administrator, rules) -> None:
    of_alice, of_bob = sid_of(sign_in(alice)), sid_of(sign_in(bob))
    assert status(administrator, "delete", f"sessions/{of_alice}") == (403 if rules in (NotToEnd, Protected) else 404)
    administrator.delete(f"{API}users/{alice.pk}/sessions")
    ended = ask(administrator, "post", "sessions/end", {"ids": [of_alice, of_bob]}).json()["ended"]
    assert (online.get(of_alice) is None, ended) == (False, [of_bob])
    of_bob = sid_of(sign_in(bob))
    assert ask(administrator, "delete", f"users/{bob.pk}/sessions").json()["ended"] == 1


@pytest.mark.parametrize("rules", [*RULES, NotToBlock], indirect=True)
def test_who_is_blocked(alice, bob, administrator, rules) -> None:
    until = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    assert administrator.post(END, {"block": f"1 {alice.pk}"}).status_code == 403
    assert status(administrator, "put", f"users/{alice.pk}/block", {"until": until}) == 403
    assert online.blocked() == []
    online.block(alice, until=datetime.now(UTC) + timedelta(hours=1), message="A secret.")
    assert "A secret." not in administrator.get(f"{LIST}blocked/").text
    assert "A secret." not in ask(administrator, "get", f"users/{alice.pk}/block").text
    assert administrator.post(f"{LIST}unblock/", {"user": alice.pk}).status_code == 403
    assert status(administrator, "delete", f"users/{alice.pk}/block") == 403
    assert online.block_of(alice)
    assert status(administrator, "put", f"users/{bob.pk}/block", {"until": until}) == 200
    assert administrator.post(f"{LIST}unblock/", {"user": bob.pk}).status_code == 302
    assert online.block_of(bob) is None


class ByName(Rules):
    """Asks for no permission of Django's."""

    def may_see(self, user: Any, session: Any = None) -> bool:
        return bool(user.get_username() == "staff")

    def may_end(self, user: Any, session: Any = None) -> bool:
        return bool(user.get_username() == "staff")


def test_rules_may_allow_more_than_permissions(alice, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.ByName"}
    administrator, sid = staff(Client()), sid_of(sign_in(alice))
    assert LIST in administrator.get("/admin/").text
    assert sid in Page(administrator.get(LIST)).sids
    assert sid in ids(get(administrator, "sessions"))
    assert status(administrator, "delete", f"sessions/{sid}") == 204
    other = staff(Client(), *PERMISSIONS, name="other")
    assert other.get(LIST).status_code == status(other, "get", "sessions") == 403


def test_a_check_names_rules_of_the_pages_that_the_api_does_not_ask(settings) -> None:
    class OwnPages(OnlineSessionAdmin):
        list_display = ("user",)

    class OwnRules(OwnPages):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude()

        def has_end_permission(self, request: Any, obj: Any = None) -> bool:
            return False

    own_site = AdminSite(name="own")
    own_site.register(OnlineSession, OwnPages)
    urlpatterns[:] = [
        path("admin/", admin.site.urls),
        path("own/", own_site.urls),
        path("api/", api.urls()),
    ]
    clear_url_caches()
    settings.ROOT_URLCONF = __name__
    assert found() == []
    own_site.unregister(OnlineSession)
    own_site.register(OnlineSession, OwnRules)
    assert found() == ["W099"]
    assert "get_queryset, has_end_permission" in messages()[0].msg
    for without in (1, 2):  # The admin, and the API.
        clear_url_caches()
        left_out = urlpatterns.pop(without)
        assert "W099" not in found()
        urlpatterns.insert(without, left_out)
    clear_url_caches()
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.NotToEnd"}
    assert found() == []
