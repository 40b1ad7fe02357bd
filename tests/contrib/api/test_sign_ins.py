"""Sign-ins of the past, by the rules of the site and the filters of their page."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess.contrib.history.models import SignIn, who_ended
from django_redsess.permissions import Rules
from tests.helpers.admin_pages import staff
from tests.helpers.api import get, status

pytestmark = pytest.mark.django_db

AT = 1_900_000_000_000

GONE = "70000000"
"""The primary key of a user whose account was deleted: no test makes so many."""


@pytest.fixture
def rows(alice) -> list[SignIn]:
    bob = User.objects.create_user("bob")
    ended = {
        "ended_at": datetime(2030, 4, 1, tzinfo=UTC),
        "reason": "kicked",
        "ended_by": GONE,
        "stored_message": "Call us.",
    }
    ended["who_ended"] = who_ended(str(alice.pk), "kicked", GONE)
    return [
        SignIn.objects.create(user=alice, login_ms=AT, address="198.51.100.7", **ended),
        SignIn.objects.create(user=bob, login_ms=AT, client="Firefox on Linux", is_new_device=True),
        SignIn.objects.create(user=alice, login_ms=AT + 1000, unproven_at=datetime(2030, 4, 1, tzinfo=UTC)),
    ]


def found(client: Client, **query: object) -> list[str]:
    return [each["id"] for each in get(client, "sign-ins", **query)["sign_ins"]]


def test_sign_ins_are_listed_with_their_ends(alice, root, rows) -> None:
    first = get(root, "sign-ins", state="ended")["sign_ins"]
    assert first == [
        {
            "id": str(rows[0].pk),
            "user_id": str(alice.pk),
            "user": "alice",
            "address": "198.51.100.7",
            "user_agent": "",
            "device": "",
            "place": "",
            "created_at": "2030-03-17T17:46:40.000+00:00",
            "last_seen_at": None,
            "ended_at": "2030-04-01T00:00:00.000+00:00",
            "ended_at_is_approximate": False,
            "reason": "kicked",
            "ended_by": GONE,
            "ended_by_user": None,
            "message": "Call us.",
            "message_code": "",
            "internal_note": None,
            "is_new_device": None,
            "unproven_at": None,
            "unproven_address": "",
            "unproven_user_agent": "",
            "unproven_refused": None,
        }
    ]


def test_filters_are_those_of_the_page(alice, root, rows) -> None:
    one, two, three = (str(row.pk) for row in rows)
    assert found(root) == [three, two, one]
    assert found(root, user=alice.pk) == [three, one]
    assert found(root, q="bob") == [two]
    assert found(root, reason="kicked") == [one]
    assert found(root, state="living") == [three, two]
    assert found(root, who_ended="staff") == found(root, ended_by=GONE) == [one]
    assert found(root, who_ended="nobody") == found(root, ended_by="8") == []
    assert found(root, is_new_device="true") == found(root, browser="Firefox") == found(root, system="Linux") == [two]
    assert found(root, unproven="true") == [three]
    assert found(root, until="2029-01-01") == found(root, when="today") == []
    assert found(root, since="2029-01-01", until="2031-01-01") == [three, two, one]
    assert found(root, active_on="2029-01-01") == []
    assert status(root, "get", "sign-ins", who_ended="x") == 422
    for query in (
        {"state": "x"},
        {"when": "x"},
        {"since": "x"},
        {"until": "2030-02-30"},
        {"active_on": "today"},
        {"browser": "x"},
    ):
        assert status(root, "get", "sign-ins", **query) == 422


def test_pages_have_each_once_while_others_come_and_go(alice, root, rows) -> None:
    one, two, three = (str(row.pk) for row in rows)
    answer = get(root, "sign-ins", limit=1)
    assert [each["id"] for each in answer["sign_ins"]] == [three]
    SignIn.objects.create(user=alice, login_ms=AT + 2000)
    rows[2].delete()
    answer = get(root, "sign-ins", limit=1, cursor=answer["next_cursor"])
    assert [each["id"] for each in answer["sign_ins"]] == [two]
    answer = get(root, "sign-ins", limit=1, cursor=answer["next_cursor"])
    assert ([each["id"] for each in answer["sign_ins"]], answer["next_cursor"]) == ([one], None)


class NewDevices(Rules):
    def visible_sign_ins(self, user: Any, sign_ins: Any) -> Any:
        return sign_ins.filter(is_new_device=True)


class NewDevicesOneByOne(Rules):
    def may_see_sign_in(self, user: Any, sign_in: Any = None) -> bool:
        return super().may_see_sign_in(user, sign_in) and (sign_in is None or bool(sign_in.is_new_device))


@pytest.mark.parametrize("rules", [NewDevices, NewDevicesOneByOne])
def test_a_sites_own_rules_hold_as_on_the_pages(root, rows, settings, rules) -> None:
    settings.REDSESS = {**settings.REDSESS, "PERMISSIONS": f"{__name__}.{rules.__name__}"}
    assert found(root) == [str(rows[1].pk)]
    pages = "/admin/redsess_history/signin/"
    shown = [root.get(f"{pages}{row.pk}/change/").status_code == 200 for row in rows]
    exported = b"".join(root.post(f"{pages}export/", {"format": "json"}).streaming_content)
    assert (shown, len(json.loads(exported)["sign_ins"])) == ([False, True, False], 1)


def test_who_may_not_see_users_finds_them_by_user_name_only(rows) -> None:
    client = staff(Client(), "view_signin")
    assert len(found(client)) == 3
    assert len(found(client, q="bob")) == 1
    assert found(client, q="example.com") == []


@pytest.mark.parametrize(
    ("permissions", "reads"),
    [
        (("view_signin", "view_onlinesession", "end_onlinesession"), True),
        (("view_signin", "view_onlinesession"), False),
        (("view_signin", "end_onlinesession"), False),
        (("view_signin", "view_onlinesession", "block_user"), False),
    ],
)
def test_internal_notes_are_read_by_those_who_may_write_them(alice, root, permissions, reads) -> None:
    ended = {
        "ended_at": datetime(2030, 4, 1, tzinfo=UTC),
        "reason": "kicked",
        "ended_by": GONE,
        "internal_note": "Case 7",
    }
    of_root = User.objects.get(username="root")
    for user in (alice, of_root):
        SignIn.objects.create(user=user, login_ms=AT, **ended)
    client = staff(Client(), *permissions)
    notes = {each["user"]: each["internal_note"] for each in get(client, "sign-ins")["sign_ins"]}
    assert notes == {"alice": "Case 7" if reads else None, "root": None}
    # Nobody reads what others have noted about them.
    notes = {each["user"]: each["internal_note"] for each in get(root, "sign-ins")["sign_ins"]}
    assert notes == {"alice": "Case 7", "root": None}
