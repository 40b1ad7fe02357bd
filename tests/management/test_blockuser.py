"""``blockuser``: whom it blocks, lifts and lists, and what it refuses."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.utils import timezone

from django_redsess import online
from django_redsess.exceptions import SignInRefused
from tests.helpers.accounts import count, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]


def run(*arguments: str) -> list[str]:
    out = StringIO()
    call_command("blockuser", *arguments, stdout=out)
    return out.getvalue().splitlines()


@pytest.fixture
def users() -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


def test_users_are_blocked_listed_and_let_in_again(users) -> None:
    for name in ("alice", "alice", "bob", "carol"):
        sign_in(users[name])
    assert run("--list") == ["Nobody is blocked."]
    first, second = run("alice", "bob", "--for", "12h", "--message", "Call us.")
    assert first.startswith("alice: blocked until ")
    assert first.endswith(", 2 sessions ended.")
    assert second.endswith(", 1 session ended.")
    assert [count(user) for user in users.values()] == [0, 0, 1]
    block = online.block_of(users["alice"])
    assert abs(block.until - timezone.now() - timedelta(hours=12)) < timedelta(minutes=1)
    with pytest.raises(SignInRefused, match=r"Call us\."):
        sign_in(users["bob"])
    online.block(users["carol"], until=block.until + timedelta(hours=1), by=users["alice"], internal_note="Case 7")
    users["bob"].delete()
    lines = run("--list")
    assert [line.partition(":")[0] for line in lines] == [
        "alice",
        f"deleted user {online.blocked()[1].user_id}",
        "carol",
    ]
    assert lines[0].endswith(": Call us.")
    assert lines[2].endswith(", by alice (internal note: Case 7)")
    assert run("alice", "--lift") == ["alice: can sign in again."]
    assert run("alice", "--lift") == ["alice: was not blocked."]
    sign_in(users["alice"])


def test_another_time_takes_the_place_of_the_first(users) -> None:
    run("alice", "--for", "7d", "--message", "Call us.")
    run("alice", "--for", "30m")
    [block] = online.blocked()
    assert block.until < timezone.now() + timedelta(hours=1)
    assert block.message == ""


def test_a_ready_made_message_is_named_by_its_code(users) -> None:
    run("alice", "--for", "7d", "--message-code", "known_password", "--message", "Call us.")
    [block] = online.blocked()
    words = "Somebody else may have known your password. Please change it. Call us."
    assert (block.message_code, block.message) == ("known_password", words)
    for wrong in (["--message-code", "ended_by_user"], ["--message-code", "lost_device", "--message", "x" * 201]):
        with pytest.raises(CommandError, match=r"'ended_by_user' is not in END_MESSAGES|at most 200 characters"):
            run("bob", "--for", "7d", *wrong)
    with pytest.raises(CommandError, match="--message-code goes with --for"):
        run("alice", "--lift", "--message-code", "lost_device")
    assert len(online.blocked()) == 1


def test_json_has_a_line_for_each_user_and_each_block(users) -> None:
    sign_in(users["alice"])
    alice, bob = map(json.loads, run("alice", "bob", "--for", "12h", "--message", "Call us.", "--json"))
    assert (alice["user"], alice["ended"], bob["ended"]) == ("alice", 1, 0)
    online.block(users["carol"], until=timezone.now() + timedelta(days=1), by=users["alice"])
    first, _, last = map(json.loads, run("--list", "--json"))
    assert first == {
        "user_id": str(users["alice"].pk),
        "user": "alice",
        "until": first["until"],
        "message": "Call us.",
        "message_code": "",
        "by": None,
        "by_user": None,
        "internal_note": None,
    }
    # A server's time has milliseconds.
    assert abs(datetime.fromisoformat(alice["until"]) - datetime.fromisoformat(first["until"])) < timedelta(seconds=1)
    assert (last["user"], last["by"], last["by_user"]) == ("carol", str(users["alice"].pk), "alice")
    lifted = [json.loads(line)["lifted"] for _ in range(2) for line in run("alice", "--lift", "--json")]
    assert lifted == [True, False]
    assert run("bob", "carol", "--lift", "--json") != run("--list", "--json") == []


def test_a_block_of_more_than_a_year_is_refused_with_what_to_do(users) -> None:
    with pytest.raises(CommandError, match=r"--for is at most 366d\. To keep .* deactivate the account\."):
        run("alice", "--for", "400d")
    run("alice", "--for", "366d")
    assert len(online.blocked()) == 1


WRONG: list[Any] = [
    [],
    ["alice"],
    ["--for", "1d"],
    ["alice", "--list"],
    ["alice", "--for", "1d", "--lift"],
    ["alice", "--for", "soon"],
    ["alice", "--for", "99999d"],
    ["alice", "--for", "0.000000001s"],
    ["alice", "--lift", "--message", "Call us."],
    ["alice", "--for", "1d", "--message", "x" * 201],
    ["alice", "nobody", "--for", "1d"],
]


def test_what_is_wrong_is_said_and_nobody_is_blocked(users) -> None:
    for arguments in WRONG:
        with pytest.raises(CommandError):
            run(*arguments)
        assert online.blocked() == [], arguments
