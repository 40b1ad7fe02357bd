"""The rows of the admin's list of sessions, what its search and filters find, and what the page says about that."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches, include, path

from django_redsess import viewed
from django_redsess.admin import OnlineSessionAdmin, filters
from django_redsess.models import OnlineSession
from django_redsess.online import searching
from tests.admin.visits import CHROME, FIREFOX, from_place
from tests.helpers.admin_pages import CONFIRM, LIST, Page, answer, asked, page_of, staff
from tests.helpers.online import AdmitsAll, sign_in
from tests.helpers.store import YET_TO_BE_BOUND, binding, make_bound, make_seen, text_of
from tests.project.docs.pages import DOCS, blocks

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]


@pytest.fixture
def clients(users: dict[str, User], new_session: Any) -> dict[str, Any]:
    """The sessions of some users and of a guest, by name. Those of users have an address and a browser."""
    found = {}
    for name, address, user_agent in (
        ("alice", "198.51.100.7", FIREFOX),
        ("bob", "198.51.100.8", CHROME),
        ("carol", "2001:db8::7", FIREFOX),
        ("guest", "198.51.100.7", CHROME),
    ):
        session = new_session(str(users[name].pk)) if name in users else new_session(colour="blue")
        found[name] = from_place(session, address, user_agent)
    return found


def names(client: Client, **query: str) -> list[str]:
    return sorted(Page(client.get(LIST, query, follow=True)).names)


def test_an_address_links_to_the_sessions_from_it(admin_client, clients, new_session) -> None:
    page = Page(admin_client.get(LIST))
    url = urlsplit(page.links["2001:db8::7"])
    assert (url.path, parse_qs(url.query)) == (LIST, {"q": ["2001:db8::7"]})
    assert Page(admin_client.get(page.links["2001:db8::7"])).names == ["carol"]
    # Where nothing is stored, there is no link.
    sid = new_session(colour="blue").sid
    [row] = Page(admin_client.get(LIST, {"guests": "only", "q": sid})).rows
    assert (row["client"], row["signed_in"]) == ("not stored", "-")
    assert [href for href in row["hrefs"] if "?q=" in href] == []
    assert "Where from: not stored" in Page(admin_client.get(page_of(sid))).text


@pytest.mark.usefixtures("clients")
@pytest.mark.parametrize("query", ["active=1h&o=-4", "guests=true&browser=Firefox"])
def test_links_of_a_row_return_to_the_list_as_it_was(admin_client, query) -> None:
    row = next(row for row in Page(admin_client.get(f"{LIST}?{query}")).rows if row["user"] == "alice")
    [end] = [href for href in row["hrefs"] if href.startswith(CONFIRM)]
    [session] = [href for href in row["hrefs"] if "/change/" in href]
    assert parse_qs(urlsplit(end).query)["_changelist_filters"] == [query]
    assert parse_qs(urlsplit(session).query)["_changelist_filters"] == [query]
    assert asked(admin_client.get(end)) == 1
    close = Page(admin_client.get(session)).links["Close"]
    assert parse_qs(urlsplit(close).query) == parse_qs(query)


@pytest.mark.usefixtures("clients")
def test_everyone_else_is_ended_from_the_whole_list_and_what_is_found_from_a_search(admin_client) -> None:
    viewer = staff(Client(), "view_onlinesession")
    everyone, found = "End everyone else's sessions", "End the session that is listed"
    assert asked(admin_client.get(Page(admin_client.get(LIST)).links[everyone])) == 4
    for query in ("?q=alice", "?active=1h", "?guests=true", "?q=nobody"):
        assert everyone not in Page(admin_client.get(LIST + query)).links, query
    page = Page(admin_client.get(LIST, {"q": "198.51.100.0/24"}))
    assert asked(admin_client.get(page.links["End these 2 sessions"])) == page.count == 2
    # Guests alone are not everyone.
    for query in ("?browser=Chrome", "?guests=only"):
        assert found in Page(admin_client.get(LIST + query)).links, query
    for client, query in ((admin_client, ""), (admin_client, "?q=nobody"), (viewer, ""), (viewer, "?q=bob")):
        page = Page(client.get(LIST + query, follow=True))
        assert not [text for text in page.links if text == found or text.startswith("End these")], query
        assert (everyone in page.links) == (client is admin_client and not query)


# A test fills them with the pages of the site that it makes.
urlpatterns: list[Any] = []

asked_for: list[list[str]] = []


def carol_for_the_lamp(items: Collection[str]) -> dict[str, User]:
    """Find the objects of items, as a site's own function does."""
    asked_for.append(sorted(items))
    return {item: User.objects.get(username="carol") for item in items if item == "lamp"}


@pytest.mark.parametrize("column", ["seen", "newest_item"])
def test_an_item_is_named_by_one_lookup_a_page(admin_client, users, clients, settings, monkeypatch, column) -> None:
    asked_for.clear()
    settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": f"{__name__}.carol_for_the_lamp"}
    if column == "newest_item":
        monkeypatch.setattr(OnlineSessionAdmin, "list_display", ("user", "seen", "newest_item"))
    viewed.record(clients["alice"], "lamp")
    viewed.record(clients["bob"], "kite")
    rows = {row["user"]: row for row in Page(admin_client.get(LIST)).rows}
    assert rows["alice"][column].endswith("carol")
    assert f"/admin/auth/user/{users['carol'].pk}/change/" in rows["alice"]["hrefs"]
    assert rows["bob"][column].endswith("kite")
    # An item that has a column is not below the time, too.
    assert ("kite" in rows["bob"]["seen"]) == (column == "seen")
    assert asked_for == [["kite", "lamp"]]


def test_the_columns_of_the_guide_are_shown(admin_client, users, new_session, settings, monkeypatch) -> None:
    [example] = [each.text for each in blocks(DOCS / "howto" / "admin-pages.rst") if "list_display = (" in each.text]
    # It is put back afterwards.
    monkeypatch.setitem(admin.site._registry, OnlineSession, admin.site._registry[OnlineSession])
    exec(example, {"__name__": __name__})
    urlpatterns[:] = [path("admin/", admin.site.urls), path("", include("testproject.shop.urls"))]
    clear_url_caches()
    settings.ROOT_URLCONF = __name__
    session = new_session(str(users["alice"].pk), basket=text_of(5000))
    viewed.record(session, "kite")
    [row] = Page(admin_client.get(LIST, {"q": "alice"})).rows
    assert row["sid"] == session.sid
    assert "day" in row["expires"] or "week" in row["expires"]
    assert "KB" in row["size"]
    assert (row["newest_item"], row["end"]) == ("kite", "End")
    assert "signed_in" not in row


@pytest.mark.usefixtures("clients")
def test_search_finds_an_address_or_a_network(admin_client) -> None:
    for term, found in (
        ("198.51.100.7", ["alice"]),
        (" 198.51.100.0/24 ", ["alice", "bob"]),
        ("2001:db8::/32", ["carol"]),
        ("198.51.100", ["alice", "bob"]),
        ("2001:db8:", ["carol"]),
        ("203.0.113.0/24", []),
        ("0.0.0.0/0", ["alice", "bob"]),
    ):
        assert names(admin_client, q=term) == found, term
    assert "Sessions from 198.51.0.0/16." in Page(admin_client.get(LIST, {"q": "198.51."})).text
    assert "Sessions from" not in Page(admin_client.get(LIST, {"q": "198.51.100.7"})).text
    assert names(admin_client, q="198.51.100.7", guests="true") == ["alice"]


@pytest.mark.usefixtures("clients")
def test_a_search_that_finds_no_user_finds_browsers_and_says_so(admin_client) -> None:
    response = admin_client.get(LIST, {"q": "firefox", "o": "3"}, follow=True)
    page = Page(response)
    assert sorted(page.names) == ["alice", "carol"]
    assert page.messages == ["Nobody who is signed in matches “firefox”. These are the sessions whose browser matches."]
    # What is ended later is what was shown: the address names browsers, whoever signs in meanwhile.
    [(url, _)] = response.redirect_chain
    assert parse_qs(urlsplit(url).query) == {"browser": ["Firefox"], "o": ["3"]}
    assert "Filters: Firefox." in page.text
    assert names(admin_client, q="chrome 120") == ["bob"]
    assert names(admin_client, q="chrome 12") == []


@pytest.mark.usefixtures("clients")
def test_who_is_not_online_can_not_be_told_from_who_does_not_exist(client) -> None:
    User.objects.create_user("firefoxer")
    staff(client, "view_onlinesession")
    known, unknown = (client.get(LIST, {"q": term}) for term in ("firefoxer", "firefoxxx"))
    assert known.status_code == unknown.status_code == 200
    assert known.text.replace("firefoxer", "firefoxxx").count("firefoxxx") == unknown.text.count("firefoxxx")
    assert Page(known).messages == Page(unknown).messages == []
    User.objects.create_user("firefox")
    assert names(client, q="firefox") == ["alice", "carol"]


@pytest.mark.usefixtures("clients")
def test_a_search_only_narrows_what_a_site_lists(admin_client, list_only) -> None:
    list_only(lambda sessions: sessions.of_network("198.51.100.0/24"))
    for query, found in (
        ({}, ["alice", "bob"]),
        ({"q": "198.51.100.8"}, ["bob"]),
        ({"q": "2001:db8::7"}, []),
        ({"q": "0.0.0.0/0"}, ["alice", "bob"]),
        ({"browser": "Chrome"}, ["bob"]),
    ):
        assert names(admin_client, **query) == found, query
        assert "carol" not in admin_client.get(CONFIRM, query, follow=True).text, query


def test_a_site_that_lists_guests_shows_and_ends_no_others(admin_client, clients, list_only) -> None:
    list_only(lambda sessions: sessions.only_guests())
    for query in ({}, {"guests": "true"}, {"guests": "only"}):
        assert names(admin_client, **query) == ["guest"], query
    sid = clients["alice"].sid
    assert names(admin_client, guests="true", q=sid) == []
    assert admin_client.get(page_of(sid)).status_code == 302
    for query in ({"sid": sid}, {"guests": "true"}):
        page = Page(admin_client.get(CONFIRM, query, follow=True))
        assert sid not in page.text, query
        assert "alice" not in page.text, query


def test_users_whom_a_site_hides_take_no_room(admin_client, users, clients, monkeypatch, list_only) -> None:
    User.objects.update(is_staff=True)
    monkeypatch.setattr(filters, "USERS_MAX", 1)
    carol = str(users["carol"].pk)
    assert Page(admin_client.get(LIST, {"q": "a", "user": carol})).names == ["carol"]
    list_only(lambda sessions: sessions.of_users([carol]))
    for query in ({"q": "a"}, {"staff": "true"}):
        page = Page(admin_client.get(LIST, query))
        assert (page.names, page.messages) == (["carol"], [])


def test_a_search_for_what_is_nearly_an_address_says_that_it_is_none(admin_client, new_session) -> None:
    line = "This is neither an address nor a network"
    for term in ("1.2.3.4/33", "192.0.2.007", "[2001:db8::/32"):
        page = Page(admin_client.get(LIST, {"q": term}))
        assert line in page.text, term
        assert page.names == [], term
    for term in ("1234", "a:b", "1.2.3", "203.0.113.9", "2001:db8::9"):
        assert line not in Page(admin_client.get(LIST, {"q": term})).text, term
    sign_in(new_session, str(User.objects.create_user("192.0.2.007").pk))
    page = Page(admin_client.get(LIST, {"q": "192.0.2.007"}))
    assert page.names == ["192.0.2.007"]
    assert line not in page.text


@pytest.mark.usefixtures("clients")
def test_a_search_that_looked_through_a_part_says_how_far(admin_client, monkeypatch) -> None:
    line = "This search looked through the newest 2 sessions only. Older sessions may match, too."
    assert line not in Page(admin_client.get(LIST, {"q": "198.51.100.0/24"})).text
    monkeypatch.setattr(searching, "SCAN_LIMIT", 2)
    text = Page(admin_client.get(LIST, {"q": "0.0.0.0/0"})).text
    assert line in text
    assert "At least " in text
    assert line not in Page(admin_client.get(LIST)).text


def test_whoever_is_searched_for_and_not_signed_in_is_named_with_what_can_be_done(admin_client, clients) -> None:
    lukas = User.objects.create_user("lukas", email="lukas@example.com")
    page = Page(admin_client.get(LIST, {"q": "lukas@"}))
    assert "lukas is not signed in." in page.text
    assert page.links["Open the account"] == f"/admin/auth/user/{lukas.pk}/change/"
    second = answer(admin_client, admin_client.get(page.links["Deactivate the account"]), deactivate=str(lukas.pk))
    response = answer(admin_client, second)
    assert Page(response).messages == ["The account of lukas was deactivated."]
    page = Page(admin_client.get(LIST, {"user": lukas.pk}))
    assert "lukas is not signed in. The account is deactivated." in page.text
    assert "Deactivate the account" not in page.links
    # Who is signed in, but not in this browser, is not said to be away.
    for query in ({"q": "alice"}, {"user": User.objects.get(username="alice").pk}):
        assert "is not signed in" not in Page(admin_client.get(LIST, {**query, "browser": "Chrome"})).text


@pytest.mark.usefixtures("clients")
def test_each_filter_has_a_link_and_all_hold_together(admin_client) -> None:
    links = Page(admin_client.get(LIST)).links
    for text, found in (("Firefox", ["alice", "carol"]), ("Windows", ["bob"]), ("Guests, by last seen", ["guest"])):
        filtered = Page(admin_client.get(LIST + links[text]))
        assert sorted(filtered.names) == found
        assert f"Filters: {text}." in filtered.text
    for query, found in (
        ({"system": "Linux", "q": "198.51.100.0/24"}, ["alice"]),
        ({"browser": "Firefox", "q": "carol"}, ["carol"]),
        ({"browser": "Chrome", "guests": "true", "active": "1h"}, ["bob"]),
        ({"browser": "Chrome", "system": "Linux"}, []),
        ({"browser": "Firefox", "q": "chrome"}, []),
        ({"browser": "Nonsense"}, []),
        ({"browser": ""}, ["admin", "alice", "bob", "carol"]),
    ):
        page = Page(admin_client.get(LIST, query))
        assert (sorted(page.names), page.count) == (found, len(found)), query


@pytest.mark.usefixtures("clients")
def test_sessions_that_are_bound_have_a_mark_and_a_filter(admin_client, redis, clients, monkeypatch) -> None:
    texts = ("device-bound", "Bound to its device", "Not bound to a device")
    assert not [text for text in texts if text in Page(admin_client.get(LIST)).text]
    # A link to a filter that is not there must not find everybody: what it finds can be ended.
    assert admin_client.get(LIST, {"device_bound": "true"}).status_code == 302
    monkeypatch.setattr(binding, "guard", AdmitsAll())
    for name in ("alice", "bob"):
        make_bound(redis, clients[name].sid)
    make_bound(redis, clients["carol"].sid, binding=YET_TO_BE_BOUND)
    page = Page(admin_client.get(LIST))
    assert {row["user"] for row in page.rows if "device-bound" in row["client"]} == {"alice", "bob"}
    assert names(admin_client, device_bound="true") == ["alice", "bob"]
    assert sorted(Page(admin_client.get(LIST + page.links["Not bound to a device"])).names) == ["admin", "carol"]
    assert names(admin_client, device_bound="true", browser="Chrome", q="198.51.100.0/24") == ["bob"]
    assert names(admin_client, device_bound="false", guests="true") == ["admin", "carol", "guest"]
    assert names(admin_client, device_bound="other") == ["admin", "alice", "bob", "carol"]
    page = Page(admin_client.get(LIST, {"device_bound": "true"}))
    assert "Filters: Bound to its device." in page.text
    assert asked(admin_client.get(page.links["End these 2 sessions"])) == 2


def test_the_first_filter_is_active_and_finds_those_whom_the_heading_counts(
    admin_client, redis, clients, list_only
) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    # The time is rounded down by up to ten seconds: alice may have been seen 299 seconds ago.
    for name, seconds in (("alice", 305), ("bob", 315), ("guest", 305)):
        make_seen(redis, clients[name].sid, now - seconds * 1000)
    response = admin_client.get(LIST)
    page = Page(response)
    assert "4 signed in, 3 active now" in page.text
    active, guests = "Active: in the last 5 minutes", "Guests, by last seen"
    assert response.text.index(active) < response.text.index(guests)
    assert sorted(Page(admin_client.get(LIST + page.links[active])).names) == ["admin", "alice", "carol"]
    assert names(admin_client, active="5m", guests="only") == ["guest"]
    list_only(lambda sessions: sessions.of_network("198.51.100.0/24"))
    assert "2 signed in, 1 active now" in Page(admin_client.get(LIST)).text


@pytest.mark.usefixtures("clients")
def test_an_empty_list_says_what_is_not_stored(admin_client) -> None:
    page = Page(admin_client.get(LIST, {"q": "203.0.113.9", "system": "Linux"}))
    assert parse_qs(page.links["Clear the search"].lstrip("?")) == {"system": ["Linux"]}
    page = Page(admin_client.get(LIST, {"browser": "Firefox", "guests": "only"}))
    assert "The browsers of guests are not stored." in page.text
    for guests, is_told in (("true", True), ("only", True), ("", False)):
        page = Page(admin_client.get(LIST, {"q": "198.51.100.0/24", "guests": guests}))
        assert ("The addresses of guests are not stored." in page.text) == is_told


def test_a_site_with_another_engine_is_told_why_the_list_knows_nobody(admin_client, settings, db) -> None:
    told = "SESSION_ENGINE is another engine"
    assert told not in Page(admin_client.get(LIST)).text
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.db"
    client = Client()
    client.force_login(User.objects.get(username="admin"))
    assert told in Page(client.get(LIST)).text


def test_who_is_signed_in_by_this_request_is_not_told_of_another_engine(admin_user, settings) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.RemoteUserMiddleware"]
    settings.AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.RemoteUserBackend"]
    response = Client().get(LIST, REMOTE_USER=admin_user.username)
    assert response.status_code == 200
    assert "another engine" not in Page(response).text


def test_a_list_of_networks_is_a_filter_and_a_search_that_no_user_matches_finds_it(
    admin_client, users, new_session, settings, tmp_path
) -> None:
    exits = tmp_path / "exits.txt"
    exits.write_text("198.51.100.7\n# IPv6\n2001:db8::/32\n")
    for name, address in (("alice", "198.51.100.7"), ("bob", "2001:db8::7"), ("carol", "192.0.2.7")):
        from_place(new_session(str(users[name].pk)), address, CHROME)
    assert "By network" not in Page(admin_client.get(LIST)).text
    settings.REDSESS = {**settings.REDSESS, "NETWORKS": {"Exits": exits}}
    page = Page(admin_client.get(LIST + Page(admin_client.get(LIST)).links["Exits"]))
    assert sorted(page.names) == ["alice", "bob"]
    assert asked(admin_client.get(page.links["End these 2 sessions"])) == 2
    response = admin_client.get(LIST, {"q": "exits"}, follow=True)
    assert sorted(Page(response).names) == ["alice", "bob"]
    assert "This is the list of networks with this name." in Page(response).text
    # A file that can't be used, and a name that is none, must not find everybody.
    exits.write_text("198.51.100.7\nnonsense\n")
    for name, said in (("Exits", "The log says why."), ("nothing", "neither a network nor the name of a list")):
        page = Page(admin_client.get(LIST, {"network": name}))
        assert (list(page.names), said in page.text, "End these" in page.text) == ([], True, False)
        assert asked(admin_client.get(CONFIRM, {"network": name}, follow=True)) == 0
