"""Users with a password, changes of their accounts, and what becomes of their sessions."""

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from django.contrib.auth.models import User
from django.http import HttpResponse
from django.test import Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.site.accounts import NEW_PASSWORD

PASSWORD = "the first password"

DEACTIVATED, DELETED = "Your account was deactivated.", "Your account was deleted."

PASSWORD_CHANGED = "Your password was changed."


def sign_in(user: User) -> Client:
    browser = Client()
    browser.force_login(user)
    return browser


def count(user: User | int) -> int:
    """How many sessions a user has, who may be deleted by now."""
    return online.count(user_ids=[str(user if isinstance(user, int) else user.pk)])


def sid_of(browser: Client) -> str:
    return SessionStore(browser.cookies["sessionid"].value).sid or ""


def name_in(browser: Client) -> str:
    """Who is signed in here."""
    return browser.get("/who-and-messages/").content.decode().split("|")[0]


def told_to(browser: Client) -> tuple[str, str]:
    """What the header of the next answer says: the reason, and the text."""
    header = browser.get("/who-and-messages/").headers.get("X-Session-Ended", "")
    told, _, text = header.partition("; message*=UTF-8''")
    return told.partition("; code=")[0], unquote(text)


def is_gone(response: HttpResponse) -> bool:
    """Whether the answer takes the session cookie away."""
    cookie = response.cookies.get("sessionid")
    return cookie is not None and cookie.value == "" and cookie["max-age"] == 0


def changed(user: User, **values: Any) -> User:
    for name, value in values.items():
        setattr(user, name, value)
    return user


def with_new_password(user: User) -> User:
    user.set_password(NEW_PASSWORD)
    return user


def post(admin: Client, path: str, **form: Any) -> None:
    """Send a form of the admin of users."""
    assert admin.post(f"/admin/auth/user/{path}", form).status_code == 302


# Ways to change an account: what is given is the user, and the browser of an administrator.


def save(user: User, admin: Client) -> None:
    changed(user, is_active=False).save()


def in_the_admins_form(user: User, admin: Client) -> None:
    joined = {"date_joined_0": "2026-01-01", "date_joined_1": "00:00:00"}
    post(admin, f"{user.pk}/change/", username=user.username, _save="Save", **joined)


DEACTIVATIONS = [
    save,
    pytest.param(
        lambda user, admin: changed(user, is_active=False).save(update_fields=["is_active"]), id="save_the_field"
    ),
    pytest.param(lambda user, admin: asyncio.run(changed(user, is_active=False).asave()), id="asave"),
    pytest.param(
        lambda user, admin: changed(User.objects.only("is_active").get(pk=user.pk), is_active=False).save(),
        id="save_one_that_was_read_in_part",
    ),
    in_the_admins_form,
]


def delete(user: User, admin: Client) -> None:
    user.delete()


def on_the_admins_page(user: User, admin: Client) -> None:
    post(admin, f"{user.pk}/delete/", post="yes")


def by_the_admins_action(user: User, admin: Client) -> None:
    post(admin, "", action="delete_selected", _selected_action=[user.pk], post="yes")


DELETIONS = [
    delete,
    pytest.param(lambda user, admin: asyncio.run(user.adelete()), id="adelete"),
    pytest.param(lambda user, admin: User.objects.filter(pk=user.pk).delete(), id="delete_a_queryset"),
    on_the_admins_page,
    by_the_admins_action,
]


def set_password(user: User, admin: Client) -> None:
    with_new_password(user).save()


def in_the_admins_password_form(user: User, admin: Client) -> None:
    passwords = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD}
    post(admin, f"{user.pk}/password/", usable_password="true", **passwords)


NEW_PASSWORDS = [
    set_password,
    pytest.param(lambda user, admin: with_new_password(user).save(update_fields=["password"]), id="save_the_field"),
    pytest.param(lambda user, admin: asyncio.run(with_new_password(user).asave()), id="asave"),
    in_the_admins_password_form,
]

CHANGES: list[Callable[[User, Any], None]] = [save, delete, set_password]
