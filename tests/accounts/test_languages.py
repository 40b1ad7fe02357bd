"""Messages that somebody ends sessions with, and that somebody of another language reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone
from django.utils.translation import gettext, gettext_lazy, override

from django_redsess import online, user_messages
from django_redsess.contrib.history.models import SignIn
from django_redsess.exceptions import SignInRefused
from django_redsess.signals import EndedSession, Reason, user_blocked
from tests.helpers.accounts import PASSWORD, sid_of, sign_in
from tests.helpers.admin_pages import Page
from tests.helpers.api import ask, get
from tests.helpers.site import AUTH, SESSION

pytestmark = pytest.mark.django_db

OWN_WORDS = "Grüße, <b>Ihr Team</b>"
CODES = sorted(user_messages.ready_messages())
READERS = ["en", "ar"]


@pytest.fixture(autouse=True)
def in_two_languages(site: Any) -> None:
    """Requests have the language of their browser. What is no request, as a command, speaks the site's: English."""
    site.MIDDLEWARE = [
        SESSION,
        "django.middleware.locale.LocaleMiddleware",
        AUTH,
        "django.contrib.messages.middleware.MessageMiddleware",
    ]


@pytest.fixture(params=READERS)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def operator() -> Client:
    """The browser of a German administrator."""
    return german(User.objects.create_superuser("root", password=PASSWORD))


@pytest.fixture
def reader(alice: User, language: str) -> Client:
    """A browser of Alice, who does not read German."""
    return browser_of(alice, language)


def german(user: User) -> Client:
    return browser_of(user, "de")


def browser_of(user: User, language: str) -> Client:
    browser = sign_in(user)
    browser.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    return browser


def words(code: str, language: str) -> str:
    with override(language):
        text = str(user_messages.ready_messages()[code])
    # Otherwise nothing here is tested.
    assert language == "de" or text != words(code, "de")
    return text


def read_in(html: str) -> str:
    """Return the text of a page, without the marks that isolate words of another direction."""
    return unescape(html).replace("\u2068", "").replace("\u2069", "")


def said(text: str, language: str) -> str:
    with override(language):
        return gettext(text)


def shown(browser: Client) -> str:
    """Who is signed in on the next page, and the messages there."""
    return read_in(browser.get("/who-and-messages/").content.decode())


def kicked(message: str, language: str) -> str:
    return f"{said('Your session was ended.', language)} {message}"


def blocked_by_a_german(user: User, message: str) -> None:
    with override("de"):
        online.block(user, until=timezone.now() + timedelta(hours=1), message=message)


@pytest.mark.parametrize("code", CODES)
def test_each_ready_made_message_is_read_in_the_readers_language(alice, reader, language, code) -> None:
    other = browser_of(alice, language)
    with override("de"):
        online.end(sid_of(reader), message=online.ready_message(code, OWN_WORDS))
    message = f"{words(code, language)} {OWN_WORDS}"
    answer = reader.get("/who-and-messages/")
    assert read_in(answer.content.decode()) == f"nobody|{kicked(message, language)}"
    reason, named, encoded = answer["X-Session-Ended"].split("; ")
    assert (reason, named, unquote(encoded)) == ("kicked", f"code={code}", f"message*=UTF-8''{message}")
    about_another = f"alice|{said('One of your sessions was ended.', language)} {message}"
    assert shown(other) == about_another
    # It waits for the next sign-in, too.
    assert shown(browser_of(alice, language)) == about_another


@pytest.mark.parametrize("code", CODES)
def test_who_is_blocked_reads_the_message_in_the_own_language(alice, language, code) -> None:
    blocked_by_a_german(alice, online.ready_message(code, OWN_WORDS))
    message = f"{words(code, language)} {OWN_WORDS}"
    browser = Client(headers={"accept-language": language})
    given = {"username": "alice", "password": PASSWORD}
    answers = [browser.post("/sign-in-by-form/", given), browser.get("/sign-in/alice/")]
    answers.append(browser.get("/sign-in/alice/", headers={"accept": "application/json"}))
    for answer in answers:
        text = answer.json()["detail"] if "json" in answer["Content-Type"] else read_in(answer.content.decode())
        assert message in " ".join(text.split())
    with override(language), pytest.raises(SignInRefused) as caught:
        sign_in(alice)
    assert (caught.value.message, caught.value.message_code) == (message, code)


def test_an_administrator_chooses_in_one_language_and_the_user_reads_in_another(operator, reader, language) -> None:
    question = operator.get("/admin/django_redsess/onlinesession/confirm/", {"sid": sid_of(reader)})
    assert words("lost_device", "de") in question.text
    sent = {"sids": sid_of(reader), "reason": "lost_device", "message": OWN_WORDS}
    operator.post("/admin/django_redsess/onlinesession/end/", sent)
    message = f"{words('lost_device', language)} {OWN_WORDS}"
    assert shown(reader) == f"nobody|{kicked(message, language)}"
    # Django stores the text of an entry as it is: the site's language has the most readers.
    entry = f"Ended 1 session. Message: {words('lost_device', 'en')} {OWN_WORDS}"
    assert LogEntry.objects.get().change_message == entry


def test_the_second_question_of_a_deactivation_keeps_the_reason(operator, reader, alice, language) -> None:
    end = "/admin/django_redsess/onlinesession/end/"
    sent = {"sids": sid_of(reader), "reason": "new_permissions", "message": OWN_WORDS, "deactivate": alice.pk}
    question = operator.post(end, sent)
    assert f"{words('new_permissions', 'de')} {OWN_WORDS}" in read_in(question.text)
    operator.post(end, {**Page(question).fields, "deactivate": alice.pk})
    assert not User.objects.get(pk=alice.pk).is_active
    message = f"{words('new_permissions', language)} {OWN_WORDS}"
    assert shown(reader) == f"nobody|{kicked(message, language)}"


@pytest.mark.parametrize("address", ["/account/sessions/{}/end/", "/api/v1/me/sessions/{}"])
def test_the_users_own_device_is_told_in_its_own_language(alice, reader, language, address) -> None:
    method = "delete" if "api" in address else "post"
    getattr(german(alice), method)(address.format(sid_of(reader)))
    assert shown(reader) == f"nobody|{kicked(words('ended_by_user', language), language)}"


def deactivate(user: User) -> None:
    user.is_active = False
    user.save()


def change_password(user: User) -> None:
    user.set_password("another password")
    user.save()


EVENTS: dict[str, Callable[[User], object]] = {
    "password_changed": change_password,
    "account_deactivated": deactivate,
    "account_deleted": lambda user: user.delete(),
}


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("code", EVENTS)
def test_an_event_of_the_account_is_told_in_the_readers_language(alice, reader, language, code) -> None:
    with override("de"):
        EVENTS[code](alice)
    assert shown(reader) == f"nobody|{kicked(words(code, language), language)}"


def test_programs_get_the_code_and_the_words(history, operator, alice, reader, language) -> None:
    body = {"ids": [sid_of(reader)], "message_code": "known_password", "message": OWN_WORDS}
    assert ask(operator, "post", "sessions/end", body).json()["ended"]
    until = (timezone.now() + timedelta(days=1)).isoformat()
    sent = {"until": until, "message_code": "known_password", "message": OWN_WORDS}
    path = f"users/{alice.pk}/block"
    assert ask(operator, "put", path, sent).json()["message"] == f"{words('known_password', 'de')} {OWN_WORDS}"
    operator.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    expected = ("known_password", f"{words('known_password', language)} {OWN_WORDS}")
    [sign_in_of_alice] = get(operator, "sign-ins", user=alice.pk)["sign_ins"]
    for told in (sign_in_of_alice, get(operator, path)):
        assert (told["message_code"], told["message"]) == expected


def test_an_unknown_code_is_refused_and_named(operator, reader) -> None:
    # The second is ours: it says what no operator has done.
    for code in ("lost", "ended_by_user"):
        body = {"ids": [sid_of(reader)], "message_code": code, "message": ""}
        answer = ask(operator, "post", "sessions/end", body)
        assert answer.status_code == 422
        assert "lost_device" in answer.json()["detail"]
    with pytest.raises(ValueError, match=r"'lost' is no code of a ready-made message. The codes: .*lost_device"):
        online.ready_message("lost")


def test_administrators_read_the_history_in_their_own_language(history, operator, alice, reader, language) -> None:
    with override("de"):
        online.end(sid_of(reader), message=online.ready_message("known_password", OWN_WORDS))
    [row] = SignIn.objects.filter(user=alice)
    operator.defaults["HTTP_ACCEPT_LANGUAGE"] = language
    page = operator.get(f"/admin/redsess_history/signin/{row.pk}/change/")
    assert f"{words('known_password', language)} {OWN_WORDS}" in read_in(page.text)


def test_receivers_get_the_code_and_the_words_of_ends_and_blocks(alice, reader, told, heard) -> None:
    blocked_by_a_german(alice, online.ready_message("known_password", OWN_WORDS))
    expected = (f"{words('known_password', 'en')} {OWN_WORDS}", "known_password")
    assert [(each.message, each.message_code) for each in told] == [expected]
    assert [(each["message"], each["message_code"]) for each in heard] == [
        (f"{words('known_password', 'de')} {OWN_WORDS}", "known_password")
    ]
    # A program that keeps copies gives the stored form back.
    online.block(alice, until=timezone.now() + timedelta(hours=2), message=heard[0]["stored_message"])
    assert (online.block_of(alice) or heard)[2] == heard[0]["stored_message"]


@pytest.fixture
def heard() -> Iterator[list[dict[str, Any]]]:
    """What receivers of ``user_blocked`` got."""
    found: list[dict[str, Any]] = []

    def receive(**named: Any) -> None:
        found.append(named)

    user_blocked.connect(receive)
    yield found
    user_blocked.disconnect(receive)


@pytest.mark.django_db(transaction=True)
def test_messages_of_the_site_have_codes_too_and_one_of_ours_can_be_replaced(site, alice, reader, language) -> None:
    own = {"new_terms": gettext_lazy("Unknown device"), "password_changed": "We see a new password."}
    site.REDSESS = {**site.REDSESS, "END_MESSAGES": own}
    with override("de"):
        online.end(sid_of(reader), message=online.ready_message("new_terms"))
    assert shown(reader) == f"nobody|{kicked(said('Unknown device', language), language)}"
    second = browser_of(alice, language)
    shown(second)
    change_password(alice)
    assert shown(second) == f"nobody|{kicked('We see a new password.', language)}"


STORED = {
    "lost_device\tCall us.": ("lost_device", "This device was reported lost. Call us."),
    "lost_device\t": ("lost_device", "This device was reported lost."),
    "a_code_of_the_next_release\tCall us.": ("a_code_of_the_next_release", "Call us."),
    "a_code_of_the_next_release\t": ("a_code_of_the_next_release", ""),
    "Lost device\tCall us.": ("", "Lost device Call us."),
    "\tCall\tus.": ("", "Call us."),
    "lost_device": ("", "lost_device"),
    "": ("", ""),
    "x" * 300: ("", "x" * 200),
}
"""What may be stored, also by an earlier or a later release or another program: its code, and its words."""


@pytest.mark.parametrize("stored", STORED)
def test_whatever_is_stored_is_shown(stored) -> None:
    ended = EndedSession("sid", "7", Reason.KICKED, timezone.now(), stored_message=stored)
    assert (ended.message_code, ended.message) == STORED[stored]


@pytest.mark.parametrize("message", ["lost\tdevice", "Lost\tdevice", "lost_device", "\t\tlost_device\t"])
def test_own_words_never_become_a_code(alice, reader, language, message) -> None:
    online.end(sid_of(reader), message=message)
    assert shown(reader) == f"nobody|{kicked(' '.join(message.split()), language)}"
