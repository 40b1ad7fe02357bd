"""What is in the lists of fields is in all files, and in the reference: one entry is enough."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from django_redsess import online
from django_redsess.contrib.history.models import SignIn
from django_redsess.online import fields
from django_redsess.online.fields import Field
from docs._ext import facts, written
from tests.helpers.admin_pages import LIST
from tests.project.docs.pages import DOCS

SIGN_INS = "/admin/redsess_history/signin/"

ADDED = Field("added", str, "A field of tomorrow.", lambda row: f"of {row.subject.user_id}")

File = list[dict[str, Any]]


def of_admin(path: str, file_format: str) -> Callable[[Client], File]:
    def read(client: Client) -> File:
        text = client.post(f"{path}export/", {"format": file_format}).getvalue().decode("utf-8-sig")
        return of_csv(text) if file_format == "csv" else next(iter(json.loads(text).values()))

    return read


def of_command(*arguments: str) -> Callable[[Client], File]:
    def read(client: Client) -> File:
        out = StringIO()
        call_command(*arguments, stdout=out)
        text = out.getvalue()
        return [json.loads(line) for line in text.splitlines()] if "--json" in arguments else of_csv(text)

    return read


def of_csv(text: str) -> File:
    return list(csv.DictReader(StringIO(text, newline="")))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("name", "read", "left_out", "others"),
    [
        ("SESSION", of_admin(LIST, "csv"), [], []),
        ("SESSION", of_admin(LIST, "json"), [], []),
        # Nobody's request asks a command.
        ("SESSION", of_command("online", "--csv"), ["is_current"], []),
        ("SESSION", of_command("online", "--json"), ["is_current"], []),
        ("SIGN_IN", of_admin(SIGN_INS, "csv"), [], []),
        ("SIGN_IN", of_admin(SIGN_INS, "json"), [], []),
        # What administrators have noted is not for the user.
        ("SIGN_IN", of_command("history", "--export", "admin"), ["internal_note"], ["client", "device_cookie"]),
        (
            "SIGN_IN",
            of_command("history", "--export", "admin", "--json"),
            ["internal_note"],
            ["client", "device_cookie"],
        ),
    ],
)
def test_a_field_that_is_added_is_in_each_file(
    admin_client, admin_user, monkeypatch, name, read, left_out, others
) -> None:
    # The sign-in of a test's client makes no row.
    SignIn.objects.create(user=admin_user, login_ms=1_900_000_000_000)
    monkeypatch.setattr(fields, name, (*getattr(fields, name), ADDED))
    [found] = read(admin_client)
    assert list(found) == [*(each.name for each in getattr(fields, name) if each.name not in left_out), *others]
    assert found["added"] == f"of {admin_user.pk}"
    assert facts.fields_of(name)[-1] == ("added", "str", "A field of tomorrow.", "")


@pytest.mark.unit
def test_the_page_in_the_reference_has_all_lists() -> None:
    parts = [part.argument for part in written.parts(DOCS / "reference" / "fields.rst")]
    assert parts == ["SESSION", "SIGN_IN", "BLOCK"]
    for name in parts:
        assert [each.name for each in facts.fields_of(name)] == [each.name for each in getattr(fields, name)]


@pytest.mark.django_db
def test_what_is_absent_is_none_and_times_are_datetimes(new_session) -> None:
    guest = online.get(new_session(colour="blue").sid)
    [described] = fields.describe_sessions([guest])
    assert {name for name, value in described.items() if value is None} == {
        *("user_id", "user", "created_at", "newest_item")
    }
    assert {name for name, value in described.items() if value == ""} == {"address", "user_agent", "device", "place"}
    assert (described["id"], described["last_seen_at"], described["is_current"]) == (
        guest.sid,
        guest.last_seen_at,
        False,
    )
    assert fields.describe_sessions([guest], current_sid=guest.sid)[0]["is_current"] is True


@pytest.mark.django_db
def test_a_name_is_that_of_who_may_be_seen(new_session) -> None:
    alice = User.objects.create_user("alice")
    session = online.get(new_session(str(alice.pk)).sid)
    assert fields.describe_sessions([session])[0]["user"] is None
    for users in ({str(alice.pk): alice}, {str(alice.pk): "alice"}):
        assert fields.describe_sessions([session], users)[0]["user"] == "alice"
