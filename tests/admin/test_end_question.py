"""The question before sessions are ended, what is said afterwards, and where the administrator returns to."""

from __future__ import annotations

import html
import re
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client
from django.utils.translation import gettext_lazy

from benchmarks.fill import fill
from django_redsess.admin import ending, question
from django_redsess.conf import END_MESSAGES
from tests.admin.visits import arrive
from tests.helpers.admin_pages import CONFIRM, LIST, MARKUP, Page, answer, asked, left, page_of, staff, told
from tests.helpers.store import stored

pytestmark = pytest.mark.django_db

REASON = "Somebody else may have known your password. Please change it."


def rows_of(response: Any) -> list[list[str]]:
    """The rows of the question's table, without its head."""
    return Page(response).tables[0][1:]


def options_of(response: Any) -> list[str]:
    """The reasons to choose from, as they would be sent."""
    select = re.search(r'<select name="reason".*?</select>', response.text, re.DOTALL)
    return [html.unescape(value) for value in re.findall(r'value="([^"]*)"', select[0])] if select else []


@pytest.mark.parametrize("way", ["by sid", "by query"])
def test_a_session_has_a_row_and_where_it_was_the_only_one_a_message_that_names_it(admin_client, way) -> None:
    browser = arrive("anna")
    response = admin_client.get(f"{CONFIRM}?sid={browser.session.sid}" if way == "by sid" else f"{CONFIRM}?q=anna")
    assert rows_of(response) == [["anna", "Firefox 140 on Linux 198.51.100.7", "just now", "just now"]]
    message = told(answer(admin_client, response))
    assert message == "The session of anna was ended: Firefox 140 on Linux, 198.51.100.7."


def test_rows_and_numbers_add_up(client, new_session, monkeypatch) -> None:
    monkeypatch.setattr(question, "ROWS_MAX", 2)
    names = ["anna", "ben", "cleo", "root1", "root2"]
    for name in names:
        is_root = name.startswith("root")
        new_session(str(User.objects.create_user(name, is_superuser=is_root).pk))
    staff(client, "view_onlinesession", "end_onlinesession", "end_all_onlinesession")
    for response in (client.get(CONFIRM), client.get(f"{CONFIRM}?sid__in={','.join(left())}")):
        assert asked(response) == 3
        assert {row[0] for row in rows_of(response)} < {"anna", "ben", "cleo"}
        text = Page(response).text
        assert len(rows_of(response)) == 2
        assert "And 1 more." in text
        assert "2 more are superusers', which only a superuser can end: they stay." in text
        assert "Your own session stays, unless you tick the box." in text


def test_a_reason_is_chosen_and_read(admin_client, users) -> None:
    shopper = Client()
    shopper.force_login(users["alice"])
    response = admin_client.get(f"{CONFIRM}?sid={shopper.session.sid}")
    assert options_of(response) == ["", *END_MESSAGES]
    answer(admin_client, response, reason="known_password", message="<b>Call us</b>")
    response = shopper.get("/")
    assert response.wsgi_request.session.ended.message == f"{REASON} <b>Call us</b>"
    assert f"{REASON} <b>Call us</b>" in Page(response).text
    assert "<b>Call" not in response.text
    assert not response.wsgi_request.user.is_authenticated
    assert LogEntry.objects.get().change_message == f"Ended 1 session. Message: {REASON} <b>Call us</b>"


@pytest.mark.parametrize(
    "fields",
    [{"reason": "lost_device", "message": "x" * 201}, {"reason": "not ours"}],
    ids=["too many own words", "a reason that is none"],
)
def test_what_is_wrong_with_a_reason_ends_nothing(admin_client, sids, fields) -> None:
    response = answer(admin_client, admin_client.get(CONFIRM), **fields)
    assert asked(response) == 3
    assert "errorlist" in response.text
    assert Page(response).fields["message"] == fields.get("message", "")
    assert len(left()) == 4


def test_reasons_are_the_sites_own_or_none_and_in_the_administrators_language(admin_client, settings, sids) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    response = admin_client.get(CONFIRM, headers={"accept-language": "de"})
    assert "Dieses Gerät wurde als verloren gemeldet." in response.text
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": {"move": "We <moved>.", "more": gettext_lazy("Sessions")}}
    response = admin_client.get(CONFIRM)
    assert options_of(response) == ["", "move", "more"]
    assert "We &lt;moved&gt;." in response.text
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": {}}
    response = admin_client.get(CONFIRM)
    assert "reason" not in Page(response).fields
    assert 'name="reason"' not in response.text
    assert asked(answer(admin_client, response, message="x" * 201)) == 3


def test_a_setting_that_is_wrong_is_named(settings) -> None:
    texts = ({"a": 1}, {"a": ""}, {"a": " "}, {"a": "x" * 201})
    codes = ({"": "b"}, {"a b": "b"}, {"A": "b"}, {"a\tb": "b"}, {"a" * 50: "b"}, {1: "b"})
    for value in ("text", ["text"], None, *texts, *codes):
        settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": value}
        [error] = [each for each in run_checks() if each.id == "django_redsess.E003"]
        assert "REDSESS['END_MESSAGES']" in error.msg
    settings.REDSESS = {
        **settings.REDSESS,
        "END_MESSAGES": {"a": gettext_lazy("Sessions"), "b_2" + "c" * 45: "x" * 200},
    }
    assert not [each for each in run_checks() if each.id == "django_redsess.E003"]


QUERY = "q=b&o=2&p=1"


def select(client: Client, *sids: str, query: str = "", **more: str) -> Any:
    return client.post(f"{LIST}?{query}", {"action": "end_selected", "_selected_action": sids, **more})


def test_three_users_are_named_and_the_others_are_counted(admin_client, redis, sids) -> None:
    # The users' keys, and the administrator's, are among the first ten.
    fill(redis, 10, viewed=0)
    text = told(answer(admin_client, admin_client.get(CONFIRM)))
    assert text.startswith("13 sessions were ended. Users: ")
    assert re.search(r" and (7|10) more\.$", text)


def test_a_hostile_name_forges_nothing(admin_client, new_session) -> None:
    names = [MARKUP, "x was ended. 9 sessions of admin", "a\u202egnp", "%(count)s%s{}", "x" * 150]
    for number, name in enumerate(names, 1):
        user = User.objects.create_user(name)
        chosen = [new_session(str(user.pk)).sid for _ in range(number)]
        response = answer(admin_client, select(admin_client, *chosen))
        [message] = Page(response).messages
        assert message.startswith(f"{number} session{'s' * (number > 1)} of ")
        assert len(message) < 160
        [line] = [line for line in response.text.splitlines() if "of <bdi>" in line]
        # The name stands between the tags, without a tag or a control character of its own.
        shown = line.partition("<bdi>")[2].partition("</bdi>")[0]
        assert "<" not in shown
        assert shown.isprintable()


def test_a_note_is_in_the_histories_and_no_user_reads_it(admin_client) -> None:
    for fields, line in (
        ({"message": "Call us.", "note": " Ticket\r\n77 "}, "Message: Call us. · Internal note: Ticket 77"),
        ({"note": "Ticket 78"}, "Internal note: Ticket 78"),
    ):
        nora = arrive("nora")
        question = f"{CONFIRM}?user={User.objects.get(username='nora').pk}"
        assert asked(answer(admin_client, admin_client.get(question), note="x" * 201)) == 1
        answer(admin_client, admin_client.get(question), **fields)
        assert LogEntry.objects.get().change_message == f"Ended 1 session. {line}"
        response = nora.get("/")
        assert "Ticket" not in response.text + str(response.headers)
        assert response.wsgi_request.session.ended.message == fields.get("message", "")
        LogEntry.objects.all().delete()


def question_of(response: Any) -> str:
    found = re.search(r"Do you want to end [^?]*", Page(response).text)
    return found[0] if found else ""


def test_the_question_says_how_many_users_are_concerned(admin_client, users, sids, new_session, monkeypatch) -> None:
    more = new_session(str(users["bob"].pk)).sid
    assert question_of(select(admin_client, sids["bob"], more)) == "Do you want to end 2 sessions of bob"
    chosen = select(admin_client, sids["bob"], more, sids["carol"])
    assert question_of(chosen) == "Do you want to end 3 sessions of 2 users"
    guest = new_session(colour="blue").sid
    chosen = select(admin_client, sids["bob"], sids["carol"], guest)
    assert question_of(chosen) == "Do you want to end 3 sessions of 2 users"
    assert "Sessions of guests are among them." in Page(chosen).text
    assert question_of(admin_client.get(CONFIRM)) == "Do you want to end 4 sessions of 3 users"
    monkeypatch.setattr(question, "COUNTED_MAX", 3)
    assert question_of(admin_client.get(CONFIRM)) == "Do you want to end 4 sessions of at least 2 users"


def path_of(response: Any) -> str:
    """Where the last redirect has led."""
    return str(response.redirect_chain[-1][0])


@pytest.mark.parametrize("way", ["selected", "all", "its page", "its user's", "user", "user, searched", "users"])
def test_from_wherever_the_question_was_asked_the_way_leads_back_there(admin_client, users, sids, way) -> None:
    of_list, of_users = f"{LIST}?{QUERY}", "/admin/auth/user/?is_staff__exact=0&p=1"
    of_session = f"{page_of(sids['bob'])}?_changelist_filters={quote(QUERY)}"
    of_user = f"/admin/auth/user/{users['bob'].pk}/change/"
    searched = f"{of_user}?_changelist_filters=q%3Dbob"
    chosen = {"action": "end_sessions", "_selected_action": [users["bob"].pk]}

    def follow(url: str, link: str) -> Any:
        return admin_client.get(Page(admin_client.get(url)).links[link])

    ask, back = {
        "selected": (lambda: select(admin_client, sids["bob"], query=QUERY, select_across="0", index="0"), of_list),
        "all": (lambda: select(admin_client, sids["bob"], query=QUERY, select_across="1", index="0"), of_list),
        "its page": (lambda: follow(of_session, "End this session"), of_list),
        "its user's": (lambda: follow(of_session, "End all sessions of this user"), of_list),
        "user": (lambda: follow(of_user, "End all of them"), of_user),
        "user, searched": (lambda: follow(searched, "End all of them"), searched),
        "users": (lambda: admin_client.post(of_users, chosen), of_users),
    }[way]
    response = ask()
    assert asked(response) == 1
    assert Page(response).links["No, take me back"] == back
    response = answer(admin_client, response)
    assert path_of(response) == back
    assert told(response) == "1 session of bob was ended."


def test_the_way_back_survives_an_error_and_what_is_continued(admin_client, redis, monkeypatch) -> None:
    monkeypatch.setattr(ending, "END_MAX", 1)
    # A call ends up to 250.
    fill(redis, 260, viewed=0, users=1)
    response = answer(admin_client, select(admin_client, "x", query="o=2", select_across="1"), message="x" * 201)
    response = answer(admin_client, response, message="")
    assert Page(response).links["No, take me back"] == f"{LIST}?o=2"
    while asked(response):
        response = answer(admin_client, response)
    assert path_of(response) == f"{LIST}?o=2"
    assert stored(redis) == 1


def test_filters_that_the_list_refuses_lead_to_the_whole_list_and_lose_no_message(admin_client, sids) -> None:
    response = admin_client.get(f"{CONFIRM}?sid={sids['bob']}&_changelist_filters=nonsense%3D1")
    response = answer(admin_client, response)
    assert path_of(response) == f"{LIST}?e=1"
    assert told(response) == "1 session of bob was ended."


HOSTILE = [
    *("//elsewhere.example/", "https://elsewhere.example/?q=1", "javascript:alert(1)", "\r\nLocation: //e.example"),
    *("a\x00b", "q=%00", "../../logout/", "&&&", "?", "#top", "_changelist_filters=q%3D1", "q=" + "x" * 100_000),
]


def test_no_value_leads_to_another_site(admin_client, sids, new_session) -> None:
    question = Page(admin_client.get(f"{CONFIRM}?sid={sids['bob']}"))
    for value in HOSTILE:
        for page in (value, f"page:auth_user:{value}", f"page:{value}", f"list:{value}"):
            hostile = {"sids": new_session("7").sid, "_changelist_filters": value, "_return_to": page}
            location = admin_client.post(f"{LIST}end/", {**question.fields, **hostile}).headers["Location"]
            assert urlsplit(location).path == LIST or urlsplit(location).path.startswith("/admin/auth/user/")
            assert not urlsplit(location).netloc
            assert len(location) < 7000
            assert not set(location) & set("\r\n\x00 ")
    assert len(left()) == 4
    # A user whose key is text has a page, too.
    question = Page(admin_client.get(f"{CONFIRM}?sid={sids['carol']}&_return_to=page:auth_user:a%2Fb%3Ac"))
    assert question.links["No, take me back"] == "/admin/auth/user/a_2Fb_3Ac/change/"


def test_a_query_that_is_too_long_for_a_url_is_dropped(admin_client, users, sids) -> None:
    keys = "&".join(f"user={user.pk}" for user in users.values())
    row = Page(admin_client.get(f"{LIST}?{keys}{'&user=0' * 990}")).rows[0]
    [end] = [href for href in row["hrefs"] if href.startswith(CONFIRM)]
    assert end == f"{CONFIRM}?sid={row['sid']}"
