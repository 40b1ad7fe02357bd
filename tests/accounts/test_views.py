from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from django.conf import global_settings
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_redsess import online
from testproject.people import CHROME_MAC, FIREFOX_LINUX, SAFARI_IPHONE
from tests.helpers.accounts import PASSWORD, sid_of
from tests.helpers.shop import use_our_templates
from tests.helpers.store import make_bound, make_older

pytestmark = pytest.mark.django_db

LIST = "/account/sessions/"
END_OTHERS, NOT_ME = LIST + "end-others/", LIST + "not-me/"
STILL_HERE = "You are still signed in on this one."


@pytest.fixture(autouse=True)
def site() -> None:
    """Visit the shop: it shows these pages in its own frame."""


def sign_in(user: User, user_agent: str = FIREFOX_LINUX, address: str = "192.0.2.7") -> Client:
    """Open a browser, and sign ``user`` in there."""
    browser = Client(headers={"user-agent": user_agent}, REMOTE_ADDR=address)
    # Through the page: force_login() makes no request whose client would be kept.
    answer = browser.post(reverse("login"), {"username": user.username, "password": PASSWORD})
    assert answer.status_code == 302
    return browser


def end_url(browser_or_sid: Client | str) -> str:
    return f"{LIST}{browser_or_sid if isinstance(browser_or_sid, str) else sid_of(browser_or_sid)}/end/"


def is_signed_in(browser: Client) -> bool:
    return browser.get(LIST).status_code == 200


def rows(page: Any) -> list[str]:
    """Return each session on the page, as text."""
    listed = re.search(r'<ul class="redsess-sessions">(.*?)</ul>', page.text, re.DOTALL)
    assert listed
    return [" ".join(re.sub("<[^>]*>", " ", row).split()) for row in listed[1].split("<li>")[1:]]


def press(browser: Client, url: str, **more: Any) -> str:
    """Press a button, and return what the next page says about it."""
    page = browser.post(url, follow=True, **more)
    if url == END_OTHERS:
        assert page.redirect_chain == [(NOT_ME, 302)]
        return " ".join(re.findall(r'<p role="status">(.*?)</p>', page.text, re.DOTALL)[0].split())
    assert page.redirect_chain == [(LIST, 302)]
    return " ".join(str(message) for message in page.context["messages"])


@pytest.mark.usefixtures("partitions")
def test_the_list_shows_the_users_own_sessions_only_this_one_first(alice, bob) -> None:
    here = sign_in(alice)
    sign_in(bob, CHROME_MAC, "203.0.113.200")
    sign_in(alice, SAFARI_IPHONE, "198.51.100.23")
    page = here.get(LIST)
    this, other = rows(page)
    assert this.startswith("Firefox on Linux This device 192.0.2.7 Last seen just now Signed in")
    assert other.startswith("Safari on iPhone 198.51.100.23 Last seen just now Signed in")
    assert other.endswith("Sign out This was not me")
    assert 'aria-label="Computer"' in page.text
    assert 'aria-label="Phone"' in page.text
    assert "You are signed in on 2 devices." in page.text
    assert "203.0.113.200" not in page.text


def test_a_session_that_is_bound_to_its_device_is_listed_as_that(alice, redis) -> None:
    here, there = sign_in(alice), sign_in(alice, SAFARI_IPHONE)
    assert "bound to this device" not in here.get(LIST).text
    make_bound(redis, sid_of(there))
    own, other = rows(here.get(LIST))
    assert "bound" not in own
    assert other.endswith("· bound to this device Sign out This was not me")


@pytest.mark.clock
def test_the_list_tells_when_a_session_was_last_seen_in_the_sites_time_zone(alice, redis, settings) -> None:
    settings.TIME_ZONE = "Asia/Kolkata"
    here, there = sign_in(alice), sign_in(alice)
    make_older(redis, sid_of(there), 130)
    page = here.get(LIST)
    last_seen_at = next(session.last_seen_at for session in online.of_user(alice) if session.sid == sid_of(there))
    local = timezone.localtime(last_seen_at)
    shown = re.findall(r'<time datetime="([^"]*)" title="[^"]* (\w+)">([^<]*)</time>', page.text)
    assert (local.isoformat(), "IST", "2\xa0minutes\xa0ago") in shown


def test_an_only_session_has_nothing_to_end_and_one_of_which_nothing_is_known_is_listed(alice, new_session) -> None:
    here = sign_in(alice)
    page = here.get(LIST)
    assert "You are signed in on this device only." in page.text
    assert len(rows(page)) == 1
    assert "/end" not in page.text
    new_session(str(alice.pk))
    assert rows(here.get(LIST))[1].startswith("Unknown device Last seen")


@pytest.mark.usefixtures("partitions")
def test_of_many_sessions_the_newest_are_shown_and_this_one_and_all_others_end(alice, new_session) -> None:
    here = sign_in(alice)
    for _ in range(101):
        new_session(str(alice.pk))
    page = here.get(LIST)
    listed = rows(page)
    assert len(listed) == 100
    assert ["This device" in row for row in listed] == [True] + [False] * 99
    assert "You are signed in on 102 devices" in page.text
    assert "Only the newest 100 are shown." in page.text
    assert press(here, END_OTHERS) == f"101 other devices were signed out. {STILL_HERE}"
    assert [session.sid for session in online.of_user(alice)] == [sid_of(here)]


def test_markup_is_not_shown_no_session_key_is_on_the_page_and_no_cache_keeps_it(alice) -> None:
    user_agent = "<script>alert('x')</script>\"><b>{{ user }}"
    here, there = sign_in(alice), sign_in(alice, user_agent)
    page = here.get(LIST)
    assert {"no-store", "private"} <= set(page["Cache-Control"].split(", "))
    ended = here.post(end_url(there), follow=True)
    assert "Signed out: Unknown device." in ended.text
    for text in (page.text, ended.text):
        assert "<script>alert" not in text
        for browser in (here, there):
            assert browser.cookies["sessionid"].value not in text, "a session key is on the page"


@pytest.mark.usefixtures("partitions")
def test_a_user_ends_one_session_or_all_others_which_learn_why_and_nobody_elses(alice, bob) -> None:
    here, bobs = sign_in(alice), sign_in(bob)
    there, *others = (sign_in(alice, agent) for agent in (SAFARI_IPHONE, CHROME_MAC, FIREFOX_LINUX))
    assert press(here, end_url(there)) == "Signed out: Safari on iPhone."
    assert all(is_signed_in(browser) for browser in (here, bobs, *others))
    assert press(here, END_OTHERS) == f"2 other devices were signed out. {STILL_HERE}"
    for browser in (there, *others):
        assert "You signed this device out from another one." in browser.get("/").text
        assert not is_signed_in(browser)
    assert is_signed_in(here)
    assert is_signed_in(bobs)
    assert press(here, END_OTHERS) == f"No other device was signed in. {STILL_HERE}"


@pytest.mark.usefixtures("partitions")
def test_nobody_ends_somebody_elses_session(alice, bob, new_session) -> None:
    here, bobs, guest = sign_in(alice), sign_in(bob), new_session(basket={"larch": 1})
    over = sign_in(alice)
    press(here, end_url(over))
    said = {press(here, end_url(no_own)) for no_own in (sid_of(bobs), guest.sid, sid_of(over), "A" * 20, "no.sid")}
    assert said == {"That device was already signed out."}
    # Nor is the session in use ended here.
    assert press(here, end_url(here)).startswith("This is the device that you are using.")
    assert is_signed_in(here)
    assert is_signed_in(bobs)
    assert online.get(guest.sid)


def not_me_url(browser_or_sid: Client | str) -> str:
    return end_url(browser_or_sid).replace("/end/", "/not-me/")


def main_of(page: Any) -> str:
    """Return the text of the page without its frame."""
    return " ".join(re.sub("<[^>]*>", " ", page.text.partition("<main")[2].partition("</main")[0]).split())


@pytest.mark.usefixtures("partitions")
def test_a_device_that_is_not_the_users_is_named_ended_first_and_then_all_others_may_end(alice, bob) -> None:
    here, bobs, other = sign_in(alice), sign_in(bob), sign_in(alice, CHROME_MAC)
    there = sign_in(alice, SAFARI_IPHONE, "198.51.100.23")
    assert f'href="{not_me_url(there)}"' in here.get(LIST).text
    named = "Safari on iPhone 198.51.100.23 Last seen just now Signed in"
    # Following the link ends nothing.
    for _ in range(2):
        asked = main_of(here.get(not_me_url(there)))
        assert asked.index("Sign out this device?") < asked.index(named)
        assert "Chrome" not in asked
    assert online.get(sid_of(there))
    page = here.post(not_me_url(there), follow=True)
    assert page.redirect_chain == [(NOT_ME, 302)]
    # Whatever the user does next, that one is out.
    assert not is_signed_in(there)
    assert is_signed_in(other)
    said = main_of(page)
    assert said.index("That device is signed out") < said.index(named)
    assert "You are signed in on 1 other device." in said
    assert f'action="{END_OTHERS}"' in page.text
    assert reverse("password_change") in page.text.partition("<main")[2]
    # It is named once: this page may be looked at later.
    assert named not in main_of(here.get(NOT_ME))
    assert press(here, END_OTHERS) == f"1 other device was signed out. {STILL_HERE}"
    assert f'action="{END_OTHERS}"><button' not in here.get(NOT_ME).text
    assert "Sign out everywhere else" not in main_of(here.get(NOT_ME))
    assert is_signed_in(bobs)


@pytest.mark.usefixtures("partitions")
def test_a_device_that_is_over_or_somebody_elses_is_not_named(alice, bob, new_session) -> None:
    here, bobs, guest, over = sign_in(alice), sign_in(bob, CHROME_MAC), new_session(basket={"larch": 1}), sign_in(alice)
    press(here, end_url(over))
    for sid in (sid_of(bobs), guest.sid, sid_of(over), "A" * 20, "no.sid"):
        for send in (here.get, here.post):
            page = send(not_me_url(sid), follow=True)
            assert page.redirect_chain == [(NOT_ME, 302)]
            assert [str(message) for message in page.context["messages"]] == ["That device was already signed out."]
            assert "If somebody else signed in" in main_of(page)
            assert "Chrome" not in page.text
    for send in (here.get, here.post):
        page = send(not_me_url(here), follow=True)
        assert page.redirect_chain == [(LIST, 302)]
        assert "This is the device that you are using." in page.text
    assert is_signed_in(here)
    assert is_signed_in(bobs)
    assert online.get(guest.sid)


@pytest.mark.parametrize("url", [end_url, not_me_url])
def test_a_device_whose_key_has_changed_since_the_list_was_shown_is_ended(alice, settings, url) -> None:
    here, there = sign_in(alice), sign_in(alice, SAFARI_IPHONE)
    shown = sid_of(there)
    # As after a password that is given again.
    there.post(END_OTHERS.replace("end-others", "not-me"))
    here = sign_in(alice)
    assert sid_of(there) != shown, "the session has another key"
    here.post(url(shown))
    assert not is_signed_in(there)
    # Neither is the session in use ended under a sid that it had before.
    shown = sid_of(here)
    here.post(END_OTHERS)
    here.post(url(shown))
    assert sid_of(here) != shown
    assert is_signed_in(here)


def test_this_session_is_kept_though_its_key_changes_during_the_request(alice, settings) -> None:
    here, there = sign_in(alice), sign_in(alice)
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.cycling"]
    assert press(here, END_OTHERS) == f"1 other device was signed out. {STILL_HERE}"
    assert ["This device" in row for row in rows(here.get(LIST))] == [True]
    assert not is_signed_in(there)


def cycling(get_response: Any) -> Any:
    def middleware(request: Any) -> Any:
        request.session.cycle_key()
        return get_response(request)

    return middleware


def test_following_a_link_ends_nothing(alice) -> None:
    here, there = sign_in(alice), sign_in(alice)
    for url in (end_url("A" * 20), end_url(there)):
        assert here.get(url).status_code == 405
    for url in (END_OTHERS, NOT_ME):
        assert here.get(url).status_code == 200
    assert is_signed_in(there)


def test_the_question_says_first_how_many_devices_and_the_next_page_says_so_once(alice) -> None:
    here, others = sign_in(alice), [sign_in(alice) for _ in range(2)]
    question = here.get(END_OTHERS)
    assert "<h1>Sign out everywhere else?</h1>" in question.text
    assert "2 other devices will be signed out." in question.text
    assert "You stay signed in on this device." in question.text
    assert f'href="{LIST}"' in question.text
    assert all(is_signed_in(browser) for browser in others)
    assert press(here, END_OTHERS) == f"2 other devices were signed out. {STILL_HERE}"
    assert "were signed out" not in here.get(NOT_ME).text
    assert "You are signed in on this device only." in here.get(END_OTHERS).text


def lyon(addresses: list[str]) -> dict[str, str]:
    return dict.fromkeys(addresses, "Lyon, France")


def test_the_place_comes_before_the_address(alice, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.lyon"}
    assert "Lyon, France 192.0.2.7" in rows(sign_in(alice).get(LIST))[0]


@pytest.mark.parametrize("with_middleware", [True, False])
def test_a_page_of_another_site_ends_nothing_even_without_csrf_middleware(alice, settings, with_middleware) -> None:
    there, elsewhere, here = sign_in(alice), sign_in(alice), sign_in(alice)
    if not with_middleware:
        settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "csrf" not in name.lower()]
    here.handler.enforce_csrf_checks = True
    here.handler.load_middleware()
    for url in (end_url(there), END_OTHERS):
        assert here.post(url).status_code == 403
    assert is_signed_in(there)
    # As the form of the page sends it.
    [token, *_] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', here.get(LIST).text)
    assert "Signed out" in press(here, end_url(there), data={"csrfmiddlewaretoken": token})
    assert not is_signed_in(there)
    assert press(here, END_OTHERS, headers={"x-csrftoken": here.cookies["csrftoken"].value})
    assert not is_signed_in(elsewhere)


def test_a_guest_is_asked_to_sign_in_and_gets_to_the_list(client, alice) -> None:
    there = sign_in(alice)
    for answer in (client.get(LIST), client.get(END_OTHERS), client.post(END_OTHERS), client.post(end_url(there))):
        assert (answer.status_code, answer["Location"]) == (302, f"/login/?next={LIST}")
    assert is_signed_in(there)


def test_another_session_engine_is_refused_with_a_clear_error(client, settings) -> None:
    settings.SESSION_ENGINE = "django.contrib.sessions.backends.signed_cookies"
    for ask in (lambda: client.get(LIST), lambda: client.post(END_OTHERS)):
        with pytest.raises(ImproperlyConfigured, match=r'needs SESSION_ENGINE = "django_redsess\.backend"\.$'):
            ask()


def test_messages_need_not_be_installed(alice, settings) -> None:
    use_our_templates(settings)
    options = settings.TEMPLATES[0]["OPTIONS"]
    options["context_processors"] = [name for name in options["context_processors"] if "messages" not in name]
    settings.INSTALLED_APPS = [name for name in settings.INSTALLED_APPS if name != "django.contrib.messages"]
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if "messages" not in name]
    here, there = sign_in(alice), sign_in(alice)
    for url in (end_url(there), end_url(there), end_url(here), END_OTHERS):
        assert here.post(url, follow=True).status_code == 200
    assert not is_signed_in(there)


def test_the_page_stands_alone_or_inside_the_projects_base_template(alice, settings, tmp_path) -> None:
    use_our_templates(settings)
    here, there = sign_in(alice), sign_in(alice)
    page = here.post(end_url(there), follow=True)
    assert page.text.startswith("<!doctype html>")
    assert "<li>Signed out: Firefox on Linux.</li>" in page.text
    assert len(rows(page)) == 1
    tmp_path.joinpath("base.html").write_text(
        "<title>{% block title %}{% endblock %} at Acme</title><main>{% block content %}{% endblock %}</main>"
    )
    use_our_templates(settings, tmp_path)
    page = here.get(LIST)
    assert page.text.lstrip().startswith("<title>Your devices at Acme</title><main>")
    assert len(rows(page)) == 1


@pytest.fixture
def languages(settings: Any) -> Any:
    """Let the pages follow the language that the browser asks for."""
    settings.LANGUAGES = global_settings.LANGUAGES
    use_our_templates(settings)
    return settings


@pytest.fixture
def page_in(alice: User, redis: Any, languages: Any) -> Callable[..., str]:
    """Return a function that gives the page in a language. Alice is signed in elsewhere too, since five minutes ago."""
    here, there = sign_in(alice), sign_in(alice)
    make_older(redis, sid_of(there), 300)
    return lambda language, at=LIST: here.get(at, headers={"accept-language": language}).text


def bring_words(settings: Any, folder: Path, language: str, words: dict[Any, Any]) -> None:
    """Give the site a compiled catalogue of its own."""
    file, catalogue = folder / language / "LC_MESSAGES" / "django.mo", Catalog()
    for text, translation in words.items():
        catalogue.add(text, translation)
    file.parent.mkdir(parents=True)
    with file.open("wb") as opened:
        write_mo(opened, catalogue)
    settings.LOCALE_PATHS = [str(folder)]


@pytest.mark.parametrize(
    ("of_site", "asked", "shown", "ago", "badge"),
    [
        ("en", "he", "en", "5\xa0minutes\xa0ago", "This device"),
        ("en", "de-AT, de;q=0.9", "de", "vor\xa05\xa0Minuten", "Dieses Gerät"),
        ("de", "it", "de", "vor\xa05\xa0Minuten", "Dieses Gerät"),
        # English needs no catalogue.
        ("de", "en-GB", "en-gb", "5\xa0minutes\xa0ago", "This device"),
    ],
)
def test_the_page_is_all_in_one_language(page_in, languages, of_site, asked, shown, ago, badge) -> None:
    languages.LANGUAGE_CODE = of_site
    page = page_in(asked)
    assert f'<html lang="{shown}" dir="ltr">' in page
    assert ago in page
    assert f"<strong>{badge}</strong>" in page


def test_a_site_may_bring_the_words_itself(page_in, languages, tmp_path) -> None:
    ago = ("1 minute ago", "%(num)d minutes ago"), ("1 minuto fa", "%(num)d minuti fa")
    bring_words(languages, tmp_path, "it", {"This device": "Questo dispositivo", ago[0]: ago[1]})
    bring_words(languages, tmp_path, "he", {"This device": "המכשיר הזה"})
    page = page_in("it")
    assert '<html lang="it" dir="ltr">' in page
    assert "5\xa0minuti\xa0fa" in page
    assert "<strong>Questo dispositivo</strong>" in page
    assert '<html lang="he" dir="rtl">' in page_in("he")


def test_where_urls_begin_with_the_language_the_page_links_to_none_that_the_site_lacks(page_in, languages) -> None:
    languages.ROOT_URLCONF = "tests.helpers.site.languages"
    languages.LANGUAGES, languages.LANGUAGE_CODE = [("it", "Italiano"), ("de", "Deutsch")], "it"
    assert page_in("de", f"/de{LIST}").count('="/de/account/sessions/') == 3
    # There is no English site. Django's words and ours mix, and the buttons work.
    assert page_in("it", f"/it{LIST}").count('="/it/account/sessions/') == 3
