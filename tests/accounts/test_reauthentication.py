"""Users give their password again before they end other sessions of theirs, and what "This was not me" does."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.backends import BaseBackend
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.auth.models import User
from django.contrib.auth.views import PasswordChangeView
from django.http import HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from django_redsess import online
from django_redsess.accounts import reauthentication
from testproject import urls as shop_urls
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in
from tests.helpers.admin_pages import page_of
from tests.helpers.store import make_older
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.django_db

# A site without a page that changes the password; and the same, as if allauth had its pages there.
WITHOUT = [each for each in shop_urls.urlpatterns if "password" not in str(each.pattern)]
urlpatterns = [
    path("allauths/password/change/", PasswordChangeView.as_view(), name="account_change_password"),
    *WITHOUT,
]


class WithoutPassword:
    urlpatterns = WITHOUT


LIST = "/account/sessions/"
END_OTHERS, NOT_ME = LIST + "end-others/", LIST + "not-me/"
WRONG = {"password": "not the password"}
RIGHT = {"password": PASSWORD}


def end_url(browser: Client) -> str:
    return f"{LIST}{sid_of(browser)}/end/"


def not_me_url(browser: Client) -> str:
    return f"{LIST}{sid_of(browser)}/not-me/"


@pytest.fixture
def here(alice: User, redis: Any) -> Client:
    """A browser in which Alice signed in more than five minutes ago."""
    return signed_in_long_ago(alice, redis)


@pytest.fixture
def there(alice: User) -> Client:
    return sign_in(alice)


def signed_in_long_ago(user: User, redis: Any) -> Client:
    browser = sign_in(user)
    make_older(redis, sid_of(browser), 301)
    return browser


def asks(answer: HttpResponse) -> bool:
    """Tell whether the answer asks for the password."""
    is_form = 'type="password"' in answer.content.decode()
    assert is_form == (answer.status_code == 200)
    return is_form


def lasts_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let five minutes pass for passwords that were given."""
    monkeypatch.setattr(reauthentication, "RECENT_SECONDS", 0)


@pytest.mark.parametrize("client_class", [Client, AsyncClient])
@pytest.mark.parametrize(
    ("button", "then"), [("end", LIST), ("end_others", NOT_ME), ("not_me", NOT_ME), ("device", NOT_ME)]
)
@pytest.mark.usefixtures("partitions")
def test_others_end_after_the_password_only(alice, redis, there, button, then, client_class) -> None:
    here = Browser(client_class())
    here.sign_in(alice)
    make_older(redis, here.sid or "", 301)
    url = {"end": end_url(there), "device": not_me_url(there), "end_others": END_OTHERS, "not_me": NOT_ME}[button]
    for data in ({}, {"password": ""}, WRONG):
        answer = here.post(url, data)
        assert asks(answer)
        assert "no-store" in answer["Cache-Control"]
        assert count(alice) == 2
    answer = here.post(url, RIGHT)
    assert (answer.status_code, answer["Location"]) == (302, then)
    assert [session.sid for session in online.of_user(alice)] == [here.sid]


def test_the_question_is_one_page_with_the_field_for_the_password(alice, here, there) -> None:
    page = here.get(END_OTHERS)
    assert asks(page)
    assert "1 other device will be signed out." in page.text
    assert 'type="password"' not in there.get(END_OTHERS).text, "who has just signed in is asked for the password"
    assert count(alice) == 2


def test_the_page_keeps_which_session_it_is_about_and_helps_password_managers(here, there) -> None:
    page = here.post(end_url(there)).text
    form = page[page.index('<form class="redsess-question"') :]
    # It has no other place to go to than the one that was asked for.
    assert "action=" not in form[: form.index(">")]
    assert 'name="csrfmiddlewaretoken"' in form
    assert re.search(r'<input name="username" value="alice" autocomplete="username" hidden>', form)
    assert 'autocomplete="current-password"' in form
    assert here.post(end_url(there) + "?next=https://example.com/", RIGHT)["Location"] == LIST


def test_after_the_password_it_is_not_asked_for_five_minutes(alice, here, there, monkeypatch) -> None:
    elsewhere, last = sign_in(alice), sign_in(alice)
    assert here.post(end_url(there), RIGHT).status_code == 302
    assert here.post(end_url(elsewhere)).status_code == 302
    assert count(alice) == 2
    lasts_no_longer(monkeypatch)
    assert asks(here.post(end_url(last)))
    assert count(alice) == 2


def test_a_copy_of_the_cookie_is_worth_nothing_after_the_password(here, there) -> None:
    copy = Client()
    copy.cookies["sessionid"] = here.cookies["sessionid"].value
    assert here.post(end_url(there), RIGHT).status_code == 302
    assert here.get(LIST).status_code == 200
    assert copy.get(LIST).status_code == 302


def test_five_wrong_passwords_and_the_right_one_is_refused_for_five_minutes(alice, here, there, monkeypatch) -> None:
    statuses = [here.post(END_OTHERS, WRONG).status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 200, 429]
    for data in (RIGHT, {}):
        answer = here.post(END_OTHERS, data)
        assert (answer.status_code, answer["Retry-After"]) == (429, "300")
        assert 'type="password"' not in answer.text
    assert count(alice) == 2
    # It is the session that has to wait. Its user is signed in, and may sign in again.
    assert here.get(LIST).status_code == 200
    assert sign_in(alice).post(end_url(there)).status_code == 302
    lasts_no_longer(monkeypatch)
    assert here.post(END_OTHERS, RIGHT).status_code == 302


def test_the_right_password_forgets_the_wrong_ones(here, there) -> None:
    for _ in range(4):
        assert asks(here.post(END_OTHERS, WRONG))
    assert here.post(END_OTHERS, RIGHT).status_code == 302
    session = here.session
    del session[reauthentication.GIVEN_KEY]
    session.save()
    assert asks(here.post(END_OTHERS, WRONG))


class AlwaysBob(BaseBackend):
    """Takes each password for Bob's."""

    def authenticate(self, request: Any, username: Any = None, password: Any = None, **kwargs: Any) -> Any:
        return User.objects.get(username="bob")


def test_a_password_of_another_user_is_a_wrong_one_and_signs_nobody_in(alice, bob, here, there, settings) -> None:
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.AlwaysBob", "django.contrib.auth.backends.ModelBackend"]
    assert asks(here.post(END_OTHERS, RIGHT))
    assert (count(alice), count(bob)) == (2, 0)
    assert here.session["_auth_user_id"] == str(alice.pk)


class FewRounds(PBKDF2PasswordHasher):
    iterations = 1


def test_an_old_hash_of_the_password_is_replaced_and_the_user_stays_signed_in(alice, redis, settings) -> None:
    settings.PASSWORD_HASHERS = [*settings.PASSWORD_HASHERS, f"{__name__}.FewRounds"]
    User.objects.filter(pk=alice.pk).update(password=make_password(PASSWORD, hasher="pbkdf2_sha256"))
    alice.refresh_from_db()
    here, there = signed_in_long_ago(alice, redis), sign_in(alice)
    assert here.post(end_url(there), RIGHT).status_code == 302
    alice.refresh_from_db()
    assert alice.password.startswith("md5$")
    assert here.get(LIST).status_code == 200
    assert there.get(LIST).status_code == 302


def test_who_has_no_usable_password_is_not_asked(alice, redis) -> None:
    alice.set_unusable_password()
    alice.save()
    here = signed_in_long_ago(alice, redis)
    for button in ("end", "end_others", "not_me", "device"):
        there = sign_in(alice)
        url = {"end": end_url(there), "device": not_me_url(there), "end_others": END_OTHERS, "not_me": NOT_ME}[button]
        assert here.post(url).status_code == 302
        assert count(alice) == 1, button
    for url in (END_OTHERS, NOT_ME):
        # The shop's own menu leads to the page that changes it.
        assert "password" not in here.get(url).text.partition("<main")[2].lower()


def test_a_site_may_ask_nobody(alice, here, there, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "REAUTHENTICATE": False}
    assert here.post(END_OTHERS).status_code == 302
    assert count(alice) == 1


def test_a_page_of_another_site_can_neither_try_passwords_nor_end_sessions(alice, here, there) -> None:
    here.handler.enforce_csrf_checks = True
    here.handler.load_middleware()
    for url in (end_url(there), not_me_url(there), END_OTHERS, NOT_ME):
        assert here.post(url, RIGHT).status_code == 403
    assert count(alice) == 2
    [token, *_] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', here.get(LIST).text)
    page = here.post(END_OTHERS, {"csrfmiddlewaretoken": token}).text
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', page[page.index("redsess-question") :])
    assert here.post(END_OTHERS, {**RIGHT, "csrfmiddlewaretoken": token}).status_code == 302
    assert count(alice) == 1


def test_the_sid_of_another_user_gets_the_answer_of_an_unknown_one(here, bob) -> None:
    bobs = sign_in(bob)
    for url in (end_url(bobs), f"{LIST}{'A' * 20}/end/"):
        page = here.post(url, follow=True)
        assert [str(message) for message in page.context["messages"]] == ["That device was already signed out."]
    assert bobs.get(LIST).status_code == 200


def test_following_a_link_to_not_me_ends_nothing(alice, here, there) -> None:
    copy = here.cookies["sessionid"].value
    assert here.get(NOT_ME).status_code == 200
    assert count(alice) == 2
    assert here.cookies["sessionid"].value == copy, "the session has another key"
    assert Client().get(NOT_ME)["Location"] == f"/login/?next={LIST}"


@pytest.mark.usefixtures("partitions")
def test_this_was_not_me_ends_all_others_and_makes_a_copied_cookie_worthless(alice, bob, told) -> None:
    here, bobs, others = sign_in(alice), sign_in(bob), [sign_in(alice) for _ in range(3)]
    copy = Client()
    copy.cookies["sessionid"] = here.cookies["sessionid"].value
    page = here.post(NOT_ME, follow=True)
    assert page.redirect_chain == [(NOT_ME, 302)]
    assert "3 other devices were signed out." in " ".join(page.text.split())
    assert [browser.get(LIST).status_code for browser in (here, bobs, copy, *others)] == [200, 200, 302, 302, 302, 302]
    assert [each.reason for each in told] == ["kicked"] * 3


@pytest.mark.parametrize(
    ("urls", "url"),
    [
        ("testproject.urls", "/account/password/"),
        (__name__, "/allauths/password/change/"),
        (WithoutPassword, None),
    ],
)
def test_it_leads_to_the_page_that_changes_the_password_if_there_is_one(alice, settings, urls, url) -> None:
    settings.ROOT_URLCONF = urls
    links = re.findall(r'<a class="redsess-button redsess-primary" href="([^"]*)"', sign_in(alice).get(NOT_ME).text)
    assert links == ([url] if url else [])


def test_no_page_with_a_button_can_be_framed_without_djangos_middleware(here, settings) -> None:
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "XFrameOptions" not in name]
    User.objects.update(is_staff=True, is_superuser=True)
    pages = [here.get(LIST), here.post(END_OTHERS), here.get(NOT_ME), here.get("/api/v1/")]
    lists = ["django_redsess/onlinesession/", "django_redsess/popularitem/", "redsess_history/signin/"]
    lists += [f"{lists[0]}{path}" for path in ("numbers/", "blocked/")]
    lists += [f"{lists[0]}confirm/?sid={sid_of(here)}", f"{lists[1]}confirm/"]
    urls = [*(f"/admin/{path}" for path in lists), page_of(sid_of(here))]
    admins = [here.get(url, follow=True) for url in urls]
    settings.X_FRAME_OPTIONS = "SAMEORIGIN"
    of_site = here.get(f"/admin/{lists[0]}")
    assert {page.status_code for page in [*pages, *admins]} == {200}
    assert {page.get("X-Frame-Options") for page in [*pages, *admins]} == {"DENY"}
    assert (of_site["X-Frame-Options"], here.get(LIST)["X-Frame-Options"]) == ("SAMEORIGIN", "DENY")
