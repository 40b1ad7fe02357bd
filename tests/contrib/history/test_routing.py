"""Sign-ins in a database of their own, by a router: each query goes to the database that has what it asks for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.management import call_command
from django.db import connection
from django.test import Client

from django_redsess import online
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.contrib.history.signals import new_device
from tests.admin.visits import FIREFOX
from tests.contrib.history.elsewhere import ALIAS, Router
from tests.contrib.history.rows import LIST
from tests.helpers.admin_pages import page_of
from tests.helpers.api import ask

CHROME = FIREFOX.replace("Firefox", "Chrome")


@pytest.fixture
def only_there(file: Path) -> Iterator[None]:
    """The database of the users has no such tables, as where the router lets nothing be migrated there."""
    with connection.schema_editor() as editor:
        for model in (SignIn, BlockCopy):
            editor.delete_model(model)
    yield
    with connection.schema_editor() as editor:
        for model in (SignIn, BlockCopy):
            editor.create_model(model)


class Lagging(Router):
    """What was just written can't be read yet: reads go to tables that stay empty."""

    def db_for_read(self, model: type, **hints: object) -> str | None:
        return None


@pytest.fixture
def lukas(file: Path) -> User:
    user: User = User.objects.create_user("lukas", "lukas@example.com", "secret")
    return user


def signs_in(agent: str = FIREFOX) -> Client:
    browser = Client(headers={"user-agent": agent})
    assert browser.post("/login/", {"username": "lukas", "password": "secret"}).status_code == 302
    return browser


@pytest.mark.usefixtures("lukas", "notify")
@pytest.mark.parametrize("router", [Router, Lagging])
def test_a_sign_in_on_a_new_device_is_told(settings, request, router: type) -> None:
    if router is Router:
        request.getfixturevalue("only_there")
    settings.DATABASE_ROUTERS = [f"{router.__module__}.{router.__name__}"]
    heard = list[Any]()

    def note(user: User, sign_in: SignIn, **named: Any) -> None:
        heard.append((user.username, sign_in.pk is not None))

    new_device.connect(note)
    for _ in range(2):
        signs_in()
    assert heard == [("lukas", True)]
    assert [message.to for message in mail.outbox] == [["lukas@example.com"]]
    assert SignIn.objects.using(ALIAS).count() == 2


@pytest.mark.usefixtures("only_there")
def test_pages_commands_and_the_api_have_the_sign_ins(lukas, admin_user, capsys) -> None:
    session = signs_in()
    sid = online.sessions(user_ids=[str(lukas.pk)])[0].sid
    admin = Client()
    admin.force_login(admin_user)
    for path in (LIST, f"{LIST}?q=lukas", page_of(sid), f"/admin/auth/user/{lukas.pk}/change/"):
        assert "lukas" in admin.get(path).text, path
    [row] = SignIn.objects.using(ALIAS).filter(user_id=lukas.pk)
    assert "lukas" in admin.get(f"{LIST}{row.pk}/change/").text
    assert "lukas" in "".join(map(str, admin.post(f"{LIST}export/", {"format": "csv"}).streaming_content))
    assert ask(admin, "get", "sign-ins").json()["sign_ins"][0]["user_id"]
    assert session.get("/account/sessions/").status_code == 200
    call_command("history", export="lukas")
    assert "Firefox" in capsys.readouterr().out
    call_command("history", repair=True, prune=True, verbosity=0)


@pytest.mark.usefixtures("only_there")
def test_rows_and_copies_go_with_their_user(lukas, admin_user) -> None:
    signs_in()
    online.block(lukas, until=online.sessions()[0].created_at.replace(year=2090))
    assert BlockCopy.objects.using(ALIAS).count() == 1
    admin = Client()
    admin.force_login(admin_user)
    assert admin.get(f"/admin/auth/user/{lukas.pk}/delete/").status_code == 200
    assert admin.post(f"/admin/auth/user/{lukas.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not User.objects.filter(username="lukas").exists()
    assert not SignIn.objects.using(ALIAS).filter(user_id=lukas.pk).exists()
    assert not BlockCopy.objects.using(ALIAS).exists()
