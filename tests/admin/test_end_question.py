"""The question before sessions are ended: whose they are, and which reasons there are to choose from."""

from __future__ import annotations

import html
import re
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client
from django.utils.translation import gettext_lazy

from benchmarks.fill import fill
from django_redsess.admin import ending
from django_redsess.conf import END_MESSAGES
from tests.helpers.admin_pages import CONFIRM, END, MARKUP, Page, answer, asked, left, staff

pytestmark = pytest.mark.django_db

REASON = "Somebody else may have known your password. Please change it."


def rows_of(response: Any) -> list[list[str]]:
    """The rows of the question's table, without its head."""
    return Page(response).tables[0][1:]


def options_of(response: Any) -> list[str]:
    """The reasons to choose from, as they would be sent."""
    select = re.search(r'<select name="reason".*?</select>', response.text, re.DOTALL)
    return [html.unescape(value) for value in re.findall(r'value="([^"]*)"', select[0])] if select else []


# The rows.


def test_each_session_has_a_row_with_who_and_where_from_and_since_when(admin_client) -> None:
    User.objects.create_user("anna", password="secret")
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
    browser = Client(headers={"user-agent": firefox}, REMOTE_ADDR="198.51.100.7")
    browser.post("/login/", {"username": "anna", "password": "secret"})
    for query in (f"?sid={browser.session.sid}", "?q=anna"):
        [row] = rows_of(admin_client.get(CONFIRM + query))
        assert row == ["anna", "Firefox 145 on Linux 198.51.100.7", "just now", "just now"]


def test_a_long_list_shows_its_first_rows_and_counts_the_others(admin_client, redis, monkeypatch) -> None:
    monkeypatch.setattr(ending, "ROWS_MAX", 5)
    fill(redis, 1234, viewed=0)
    response = admin_client.get(CONFIRM)
    assert len(rows_of(response)) == 5
    assert "And 1,229 more." in Page(response).text
    assert asked(response) == 1234


def test_a_hostile_name_is_escaped(admin_client, new_session) -> None:
    user = User.objects.create_user(MARKUP)
    response = admin_client.get(f"{CONFIRM}?sid={new_session(str(user.pk)).sid}")
    assert MARKUP not in response.text
    assert MARKUP in Page(response).text


def test_the_rows_say_which_stay(client, new_session) -> None:
    root = new_session(str(User.objects.create_superuser("root").pk))
    staff(client, "view_onlinesession", "end_onlinesession", "end_all_onlinesession")
    rows = {row[0].split()[0]: row[0] for row in rows_of(client.get(CONFIRM))}
    assert "which only a superuser can end: it stays" in rows["root"]
    assert "this is your own session" in rows["staff"]
    assert root.sid in left()


def test_rows_and_numbers_add_up(client, new_session, monkeypatch) -> None:
    monkeypatch.setattr(ending, "ROWS_MAX", 2)
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


def test_the_question_says_what_was_searched_for(admin_client, sids) -> None:
    assert "<title>End everyone else's sessions" in html.unescape(admin_client.get(CONFIRM).text)
    text = Page(admin_client.get(f"{CONFIRM}?q=a&active=5m")).text
    assert "Searched for “a”. Filters: In the last 5 minutes Do you want to end" in text
    assert "everyone else" not in text
    assert MARKUP not in admin_client.get(CONFIRM, {"q": "a", "browser": MARKUP}, follow=True).text


def test_the_question_about_one_user_names_the_user_and_no_filter(client, admin_client, users, new_session) -> None:
    for _ in range(2):
        new_session(str(users["alice"].pk))
    asks = "Do you want to end 2 sessions of alice? Their user is signed out at the next click"
    may_change = "An administrator who may change users can also deactivate the account"
    text = Page(admin_client.get(f"{CONFIRM}?user={users['alice'].pk}")).text
    assert asks in text
    assert "Filters:" not in text
    assert may_change not in text
    assert "Filters: In the last hour" in Page(admin_client.get(f"{CONFIRM}?user={users['alice'].pk}&active=1h")).text
    # Who may not deactivate the account reads who may.
    staff(client, "view_onlinesession", "end_onlinesession")
    text = Page(client.get(f"{CONFIRM}?user={users['alice'].pk}")).text
    assert asks in text
    assert may_change in text


def test_where_nothing_can_end_there_is_only_a_way_back(admin_client) -> None:
    response = admin_client.get(f"{CONFIRM}?user=999")
    text = Page(response).text
    assert "There is no session here that you can end." in text
    assert "Message" not in text
    assert 'name="message"' not in response.text
    assert "Back to the list" in text
    assert "No, take me back" not in text


# The reasons.


def test_a_reason_is_chosen_and_read(admin_client, users) -> None:
    shopper = Client()
    shopper.force_login(users["alice"])
    response = admin_client.get(f"{CONFIRM}?sid={shopper.session.sid}")
    assert options_of(response) == ["", *map(str, END_MESSAGES)]
    answer(admin_client, response, reason=REASON)
    assert shopper.get("/").wsgi_request.session.ended.message == REASON
    assert LogEntry.objects.get().change_message == f"Ended 1 session. Message: {REASON}"


def test_words_of_ones_own_follow_the_reason(admin_client, users) -> None:
    shopper = Client()
    shopper.force_login(users["alice"])
    answer(admin_client, admin_client.get(CONFIRM), reason=REASON, message="Call us: 123.")
    assert shopper.get("/").wsgi_request.session.ended.message == f"{REASON} Call us: 123."


@pytest.mark.parametrize(
    "fields",
    [{"reason": REASON, "message": "x" * 190}, {"reason": "not ours"}],
    ids=["too long together", "a reason that is none"],
)
def test_what_is_wrong_with_a_reason_ends_nothing(admin_client, sids, fields) -> None:
    response = answer(admin_client, admin_client.get(CONFIRM), **fields)
    assert asked(response) == 3
    assert "errorlist" in response.text
    assert Page(response).fields["message"] == fields.get("message", "")
    assert len(left()) == 4


def test_a_reason_is_kept_where_it_takes_several_requests(admin_client, redis, monkeypatch) -> None:
    monkeypatch.setattr("django_redsess.admin.ending.END_MAX", 250)
    fill(redis, 600, viewed=0, users=1)
    response = answer(admin_client, admin_client.get(CONFIRM), reason=REASON, message="Bye.")
    while "so far" in Page(response).text:
        response = answer(admin_client, response)
    assert {entry.change_message.partition("Message: ")[2] for entry in LogEntry.objects.all()} == {f"{REASON} Bye."}


def test_a_site_has_reasons_of_its_own_or_none(admin_client, settings, sids) -> None:
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": ["We <moved>.", gettext_lazy("Sessions")]}
    assert options_of(admin_client.get(CONFIRM)) == ["", "We <moved>.", "Sessions"]
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": []}
    response = admin_client.get(CONFIRM)
    assert "reason" not in Page(response).fields
    assert 'name="reason"' not in response.text
    assert asked(answer(admin_client, response, message="x" * 201)) == 3


def test_reasons_are_in_the_language_of_the_site(admin_client, settings, sids) -> None:
    settings.LANGUAGE_CODE = "de"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.middleware.locale.LocaleMiddleware"]
    response = admin_client.get(CONFIRM, headers={"accept-language": "en"})
    assert "Do you want to end" in Page(response).text
    assert "Dieses Gerät wurde als verloren gemeldet." in options_of(response)


@pytest.mark.parametrize("value", ["text", [1], [""], [" "], ["x" * 201], None, {"a": "b"}], ids=str)
def test_a_setting_that_is_wrong_is_named(settings, value) -> None:
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": value}
    [error] = [each for each in run_checks() if each.id == "django_redsess.E003"]
    assert "REDSESS['END_MESSAGES'] must be a list or tuple of texts, each of 1 to 200 characters" in error.msg


def test_reasons_by_function_of_translation_pass_the_check(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "END_MESSAGES": (gettext_lazy("Sessions"), "x" * 200)}
    assert not [each for each in run_checks() if each.id == "django_redsess.E003"]


def test_the_form_ends_by_its_first_button(admin_client, users, sids) -> None:
    page = admin_client.get(f"{CONFIRM}?sid={sids['bob']}").text
    form = page[page.index(f'action="{END}"') :]
    buttons = re.findall(r'<(?:input|button) type="submit"[^>]*>', form)
    # Enter in a field presses the first.
    assert 'value="Yes, end it"' in buttons[0]
    assert 'name="deactivate"' in buttons[1]
    assert form.index('name="reason"') < form.index('name="message"') < form.index(buttons[0])
    assert "autofocus" not in form
