"""Users with a password, changes of their accounts, and what becomes of their sessions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

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
    reason, _, text = header.partition("; message*=UTF-8''")
    return reason, unquote(text)


def is_gone(response: HttpResponse) -> bool:
    """Whether the answer takes the session cookie away."""
    cookie = response.cookies.get("sessionid")
    return cookie is not None and cookie.value == "" and cookie["max-age"] == 0


def save(user: User, admin: Client) -> None:
    user.is_active = False
    user.save()


def save_the_field(user: User, admin: Client) -> None:
    user.is_active = False
    user.save(update_fields=["is_active"])


def asave(user: User, admin: Client) -> None:
    user.is_active = False
    asyncio.run(user.asave())


def save_one_that_was_read_in_part(user: User, admin: Client) -> None:
    part = User.objects.only("is_active").get(pk=user.pk)
    part.is_active = False
    part.save()


def in_the_admins_form(user: User, admin: Client) -> None:
    form = {"username": user.username, "date_joined_0": "2026-01-01", "date_joined_1": "00:00:00", "_save": "Save"}
    assert admin.post(f"/admin/auth/user/{user.pk}/change/", form).status_code == 302


DEACTIVATIONS = [save, save_the_field, asave, save_one_that_was_read_in_part, in_the_admins_form]


def delete(user: User, admin: Client) -> None:
    user.delete()


def adelete(user: User, admin: Client) -> None:
    asyncio.run(user.adelete())


def delete_a_queryset(user: User, admin: Client) -> None:
    User.objects.filter(pk=user.pk).delete()


def on_the_admins_page(user: User, admin: Client) -> None:
    assert admin.post(f"/admin/auth/user/{user.pk}/delete/", {"post": "yes"}).status_code == 302


def by_the_admins_action(user: User, admin: Client) -> None:
    form = {"action": "delete_selected", "_selected_action": [user.pk], "post": "yes"}
    assert admin.post("/admin/auth/user/", form).status_code == 302


DELETIONS = [delete, adelete, delete_a_queryset, on_the_admins_page, by_the_admins_action]


def set_password(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    user.save()


def set_password_and_save_the_field(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    user.save(update_fields=["password"])


def set_password_and_asave(user: User, admin: Client) -> None:
    user.set_password(NEW_PASSWORD)
    asyncio.run(user.asave())


def in_the_admins_password_form(user: User, admin: Client) -> None:
    form = {"password1": NEW_PASSWORD, "password2": NEW_PASSWORD, "usable_password": "true"}
    assert admin.post(f"/admin/auth/user/{user.pk}/password/", form).status_code == 302


NEW_PASSWORDS = [set_password, set_password_and_save_the_field, set_password_and_asave, in_the_admins_password_form]


CHANGES: list[Callable[[User, Any], None]] = [save, delete, set_password]
