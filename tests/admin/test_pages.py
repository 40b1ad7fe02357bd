"""What pages say and how: numbers that agree, limits, markup that anybody can read, and every theme."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import cleaning, online, viewed
from tests.helpers.admin_pages import LIST, Page, page_of, staff
from tests.helpers.online import sign_in
from tests.helpers.running import drive
from tests.helpers.store import make_due, note, now_of

pytestmark = pytest.mark.django_db

MOST_VIEWED = "/admin/django_redsess/popularitem/"

SELF_SERVICE = "/account/sessions/"

ENDS_FIRST = "At most 3 sessions are allowed. Another sign-in ends the oldest one."
OWN_ENDS_FIRST = "If you sign in on another one, the one that signed in first is signed out."


@pytest.mark.usefixtures("partitions")
def test_the_picture_says_who_is_signed_in_now_and_not_at_the_last_sample(admin_client, redis, new_session) -> None:
    note(redis, now_of(redis) - timedelta(minutes=9), signed_in=0, guests=0)
    shoppers = sign_in(new_session, *"12345678")
    for _ in range(5):
        new_session(colour="blue")
    cleaning.take_sample()
    # More than were ever noted are the most.
    shoppers += sign_in(new_session, "9")
    assert "Signed in: 10 now, at most 10 (" in Page(admin_client.get(LIST)).text
    guests = [session.sid for session in online.sessions(guests=True) if not session.user_id]
    online.end(*shoppers[4:], *guests[:3])
    make_due(redis, *shoppers[:4])
    page = Page(admin_client.get(LIST))
    assert len(page.rows) == page.count == 1
    assert "Signed in: 1 now, at most 9 (" in page.text
    assert "Guests: 2 now, at most 5 (" in page.text


@pytest.mark.clock
@pytest.mark.usefixtures("partitions")
def test_without_a_cleaner_the_picture_says_since_when_nothing_was_noted(admin_client, redis, new_session) -> None:
    for hours in (3, 4):
        note(redis, now_of(redis) - timedelta(hours=hours), signed_in=31, guests=4)
    sign_in(new_session, *"12345")
    text = Page(admin_client.get(LIST)).text
    assert re.search(r"Signed in: 6 now, at most \d+ \([^;]+\); no samples since", text)
    assert re.search(r"Guests: 0 now, at most \d+ \([^;]+\); no samples since", text)


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


def of_staff(user: User) -> int | None:
    return None if user.is_staff else 2


def no_answer(user: User) -> int:
    raise LookupError("the table of contracts")


@pytest.fixture
def pages(users: dict[str, User], admin_client: Client) -> Any:
    """Return a function that fetches every page that tells of alice's limit."""
    own, alice = Client(), users["alice"]
    own.force_login(alice)
    [session] = online.of_user(alice)

    def fetch() -> dict[str, str]:
        found = {
            "her own": own.get("/account/sessions/"),
            "the list of her sessions": admin_client.get(LIST, {"user": alice.pk}),
            "that of her session": admin_client.get(page_of(session.sid)),
            "that of her account": admin_client.get(f"/admin/auth/user/{alice.pk}/change/"),
        }
        assert {answer.status_code for answer in found.values()} == {200}
        return {name: answer.content.decode().replace("&#x27;", "'") for name, answer in found.items()}

    return fetch


def test_each_page_of_a_user_tells_the_limit_and_none_breaks_without_one(set_limit, pages, caplog) -> None:
    assert not [name for name, page in pages().items() if "allowed" in page]
    set_limit(f"{__name__}.of_staff")
    found = pages()
    assert "You can be signed in on 2 devices at a time." in found.pop("her own")
    assert all("At most 2 sessions are allowed." in page for page in found.values())
    set_limit(3)
    for name, page in pages().items():
        assert page.count(OWN_ENDS_FIRST if name == "her own" else ENDS_FIRST) == 1, name
        # Markup that was taken for text would show.
        assert "&lt;p" not in page, name
    set_limit(f"{__name__}.no_answer")
    for name, page in pages().items():
        assert "The number of allowed sessions is not known at the moment." in page, name
        assert "contracts" not in page
    assert "LookupError" in caplog.text


def test_who_may_not_see_users_learns_no_limit(set_limit, users, new_session) -> None:
    set_limit(f"{__name__}.of_staff")
    sid = new_session(str(users["alice"].pk)).sid
    for permissions in ((), ("view_user",)):
        page = staff(Client(), "view_onlinesession", *permissions, name=f"staff{permissions}")
        text = page.get(page_of(sid)).content.decode()
        assert "There are no others." in text
        assert ("allowed" in text) == bool(permissions)


def test_other_lists_than_of_one_user_with_a_limit_tell_none(set_limit, users, admin_client, admin_user) -> None:
    set_limit(3)
    alice = users["alice"]
    for query in ({}, {"user": [alice.pk, alice.pk + 1000]}, {"user": "nobody"}, {"user": ""}):
        assert "allowed" not in admin_client.get(LIST, query).content.decode()
    page = admin_client.get(f"/admin/auth/user/{alice.pk}/change/").content.decode()
    assert "This user is not signed in." in page
    assert ENDS_FIRST in page
    set_limit(f"{__name__}.of_staff")
    assert "allowed" not in admin_client.get(LIST, {"user": admin_user.pk}).content.decode()


SETTINGS = {
    "django": "tests.helpers.site.settings",
    "unfold": "tests.helpers.site.settings.unfold",
    "jazzmin": "tests.helpers.site.settings.jazzmin",
}


@pytest.mark.slow
@pytest.mark.parametrize("theme", SETTINGS)
def test_all_pages_work_under_a_theme(server, theme, tmp_path) -> None:
    drive("theme", settings=SETTINGS[theme], server=server, folder=tmp_path)
