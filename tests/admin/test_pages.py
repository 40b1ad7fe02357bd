"""What pages say and how: numbers that agree, a frame that is Django's own, markup that anybody can read."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import cleaning, online, viewed
from testproject.servers import free_port
from tests.helpers.admin_pages import CONFIRM, LIST, Page, page_of
from tests.helpers.behind import have_views, make_due, note, now_of
from tests.helpers.online import sign_in
from tests.helpers.outages import caches
from tests.helpers.shop import use_our_templates

pytestmark = pytest.mark.django_db

MOST_VIEWED = "/admin/django_redsess/popularitem/"

SELF_SERVICE = "/account/sessions/"


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice")


def said(client: Client) -> str:
    """What the list of sessions says."""
    return Page(client.get(LIST)).text


def page_in_outage(client: Client, settings: Any) -> str:
    """Return what is answered when the sessions are out of reach, as they are from then on."""
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    client.raise_request_exception = False
    answer = client.get(SELF_SERVICE)
    assert answer.status_code == 503
    return answer.text


# The words of the picture


@pytest.mark.usefixtures("partitions")
def test_the_picture_says_who_is_signed_in_now_and_not_at_the_last_sample(admin_client, redis, new_session) -> None:
    note(redis, now_of(redis) - timedelta(minutes=9), signed_in=0, guests=0)
    shoppers = sign_in(new_session, *"123456789")
    for _ in range(5):
        new_session(colour="blue")
    cleaning.sample()
    assert "Signed in: 10 now, at most 10 at" in said(admin_client)
    guests = [session.sid for session in online.sessions(guests=True) if not session.user_id]
    online.end(*shoppers, *guests[:3])
    page = Page(admin_client.get(LIST))
    assert len(page.rows) == page.count == 1
    assert "Signed in: 1 now, at most 10 at" in page.text
    assert "Guests: 2 now, at most 5 at" in page.text


@pytest.mark.usefixtures("partitions")
def test_who_is_due_is_in_neither(admin_client, redis, new_session) -> None:
    note(redis, now_of(redis) - timedelta(minutes=9), signed_in=0, guests=0)
    shoppers = sign_in(new_session, *"123456789")
    cleaning.sample()
    make_due(redis, *shoppers[:4])
    page = Page(admin_client.get(LIST))
    assert page.count == 6
    assert "Signed in: 6 now, at most 10 at" in page.text


@pytest.mark.usefixtures("partitions")
def test_more_than_were_ever_noted_are_the_most(admin_client, redis, new_session) -> None:
    note(redis, now_of(redis) - timedelta(minutes=9), signed_in=0, guests=0)
    cleaning.sample()
    sign_in(new_session, *"123456789")
    assert "Signed in: 10 now, at most 10 at" in said(admin_client)


@pytest.mark.clock
@pytest.mark.usefixtures("partitions")
def test_without_a_cleaner_the_picture_says_since_when_nobody_has_noted_anything(
    admin_client, redis, new_session
) -> None:
    for hours in (3, 4):
        note(redis, now_of(redis) - timedelta(hours=hours), signed_in=31, guests=4)
    sign_in(new_session, *"12345")
    text = said(admin_client)
    assert re.search(r"Signed in: 6 now, at most \d+ at [^;]+; no samples since", text)
    assert re.search(r"Guests: 0 now, at most \d+ at [^;]+; no samples since", text)


# The frame


def crumbs(page: Any) -> str:
    """The markup of where a page is, without its addresses and words."""
    found = re.search(r"<nav aria-label=\"Breadcrumbs\">(.*?)</nav>", page.text, re.DOTALL)
    assert found
    return "".join(re.sub(r'href="[^"]*"|(?<=[>;])[^<&]+|&#x27;', " ", found[1]).split())


@pytest.fixture
def questions(admin_client, admin_user, redis) -> dict[str, Any]:
    """Every page that asks whether to do something."""
    have_views(redis, {"lamp": 3})
    own = admin_client.session.sid
    return {
        "end one": admin_client.get(CONFIRM, {"sid": own}),
        "end all": admin_client.get(CONFIRM),
        "end those of users": admin_client.post(
            "/admin/auth/user/", {"action": "end_sessions", "_selected_action": [admin_user.pk]}
        ),
        "reset some": admin_client.post(MOST_VIEWED, {"action": "reset_selected", "_selected_action": ["lamp"]}),
        "reset all": admin_client.get(MOST_VIEWED + "confirm/"),
    }


def test_a_question_says_where_it_is_as_those_of_django_do(admin_client, alice, questions) -> None:
    chosen = {"action": "delete_selected", "_selected_action": [alice.pk]}
    of_django = crumbs(admin_client.post("/admin/auth/user/", chosen))
    assert {name: crumbs(page) for name, page in questions.items()} == dict.fromkeys(questions, of_django)


def test_a_question_leads_back_to_its_list(questions) -> None:
    for name, page in questions.items():
        shown = Page(page)
        leads = [href for text, href in shown.all_links if text in ("Home", "Online sessions", "Most viewed items")]
        assert leads[:2] == ["/admin/", MOST_VIEWED if "reset" in name else LIST], name


# Styles


@pytest.fixture
def all_pages(questions, admin_client, admin_user, settings, redis) -> dict[str, str]:
    """Every page of ours."""
    use_our_templates(settings)
    note(redis, now_of(redis) - timedelta(hours=3))
    cleaning.sample()
    own = admin_client.session.sid
    pages = {
        "list": LIST,
        "over time": LIST + "numbers/?range=week",
        "session": page_of(own),
        "most viewed": MOST_VIEWED,
        "user": f"/admin/auth/user/{admin_user.pk}/change/",
        "self-service": SELF_SERVICE,
    }
    found = {name: admin_client.get(path).text for name, path in pages.items()}
    outage = page_in_outage(admin_client, settings)
    return {**found, **{name: page.text for name, page in questions.items()}, "503": outage}


def test_no_page_has_styles_or_scripts_within(all_pages) -> None:
    for name, page in all_pages.items():
        assert not re.findall(r"<[^>]*\sstyle=[^>]*>|<style\b|<script\b(?![^>]*\ssrc=)|\son\w+=", page), name


# Words for anybody


@pytest.mark.parametrize(("language", "shown"), [("en", "en"), ("de", "de"), ("he", "en")])
def test_pages_that_stand_alone_say_how_they_are_written(admin_client, settings, language: str, shown: str) -> None:
    use_our_templates(settings)
    settings.LANGUAGE_CODE = language
    for page in (admin_client.get(SELF_SERVICE).text, page_in_outage(admin_client, settings)):
        assert f'<html lang="{shown}" dir="ltr">' in page


@pytest.mark.parametrize("is_own", [False, True], ids=["in the shop's frame", "alone"])
def test_messages_are_a_list_that_is_read_out(admin_client, settings, is_own: bool) -> None:
    if is_own:
        use_our_templates(settings)
    page = admin_client.post(SELF_SERVICE + "end-others/", follow=True).text
    # Of the list itself it would leave no list.
    [status] = re.findall(r'<(\w+)[^>]* role="status"[^>]*>(.*?)</\1>', page, re.DOTALL)
    assert status[0] == "div"
    assert re.search(r"<ul[^>]*>\s*<li[^>]*>0 other sessions were ended.</li>\s*</ul>", status[1])


def test_control_characters_are_shown_as_such_wherever_a_session_tells_them(admin_client, new_session) -> None:
    session = new_session("7", **{"key\x07": "value\x7f", "\0": ["\x1b"], "half\ud800": "\udfff"})
    for item in ("bell\x07", "nothing\0\x1b\x7f"):
        viewed.record(session, item)
    pages = [admin_client.get(path).text for path in (LIST, page_of(session.sid), MOST_VIEWED)]
    for page in pages:
        # A box that is ticked sends its item as it is.
        assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", re.sub("<input[^>]*>", "", page))
        assert "nothing␀␛␡" in page
    for shown in ("bell␇", "key␇", "&quot;value␡&quot;", ">␀<", "half�", "&quot;�&quot;"):
        assert shown in pages[1]


def test_addresses_are_not_turned_round_by_what_is_written_from_right_to_left(client, admin_user, settings) -> None:
    use_our_templates(settings)
    settings.LANGUAGE_CODE = "ar"
    address = "2001:db8:90::1f"
    for browser in (client, Client()):
        # Through the page: force_login() makes no request whose client would be kept.
        browser.post("/login/", {"username": "admin", "password": "password"}, REMOTE_ADDR=address)
    sid = client.session.sid
    for path in (LIST, page_of(sid), CONFIRM + f"?sid={sid}", SELF_SERVICE):
        page = client.get(path, REMOTE_ADDR=address).text
        assert address in page
        # But for the session's own, whose style does the same.
        plain = re.sub(r'<div class="readonly">.*?</div>', "", page)
        assert set(re.findall(rf"<(\w+)[^<>]*>{address}", plain)) == {"bdi"}, path
