"""Where pages tell how many sessions a user may have."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import online
from tests.helpers.admin_pages import staff

LIST = "/admin/django_redsess/onlinesession/"
ENDS_FIRST = "At most 3 sessions are allowed. Another sign-in ends the oldest one."

pytestmark = pytest.mark.django_db


def of_staff(user: User) -> int | None:
    return None if user.is_staff else 2


def no_answer(user: User) -> int:
    raise LookupError("the table of contracts")


@pytest.fixture
def limited(settings: Any) -> Any:
    """Return a function that sets the limit and the policy."""

    def limit(maximum: Any, policy: str = "end_oldest") -> None:
        changes = {"MAX_SESSIONS_PER_USER": maximum, "SESSION_LIMIT_POLICY": policy}
        settings.REDSESS = {**settings.REDSESS, **changes}

    return limit


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice")


@pytest.fixture
def pages(alice: User) -> Any:
    """Return a function that fetches every page that tells of alice's limit."""
    own, admin = Client(), Client()
    own.force_login(alice)
    admin.force_login(User.objects.create_superuser("admin"))
    [session] = online.of_user(alice)

    def fetch() -> dict[str, str]:
        found = {
            "her own": own.get("/account/sessions/"),
            "the list of her sessions": admin.get(LIST, {"user": alice.pk}),
            "that of her session": admin.get(f"{LIST}{quote(session.sid)}/change/"),
            "that of her account": admin.get(f"/admin/auth/user/{alice.pk}/change/"),
        }
        assert {answer.status_code for answer in found.values()} == {200}
        return {name: answer.content.decode().replace("&#x27;", "'") for name, answer in found.items()}

    return fetch


def test_each_page_of_a_user_tells_the_limit_and_what_is_above(limited: Any, pages: Any) -> None:
    limited(3)
    for name, page in pages().items():
        assert page.count(ENDS_FIRST) == 1, name
        # Markup that was taken for text would show.
        assert "&lt;p" not in page, name


def test_without_a_limit_no_page_tells_of_one(pages: Any) -> None:
    assert not [name for name, page in pages().items() if "allowed" in page]


def test_the_limit_of_a_user_is_told_on_that_users_pages(limited: Any, pages: Any) -> None:
    limited(f"{__name__}.of_staff")
    assert all("At most 2 sessions are allowed." in page for page in pages().values())


def test_who_may_not_see_users_learns_no_limit(limited: Any, alice: User, pages: Any) -> None:
    limited(f"{__name__}.of_staff")
    assert pages()
    [session] = online.of_user(alice)
    for permissions in ((), ("view_user",)):
        page = staff(Client(), "view_onlinesession", *permissions, name=f"staff{permissions}")
        text = page.get(f"{LIST}{quote(session.sid)}/change/").content.decode()
        assert "There are no others." in text
        assert ("allowed" in text) == bool(permissions)


def test_the_list_of_a_user_without_a_limit_tells_of_none(limited: Any) -> None:
    limited(f"{__name__}.of_staff")
    boss, admin = User.objects.create_superuser("admin"), Client()
    admin.force_login(boss)
    assert "allowed" not in admin.get(LIST, {"user": boss.pk}).content.decode()


def test_lists_of_several_users_or_of_all_tell_no_limit(limited: Any, alice: User) -> None:
    limited(3)
    admin = Client()
    admin.force_login(User.objects.create_superuser("admin"))
    for query in ({}, {"user": [alice.pk, alice.pk + 1]}, {"user": "nobody"}, {"user": ""}):
        assert "allowed" not in admin.get(LIST, query).content.decode()


def test_a_function_that_fails_breaks_no_page_and_is_logged(
    limited: Any, pages: Any, caplog: pytest.LogCaptureFixture
) -> None:
    limited(f"{__name__}.no_answer")
    for name, page in pages().items():
        assert "The number of allowed sessions is not known at the moment." in page, name
        assert "contracts" not in page
    assert "LookupError" in caplog.text


def test_who_is_not_signed_in_has_a_limit_on_the_page_of_the_account_too(limited: Any, alice: User) -> None:
    limited(3)
    admin = Client()
    admin.force_login(User.objects.create_superuser("admin"))
    page = admin.get(f"/admin/auth/user/{alice.pk}/change/").content.decode()
    assert "This user is not signed in." in page
    assert ENDS_FIRST in page
