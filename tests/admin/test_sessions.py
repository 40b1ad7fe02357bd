"""The admin's list of sessions, and the page of one."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from django_redsess import online, querysets, viewed
from django_redsess.admin import OnlineSessionAdmin
from testproject.shop.models import Product
from tests.admin.visits import FIREFOX, arrive, from_place
from tests.helpers.admin_pages import LIST, MARKUP, Page, asked, milliseconds_ago, page_of, staff, walk
from tests.helpers.store import YET_TO_BE_BOUND, keyspace, make_bound, make_due, make_older, make_seen

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

SECRETS = {"_auth_user_hash": "hash-3a91", "_csrftoken": "token-77c0", "_password_reset_token": "reset-f5d2"}


def names(client: Client, query: str) -> list[str]:
    page = Page(client.get(LIST + query))
    assert page.count == len(page.rows)
    return page.names


@pytest.fixture
def new_session(new_session) -> Callable[..., Any]:
    """Sign in a moment after whoever did before: within a millisecond, the order is that of the sids."""

    def create(*args: Any, **data: Any) -> Any:
        threading.Event().wait(0.002)
        return new_session(*args, **data)

    return create


def test_a_row_says_who_from_where_when_and_what_was_viewed_last(admin_client) -> None:
    session = arrive("alice").session
    viewed.record(session, "lamp")
    viewed.record(session, "kite")
    row, own = Page(admin_client.get(LIST)).rows
    assert row["user"] == "alice"
    assert row["sid"] == session.sid
    assert row["client"] == "Firefox 140 on Linux 198.51.100.7"
    assert row["signed_in"] == "just now"
    assert row["seen"] == "just now kite"
    assert row["end"] == "End"
    # The own session is marked.
    assert (own["user"], row["own"], bool(own["own"])) == ("admin", "", True)


def test_a_user_who_is_deleted_is_listed_as_that(admin_client, users, sids) -> None:
    user_id = users["bob"].pk
    users["bob"].delete()
    row = Page(admin_client.get(LIST)).rows[1]
    assert row["user"] == f"deleted user {user_id}"
    assert not any("/auth/user/" in href for href in row["hrefs"])


def test_texts_of_strangers_full_of_markup_are_shown_as_text(admin_client) -> None:
    user = User.objects.create_user(MARKUP, password="secret")
    # A user agent of a megabyte.
    shopper = Client(headers={"user-agent": MARKUP + "<script>" * 125_000})
    shopper.post("/login/", {"username": MARKUP, "password": "secret"})
    session = shopper.session
    session[MARKUP] = MARKUP
    session.save()
    item = "</td><script>alert('x')</script>"
    viewed.record(session, item)
    row = Page(admin_client.get(LIST)).rows[0]
    assert row["user"] == MARKUP
    assert MARKUP in row["client"]
    assert item in row["seen"]
    assert MARKUP in data_of(admin_client, session.sid)
    questions = (f"confirm/?sid={session.sid}", f"confirm/?user={user.pk}")
    for url in (LIST, f"{LIST}?user={user.pk}", page_of(session.sid), *(LIST + question for question in questions)):
        shown = admin_client.get(url)
        assert shown.status_code == 200
        assert "<script>alert" not in shown.text
        assert "<b onclick" not in shown.text


@pytest.mark.parametrize(
    ("query", "header"),
    [("", "Signed in"), ("", "Last seen"), ("?active=1h", "Last seen")],
)
def test_a_header_sorts_and_once_more_the_other_way_round(admin_client, redis, sids, query, header) -> None:
    signed_in = seen = ["carol", "bob", "alice"]
    if header == "Last seen":
        seen = ["alice", "bob", "carol"]
        for minutes, name in enumerate(seen, 1):
            make_seen(redis, sids[name], milliseconds_ago(60 * minutes))
    page = Page(admin_client.get(LIST + query))
    assert page.names == (["admin", *seen] if query else [*signed_in, "admin"])
    # What is listed by last seen sorts by nothing else.
    assert ("Signed in" in {text for text, href in page.all_links if "o=" in href}) == (query == "")
    orders = []
    for _ in range(2):
        [href] = [href for text, href in page.all_links if text == header and "o=" in href]
        page = Page(admin_client.get(LIST + href))
        orders.append([name for name in page.names if name != "admin"])
    assert sorted(orders) == [["alice", "bob", "carol"], ["carol", "bob", "alice"]]
    # An address that somebody kept from before.
    assert admin_client.get(f"{LIST}{query or '?'}&o=3").status_code == 200


def test_guests_are_listed_with_everyone_only_and_have_a_page(admin_client, sids, new_session) -> None:
    guest = new_session(colour="blue")
    page = Page(admin_client.get(LIST + "?o=3"))
    assert guest.sid not in page.sids
    assert page.count == 4
    # The order by sign-in does not stand in the way.
    everyone = Page(admin_client.get(LIST + page.links["Everyone, by last seen"]))
    assert {row["sid"]: row["user"] for row in everyone.rows}[guest.sid] == "guest"
    assert everyone.count == 5
    back = Page(admin_client.get(LIST + everyone.links["Signed in"]))
    assert guest.sid not in back.sids
    assert "colour" in data_of(admin_client, guest.sid)
    links = Page(admin_client.get(page_of(guest.sid))).links
    assert "End this session" in links
    assert "End all sessions of this user" not in links


def test_a_filter_leaves_the_users_of_the_address(admin_client, users, sids, new_session) -> None:
    bob, alice = users["bob"].pk, users["alice"].pk
    assert names(admin_client, f"?user={bob}&user={alice}") == ["bob", "alice"]
    # Named twice is the same user.
    assert names(admin_client, f"?user={bob}&user={bob}") == ["bob"]
    session = new_session("a: b/c")
    assert Page(admin_client.get(LIST, {"user": "a: b/c"})).sids == [session.sid]
    assert admin_client.get(page_of(session.sid)).status_code == 200
    for unknown in ("a b", "", "{redsess}", "%00", "é", "9" * 30, "-1", "x" * 5000):
        assert names(admin_client, f"?user={unknown}") == [], unknown


def test_filters_and_search_hold_together(admin_client, redis, users, sids, new_session) -> None:
    User.objects.filter(username__in=["alice", "bob"]).update(is_staff=True)
    make_seen(redis, sids["alice"], milliseconds_ago(3000))
    new_session(colour="blue")
    carol, bob = users["carol"].pk, users["bob"].pk
    assert names(admin_client, Page(admin_client.get(LIST)).links["Staff only"]) == ["bob", "alice", "admin"]
    for query, found in {
        "?staff=true&active=1h&guests=true": ["bob", "admin", "alice"],
        "?guests=true&active=5m": ["guest", "carol", "bob", "admin"],
        f"?staff=true&user={carol}&user={bob}": ["bob"],
        "?staff=true&q=carol": [],
        "?active=5m&q=alice": [],
        f"?user={bob}&q=alice": [],
        f"?staff=true&q={sids['carol']}": [],
        f"?active=1h&q={sids['alice']}": ["alice"],
    }.items():
        assert sorted(names(admin_client, query)) == sorted(found), query


def test_search_finds_sessions_by_id_and_by_what_the_page_of_users_looks_at(admin_client, sids, new_session) -> None:
    changes = {"first_name": "Wonderful", "last_name": "Liddell", "email": "alice@example.com"}
    User.objects.filter(username="alice").update(**changes)
    for term in ("LICE", "Wonder", "alice@example.com", "Liddell", "alice liddell", '"alice"', f"  {sids['alice']} "):
        assert Page(admin_client.get(LIST, {"q": term})).names == ["alice"], term
    guest = new_session(colour="blue")
    page = Page(admin_client.get(LIST, {"q": guest.sid}))
    assert (page.names, page.sids, page.count) == (["guest"], [guest.sid], 1)


@pytest.mark.usefixtures("few_on_a_page")
@pytest.mark.parametrize("query", ["guests=true", "active=1h", "q=shopper", "USERS", "o=3", "o=-4"])
def test_all_pages_show_each_session_once(partitions, admin_client, new_session, settings, query) -> None:
    # The session that turns the pages must not move among those that were last seen.
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 86_400}
    users = [User.objects.create_user(f"shopper{number}", is_staff=True) for number in range(3)]
    sids = {new_session(str(users[number % 3].pk)).sid for number in range(7)}
    query = query.replace("USERS", "&".join(f"user={user.pk}" for user in users))
    found = [sid for page in walk(admin_client, f"{LIST}?{query}") for sid in page.sids]
    assert len(found) == len(set(found))
    assert set(found) - {admin_client.session.sid} == sids


@pytest.mark.usefixtures("few_on_a_page")
def test_pages_of_several_partitions_end_at_a_row_and_say_so(
    partitions, admin_client, new_session, monkeypatch
) -> None:
    monkeypatch.setattr(querysets, "ROWS_MAX", 4)
    user = User.objects.create_user("shopper")
    for _ in range(8):
        new_session(str(user.pk))
    pages = list(walk(admin_client, LIST))
    assert [page.count for page in pages] == [9] * len(pages)
    assert len([sid for page in pages for sid in page.sids]) == (9 if partitions == 1 else 4)
    assert all(("The first 4 are listed." in page.text) == (partitions > 1) for page in pages)
    # The last page stands for those beyond it.
    assert Page(admin_client.get(LIST, {"p": 99})).sids == pages[-1].sids
    # A user's sessions are in one partition.
    pages = list(walk(admin_client, f"{LIST}?user={user.pk}"))
    assert len([sid for page in pages for sid in page.sids]) == 8
    assert "are listed" not in pages[0].text


def test_names_come_in_one_query_a_page(admin_client, new_session, monkeypatch) -> None:
    monkeypatch.setattr(OnlineSessionAdmin, "list_per_page", 10)
    for user in User.objects.bulk_create(User(username=f"shopper{number}") for number in range(15)):
        new_session(str(user.pk))
    with CaptureQueriesContext(connection) as queries:
        page = Page(admin_client.get(LIST))
    assert page.names[:9] == [f"shopper{number}" for number in range(14, 5, -1)]
    assert len(page.rows) == 10
    # Who asks, and the names of all others.
    assert len(queries) == 2


@pytest.mark.parametrize("per_page", [2, 100])
def test_a_page_takes_three_round_trips_of_its_own(admin_client, sids, commands, monkeypatch, per_page) -> None:
    monkeypatch.setattr(OnlineSessionAdmin, "list_per_page", per_page)
    admin_client.get(LIST)
    commands()
    for query in ("", "?o=4", "?guests=true", "?active=1h", "?q=alice", "?staff=true", "?p=2"):
        admin_client.get(LIST + query)
        # The count, that of the whole list where it is filtered, and the page; or the picture, where it is not.
        assert commands()["evalsha"] <= 1 + 3, query


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


def test_a_row_leads_to_the_page_of_the_session(admin_client, client, redis, users, new_session, monkeypatch) -> None:
    session, at = from_place(new_session(str(users["alice"].pk))), milliseconds_ago(600)
    make_seen(redis, session.sid, at)
    href = Page(admin_client.get(LIST)).links["alice"]
    assert href == page_of(session.sid)
    response = admin_client.get(href)
    assert response.context["title"] == "Session of alice"
    page = Page(response)
    for fact in ("192.0.2.7", "Firefox 140 on Linux", FIREFOX, session.sid, "1.0 KB"):
        assert fact in page.text
    assert page.links["alice"] == f"/admin/auth/user/{users['alice'].pk}/change/"
    assert page.links["History of this user"] == f"/admin/auth/user/{users['alice'].pk}/history/"
    # Looking at it is not using it.
    assert redis.zscore(keyspace().of_sid(session.sid).recent, session.sid) == at
    # Without a parser of user agents, the browser is shown as it came.
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "ua_parser", None)
        assert FIREFOX in Page(admin_client.get(LIST)).rows[0]["text"]
    # Who may not see users gets no links to them.
    staff(client, "view_onlinesession")
    page = Page(client.get(href))
    assert "alice" in page.text
    assert not any("/auth/user/" in href for _, href in page.all_links)
    assert client.get(f"{LIST}{quote(session.sid)}/history/").headers["Location"] == href
    client.logout()
    staff(client, "view_onlinesession", "view_user", name="other")
    assert "/auth/user/" in Page(client.get(href)).links["alice"]


def test_the_page_of_a_bound_session_says_since_when_and_when_it_was_proved(
    admin_client, redis, users, new_session
) -> None:
    sessions = [from_place(new_session(str(users["alice"].pk))) for _ in range(3)]
    plain, new, proved = (page_of(session.sid) for session in sessions)
    assert "ound" not in Page(admin_client.get(plain)).text
    make_bound(redis, sessions[0].sid, binding=YET_TO_BE_BOUND)
    assert "ound" not in Page(admin_client.get(plain)).text
    make_bound(redis, sessions[1].sid)
    make_bound(redis, sessions[2].sid, proved_ms=5 * 60_000)
    text, again = Page(admin_client.get(new)).text, "The device has not proved it again since."
    assert re.search(rf"Bound to its device: Since: [^()]* \(just now\) ?{re.escape(again)}", text)
    text = Page(admin_client.get(proved)).text
    assert re.search(r"Since: [^()]* \(just now\) ?Last proof: [^()]* \(in 4\s*minutes\)", text)
    assert again not in text
    # The other sessions of the user are marked, too.
    [table] = [table for table in Page(admin_client.get(plain)).tables if table[0][0] == "Where from"]
    assert [row[0] for row in table[1:]] == ["Firefox 140 on Linux device-bound 192.0.2.7"] * 2


def test_each_deadline_is_told_with_the_time_that_is_left(admin_client, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 7200, "ABSOLUTE_TIMEOUT": 86400 * 3}
    session = new_session("7")
    deadlines = deadlines_of(admin_client, session.sid)
    # A deadline that moves along is set later than it needs to be: idle ends so much later, at most.
    assert is_in(deadlines["2 weeks after the last change"], days=14)
    assert is_in(deadlines["2 hours after the last request"], seconds=7560)
    assert is_in(deadlines["3 days after the sign-in"], days=3)
    assert is_in(deadlines["Ends"], seconds=7560)
    assert Page(admin_client.get(page_of(session.sid))).text.count("comes first") == 1
    # A guest has no absolute deadline, and where a setting is none there is none to tell.
    assert "sign-in" not in admin_client.get(page_of(new_session(colour="blue").sid)).text
    settings.REDSESS = {}
    session.set_expiry(datetime.now(UTC) + timedelta(days=5))
    session.save()
    deadlines = deadlines_of(admin_client, session.sid)
    assert set(deadlines) == {"Signed in", "Last seen", "Ends", "At the date that the site has set"}
    assert is_in(deadlines["At the date that the site has set"], days=5)
    assert is_in(deadlines["Ends"], days=5)


@pytest.mark.parametrize(("by_setting", "expiry", "told"), [(True, None, True), (False, 0, True), (True, 60, False)])
def test_an_end_with_the_browser_is_told(admin_client, new_session, settings, by_setting, expiry, told) -> None:
    settings.SESSION_EXPIRE_AT_BROWSER_CLOSE = by_setting
    session = new_session("7")
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


def test_passive_requests_do_not_make_a_page_tell_two_ends(admin_client, redis, new_session, settings) -> None:
    settings.REDSESS = {"IDLE_TIMEOUT": 7200, "ABSOLUTE_TIMEOUT": 7200 * 2}
    sid = new_session("7").sid
    make_older(redis, sid, 5400)
    # As passive requests leave it: seen just now, and no deadline is later.
    redis.zincrby(keyspace().of_sid(sid).recent, 5_400_000, sid)
    deadlines = deadlines_of(admin_client, sid)
    assert is_in(deadlines["Ends"], seconds=7560 - 5400)
    assert deadlines["2 hours after the last request"] == deadlines["Ends"]
    assert is_in(deadlines["4 hours after the sign-in"], seconds=7200 * 2 - 5400)


def data_of(client: Client, sid: str) -> dict[str, list[str]]:
    """What a session's page says of each key in it."""
    [table] = [table for table in Page(client.get(page_of(sid))).tables if table[0][0] == "Key"]
    return {row[0]: row[1:] for row in table[1:]}


def test_keys_and_sizes_are_told_values_take_a_permission_and_secrets_are_shown_to_nobody(
    admin_client, client, users, new_session
) -> None:
    session = new_session(str(users["alice"].pk), basket={"lamp": 31337}, long="x" * 500_000, **SECRETS)
    staff(client, "view_onlinesession")
    told = data_of(client, session.sid)
    assert set(told) == {"_auth_user_id", "basket", "long", *SECRETS}
    assert all(len(cells) == 1 and re.fullmatch(r"≤ [\d.]+\sKB", cells[0]) for cells in told.values())
    assert told["basket"] == ["≤ 1.0 KB"]
    assert "31337" not in client.get(page_of(session.sid)).text
    staff(client, "view_onlinesession", "view_session_data", name="other")
    assert data_of(client, session.sid)["basket"][1] == '{"lamp": 31337}'
    assert "xxx" in client.get(page_of(session.sid)).text
    assert len(client.get(page_of(session.sid)).content) < 100_000
    own = admin_client.session
    for whoever in (client, admin_client):
        assert set(SECRETS) < set(data_of(whoever, session.sid))
        for sid, secrets in ((session.sid, SECRETS.values()), (own.sid, [own["_auth_user_hash"]])):
            assert not any(secret in whoever.get(page_of(sid)).text for secret in secrets)


def test_a_session_that_was_tampered_with_says_that_it_cannot_be_read(admin_client, redis, sids) -> None:
    login = keyspace().of_sid(sids["bob"]).login
    record = redis.hget(login, sids["bob"])
    redis.hset(login, sids["bob"], record[:-1] + bytes([record[-1] ^ 1]))
    response = admin_client.get(page_of(sids["bob"]))
    assert response.status_code == 200
    assert "can't be read" in Page(response).text
    assert sids["bob"] in Page(admin_client.get(LIST)).sids


def test_the_users_other_sessions_are_rows_with_an_end_of_their_own(admin_client, users, sids, new_session) -> None:
    others = [from_place(new_session(str(users["bob"].pk))).sid for _ in range(3)]
    # Links return to the list that the page was reached from.
    query = "_changelist_filters=q%3Dbob%26o%3D3"
    page = Page(admin_client.get(f"{page_of(sids['bob'])}?{query}"))
    [table] = [table for table in page.tables if table[0][0] == "Where from"]
    assert [row[:2] for row in table[1:]] == [["Firefox 140 on Linux 192.0.2.7", "just now"]] * 3
    hrefs = [href for text, href in page.all_links if text == "Firefox 140 on Linux"]
    assert hrefs == [f"{page_of(sid)}?{query}" for sid in reversed(others)]
    ends = [href for text, href in page.all_links if text == "End"]
    for sid, href in zip(reversed(others), ends, strict=True):
        assert f"sid={sid}" in href
        assert query in href
        assert asked(admin_client.get(href)) == 1
    assert Page(admin_client.get(LIST + page.links["All sessions of this user"].partition(LIST)[2])).count == 4


def test_viewed_items_have_names_and_links_newest_first(admin_client, new_session, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "testproject.shop.models.products_by_slug"}
    lamp = Product.objects.create(slug="lamp", name="The lamp")
    session = new_session("7")
    for item in ("lamp", "kite", "rope", "lamp"):
        viewed.record(session, item)
    page = Page(admin_client.get(page_of(session.sid)))
    [table] = [table for table in page.tables if table[0][0] == "Item"]
    assert [row[0] for row in table[1:]] == ["The lamp lamp", "rope", "kite"]
    assert page.links["The lamp"] == f"/admin/shop/product/{lamp.pk}/change/"


def test_a_session_that_is_not_there_leads_to_where_it_is_or_to_the_list_as_it_was(
    admin_client, redis, sids, new_session
) -> None:
    session = new_session("7")
    before = session.sid
    session.cycle_key()
    session.save()
    assert session.sid != before
    assert admin_client.get(page_of(before)).headers["Location"] == page_of(session.sid)
    online.end(sids["bob"])
    make_due(redis, sids["carol"])
    strange = ("x" * 20, "x" * 5000, "%00", "..", "_5F", "%ff", "{redsess}:login")
    for sid in (quote(sids["bob"]), quote(sids["carol"]), *strange):
        response = admin_client.get(f"{LIST}{sid}/change/?_changelist_filters=q%3Db%26o%3D3", follow=True)
        assert response.redirect_chain[-1] == (f"{LIST}?q=b&o=3", 302), sid[:9]
        assert any("it is over, or the id is wrong" in message for message in Page(response).messages), sid[:9]


def test_sessions_cannot_be_added_changed_or_deleted_and_have_no_history(admin_client, sids) -> None:
    assert admin_client.get(LIST + "add/").status_code == 403
    assert admin_client.post(LIST + "add/").status_code == 403
    assert admin_client.post(page_of(sids["bob"]), {"user_id": "1"}).status_code == 403
    assert admin_client.post(f"{LIST}{quote(sids['bob'])}/delete/", {"post": "yes"}).status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).text
    assert online.get(sids["bob"]) is not None
    assert "Online sessions" in Page(admin_client.get("/admin/")).links
    assert admin_client.get("/admin/django_redsess/").status_code == 200
    # A session has no history. What was done to it is in its user's.
    response = admin_client.get(f"{LIST}{quote(sids['bob'])}/history/", follow=True)
    assert response.redirect_chain == [(f"/admin/auth/user/{User.objects.get(username='bob').pk}/history/", 302)]
    assert response.status_code == 200


def test_strange_searches_and_queries_are_answered(admin_client, sids) -> None:
    for term in ("%", "_", "\\", "*", '"alice', "{redsess}:login", "a " * 3000, "x" * 20, "é\u2028\U0001f511"):
        response = admin_client.get(LIST, {"q": term})
        assert response.status_code == 200, term[:9]
        assert Page(response).names == [], term[:9]
    assert len(Page(admin_client.get(LIST, {"q": "   "})).rows) == 4
    for query in (
        *("q=alice%00", "q=%ff%fe", "q=%ED%A0%80", "guests=nobody&active=9y&staff=2", "guests=&active=&staff="),
        *("guests=true&guests=true", "o=99", "o=-1.2", "o=x", "o=.", "p=2&all=1", "_facets=True", "nonsense=1&e=1"),
        *("user__is_staff=1", "pk__in=a,b", "_to_field=user_id", "_popup=1", "login_at__year=2020", "%00=%00", "=&&"),
    ):
        assert admin_client.get(f"{LIST}?{query}", follow=True).status_code in (200, 400), query
    # An error in the queryset is not hidden.
    assert admin_client.get(LIST + "?address=1").headers["Location"].endswith("?e=1")


def test_only_who_may_end_is_offered_to(client, users, sids, new_session) -> None:
    root = new_session(str(User.objects.create_superuser("root").pk)).sid
    staff(client, "view_onlinesession", "end_onlinesession")
    # Signs that mean something in addresses and in Django's own way to write keys.
    while not (("_" in (sid := new_session(str(users["bob"].pk)).sid)) and "." in sid):
        pass
    ends = {row["sid"]: row["end"] for row in Page(client.get(LIST)).rows}
    assert (ends[sid], ends[root]) == ("End", "-")
    links = Page(client.get(page_of(sid))).links
    assert sid in Page(client.get(links["End this session"])).fields["sids"]
    assert links["End all sessions of this user"] == f"{LIST}confirm/?user={users['bob'].pk}"
