"""The admin's pages of sign-ins: what the list finds and counts, who sees which names, export, and deleting users."""

from __future__ import annotations

import csv
import io
import json
from datetime import date, datetime, time, timedelta
from typing import Any

import lxml.html
import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.history import admin as pages
from django_redsess.contrib.history.admin import SignInAdmin
from django_redsess.contrib.history.models import SignIn
from django_redsess.contrib.history.receivers import ms_of
from django_redsess.signals import Reason
from tests.admin.visits import CHROME, from_place
from tests.contrib.history.rows import LIST, ended, row, rows_of
from tests.helpers.admin_pages import MARKUP, Page, page_of, staff, text_of, words

pytestmark = pytest.mark.django_db

VIEW, EXPORT = "view_signin", "export_signin"


@pytest.fixture
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name, email=f"{name}@example.com") for name in ("alice", "bob", "carol")}


def names(client: Client, **query: str) -> list[str]:
    return [found["who"] for found in rows_of(client.get(LIST, query))]


def test_the_newest_sign_in_comes_first_with_how_it_ended_and_where_from(admin_client, admin_user, users) -> None:
    ended(users["alice"], Reason.KICKED, ended_by=str(admin_user.pk), ago=timedelta(days=2))
    ended(
        users["bob"],
        Reason.KICKED,
        ended_by=str(users["bob"].pk),
        ago=timedelta(days=1),
        agent=CHROME,
        is_new_device=True,
    )
    ended(users["carol"], "", ended_at_is_approximate=True, address="2001:db8::7", ago=timedelta(hours=2))
    row(users["alice"])
    newest, carol, bob, alice = rows_of(admin_client.get(LIST))
    assert [newest["who"], carol["who"], bob["who"], alice["who"]] == ["alice", "carol", "bob", "alice"]
    assert "admin" in alice["ended"]
    assert "by the user" in bob["ended"]
    assert "about" in carol["ended"]
    assert newest["ended"] == "Still signed in"
    assert ("new device" in bob["text"] + bob["own"], "new device" in alice["text"] + alice["own"]) == (True, False)
    assert "2001:db8::7" in carol["sender"]
    assert "Chrome 120" in bob["sender"]


def test_search_and_filters(admin_client, users) -> None:
    ended(users["alice"], "", ended_at_is_approximate=True, ago=timedelta(days=3))
    ended(users["bob"], ago=timedelta(days=2), address="192.0.2.8", agent=CHROME, is_new_device=True)
    row(users["carol"], address="2001:db8:0:1::7")
    queries: list[tuple[dict[str, str], list[str]]] = [
        ({"q": "bob@example"}, ["bob"]),
        ({"q": "192.0.2.7"}, ["alice"]),
        ({"q": " 192.0.2.0/24 "}, ["bob", "alice"]),
        ({"q": "2001:db8:0:1::/64"}, ["carol"]),
        ({"q": "2001:db8:0:2::/64"}, []),
        ({"q": "2001:db8::/32"}, ["carol"]),
        ({"q": 300 * "x"}, []),
        ({"reason": "unknown"}, ["alice"]),
        ({"who_ended": "nonsense"}, ["carol", "bob", "alice"]),
        ({"ended_by": "1\0"}, []),
        ({"browser": "Firefox", "state": "living"}, ["carol"]),
        ({"user": "x"}, []),
        ({"when": "nonsense", "since": "99-99", "until": "9999-12-31"}, ["carol", "bob", "alice"]),
    ]
    # Each single filter: see the tests of the API, which asks this list.
    for query, found in queries:
        assert names(admin_client, **query) == found, query


@pytest.fixture
def ends(users, admin_user) -> dict[str, User]:
    """Sessions of alice's that ended in each way, and one of the administrator's that alice has ended."""
    alice, admin = users["alice"], str(admin_user.pk)
    for number, (reason, by, message) in enumerate(
        (
            (Reason.LOGOUT, "", ""),
            (Reason.KICKED, str(alice.pk), ""),
            (Reason.INVALIDATED, str(alice.pk), ""),
            (Reason.KICKED, admin, "Your password was stolen. Call us before you sign in again, at any hour."),
            (Reason.INVALIDATED, admin, ""),
            (Reason.EXPIRED, "", ""),
            (Reason.KICKED, "", ""),
            ("", "", ""),
        )
    ):
        ago = timedelta(hours=1, minutes=number)
        ended(alice, reason, ended_by=by, stored_message=message, address=f"192.0.2.{number}", ago=ago)
    ended(admin_user, Reason.KICKED, ended_by=str(alice.pk), address="192.0.2.100")
    return {**users, "admin": admin_user}


def addresses(client: Client, **query: str) -> set[int]:
    return {int(found["sender"].rpartition(".")[2]) for found in rows_of(client.get(LIST, query))}


def test_it_is_filtered_by_who_ended_it(admin_client, ends) -> None:
    found = {"staff": {3, 4, 100}, "user_here": {0}, "user_elsewhere": {1, 2}, "nobody": {5, 6}}
    assert {who: addresses(admin_client, who_ended=who) for who in found} == found


def test_a_name_leads_to_the_sessions_of_others_that_this_person_has_ended(admin_client, ends) -> None:
    listed = Page(admin_client.get(LIST, {"who_ended": "staff", "q": "192.0.2.3"}))
    assert "Ended by admin (staff)" in listed.text
    of_admin = listed.links["admin"]
    page = Page(admin_client.get(of_admin))
    assert {int(found["sender"].rpartition(".")[2]) for found in rows_of(admin_client.get(of_admin))} == {3, 4}
    assert "Filters: Ended by admin." in page.text
    own = Page(admin_client.get(LIST, {"who_ended": "user_elsewhere"}))
    assert "Ended by the user, on another device" in own.text
    assert "staff)" not in own.text


def test_who_is_searched_for_may_have_ended_sessions_of_others(admin_client, ends, monkeypatch) -> None:
    url = f"{LIST}?ended_by={ends['admin'].pk}"
    for query in ({"q": "admin"}, {"user": str(ends["admin"].pk)}):
        assert Page(admin_client.get(LIST, query)).links["Sign-ins that admin ended: 2"] == url
    assert "that bob ended" not in Page(admin_client.get(LIST, {"q": "bob"})).text
    monkeypatch.setattr(pages, "COUNTED_MAX", 1)
    assert "that admin ended: at least 2" in Page(admin_client.get(LIST, {"q": "admin"})).text


class NotAdmin(UserAdmin):
    """An admin of users that hides one of them from everybody."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(username="admin")


@pytest.mark.parametrize("permissions", [[VIEW], [VIEW, "view_user"]])
def test_who_ended_it_has_no_name_for_those_from_whom_a_rule_hides_the_user(ends, permissions, monkeypatch) -> None:
    client, key = staff(Client(), *permissions), ends["admin"].pk
    query = {"ended_by": str(key), "user": str(ends["alice"].pk)}
    assert "Ended by admin (staff)" in Page(client.get(LIST, query)).text
    assert names(client, q="adm") == ["admin"]
    monkeypatch.setitem(admin.site._registry, User, NotAdmin(User, admin.site))
    text = Page(client.get(LIST, query)).text
    assert f"Ended by user {key} (staff)" in text
    assert "admin ended" not in Page(client.get(LIST, {"user": str(key)})).text
    assert "Ended by admin" not in text
    # Nor is the name found letter by letter.
    assert names(client, q="adm") == []


def test_what_the_user_has_read_is_in_the_list_and_on_the_page(admin_client, ends) -> None:
    message = "Your password was stolen. Call us before you sign in again, at any hour."
    response = admin_client.get(LIST, {"q": "192.0.2.3"})
    assert message not in Page(response).text
    assert message[:50] in Page(response).text
    assert f'title="Message to the user: {message}"' in response.text
    page = Page(admin_client.get(f"{LIST}{SignIn.objects.get(stored_message=message).pk}/change/"))
    assert f"Message to the user: {message}" in page.text
    assert "Ended by admin (staff)" in page.text


def test_still_signed_in_leads_to_the_session_for_those_who_may_see_it(users, new_session) -> None:
    session = from_place(new_session(str(users["alice"].pk)))
    row(users["alice"], ago=timedelta(days=1))
    live = SignIn.objects.create(user=users["alice"], login_ms=ms_of(online.get(session.sid).created_at))
    seeing = staff(Client(), VIEW, "view_onlinesession", "view_user")
    for url in (LIST, f"{LIST}{live.pk}/change/", f"/admin/auth/user/{users['alice'].pk}/change/"):
        page = Page(seeing.get(url))
        assert "Still signed in" in page.text
        # A filter has the same words: before the rows, or after them.
        assert ("Still signed in", page_of(session.sid)) in page.all_links
    # Not of the older one, which has ended without a record, and not for those who may not see sessions.
    for client, count in ((seeing, 1), (staff(Client(), VIEW, name="blind"), 0)):
        listed = client.get(LIST)
        assert [found["ended"] for found in rows_of(listed)] == ["Still signed in"] * 2
        assert sum("/change/" in href and "/onlinesession/" in href for _, href in Page(listed).all_links) == count


@pytest.mark.clock
def test_times_are_short_and_have_the_year_if_it_is_another_one(admin_client, users) -> None:
    now = timezone.localtime()
    row(users["alice"], ago=timezone.now() - timezone.make_aware(datetime(now.year - 1, 3, 4, 15, 7)))
    [old] = rows_of(admin_client.get(LIST))
    assert old["signed_in"] == f"March 4, {now.year - 1}, 3:07 p.m."
    row(users["bob"], ago=timedelta(seconds=1))
    newest, _ = rows_of(admin_client.get(LIST))
    assert str(now.year) not in newest["signed_in"]
    assert f"All times: {timezone.get_current_timezone_name()}" in Page(admin_client.get(LIST)).text


@pytest.mark.parametrize("permission", [True, False])
def test_the_history_of_a_sign_in_is_that_of_its_user(users, permission) -> None:
    page = f"{LIST}{row(users['alice']).pk}/"
    client = staff(Client(), VIEW, *(["view_user"] if permission else []))
    led_to = client.get(page + "history/").url
    assert led_to == (f"/admin/auth/user/{users['alice'].pk}/history/" if permission else page + "change/")
    assert client.get(LIST + "123456/history/").url == LIST


@pytest.mark.clock
def test_dates_are_days_of_the_local_time_zone(admin_client, users, settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    today = timezone.localdate()
    midnight = timezone.make_aware(timezone.datetime.combine(today, timezone.datetime.min.time()))
    since_midnight = timezone.now() - midnight
    row(users["alice"], ago=since_midnight - timedelta(seconds=0.5))
    row(users["bob"], ago=since_midnight + timedelta(seconds=1))
    row(users["carol"], ago=since_midnight + timedelta(days=20))
    yesterday, long_ago = str(today - timedelta(days=1)), str(today - timedelta(days=15))
    for query, found in (
        ({"when": "today"}, ["alice"]),
        ({"when": "yesterday"}, ["bob"]),
        ({"when": "week"}, ["alice", "bob"]),
        ({"until": long_ago}, ["carol"]),
        ({"since": yesterday, "until": yesterday}, ["bob"]),
        ({"since": str(today)}, ["alice"]),
    ):
        assert names(admin_client, **query) == found, query
    assert 'value="' + long_ago in admin_client.get(LIST, {"until": long_ago, "q": "carol"}).text


@pytest.mark.clock
def test_a_day_has_the_sign_ins_that_were_active_on_it(admin_client, users, settings) -> None:
    settings.TIME_ZONE = "Asia/Tokyo"
    today = timezone.localdate()
    noon = {days: noon_of(today - timedelta(days=days)) for days in range(6)}

    def sign_in(name: str, began: int, seen: int | None, ended: int | None = None) -> None:
        at = timezone.now() - noon[began]
        last_seen_at = None if seen is None else noon[seen]
        row(users[name], ago=at, last_seen_at=last_seen_at, ended_at=None if ended is None else noon[ended])

    # Days ago: began on the first, was last seen on the second, has ended on the third.
    sign_in("alice", 4, 2, 1)
    sign_in("bob", 3, 3, 0)
    sign_in("carol", 2, 2)
    for days, found in ((5, []), (4, ["alice"]), (3, ["bob", "alice"]), (2, ["carol", "alice"]), (1, ["carol"])):
        day = today - timedelta(days=days)
        assert names(admin_client, active_on=str(day)) == found, days
    # Nobody records when a session is seen that still lives.
    assert names(admin_client, active_on="today") == names(admin_client, active_on="yesterday") == ["carol"]
    assert names(admin_client, active_on=str(today + timedelta(days=1))) == []
    assert names(admin_client, active_on="2026-02-31") == names(admin_client, active_on="") == ["carol", "bob", "alice"]
    # One whose last request is not known was there until it ended.
    SignIn.objects.update(last_seen_at=None)
    assert names(admin_client, active_on="yesterday") == ["carol", "bob", "alice"]
    page = admin_client.get(LIST, {"active_on": "yesterday"})
    assert "Filters: Active yesterday." in Page(page).text
    assert f'name="active_on" value="{today - timedelta(days=1)}"' in page.text


def noon_of(day: date) -> datetime:
    return timezone.make_aware(datetime.combine(day, time(12)))


def test_a_sign_in_whose_session_lives_has_not_the_label_of_an_end(admin_client, users) -> None:
    row(users["alice"])
    text = Page(admin_client.get(LIST)).text
    assert "Still signed in" in text
    assert "Ended Still" not in text


def test_the_list_counts_so_far_and_leads_to_older_ones_by_date(admin_client, users, monkeypatch) -> None:
    monkeypatch.setattr(pages, "COUNTED_MAX", 3)
    monkeypatch.setattr(SignInAdmin, "list_per_page", 2)
    for days in range(5):
        row(users["alice"], ago=timedelta(days=days, minutes=1))
    first, last = (admin_client.get(LIST, {"p": number}) for number in (1, 2))
    assert "More than 3 sign-ins" in Page(first).text
    assert (len(rows_of(first)), len(rows_of(last))) == (2, 1)
    assert "Older sign-ins" not in Page(first).links
    older = Page(admin_client.get(LIST + Page(last).links["Older sign-ins"]))
    # The day of the last one, and those before.
    assert "3 sign-ins" in older.text
    assert "Older sign-ins" not in older.links


def test_no_page_counts_or_sorts_all_rows(admin_client, users, django_assert_max_num_queries) -> None:
    for name in users:
        ended(users[name], Reason.KICKED, ended_by=str(users["alice"].pk))
    with django_assert_max_num_queries(6) as queries:
        assert len(names(admin_client)) == 3
    counted = [each["sql"] for each in queries if "COUNT(" in each["sql"]]
    assert len(counted) == 1
    assert "LIMIT 10001" in counted[0]


def test_more_than_a_thousand_users_are_cut_and_said(admin_client, users, monkeypatch) -> None:
    monkeypatch.setattr("django_redsess.admin.filters.USERS_MAX", 3)
    for name in users:
        row(users[name])
    # The administrator is the first of four.
    response = admin_client.get(LIST, {"q": "example.com"})
    assert len(rows_of(response)) == 2
    assert "More than 3 users match" in " ".join(Page(response).messages)


def test_who_may_not_see_users_reads_names_and_searches_by_user_name_only(users) -> None:
    ended(users["alice"], Reason.KICKED, ended_by=str(users["bob"].pk))
    client = staff(Client(), VIEW, EXPORT)
    assert names(client) == names(client, q="ALIC") == ["alice"]
    assert names(client, q="192.0.2.7") != []
    page = client.get(f"{LIST}{SignIn.objects.get().pk}/change/")
    for text in (client.get(LIST).text, page.text, export(client, "csv")):
        assert "bob" in text
        # Nothing leads to a page of a user, which would answer 403.
        assert "/auth/user/" not in text
    # Other fields would be found out letter by letter.
    assert names(client, q="example.com") == []
    seeing = staff(Client(), VIEW, "view_user", name="seeing")
    assert names(seeing, q="example.com") == ["alice"]


def test_a_rule_of_the_site_hides_rows_everywhere(admin_client, users, monkeypatch) -> None:
    hidden = row(users["bob"])
    row(users["alice"])
    every = SignInAdmin.get_queryset
    monkeypatch.setattr(SignInAdmin, "get_queryset", lambda self, request: every(self, request).exclude(pk=hidden.pk))
    assert names(admin_client) == ["alice"]
    assert admin_client.get(f"{LIST}{hidden.pk}/change/").status_code == 302
    assert "bob" not in export(admin_client, "json")
    assert "No sign-in is recorded" in admin_client.get(f"/admin/auth/user/{users['bob'].pk}/change/").text


def test_pages_are_read_only_and_take_a_permission(admin_client, users) -> None:
    page = f"{LIST}{row(users['alice']).pk}/"
    for client, status in (
        (admin_client, 200),
        (staff(Client(), "view_user"), 403),
        (staff(Client(), VIEW, name="v"), 200),
    ):
        assert client.get(LIST).status_code == client.get(page + "change/").status_code == status
    for path in (LIST + "add/", page + "delete/"):
        assert admin_client.get(path).status_code == 403
        assert admin_client.post(path, {"post": "yes"}).status_code == 403
    assert admin_client.post(page + "change/", {"address": "198.51.100.1"}).status_code == 403
    selected = {"action": "delete_selected", "_selected_action": [SignIn.objects.get().pk], "post": "yes"}
    admin_client.post(LIST, selected)
    assert SignIn.objects.get().address == "192.0.2.7"


@pytest.mark.parametrize("way", ["page", "action"])
def test_who_may_delete_users_deletes_their_sign_ins_with_them(users, way) -> None:
    row(users["alice"])
    row(users["bob"])
    client = staff(Client(), "view_user", "delete_user")
    url = f"/admin/auth/user/{users['alice'].pk}/delete/"
    action = {"action": "delete_selected", "_selected_action": [users["alice"].pk]}
    url, data = {"page": (url, {}), "action": ("/admin/auth/user/", action)}[way]
    assert client.post(url, {**data, "post": "yes"}).status_code == 302
    assert not User.objects.filter(username="alice").exists()
    assert SignIn.objects.get().user_id == users["bob"].pk


def test_names_and_messages_are_text(admin_client, users) -> None:
    nasty = User.objects.create_user(MARKUP[:140])
    ended(
        users["alice"], Reason.KICKED, ended_by=str(nasty.pk), agent=MARKUP, stored_message=MARKUP, internal_note=MARKUP
    )
    row(nasty, agent=MARKUP)
    for url in (LIST, f"{LIST}{SignIn.objects.first().pk}/change/", f"/admin/auth/user/{nasty.pk}/change/"):
        assert "<script>alert" not in admin_client.get(url).text, url


def test_links_lead_to_a_users_sign_ins_and_to_those_from_an_address(admin_client, users) -> None:
    row(users["alice"])
    row(users["bob"])
    page = Page(admin_client.get(LIST))
    assert [found["who"] for found in rows_of(admin_client.get(page.links["alice"]))] == ["alice"]
    assert len(rows_of(admin_client.get(page.links["192.0.2.7"]))) == 2
    of_alice = Page(admin_client.get(page.links["alice"]))
    assert of_alice.links["Online sessions of this user"].endswith(f"/onlinesession/?user={users['alice'].pk}")


def export(client: Client, file_format: str, **query: str) -> str:
    response = client.post(LIST + "export/", {"format": file_format}, query_params=query)
    assert response.status_code == 200
    return b"".join(response.streaming_content).decode()


@pytest.mark.parametrize("file_format", ["csv", "json"])
def test_export_has_all_that_match_in_order(admin_client, users, monkeypatch, file_format) -> None:
    monkeypatch.setattr(pages, "READ_AT_ONCE", 2)
    for number in range(5):
        ended(users["alice"], Reason.KICKED, ended_by=str(users["bob"].pk), ago=timedelta(days=number), agent="=cmd()")
    # At the same moment: the order is that of their ids.
    same = row(users["bob"])
    twin = row(users["carol"])
    SignIn.objects.filter(pk=twin.pk).update(login_ms=same.login_ms)
    file = export(admin_client, file_format, q="example.com")
    if file_format == "csv":
        found: list[Any] = list(csv.DictReader(io.StringIO(file.removeprefix("\ufeff"))))
        assert found[-1]["user_agent"] == "'=cmd()"
    else:
        found = json.loads(file)["sign_ins"]
        assert json.loads(file)["count"] == 7
    assert [each["user"] for each in found].count("alice") == 5
    assert sorted(each["user"] for each in found if each["user"] != "alice") == ["bob", "carol"]
    times = [each["created_at"] for each in found]
    assert times == sorted(times, reverse=True)
    assert {each["ended_by_user"] for each in found if each["user"] == "alice"} == {"bob"}
    assert "q=example.com" in LogEntry.objects.get().change_message


def test_export_takes_a_permission_and_a_form(admin_client, users) -> None:
    row(users["alice"])
    client = staff(Client(), VIEW)
    assert client.post(LIST + "export/", {"format": "csv"}).status_code == 403
    assert "/export/" not in client.get(LIST).text
    assert admin_client.get(LIST + "export/").status_code == 405
    assert admin_client.post(LIST + "export/", {"format": "exe"}).status_code == 400
    assert admin_client.post(LIST + "export/?nonsense=1", {"format": "csv"}).status_code == 400


def test_empty_lists_say_so(admin_client, users) -> None:
    for query in ({}, {"q": "nobody"}, {"reason": "evicted"}):
        page = lxml.html.fromstring(admin_client.get(LIST, query).text)
        assert about(page), query


def about(page: Any) -> list[str]:
    return [words(text_of(each)) for each in page.iter("p") if each.get("class") == "redsess-about"]
