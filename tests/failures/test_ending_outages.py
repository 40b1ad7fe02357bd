"""An outage in the middle of ending: what has ended is in the histories, and so is a block."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection
from django.test import Client
from django.utils import timezone

from benchmarks.fill import fill
from django_redsess import signals
from django_redsess.admin import OnlineSessionAdmin
from django_redsess.online import ending
from django_redsess.signals import user_blocked
from testproject.servers import free_port
from tests.helpers.admin_pages import END, have_own_rule, milliseconds_ago
from tests.helpers.api import ask
from tests.helpers.outages import caches
from tests.helpers.store import have_partitions, keyspace

AT_ONCE = 250
"""How many sessions a call ends."""

NUMBERS = range(101, 121)
"""Primary keys of users. Not all have their sessions in the same partition."""


@pytest.fixture
def lukas(transactional_db) -> User:
    return User.objects.create_user("lukas", pk=1)


@pytest.fixture
def boss(client: Client, lukas) -> Client:
    # The first key is that of lukas.
    client.force_login(User.objects.create_superuser("boss"))
    return client


@pytest.fixture
def goes_away(settings, monkeypatch) -> Any:
    """
    Return a function: whoever calls this function of this class or module finds no server before or after it.

    ``when`` is asked about the first argument whether there is no server after it.
    """
    out_of_reach = {**settings.CACHES, **caches(f"redis://127.0.0.1:{free_port()}/0")}

    def goes(where: Any, name: str, *, before: bool = False, when: Callable[[Any], bool] = lambda _: True) -> None:
        function = getattr(where, name)

        def called(*arguments: Any, **options: Any) -> Any:
            if before:
                settings.CACHES = out_of_reach
                return function(*arguments, **options)
            result = function(*arguments, **options)
            if when(arguments[0]):
                settings.CACHES = out_of_reach
            return result

        monkeypatch.setattr(where, name, called)

    return goes


def signed_in_apart(new_session: Callable[[str], Any]) -> list[str]:
    """Return the sids of sessions of two users whose sessions are in different partitions."""
    first, *others = (new_session(str(number)).sid for number in NUMBERS)
    return [first, next(sid for sid in others if keyspace().of_sid(sid) != keyspace().of_sid(first))]


def lines() -> list[str]:
    return list(LogEntry.objects.order_by("pk").values_list("change_message", flat=True))


@pytest.mark.parametrize("way", ["api", "admin", "asked one by one"])
def test_what_has_ended_before_the_outage_is_in_the_history(redis, boss, lukas, goes_away, monkeypatch, way) -> None:
    fill(redis, AT_ONCE + 1, users=1)
    if way == "asked one by one":
        rule = OnlineSessionAdmin.has_end_permission
        have_own_rule(monkeypatch, "has_end_permission", lambda *arguments: rule(*arguments))
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", True)
    goes_away(ending.BulkEnding, "end_batch")
    if way == "api":
        assert ask(boss, "delete", f"users/{lukas.pk}/sessions").status_code == 503
    else:
        fields = {"query": f"user={lukas.pk}", "latest": milliseconds_ago(0)}
        assert boss.post(END, fields).status_code == 503
    assert lines() == [f"Ended {AT_ONCE} sessions."]


@pytest.fixture
def partitions(redis, monkeypatch) -> None:
    have_partitions(monkeypatch, 64)


@pytest.mark.parametrize("way", ["admin", "command"])
def test_what_has_ended_in_the_first_partition_is_counted(partitions, boss, new_session, goes_away, way) -> None:
    User.objects.bulk_create(User(pk=number, username=f"user {number}") for number in NUMBERS)
    sids = signed_in_apart(new_session)
    goes_away(signals, "hold_events", when=any)
    if way == "admin":
        assert boss.post(END, {"sids": " ".join(sids)}).status_code == 503
        assert lines() == ["Ended 1 session."]
    else:
        with pytest.raises(CommandError, match="1 session of 1 user were ended"):
            call_command("endsessions", *sids, "--noinput")


@pytest.mark.parametrize("way", ["api", "admin"])
def test_a_block_is_in_the_history_though_its_sessions_live(boss, lukas, new_session, goes_away, way) -> None:
    new_session(str(lukas.pk))
    blocked = list[str]()

    def note(user_id: str, **named: Any) -> None:
        blocked.append(user_id)

    user_blocked.connect(note)
    goes_away(ending, "BulkEnding", before=True)
    if way == "api":
        until = (timezone.now() + timedelta(hours=1)).isoformat()
        assert ask(boss, "put", f"users/{lukas.pk}/block", {"until": until}).status_code == 503
    else:
        assert boss.post(END, {"query": f"user={lukas.pk}", "block": f"1 {lukas.pk}"}).status_code == 503
    [line] = lines()
    assert line.startswith("Blocked until")
    # The copy in the database is made by it.
    assert blocked == [str(lukas.pk)]


def test_a_deactivation_says_which_sessions_have_ended(redis, boss, lukas, goes_away) -> None:
    fill(redis, AT_ONCE + 1, users=1)
    goes_away(ending.BulkEnding, "end_batch")
    boss.post(END, {"query": f"user={lukas.pk}", "deactivate": str(lukas.pk), "message": "Gone.", "is_confirmed": "1"})
    assert lines() == ["Deactivated the account. Message: Gone.", f"Ended {AT_ONCE} sessions. Message: Gone."]
