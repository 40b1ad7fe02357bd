"""Scripts with tokens: the guide's code lets them in, as the users whose tokens they are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client
from django.urls import clear_url_caches

from django_redsess import online
from testproject.servers import Server
from tests.helpers.accounts import count, sid_of, sign_in
from tests.helpers.api import ask, get, ids, status
from tests.helpers.running import drive
from tests.project.docs.pages import DOCS, blocks, environment, typed

GUIDE = list(blocks(DOCS / "howto" / "api-tokens.rst"))
TOKEN, NEXT_TOKEN = "a-token-of-the-script", "the-one-after-it"


@pytest.fixture(scope="module", autouse=True)
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A site that has the guide's code."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "shop").mkdir()
    admin = "from django.contrib import admin\nfrom django.urls import path\n"
    admin += 'urlpatterns = [path("admin/", admin.site.urls)]\n'
    for block in GUIDE:
        if block.heading:
            name = block.heading.partition(",")[0]
            text = admin * (name == "shop/urls.py") + block.text
            (folder / name).write_text(text, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]
    clear_url_caches()


@pytest.fixture
def bot(db: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> User:
    """The user of the guide, as its code makes it."""
    settings.ROOT_URLCONF = "shop.urls"
    monkeypatch.setenv("SUPPORT_BOT_TOKENS", TOKEN)
    [code] = [block.text for block in GUIDE if block.language == "python" and not block.heading]
    exec(code, {})
    return User.objects.get(username="support-bot")


def script(token: str = TOKEN) -> Client:
    return Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {token}"})


def test_a_script_acts_as_its_user_without_session_and_csrf_token(bot: User, alice: User) -> None:
    first, second, root = sign_in(alice), sign_in(alice), sign_in(User.objects.create_superuser("root"))
    bots = script()
    assert set(ids(get(bots, "sessions", user=str(alice.pk)))) == {sid_of(first), sid_of(second)}
    assert status(bots, "delete", f"sessions/{sid_of(first)}", message="Call us.") == 204
    # A superuser's session, and what takes a permission that it has not.
    assert status(bots, "delete", f"sessions/{sid_of(root)}") == 403
    assert status(bots, "get", "sign-ins") == 403
    assert {entry.user for entry in LogEntry.objects.all()} == {bot}
    assert [session.sid for session in online.of_user(alice)] == [sid_of(second)]
    assert get(bots, "me/sessions")["sessions"] == []
    assert (count(bot), dict(bots.cookies)) == (0, {})


@pytest.mark.parametrize("token", ["", TOKEN[:-1], TOKEN + "x", TOKEN.upper(), f"{TOKEN} {NEXT_TOKEN}", "é", "\x7f"])
def test_another_token_is_nobodys(bot: User, token: str) -> None:
    assert status(script(token), "get", "counts") == 401
    assert status(script(token), "post", "sessions/end", {"ids": ["x"]}) == 401


@pytest.mark.parametrize("known", ["", " ", NEXT_TOKEN])
def test_a_token_that_the_site_does_not_know_is_nobodys(bot: User, monkeypatch: pytest.MonkeyPatch, known: str) -> None:
    monkeypatch.setenv("SUPPORT_BOT_TOKENS", known)
    assert status(script(), "get", "counts") == 401
    assert status(script(""), "get", "counts") == 401


def test_a_token_is_changed_while_both_are_known(bot: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUPPORT_BOT_TOKENS", f"{TOKEN} {NEXT_TOKEN}")
    assert [status(script(each), "get", "counts") for each in (TOKEN, NEXT_TOKEN)] == [200, 200]


def test_the_scripts_user_loses_its_rights_with_the_next_request(bot: User) -> None:
    assert status(script(), "get", "counts") == 200
    bot.user_permissions.clear()
    assert status(script(), "get", "counts") == 403
    bot.is_active = False
    bot.save()
    assert status(script(), "get", "counts") == 401


def test_who_is_not_staff_is_no_administrator(bot: User) -> None:
    bot.is_staff = False
    bot.save()
    assert status(script(), "get", "sessions") == 403
    assert status(script(), "get", "me/sessions") == 200


def test_who_has_no_valid_token_is_told_to_send_one(bot: User) -> None:
    answer = ask(script("wrong"), "get", "sessions")
    assert (answer.status_code, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
    assert "Authorization: Bearer" in answer.json()["detail"]


def test_users_get_in_besides_by_their_cookie(bot: User, alice: User) -> None:
    here = Client(enforce_csrf_checks=True)
    here.force_login(alice)
    assert ids(get(here, "me/sessions")) == [sid_of(here)]
    assert status(here, "delete", "me/sessions") == 403
    assert ask(here, "delete", "me/sessions").json()["detail"].startswith("The CSRF token")


def test_the_description_says_how_scripts_and_users_get_in(bot: User) -> None:
    served = get(Client(), "openapi.json")
    schemes = served["components"]["securitySchemes"]
    found = {name: (each["type"], each.get("scheme") or each["in"]) for name, each in schemes.items()}
    assert sorted(found.values()) == [("apiKey", "cookie"), ("http", "bearer")]
    operation = served["paths"]["/counts"]["get"]
    allowed = operation.get("security", served.get("security"))
    assert sorted(name for each in allowed for name in each) == sorted(found)


@pytest.mark.slow
def test_tokens_of_django_rest_framework_are_their_users(server: Server, tmp_path: Path) -> None:
    drive("rest_tokens", settings="tests.helpers.site.settings.rest_tokens", server=server, folder=tmp_path)


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_the_commands_of_the_guide_print_what_it_says(
    live_server: Any, bot: User, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if "REDSESS_SKIP_NOTHING" not in os.environ and not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl and jq are not installed")
    ada = User.objects.create_user("ada")
    for _ in range(2):
        sign_in(ada)
    commands = typed(GUIDE)

    def run(script: str) -> str:
        command = ["bash", "-euo", "pipefail", "-c", script.replace("https://shop.example", live_server.url)]
        ran = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    made = [command for command, _ in commands[:2]]
    run("\n".join(made))
    [token] = re.findall(r"^Authorization: Bearer (\S+)$", (tmp_path / "authorization").read_text(), re.MULTILINE)
    assert (tmp_path / "authorization").stat().st_mode & 0o077 == 0
    monkeypatch.setenv("SUPPORT_BOT_TOKENS", token)
    printed = run("".join(f"{command}\necho; echo -----\n" for command, _ in commands[2:])).split("-----\n")
    assert [part.split() for part in printed[:-1]] == [said.split() for _, said in commands[2:]]
    assert online.block_of(ada)
