"""The admin's list of sessions, and the page of one."""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any
from urllib.parse import parse_qs

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from django.utils.formats import date_format

from benchmarks.fill import fill
from django_redsess import online, viewed
from django_redsess.admin import OnlineSessionAdmin
from django_redsess.admin.session_page import SessionPage, duration
from django_redsess.backend import SessionStore
from django_redsess.models import OnlineSession
from django_redsess.online import listing
from django_redsess.session.record import Client as Visitor
from django_redsess.session.saving import Visit
from django_redsess.transport.keys import keyspace
from tests.helpers.admin_pages import LIST, MARKUP, Page, asked, milliseconds_ago, page_of, staff, walk
from tests.helpers.behind import make_due, make_older, make_seen, make_signed_in, text_of

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]


FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


SECRETS = {"_auth_user_hash": "hash-3a91", "_csrftoken": "token-77c0", "_password_reset_token": "reset-f5d2"}

STRANGE = {
    "percent": "%",
    "underscore": "_",
    "backslash": "\\",
    "asterisk": "*",
    "quotes": "' OR 1=1 --",
    "an open quote": '"alice',
    "a name of a key": "{redsess}:login",
    "10,000 characters": "x" * 10_000,
    "thousands of words": "a " * 3000,
    "sid-like": "x" * 20,
    "sid-like and long": "x" * 5000,
    "not ASCII": "é\u2028\U0001f511",
}


def opened(session: SessionStore, address: str = "192.0.2.7", user_agent: str = FIREFOX) -> SessionStore:
    """Save ``session`` as one of a visitor with this address and browser."""
    session.visit = Visit(lambda: Visitor(address, user_agent))
    session.save()
    return session


@pytest.fixture
def new_session(new_session) -> Callable[..., Any]:
    """Sign in a moment after whoever did before: within a millisecond, the order is that of the sids."""

    def create(*args: Any, **data: Any) -> Any:
        threading.Event().wait(0.002)
        return new_session(*args, **data)

    return create


# What a row says.


def test_list_shows_who_is_online_newest_sign_in_first(admin_client, sids) -> None:
    assert Page(admin_client.get(LIST)).names == ["carol", "bob", "alice", "admin"]


def test_a_row_says_who_from_where_when_and_what_was_viewed_last(admin_client, users, new_session) -> None:
    session = opened(new_session(str(users["alice"].pk)))
    viewed.record(session, "lamp")
    viewed.record(session, "kite")
    row = Page(admin_client.get(LIST)).rows[0]
    assert row["user"] == "alice"
    assert row["sid"] == session.sid
    assert row["client"] == "Firefox 140 on Linux 192.0.2.7"
    assert row["signed_in"] == "just now"
    assert row["seen"] == "just now kite"
    assert row["end"] == "End"
    assert not {"expires", "size", "newest_item"} & set(row)


def test_what_a_real_request_came_from_is_shown(admin_client) -> None:
    User.objects.create_user("alice", password="secret")
    shopper = Client(REMOTE_ADDR="198.51.100.9", headers={"user-agent": FIREFOX})
    shopper.post("/login/", {"username": "alice", "password": "secret"})
    row = Page(admin_client.get(LIST)).rows[0]
    assert row["user"] == "alice"
    assert "198.51.100.9" in row["text"]
    assert "Firefox 140 on Linux" in row["text"]


@pytest.mark.clock
def test_a_time_is_told_in_words_and_exactly_on_hover(admin_client, redis, sids) -> None:
    at = milliseconds_ago(150)
    make_seen(redis, sids["carol"], at)
    response = admin_client.get(LIST)
    assert Page(response).rows[0]["seen"] == "2 minutes ago"
    local = timezone.localtime(datetime.fromtimestamp(at / 1000, UTC))
    assert f'title="{date_format(local, "DATETIME_FORMAT")} {local.tzname()}"' in response.text


def test_without_a_parser_of_user_agents_the_browser_is_shown_as_it_came(
    admin_client, users, new_session, monkeypatch
) -> None:
    opened(new_session(str(users["alice"].pk)))
    monkeypatch.setitem(sys.modules, "ua_parser", None)
    assert FIREFOX in Page(admin_client.get(LIST)).rows[0]["text"]


@pytest.mark.clock
def test_a_subclass_chooses_the_columns(admin_client, users, new_session, monkeypatch) -> None:
    session = new_session(str(users["alice"].pk), basket=text_of(5000))
    viewed.record(session, "kite")
    monkeypatch.setattr(OnlineSessionAdmin, "list_display", ("user", "seen", "expires", "size", "newest_item"))
    row = Page(admin_client.get(LIST)).rows[0]
    assert row["sid"] == session.sid
    assert row["expires"] == "in 13 days" or "week" in row["expires"]
    assert "KB" in row["size"]
    # The item has a column, so it is not below the time.
    assert (row["newest_item"], row["seen"]) == ("kite", "just now")
    assert not {"client", "end"} & set(row)


def test_the_own_session_is_marked_and_no_other(admin_client, sids) -> None:
    marked = {row["user"]: row["own"] for row in Page(admin_client.get(LIST)).rows}
    assert marked.pop("admin")
    assert set(marked.values()) == {""}


def test_a_session_of_a_deleted_user_is_listed_as_that(admin_client, users, sids) -> None:
    user_id = users["bob"].pk
    users["bob"].delete()
    row = Page(admin_client.get(LIST)).rows[1]
    assert row["user"] == f"deleted user {user_id}"
    assert not any("/auth/user/" in href for href in row["hrefs"])


def test_an_empty_list_says_so(client) -> None:
    staff(client, "view_onlinesession")
    page = Page(client.get(LIST + "?q=nobody"))
    assert (page.count, page.rows) == (0, [])


def test_a_user_agent_of_a_megabyte_full_of_markup_is_shown_as_text(admin_client) -> None:
    User.objects.create_user("alice", password="secret")
    shopper = Client(headers={"user-agent": MARKUP + "<script>" * 125_000})
    shopper.post("/login/", {"username": "alice", "password": "secret"})
    response = admin_client.get(LIST)
    assert MARKUP in Page(response).rows[0]["text"]
    for url in (LIST, page_of(shopper.session.sid), f"{LIST}confirm/?sid={shopper.session.sid}"):
        shown = admin_client.get(url)
        assert shown.status_code == 200
        assert "<script>alert" not in shown.text
        assert "<b onclick" not in shown.text


def test_an_item_full_of_markup_is_shown_as_text(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    item = "</td><script>alert('x')</script>"
    viewed.record(session, item)
    assert item in Page(admin_client.get(LIST)).rows[0]["seen"]
    for url in (LIST, page_of(session.sid)):
        assert "<script>alert" not in admin_client.get(url).text


def test_a_user_name_full_of_markup_is_shown_as_text(admin_client, new_session) -> None:
    user = User.objects.create(username=MARKUP)
    session = new_session(str(user.pk))
    pages = (
        LIST,
        f"{LIST}?user={user.pk}",
        page_of(session.sid),
        f"{LIST}confirm/?sid={session.sid}",
        f"{LIST}confirm/?user={user.pk}",
    )
    assert Page(admin_client.get(LIST)).names[0] == MARKUP
    for url in pages:
        assert "<script>alert" not in admin_client.get(url).text


def test_no_page_shows_a_session_key(admin_client, users, new_session) -> None:
    sessions = [new_session(str(users["alice"].pk)), new_session(str(users["alice"].pk)), new_session(colour="blue")]
    keys = [session.session_key for session in sessions] + [admin_client.session.session_key]
    urls = [LIST, LIST + "?who=everyone", LIST + "confirm/", *(page_of(session.sid) for session in sessions)]
    for url in [*urls, page_of(admin_client.session.sid), f"/admin/auth/user/{users['alice'].pk}/change/"]:
        page = admin_client.get(url)
        assert page.status_code == 200
        assert not any(key in page.text for key in keys), "a session key is in the page"


# In which order.


@pytest.mark.parametrize("query", ["", "?staff=&o=", "?user=ALL"])
@pytest.mark.parametrize(
    ("header", "order"),
    [("Signed in", ["alice", "bob", "carol"]), ("Last seen", ["carol", "alice", "bob"])],
)
def test_a_header_sorts_and_once_more_the_other_way_round(
    admin_client, redis, users, sids, header, order, query
) -> None:
    for ago, name in enumerate(reversed(order)):
        # Only the order by last seen has to be made: signed in they did one after the other.
        if header == "Last seen":
            make_seen(redis, sids[name], milliseconds_ago(60 * (ago + 1)))
    query = query.replace("user=ALL", "&".join(f"user={user.pk}" for user in users.values()))
    page = Page(admin_client.get(LIST + query))
    orders = []
    for _ in range(2):
        [href] = [href for text, href in page.all_links if text == header and "o=" in href]
        page = Page(admin_client.get(LIST + href))
        orders.append([name for name in page.names if name != "admin"])
    assert sorted(orders) == sorted([order, order[::-1]])


@pytest.mark.parametrize("query", ["?who=everyone", "?active=1h"])
def test_what_is_listed_by_last_seen_sorts_by_nothing_else(admin_client, redis, sids, query) -> None:
    for minutes, name in ((3, "carol"), (1, "alice"), (2, "bob")):
        make_seen(redis, sids[name], milliseconds_ago(60 * minutes))
    page = Page(admin_client.get(LIST + query))
    assert [name for name in page.names if name != "admin"] == ["alice", "bob", "carol"]
    assert "Signed in" not in {text for text, href in page.links.items() if "o=" in href}
    orders = []
    for _ in range(2):
        page = Page(admin_client.get(LIST + page.links["Last seen"]))
        orders.append([name for name in page.names if name != "admin"])
    assert sorted(orders) == [["alice", "bob", "carol"], ["carol", "bob", "alice"]]
    # An address that somebody kept from before.
    assert admin_client.get(f"{LIST}{query}&o=3").status_code == 200


def test_an_order_by_sign_in_does_not_stand_in_the_way_of_the_other_list(admin_client, sids) -> None:
    page = Page(admin_client.get(LIST + "?o=3"))
    everyone = Page(admin_client.get(LIST + page.links["Everyone, by last seen"]))
    assert len(everyone.rows) == 4


# Filters.


def test_guests_are_listed_with_everyone_only(admin_client, sids, new_session) -> None:
    guest = new_session(colour="blue")
    page = Page(admin_client.get(LIST))
    assert guest.sid not in page.sids
    assert page.count == 4
    everyone = Page(admin_client.get(LIST + page.links["Everyone, by last seen"]))
    assert {row["sid"]: row["user"] for row in everyone.rows}[guest.sid] == "guest"
    assert everyone.count == 5
    back = Page(admin_client.get(LIST + everyone.links["Signed in"]))
    assert guest.sid not in back.sids


def test_everyone_is_listed_by_last_seen(admin_client, redis, sids, new_session) -> None:
    guest = new_session(colour="blue")
    make_seen(redis, guest.sid, milliseconds_ago(90))
    for name, minutes in (("alice", 1), ("carol", 2), ("bob", 3)):
        make_seen(redis, sids[name], milliseconds_ago(60 * minutes))
    names = Page(admin_client.get(LIST + "?who=everyone")).names
    assert names == ["admin", "alice", "guest", "carol", "bob"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("In the last 5 minutes", ["admin", "alice"]),
        ("In the last hour", ["admin", "alice", "bob"]),
        ("In the last day", ["admin", "alice", "bob", "carol"]),
    ],
)
def test_a_filter_leaves_those_that_were_seen_lately(admin_client, redis, users, new_session, text, names) -> None:
    User.objects.create_user("dave")
    for name, hours in (("carol", 20), ("dave", 30), ("bob", 0.5), ("alice", 0.05)):
        session = new_session(str(User.objects.get(username=name).pk))
        make_seen(redis, session.sid, milliseconds_ago(3600 * hours))
    page = Page(admin_client.get(LIST))
    page = Page(admin_client.get(LIST + page.links[text]))
    assert page.names == names
    assert page.count == len(names)


def test_a_filter_leaves_staff(admin_client, users, sids) -> None:
    User.objects.filter(username="bob").update(is_staff=True)
    page = Page(admin_client.get(LIST))
    page = Page(admin_client.get(LIST + page.links["Staff only"]))
    assert page.names == ["bob", "admin"]
    assert page.count == 2


def test_a_filter_leaves_the_users_of_the_address(admin_client, users, sids) -> None:
    page = Page(admin_client.get(f"{LIST}?user={users['bob'].pk}"))
    assert (page.names, page.count) == (["bob"], 1)
    assert "bob" in page.links
    page = Page(admin_client.get(f"{LIST}?user={users['bob'].pk}&user={users['alice'].pk}"))
    assert (page.names, page.count) == (["bob", "alice"], 2)
    # Named twice is the same user.
    page = Page(admin_client.get(f"{LIST}?user={users['bob'].pk}&user={users['bob'].pk}"))
    assert (page.names, page.count) == (["bob"], 1)


@pytest.mark.parametrize(
    "user_id",
    ["a:b", "a b", "  ", "", ":", "None", "{redsess}", "%00", "é", "9" * 30, "-1", "1.5", "x" * 5000, "%3Cscript%3E"],
    ids=lambda user_id: user_id[:9],
)
def test_a_user_whom_nobody_knows_has_no_sessions(admin_client, sids, user_id) -> None:
    response = admin_client.get(f"{LIST}?user={user_id}")
    assert response.status_code == 200
    page = Page(response)
    assert (page.names, page.count) == ([], 0)


def test_sessions_of_a_user_whose_key_is_text_are_listed(admin_client, new_session) -> None:
    session = new_session("a: b/c")
    page = Page(admin_client.get(LIST, {"user": "a: b/c"}))
    assert page.sids == [session.sid]
    assert admin_client.get(page_of(session.sid)).status_code == 200


def test_filters_and_search_hold_together(admin_client, redis, users, sids, new_session) -> None:
    User.objects.filter(username__in=["alice", "bob"]).update(is_staff=True)
    make_seen(redis, sids["alice"], milliseconds_ago(3000))
    new_session(colour="blue")

    def names(query: str) -> list[str]:
        page = Page(admin_client.get(LIST + query))
        assert page.count == len(page.rows)
        return page.names

    assert names("?staff=1&active=5m") == ["bob", "admin"]
    assert names("?staff=1&active=1h&who=everyone") == ["bob", "admin", "alice"]
    assert names("?who=everyone&active=5m") == ["guest", "carol", "bob", "admin"]
    assert names(f"?staff=1&user={users['carol'].pk}") == []
    assert names(f"?staff=1&user={users['carol'].pk}&user={users['bob'].pk}") == ["bob"]
    assert names("?staff=1&q=bob") == ["bob"]
    assert names("?staff=1&q=carol") == []
    assert names("?active=5m&q=alice") == []
    assert names("?active=1h&q=alice") == ["alice"]
    assert names("?who=everyone&q=alice") == ["alice"]
    assert names(f"?user={users['bob'].pk}&q=alice") == []
    assert names(f"?staff=1&q={sids['carol']}") == []
    assert names(f"?staff=1&q={sids['bob']}") == ["bob"]


def test_a_session_found_by_its_id_has_to_fit_the_filters(admin_client, redis, sids) -> None:
    make_seen(redis, sids["alice"], milliseconds_ago(3000))
    assert Page(admin_client.get(f"{LIST}?active=1h&q={sids['alice']}")).names == ["alice"]
    assert Page(admin_client.get(f"{LIST}?active=5m&q={sids['alice']}")).names == []


def test_who_is_due_is_not_counted(admin_client, redis, sids) -> None:
    make_due(redis, sids["bob"])
    page = Page(admin_client.get(LIST))
    assert (page.count, page.names) == (3, ["carol", "alice", "admin"])


# Search.


def test_search_finds_part_of_a_user_name(admin_client, sids) -> None:
    assert Page(admin_client.get(LIST + "?q=ARO")).names == ["carol"]
    assert Page(admin_client.get(LIST + "?q=nobody")).names == []


@pytest.mark.parametrize("term", ["Wonder", "alice@example.com", "Liddell", "alice liddell", '"alice"'])
def test_search_looks_where_the_page_of_users_looks(admin_client, sids, term) -> None:
    changes = {"first_name": "Wonderful", "last_name": "Liddell", "email": "alice@example.com"}
    User.objects.filter(username="alice").update(**changes)
    assert Page(admin_client.get(LIST, {"q": term})).names == ["alice"]


def test_search_finds_a_session_by_its_id(admin_client, sids, new_session) -> None:
    assert Page(admin_client.get(LIST, {"q": sids["bob"]})).names == ["bob"]
    assert Page(admin_client.get(LIST, {"q": f"  {sids['bob']} "})).names == ["bob"]


def test_search_finds_a_guests_session_by_its_id(admin_client, sids, new_session) -> None:
    guest = new_session(colour="blue")
    page = Page(admin_client.get(LIST, {"q": guest.sid}))
    assert (page.names, page.sids, page.count) == (["guest"], [guest.sid], 1)


@pytest.mark.parametrize("term", STRANGE.values(), ids=STRANGE)
def test_a_strange_search_term_finds_nothing_and_breaks_nothing(admin_client, sids, term) -> None:
    response = admin_client.get(LIST, {"q": term})
    assert response.status_code == 200
    assert Page(response).names == []


@pytest.mark.parametrize("term", ["%00", "alice%00", "%ff%fe", "%ED%A0%80"])
def test_a_search_term_that_is_no_text_breaks_nothing(admin_client, sids, term) -> None:
    assert admin_client.get(f"{LIST}?q={term}").status_code == 200


def test_a_search_for_blanks_lists_all(admin_client, sids) -> None:
    assert len(Page(admin_client.get(LIST, {"q": "   "})).rows) == 4


def test_a_search_that_fits_too_many_users_says_that_it_is_cut(admin_client) -> None:
    User.objects.bulk_create(User(username=f"shopper{number}") for number in range(1001))
    messages = Page(admin_client.get(LIST + "?q=shopper")).messages
    assert len(messages) == 1
    assert "More than 1000 users match" in messages[0]
    assert Page(admin_client.get(LIST + "?q=shopper99")).messages == []


# Addresses that nobody would type.


@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("999999", ["alice", "admin"]),
        ("9" * 30, ["alice", "admin"]),
        ("0", ["carol", "bob"]),
        ("-1", ["carol", "bob"]),
        ("abc", ["carol", "bob"]),
        ("", ["carol", "bob"]),
        ("9" * 5000, ["carol", "bob"]),
    ],
    ids=lambda value: str(value)[:9],
)
@pytest.mark.usefixtures("few_on_a_page")
def test_a_page_that_is_not_there_is_the_nearest_and_keeps_the_filters(
    admin_client, users, sids, number, names
) -> None:
    User.objects.update(is_staff=True)
    page = Page(admin_client.get(f"{LIST}?staff=1&o=-3&p={number}"))
    assert page.names == names
    others = [parse_qs(href.partition("?")[2]) for text, href in page.all_links if text in ("1", "2") and href]
    assert others
    assert all(query["staff"] == ["1"] and query["o"] == ["-3"] for query in others)


@pytest.mark.parametrize(
    "query",
    [
        *("who=nobody", "who=", "active=9y", "active=", "staff=2", "staff=", "who=everyone&who=everyone"),
        *("o=99", "o=-99", "o=-1.2", "o=x", "o=.", "o=2.3", "o=2.2", "all=", "p=2&all=1", "_facets=True"),
        *("nonsense=1", "user_id=1", "address=1", "user__is_staff=1", "sid=x", "pk__in=a,b", "e=1", "nonsense=1&e=1"),
        *("_to_field=sid", "_to_field=user_id", "_popup=1", "login_at__year=2020", "%00=%00", "=", "&&", "user"),
    ],
)
def test_a_strange_query_is_answered(admin_client, sids, query) -> None:
    assert admin_client.get(f"{LIST}?{query}", follow=True).status_code in (200, 400)


def test_an_error_in_the_queryset_is_not_hidden(admin_client, sids) -> None:
    assert "e=1" not in admin_client.get(LIST).headers.get("Location", "")
    assert admin_client.get(LIST + "?address=1").headers["Location"].endswith("?e=1")


# Pages.


@pytest.mark.slow
@pytest.mark.parametrize(("header", "clicks"), [("Signed in", 1), ("Last seen", 2)])
def test_all_pages_together_show_each_session_once(
    partitions, admin_client, redis, monkeypatch, header, clicks
) -> None:
    # Beyond that depth, a page of several partitions is searched for.
    monkeypatch.setattr(listing, "SHALLOW", 700)
    # Django takes its time for each cell.
    monkeypatch.setattr(OnlineSessionAdmin, "list_display", ("user", "signed_in", "seen"))
    fill(redis, 2000, viewed=0)
    expected = {session.sid for session in online.sessions(limit=3000)}
    url = LIST
    for _ in range(clicks):
        url = LIST + Page(admin_client.get(url)).links[header]
    pages = list(walk(admin_client, url))
    found = [sid for page in pages for sid in page.sids]
    assert len(pages) == 21
    assert {page.count for page in pages} == {2001}
    assert len(found) == len(set(found)) == 2001
    assert set(found) == expected


@pytest.mark.slow
def test_sessions_that_signed_in_at_the_same_moment_are_each_on_one_page(
    partitions, admin_client, redis, monkeypatch
) -> None:
    monkeypatch.setattr(listing, "SHALLOW", 100)
    monkeypatch.setattr(OnlineSessionAdmin, "list_per_page", 50)
    fill(redis, 200, viewed=0)
    at = milliseconds_ago(60)
    for session in online.sessions(limit=1000):
        if session.sid != admin_client.session.sid:
            make_signed_in(redis, session.sid, at)
    for query in ("?o=3", "?o=-3"):
        found = [sid for page in walk(admin_client, LIST + query) for sid in page.sids]
        assert len(found) == len(set(found)) == 201


@pytest.mark.usefixtures("few_on_a_page")
@pytest.mark.parametrize("query", ["who=everyone", "active=1h", "staff=1", "q=shopper", "USERS", "o=4"])
def test_pages_of_a_filtered_list_show_each_session_once(
    partitions, admin_client, new_session, settings, query
) -> None:
    # The session that turns the pages must not move among those that were last seen.
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 86_400}
    users = [User.objects.create_user(f"shopper{number}", is_staff=True) for number in range(3)]
    sids = {new_session(str(users[number % 3].pk)).sid for number in range(7)}
    query = query.replace("USERS", "&".join(f"user={user.pk}" for user in users))
    found = [sid for page in walk(admin_client, f"{LIST}?{query}") for sid in page.sids]
    assert len(found) == len(set(found))
    assert set(found) - {admin_client.session.sid} == sids


# What it costs.


@pytest.mark.parametrize("count", [3, 150])
def test_names_come_in_one_query_a_page(admin_client, redis, new_session, count) -> None:
    users = User.objects.bulk_create(User(username=f"shopper{number}") for number in range(count))
    for user in reversed(users):
        new_session(str(user.pk))
    with CaptureQueriesContext(connection) as queries:
        page = Page(admin_client.get(LIST))
    assert "shopper1" in page.names
    assert len(page.rows) == min(count + 1, 100)
    # Who asks, and the names of all others.
    assert len(queries) == 2
    assert all('FROM "auth_user"' in query["sql"] for query in queries)


def test_an_account_is_linked_only_for_those_who_may_see_users(client, sids) -> None:
    page = Page(staff(client, "view_onlinesession").get(page_of(sids["bob"])))
    assert "bob" in page.text
    assert "bob" not in page.links
    page = Page(staff(client, "view_onlinesession", "view_user", name="other").get(page_of(sids["bob"])))
    assert "/auth/user/" in page.links["bob"]


@pytest.mark.parametrize("query", ["", "?o=4", "?who=everyone", "?active=1h", "?q=alice", "?staff=1", "?p=2"])
@pytest.mark.parametrize("per_page", [2, 100])
def test_a_page_takes_three_round_trips_beside_that_of_the_request_itself(
    admin_client, sids, commands, monkeypatch, query, per_page
) -> None:
    monkeypatch.setattr(OnlineSessionAdmin, "list_per_page", per_page)
    admin_client.get(LIST)
    commands()
    admin_client.get(LIST + query)
    # The count, that of the whole list where it is filtered, and the page; or the picture, where it is not.
    assert commands()["evalsha"] <= 1 + 3


# The page of a session.


def deadlines_of(client: Client, sid: str) -> dict[str, datetime]:
    """The times that a session's page names, by the text before each, and by the reason of the end."""
    found = re.findall(
        r'redsess-line">(?:<strong>)?([^<]*?): <span class="redsess-moment">.*?<time datetime="(.*?)"'
        r"(?:[^<]*</time>\)</span>\xa0· ([^<]*))?",
        client.get(page_of(sid)).text,
    )
    times = {reason: at for _, at, reason in found if reason} | {name: at for name, at, _ in found}
    return {name: datetime.fromisoformat(at) for name, at in times.items()}


def is_in(at: datetime, **time: float) -> bool:
    """Tell whether ``at`` is so far ahead, to half a minute."""
    return abs(at - datetime.now(UTC) - timedelta(**time)) < timedelta(seconds=30)


def test_a_row_leads_to_the_page_of_the_session(admin_client, users, new_session) -> None:
    session = opened(new_session(str(users["alice"].pk)))
    href = Page(admin_client.get(LIST)).links["alice"]
    assert href == page_of(session.sid)
    page = Page(admin_client.get(href))
    for fact in ("alice", "192.0.2.7", "Firefox 140 on Linux", FIREFOX, session.sid, "bytes"):
        assert fact in page.text
    assert page.links["alice"] == f"/admin/auth/user/{users['alice'].pk}/change/"


def test_any_sid_can_be_part_of_an_address(admin_client, new_session, redis) -> None:
    # Signs that mean something in addresses and in Django's own way to write keys.
    while not (("_" in (sid := new_session("1234").sid)) and "." in sid):
        pass
    [row] = Page(admin_client.get(f"{LIST}?q={sid}")).rows
    [href] = [href for href in row["hrefs"] if "/change/" in href]
    page = Page(admin_client.get(href))
    assert sid in page.text
    assert sid in Page(admin_client.get(page.links["End this session"])).fields["sids"]


def test_each_deadline_is_told_with_the_time_that_is_left(admin_client, users, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 7200, "ABSOLUTE_TIMEOUT": 86400 * 3}
    sid = new_session(str(users["alice"].pk)).sid
    deadlines = deadlines_of(admin_client, sid)
    # A deadline that moves along is set later than it needs to be: idle ends so much later, at most.
    assert is_in(deadlines["2 weeks after the last change"], days=14)
    assert is_in(deadlines["2 hours after the last request"], seconds=7560)
    assert is_in(deadlines["3 days after the sign-in"], days=3)
    assert is_in(deadlines["Ends"], seconds=7560)
    text = Page(admin_client.get(page_of(sid))).text
    assert re.search(r"2 hours after the last request: [^()]+ \(in 2 hours\) \(comes first\)", text)
    assert text.count("comes first") == 1


def test_deadlines_that_there_are_not_are_not_told(admin_client, users, new_session) -> None:
    sid = new_session(str(users["alice"].pk)).sid
    deadlines = deadlines_of(admin_client, sid)
    assert set(deadlines) == {"Signed in", "Last seen", "Ends", "2 weeks after the last change"}
    assert is_in(deadlines["Ends"], days=14)
    # The head tells it, in its third line.
    text = Page(admin_client.get(page_of(sid))).text
    assert text.count("2 weeks after the last change") == 1
    assert "When it ends" not in text
    assert "comes first" not in text


def test_a_guest_has_no_absolute_deadline(admin_client, new_session, settings) -> None:
    settings.REDSESS = {"ABSOLUTE_TIMEOUT": 3600}
    assert "sign-in" not in admin_client.get(page_of(new_session(colour="blue").sid)).text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(1_209_600, "2 weeks"), (2_592_000, "30 days"), (5400, "90 minutes"), (3600, "1 hour"), (100, "100 seconds")],
)
def test_a_duration_needs_no_fraction(seconds, text) -> None:
    assert duration(seconds).replace("\xa0", " ") == text


@pytest.mark.parametrize(("by_setting", "expiry", "told"), [(True, None, True), (False, 0, True), (True, 60, False)])
def test_a_session_that_ends_with_the_browser_says_so(
    admin_client, users, new_session, settings, by_setting, expiry, told
) -> None:
    settings.SESSION_EXPIRE_AT_BROWSER_CLOSE = by_setting
    session = new_session(str(users["alice"].pk))
    session.set_expiry(expiry)
    session.save()
    assert ("when the browser closes" in admin_client.get(page_of(session.sid)).text) is told


@pytest.mark.parametrize(("sliding", "days"), [(True, 14), (False, 11)])
def test_a_deadline_that_slides_is_told_as_it_is_now(admin_client, redis, users, settings, sliding, days) -> None:
    settings.REDSESS = {"SLIDING": sliding}
    shopper = Client()
    shopper.force_login(users["alice"])
    sid = shopper.session.sid
    make_older(redis, sid, 3 * 86400)
    shopper.get("/")
    deadlines = deadlines_of(admin_client, sid)
    assert is_in(deadlines[f"2 weeks after the last {'request' if sliding else 'change'}"], days=days, hours=sliding)
    assert is_in(deadlines["Ends"], days=days, hours=sliding)


def test_passive_requests_do_not_make_a_page_tell_two_ends(admin_client, redis, users, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 7200, "ABSOLUTE_TIMEOUT": 7200 * 2}
    sid = new_session(str(users["alice"].pk)).sid
    make_older(redis, sid, 5400)
    # As passive requests leave it: seen just now, and no deadline is later.
    redis.zincrby(keyspace().of_sid(sid).recent, 5_400_000, sid)
    deadlines = deadlines_of(admin_client, sid)
    assert is_in(deadlines["Ends"], seconds=7560 - 5400)
    assert deadlines["2 hours after the last request"] == deadlines["Ends"]
    assert is_in(deadlines["4 hours after the sign-in"], seconds=7200 * 2 - 5400)
    assert re.search(
        r"last request: [^()]+ \(in \d+ minutes\) \(comes first\)", Page(admin_client.get(page_of(sid))).text
    )


def test_a_date_that_was_set_is_a_deadline(admin_client, redis, users, new_session, settings) -> None:
    settings.REDSESS = {"SLIDING": True}
    session = new_session(str(users["alice"].pk))
    session.set_expiry(datetime.now(UTC) + timedelta(days=5))
    session.save()
    deadlines = deadlines_of(admin_client, session.sid)
    assert is_in(deadlines["At the date that the site has set"], days=5)
    assert is_in(deadlines["Ends"], days=5)


def test_viewed_items_are_listed_newest_first(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    assert "viewed no items" in Page(admin_client.get(page_of(session.sid))).text
    for item in ("lamp", "kite", "rope", "lamp"):
        viewed.record(session, item)
    [table] = [table for table in Page(admin_client.get(page_of(session.sid))).tables if table[0][0] == "Item"]
    assert [row[0] for row in table[1:]] == ["lamp", "rope", "kite"]


def data_of(client: Client, sid: str) -> dict[str, list[str]]:
    """What a session's page says of each key in it."""
    [table] = [table for table in Page(client.get(page_of(sid))).tables if table[0][0] == "Key"]
    return {row[0]: row[1:] for row in table[1:]}


def test_whoever_may_view_sees_keys_and_sizes_and_no_values(client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk), basket={"lamp": 31337}, **SECRETS)
    staff(client, "view_onlinesession")
    told = data_of(client, session.sid)
    assert set(told) == {"_auth_user_id", "basket", *SECRETS}
    assert all(len(cells) == 1 and re.fullmatch(r"\d+ bytes", cells[0]) for cells in told.values())
    assert told["basket"] == [f"{len(json.dumps({'lamp': 31337}, separators=(',', ':')))} bytes"]
    text = client.get(page_of(session.sid)).text
    assert "31337" not in text
    assert "Seeing the values takes the permission “Can view the data of online sessions”." in text
    assert not any(secret in text for secret in SECRETS.values())


def test_values_take_a_permission_of_their_own(client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk), basket={"lamp": 31337}, **SECRETS)
    staff(client, "view_onlinesession", "view_session_data")
    told = data_of(client, session.sid)
    assert told["basket"][1] == '{"lamp": 31337}'
    text = client.get(page_of(session.sid)).text
    assert not any(secret in text for secret in SECRETS.values())


def test_secrets_are_shown_to_nobody(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk), **SECRETS)
    told = data_of(admin_client, session.sid)
    assert set(SECRETS) < set(told)
    text = admin_client.get(page_of(session.sid)).text
    assert not any(secret in text for secret in SECRETS.values())


def test_a_real_sessions_password_hash_is_not_shown(admin_client) -> None:
    session = admin_client.session
    assert session["_auth_user_hash"] not in admin_client.get(page_of(session.sid)).text


def test_keys_and_values_full_of_markup_are_shown_as_text(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk), **{MARKUP: MARKUP})
    response = admin_client.get(page_of(session.sid))
    assert MARKUP in data_of(admin_client, session.sid)
    assert "<script>alert" not in response.text
    assert "<b onclick" not in response.text


def test_a_long_value_is_cut(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk), basket="x" * 500_000)
    response = admin_client.get(page_of(session.sid))
    assert "xxx" in response.text
    assert len(response.content) < 100_000
    assert "KB" in data_of(admin_client, session.sid)["basket"][0]


def test_a_session_that_was_tampered_with_says_that_it_cannot_be_read(admin_client, redis, users, sids) -> None:
    login = keyspace().of_sid(sids["bob"]).login
    record = redis.hget(login, sids["bob"])
    redis.hset(login, sids["bob"], record[:-1] + bytes([record[-1] ^ 1]))
    response = admin_client.get(page_of(sids["bob"]))
    assert response.status_code == 200
    assert "can't be read" in Page(response).text
    assert sids["bob"] in Page(admin_client.get(LIST)).sids


def test_the_users_other_sessions_are_rows_with_an_end_of_their_own(admin_client, users, sids, new_session) -> None:
    others = [opened(new_session(str(users["bob"].pk))).sid for _ in range(3)]
    page = Page(admin_client.get(page_of(sids["bob"])))
    [table] = [table for table in page.tables if table[0][0] == "Where from"]
    assert table[0] == ["Where from", "Signed in", "Last seen", "End"]
    assert len(table) == 1 + 3
    assert table[1][0].split() == ["Firefox", "140", "on", "Linux", "192.0.2.7"]
    assert table[1][1] == "just now"
    hrefs = [href for text, href in page.all_links if text == "Firefox 140 on Linux"]
    assert hrefs == [page_of(sid) for sid in reversed(others)]
    ends = [href for text, href in page.all_links if text == "End"]
    assert [asked(admin_client.get(href)) for href in ends] == [1, 1, 1]
    assert [f"sid={sid}" in href for sid, href in zip(reversed(others), ends, strict=True)] == [True] * 3
    assert Page(admin_client.get(LIST + page.links["All sessions of this user"].partition(LIST)[2])).count == 4


def test_whoever_may_not_end_sessions_sees_no_end(client, users, sids, new_session) -> None:
    new_session(str(users["bob"].pk))
    staff(client, "view_onlinesession")
    page = Page(client.get(page_of(sids["bob"])))
    assert "End" not in page.links
    assert any(table[0] == ["Where from", "Signed in", "Last seen"] for table in page.tables)


def test_links_of_a_page_return_to_the_list_that_it_was_reached_from(admin_client, users, sids, new_session) -> None:
    opened(new_session(str(users["bob"].pk)))
    query = "?_changelist_filters=q%3Dbob%26o%3D3"
    page = Page(admin_client.get(page_of(sids["bob"]) + query))
    assert page.links["Firefox 140 on Linux"].endswith(query)
    assert "_changelist_filters=q%3Dbob%26o%3D3" in page.links["End"]


def test_an_address_leads_to_all_sessions_from_it(admin_client, users, new_session) -> None:
    session = opened(new_session(str(users["alice"].pk)), "2001:db8::1")
    links = Page(admin_client.get(page_of(session.sid))).links
    assert parse_qs(links["2001:db8::1"].partition("?")[2]) == {"q": ["2001:db8::1"]}


def test_a_guests_address_leads_to_everyone_from_it(rf) -> None:
    guest = OnlineSession(user_id="", address="192.0.2.7", user_agent="")
    page = SessionPage(rf.get("/"), admin.site, guest, None, [], {}, [])
    assert f"{LIST}?q=192.0.2.7&amp;who=everyone" in page.origin()


def test_the_head_says_whose_session_it_is(admin_client, users, sids, new_session) -> None:
    response = admin_client.get(page_of(sids["bob"]))
    assert response.context["title"] == "Session of bob"
    assert Page(response).links["History of this user"] == f"/admin/auth/user/{users['bob'].pk}/history/"
    assert admin_client.get(page_of(new_session(colour="blue").sid)).context["title"] == "Session of a guest"


def test_whoever_may_not_see_users_gets_no_links_to_them(client, sids) -> None:
    staff(client, "view_onlinesession")
    page = Page(client.get(page_of(sids["bob"])))
    assert "bob" in page.text
    assert not any("/auth/user/" in href for _, href in page.all_links)
    response = client.get(f"{LIST}{quote(sids['bob'])}/history/")
    assert response.headers["Location"] == page_of(sids["bob"])


def test_viewed_items_have_names_and_links(admin_client, users, new_session, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "tests.admin.test_sessions.named"}
    session = new_session(str(users["alice"].pk))
    viewed.record(session, "lamp")
    viewed.record(session, "kite")
    page = Page(admin_client.get(page_of(session.sid)))
    [table] = [table for table in page.tables if table[0][0] == "Item"]
    assert [row[0] for row in table[1:]] == ["kite", "The lamp lamp"]
    assert page.links["The lamp"] == "/lamps/"


def test_a_lookup_of_items_that_fails_is_told_on_the_page_itself(admin_client, users, new_session, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "tests.admin.test_sessions.failing"}
    session = new_session(str(users["alice"].pk))
    viewed.record(session, "lamp")
    page = Page(admin_client.get(page_of(session.sid)))
    assert "lamp" in page.text
    assert "VIEWED_RESOLVE" in " ".join(page.messages)


class Lamp:
    def __str__(self) -> str:
        return "The lamp"

    def get_absolute_url(self) -> str:
        return "/lamps/"


def named(items: list[str]) -> dict[str, Lamp]:
    return {item: Lamp() for item in items if item == "lamp"}


def failing(items: list[str]) -> dict[str, Lamp]:
    raise LookupError("No lamps today.")


def test_a_user_with_no_other_sessions_is_told_so(admin_client, sids) -> None:
    page = Page(admin_client.get(page_of(sids["bob"])))
    assert "There are no others." in page.text


def test_the_own_session_is_marked_on_its_page(admin_client, sids) -> None:
    assert 'class="redsess-own"' in admin_client.get(page_of(admin_client.session.sid)).text
    assert 'class="redsess-own"' not in admin_client.get(page_of(sids["bob"])).text


def test_a_guests_session_has_a_page(admin_client, new_session) -> None:
    guest = new_session(colour="blue")
    page = Page(admin_client.get(page_of(guest.sid)))
    assert "guest" in page.text
    assert "colour" in data_of(admin_client, guest.sid)
    assert "End this session" in page.links
    assert "End all sessions of this user" not in page.links


@pytest.mark.parametrize(
    "sid",
    ["x" * 20, "x", "x" * 5000, "a b", "%00", "..", "1", "_5F", "%ff", "{redsess}:login", "' OR 1=1"],
    ids=lambda sid: sid[:9],
)
def test_a_session_that_is_not_there_leads_away_with_a_message(admin_client, sids, sid) -> None:
    response = admin_client.get(f"{LIST}{sid}/change/", follow=True)
    assert response.status_code == 200
    assert response.redirect_chain
    assert any("it is over, or the id is wrong" in message for message in Page(response).messages)


def test_a_session_that_is_over_leads_to_the_list_that_the_page_was_reached_from(admin_client, redis, sids) -> None:
    online.end(sids["bob"])
    make_due(redis, sids["carol"])
    for name in ("bob", "carol"):
        response = admin_client.get(page_of(sids[name]) + "?_changelist_filters=q%3Dbob%26o%3D3")
        assert response.headers["Location"] == LIST + "?q=bob&o=3"


def test_a_session_that_got_another_id_is_found_under_it(admin_client, users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    before = session.sid
    session.cycle_key()
    session.save()
    assert session.sid != before
    assert admin_client.get(page_of(before)).headers["Location"] == page_of(session.sid)


def test_only_who_may_end_is_offered_to(client, users, sids) -> None:
    staff(client, "view_onlinesession")
    page = Page(client.get(page_of(sids["bob"])))
    assert not any("confirm/" in href for href in page.links.values())
    client.logout()
    staff(client, "view_onlinesession", "end_onlinesession", name="other")
    links = Page(client.get(page_of(sids["bob"]))).links
    assert links["End this session"] == f"{LIST}confirm/?sid={sids['bob']}"
    assert links["End all sessions of this user"] == f"{LIST}confirm/?user={users['bob'].pk}"


def test_looking_at_a_session_is_not_using_it(admin_client, redis, users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    at = milliseconds_ago(600)
    make_seen(redis, session.sid, at)
    admin_client.get(LIST)
    admin_client.get(page_of(session.sid))
    assert redis.zscore(keyspace().of_sid(session.sid).recent, session.sid) == at


# The model that has no table.


def test_sessions_cannot_be_added_changed_or_deleted(admin_client, sids) -> None:
    assert admin_client.get(LIST + "add/").status_code == 403
    assert admin_client.post(LIST + "add/").status_code == 403
    assert admin_client.post(page_of(sids["bob"]), {"user_id": "1"}).status_code == 403
    assert admin_client.post(f"{LIST}{quote(sids['bob'])}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).text
    assert online.get(sids["bob"]) is not None


def test_the_front_page_and_the_pages_of_history_work(admin_client, sids) -> None:
    assert "Online sessions" in Page(admin_client.get("/admin/")).links
    assert admin_client.get("/admin/django_redsess/").status_code == 200
    # A session has no history. What was done to it is in its user's.
    response = admin_client.get(f"{LIST}{quote(sids['bob'])}/history/", follow=True)
    assert response.redirect_chain == [(f"/admin/auth/user/{User.objects.get(username='bob').pk}/history/", 302)]
    assert response.status_code == 200


@pytest.mark.parametrize("options", [{}, {"use_base_manager": True}, {"natural_foreign": True}])
def test_dumpdata_knows_of_no_sessions(admin_client, sids, options) -> None:
    out = StringIO()
    call_command("dumpdata", stdout=out, **options)
    models = {entry["model"] for entry in json.loads(out.getvalue())}
    assert "auth.user" in models
    assert "django_redsess.onlinesession" not in models


def test_deleting_a_user_in_the_admin_does_not_ask_the_missing_table(admin_client, users, sids) -> None:
    url = f"/admin/auth/user/{users['bob'].pk}/delete/"
    assert admin_client.get(url).status_code == 200
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert "deleted user" in admin_client.get(LIST).text


def test_deleting_a_user_does_not_ask_the_missing_table(users, sids) -> None:
    users["bob"].delete()
    User.objects.filter(username="carol").delete()
    assert list(User.objects.values_list("username", flat=True)) == ["alice"]


def test_the_pages_speak_german(admin_client, sids, settings) -> None:
    settings.LANGUAGE_CODE = "de"
    assert "Angemeldet" in admin_client.get(LIST).text
    asked = admin_client.post(LIST, {"action": "end_selected", "_selected_action": [sids["bob"]]})
    assert "Sitzungen beenden" in asked.text
