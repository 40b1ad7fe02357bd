"""How all commands find a user: by user name, natural key, e-mail address or primary key, among all rows."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import models

from django_redsess import online
from tests.helpers.accounts import count, sign_in

pytestmark = pytest.mark.django_db


class Hiding(models.Manager[User]):
    """Hides users who are not active. It knows no natural key."""

    def get_queryset(self) -> models.QuerySet[User]:
        return super().get_queryset().filter(is_active=True)


class IgnoringCase(models.Manager[User]):
    def get_by_natural_key(self, name: str) -> User:
        return self.get(username__iexact=name)


class OfTwoFields(models.Manager[User]):
    def get_by_natural_key(self, name: str, email: str) -> User:
        raise AssertionError


@pytest.fixture
def manage(monkeypatch) -> Callable[[type[models.Manager[User]]], None]:
    """Return a function that gives the user model another default manager."""

    def manage(kind: type[models.Manager[User]]) -> None:
        manager = kind()
        manager.model, manager.name = User, "objects"
        monkeypatch.setattr(User._meta, "default_manager", manager)

    return manage


@pytest.fixture
def alice(db) -> User:
    return User.objects.create_user("alice", email="alice@example.com")


def run(*arguments: str, **options: Any) -> str:
    out = StringIO()
    call_command(*arguments, stdout=out, stderr=out, **options)
    return out.getvalue()


COMMANDS = {
    "blockuser": lambda name: run("blockuser", name, "--for", "1h"),
    "endsessions": lambda name: run("endsessions", name, interactive=False),
    "online": lambda name: run("online", "--user", name),
    "history": lambda name: run("history", "--export", name),
}


def test_every_command_takes_every_name_of_a_user(alice) -> None:
    for name in ("alice", "alice@example.com", str(alice.pk), f"pk={alice.pk}"):
        for command in COMMANDS.values():
            command(name)
        assert online.unblock(alice), name
        for command in COMMANDS.values():
            with pytest.raises(CommandError, match=r"[Tt]here is no user"):
                command(f"{name}x")


def test_a_mistyped_name_gets_the_one_that_is_most_alike(alice) -> None:
    for command in COMMANDS.values():
        with pytest.raises(CommandError, match=r"alcie\. Did you mean alice\?"):
            command("alcie")
        with pytest.raises(CommandError, match=r"zoe\.$"):
            command("zoe")


@pytest.mark.parametrize("kind", [Hiding, IgnoringCase, OfTwoFields])
def test_whoever_is_signed_in_is_found_whatever_the_manager_hides_or_lacks(manage, alice, kind) -> None:
    sign_in(alice)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    manage(kind)
    assert "alice" in run("online")
    assert "1 session matches" in run("online", "--user", "alice")
    assert run("history", "--export", "alice").startswith("id,user_id,")
    assert "1 session ended" in run("blockuser", "alice", "--for", "1h")
    assert "alice: until" in run("blockuser", "--list")
    assert count(alice) == 0


def test_a_natural_key_of_the_site_is_taken(manage, alice) -> None:
    manage(IgnoringCase)
    assert "ALICE: blocked" in run("blockuser", "ALICE", "--for", "1h")
    # Of two users whose names differ in nothing else, the exact one is meant.
    User.objects.create_user("Alice")
    run("blockuser", "alice", "--lift")
    assert online.block_of(alice) is None


def test_a_name_that_means_several_users_is_refused_and_each_has_another(alice) -> None:
    named = User.objects.create_user(str(alice.pk), email="alice@example.com")
    for name in (str(alice.pk), "alice@example.com"):
        for command in COMMANDS.values():
            with pytest.raises(CommandError) as refused:
                command(name)
            for user in (alice, named):
                assert f"pk={user.pk} ({user.username})" in str(refused.value)
    assert online.blocked() == []
    run("blockuser", f"pk={alice.pk}", "--for", "1h")
    assert [block.user_id for block in online.blocked()] == [str(alice.pk)]


def test_what_only_looks_like_a_primary_key_is_none(alice) -> None:
    padded = User.objects.create_user(f"00{alice.pk}")
    run("blockuser", padded.username, "--for", "1h")
    assert [block.user_id for block in online.blocked()] == [str(padded.pk)]
    # Nobody has this address: nobody is meant by it.
    for name in ("", "pk=", "pk=alice", f"pk={10**30}", "\0", "x" * 1000):
        with pytest.raises(CommandError):
            run("blockuser", name, "--for", "1h")
