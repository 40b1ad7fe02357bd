"""What is said after sessions were ended, and where the administrator returns to."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.contrib.auth.models import User
from django.test import Client

from benchmarks.fill import fill
from django_redsess.admin import ending
from tests.helpers.admin_pages import CONFIRM, LIST, MARKUP, Page, answer, asked, page_of, told
from tests.helpers.behind import stored

pytestmark = pytest.mark.django_db

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

QUERY = "q=b&o=2&p=1"


def select(client: Client, *sids: str, query: str = "", **more: str) -> Any:
    return client.post(f"{LIST}?{query}", {"action": "end_selected", "_selected_action": sids, **more})


def arrive(name: str) -> str:
    """Sign this user in with a browser, and return the sid."""
    User.objects.create_user(name, password="secret")
    browser = Client(headers={"user-agent": FIREFOX}, REMOTE_ADDR="198.51.100.7")
    browser.post("/login/", {"username": name, "password": "secret"})
    return str(browser.session.sid)


# Whose sessions ended.


@pytest.mark.parametrize("way", ["by sid", "by query"])
def test_of_one_session_the_browser_and_the_address_are_named(admin_client, way) -> None:
    sid = arrive("anna")
    query = f"sid={sid}" if way == "by sid" else f"user={User.objects.get(username='anna').pk}"
    response = answer(admin_client, admin_client.get(f"{CONFIRM}?{query}"))
    assert told(response) == "The session of anna was ended: Firefox 145 on Linux, 198.51.100.7."


def test_of_a_guest_too(admin_client, new_session, rf) -> None:
    session = new_session(colour="blue")
    browser = Client(headers={"user-agent": FIREFOX}, REMOTE_ADDR="198.51.100.7")
    browser.cookies["sessionid"] = session.session_key
    assert browser.get("/").status_code == 200
    assert told(answer(admin_client, admin_client.get(f"{CONFIRM}?sid={session.sid}"))) == "1 session was ended."


def test_three_users_are_named_and_the_others_are_counted(admin_client, redis, sids) -> None:
    # The users' keys, and the administrator's, are among the first ten.
    fill(redis, 10, viewed=0)
    text = told(answer(admin_client, admin_client.get(CONFIRM)))
    assert text.startswith("13 sessions were ended. Users: ")
    assert re.search(r" and (7|10) more\.$", text)


def test_users_beside_guests_are_named(admin_client, sids, new_session) -> None:
    guest = new_session(colour="blue")
    response = answer(admin_client, select(admin_client, guest.sid, sids["bob"], query="who=everyone"))
    assert told(response) == "2 sessions were ended. Users: bob."


@pytest.mark.parametrize("number", [1, 2], ids=["one", "two"])
@pytest.mark.parametrize(
    "name",
    [MARKUP, "x was ended. 9 sessions of admin", "a\u202egnp", "%(count)s%s{}", "x" * 150],
    ids=lambda name: name[:9],
)
def test_a_hostile_name_forges_nothing(admin_client, new_session, name, number) -> None:
    user = User.objects.create_user(name)
    chosen = [new_session(str(user.pk)).sid for _ in range(number)]
    response = answer(admin_client, select(admin_client, *chosen))
    [message] = Page(response).messages
    assert message.startswith(f"{number} session{'s' * (number > 1)} of ")
    [line] = [line for line in response.text.splitlines() if "of <bdi>" in line]
    # The name stands between the tags, without a tag or a control character of its own.
    shown = line.partition("<bdi>")[2].partition("</bdi>")[0]
    assert "<" not in shown
    assert shown.isprintable()
    assert len(Page(response).messages[0]) < 160


def test_several_requests_say_how_many_only(admin_client, redis, monkeypatch) -> None:
    monkeypatch.setattr(ending, "END_MAX", 250)
    fill(redis, 600, viewed=0, users=1)
    response = answer(admin_client, admin_client.get(CONFIRM))
    while "so far" in Page(response).text:
        response = answer(admin_client, response)
    assert told(response) == "600 sessions were ended."


def test_who_signs_out_in_ending_leaves_no_names_on_the_page_to_sign_in(admin_client, sids) -> None:
    response = answer(admin_client, admin_client.get(CONFIRM), own="on")
    assert told(response) == "4 sessions were ended."


# The way back.


def path_of(response: Any) -> str:
    """Where the last redirect has led."""
    return str(response.redirect_chain[-1][0])


@pytest.mark.parametrize("all_of_them", [False, True], ids=["selected", "all that match"])
def test_after_the_action_the_list_is_as_it_was(admin_client, sids, all_of_them) -> None:
    response = select(admin_client, sids["bob"], query=QUERY, select_across=str(int(all_of_them)), index="0")
    assert Page(response).links["No, take me back"] == f"{LIST}?{QUERY}"
    response = answer(admin_client, response)
    assert path_of(response) == f"{LIST}?{QUERY}"
    assert told(response) == "1 session of bob was ended."


@pytest.mark.parametrize("link", ["End this session", "End all sessions of this user"])
def test_from_a_sessions_page_the_way_leads_to_the_list_that_led_there(admin_client, sids, link) -> None:
    page = Page(admin_client.get(f"{page_of(sids['bob'])}?_changelist_filters={quote(QUERY)}"))
    response = admin_client.get(page.links[link])
    assert asked(response) == 1
    assert Page(response).links["No, take me back"] == f"{LIST}?{QUERY}"
    assert path_of(answer(admin_client, response)) == f"{LIST}?{QUERY}"


@pytest.mark.parametrize("filters", ["", "?_changelist_filters=q%3Dbob"])
def test_from_a_users_page_the_way_leads_back_to_it(admin_client, users, sids, filters) -> None:
    url = f"/admin/auth/user/{users['bob'].pk}/change/{filters}"
    response = admin_client.get(Page(admin_client.get(url)).links["End all of them"])
    assert Page(response).links["No, take me back"] == url
    response = answer(admin_client, response)
    assert path_of(response) == url
    assert told(response) == "1 session of bob was ended."
    assert "This user is not signed in." in Page(response).text


def test_from_the_list_of_users_the_way_leads_back_to_it(admin_client, users, sids) -> None:
    chosen = {"action": "end_sessions", "_selected_action": [users["bob"].pk, users["carol"].pk]}
    response = admin_client.post("/admin/auth/user/?is_staff__exact=0&p=1", chosen)
    assert Page(response).links["No, take me back"] == "/admin/auth/user/?is_staff__exact=0&p=1"
    assert path_of(answer(admin_client, response)) == "/admin/auth/user/?is_staff__exact=0&p=1"


def test_the_way_back_survives_an_error_and_what_is_continued(admin_client, redis, monkeypatch) -> None:
    monkeypatch.setattr(ending, "END_MAX", 250)
    fill(redis, 600, viewed=0, users=1)
    response = answer(admin_client, select(admin_client, "x", query="o=2", select_across="1"), message="x" * 201)
    response = answer(admin_client, response, message="")
    assert Page(response).links["Stop here"] == f"{LIST}?o=2"
    while "so far" in Page(response).text:
        response = answer(admin_client, response)
    assert path_of(response) == f"{LIST}?o=2"
    assert stored(redis) == 1


def test_what_is_over_already_is_said_on_the_same_list(admin_client, sids) -> None:
    response = select(admin_client, sids["bob"], query=QUERY)
    answer(admin_client, response)
    again = answer(admin_client, response)
    assert path_of(again) == f"{LIST}?{QUERY}"
    assert told(again) == "1 session was not ended: it was over already."


def test_filters_that_the_list_refuses_lead_to_the_whole_list_and_lose_no_message(admin_client, sids) -> None:
    response = admin_client.get(f"{CONFIRM}?sid={sids['bob']}&_changelist_filters=nonsense%3D1")
    response = answer(admin_client, response)
    assert path_of(response) == f"{LIST}?e=1"
    assert told(response) == "1 session of bob was ended."


@pytest.mark.parametrize("value", ["//elsewhere.example", "https://elsewhere.example/", "x" * 100_000, "a\r\nb: c"])
def test_no_value_leads_to_another_site(admin_client, sids, value) -> None:
    fields = {**Page(admin_client.get(f"{CONFIRM}?sid={sids['bob']}")).fields, "_changelist_filters": value}
    location = admin_client.post(f"{LIST}end/", {**fields, "_return_to": value}).headers["Location"]
    assert urlsplit(location).path == LIST
    assert not urlsplit(location).netloc


def test_the_page_to_return_to_is_no_filter_of_the_question(admin_client, sids) -> None:
    response = admin_client.get(f"{CONFIRM}?_changelist_filters=q%3Dbob&_return_to=users")
    assert asked(response) == 3
