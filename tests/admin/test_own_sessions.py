"""Administrators give their password before other sessions of their own end, as on the self-service pages."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess.accounts.reauthentication import RECENT_SECONDS
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in
from tests.helpers.admin_pages import CONFIRM, END, LIST, Page
from tests.helpers.store import make_older

pytestmark = pytest.mark.django_db


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root", password=PASSWORD)


@pytest.fixture
def here(root: User, redis: Any) -> Client:
    """A browser in which an administrator signed in more than five minutes ago."""
    browser = sign_in(root)
    make_older(redis, sid_of(browser), RECENT_SECONDS + 1)
    return browser


@pytest.fixture
def there(root: User) -> Client:
    return sign_in(root)


QUERIES = {
    "one": "?sid={sid}",
    "of user": "?user={user}",
    "everyone": "?",
    "search": "?q=root",
}


def question(here: Client, there: Client, root: User, kind: str) -> Any:
    query = QUERIES[kind].format(sid=sid_of(there), user=root.pk)
    return here.get(CONFIRM + query)


@pytest.mark.parametrize("kind", list(QUERIES))
def test_own_sessions_end_after_the_password(root, here, there, kind) -> None:
    bob = User.objects.create_user("bob")
    sign_in(bob)
    asking = here.post(END, {**Page(question(here, there, root, kind)).fields, "message": "Gone."})
    assert (asking.status_code, asking.context["form"].is_locked, count(root), count(bob)) == (200, False, 2, 1)
    assert 'type="password"' in asking.text
    assert "no-store" in asking["Cache-Control"]
    repeated = Page(asking).fields
    assert repeated["message"] == "Gone."
    wrong = here.post(END, {**repeated, "password": "wrong"})
    assert (wrong.status_code, count(root), count(bob)) == (200, 2, 1)
    before = here.cookies["sessionid"].value
    done = here.post(END, {**repeated, "password": PASSWORD})
    is_new = here.cookies["sessionid"].value != before
    assert (done.status_code, is_new, count(root)) == (302, True, 1)
    assert count(bob) == (1 if kind in ("one", "of user", "search") else 0)
    assert here.get(LIST).status_code == 200


def test_too_many_wrong_passwords_have_to_wait(root, here, there) -> None:
    fields = Page(question(here, there, root, "one")).fields
    for _ in range(5):
        here.post(END, {**fields, "password": "wrong"})
    asking = here.post(END, {**fields, "password": PASSWORD})
    assert (asking.status_code, asking["Retry-After"]) == (429, str(RECENT_SECONDS))
    assert 'type="password"' not in asking.text
    assert count(root) == 2


def test_other_users_and_the_present_session_end_without(root, here) -> None:
    bob = User.objects.create_user("bob")
    for other in (sign_in(bob), here):
        fields = Page(here.get(f"{CONFIRM}?sid={sid_of(other)}")).fields
        assert here.post(END, fields).status_code == 302
    assert (count(bob), count(root)) == (0, 0)


def test_nobody_is_asked_just_after_the_sign_in_or_if_that_is_off(root, here, there, redis, settings) -> None:
    fields = Page(question(there, here, root, "one")).fields
    assert there.post(END, fields).status_code == 302
    again = sign_in(root)
    make_older(redis, sid_of(again), RECENT_SECONDS + 1)
    settings.REDSESS = {**settings.REDSESS, "REAUTHENTICATE": False}
    other = sign_in(root)
    assert again.post(END, Page(question(again, other, root, "one")).fields).status_code == 302
    assert count(root) == 2
