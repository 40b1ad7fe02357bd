"""Sites without ``USE_TZ``: every page, URL of the API, command and public function, and the times that they store."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from itertools import pairwise
from pkgutil import iter_modules
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.core.management import BaseCommand, call_command, get_commands, load_command_class
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from django_redsess import cleaning, online, times, viewed
from django_redsess.accounts import urls
from django_redsess.contrib.history.blocks import restore_blocks
from django_redsess.contrib.history.management import commands as of_history
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.contrib.moving.management import commands as of_moving
from django_redsess.management import commands as own_commands
from django_redsess.management.commands import cleansessions, cleanviewed
from django_redsess.online.labels import known_server_day
from tests.contrib.api.test_endpoints import ALL as ALL_OF_API
from tests.contrib.history.rows import row
from tests.helpers.accounts import sid_of, sign_in

ZONE = ZoneInfo("America/New_York")
FIRST = datetime(2026, 11, 1, 5, 30, tzinfo=UTC)
"""Half past one in the night in which summer time ends: an hour before it is half past one again."""

SESSIONS, ITEMS, SIGN_INS = "django_redsess_onlinesession", "django_redsess_popularitem", "redsess_history_signin"


@pytest.fixture(autouse=True)
def without_time_zones(settings) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, str(ZONE)


@pytest.fixture
def users(db) -> dict[str, User]:
    return {name: User.objects.create_user(name, email=f"{name}@example.com") for name in ("alice", "bob")}


@pytest.fixture
def root(db) -> Client:
    return sign_in(User.objects.create_superuser("root"))


@pytest.fixture
def lived_in(history, users) -> dict[str, str]:
    """Make a store and a history with something of each kind. Return what addresses and arguments name."""
    alice, bob = users["alice"], users["bob"]
    here, now = sign_in(alice), datetime.now(UTC)
    sid = sid_of(here)
    at_end = times.to_column(now - timedelta(minutes=30))
    row(alice, last_seen_at=at_end, ended_at=at_end, reason="logout")
    online.block(bob, until=timezone.now() + timedelta(hours=1), message="Call us.", by=alice)
    viewed.record(here.session, "lamp")
    cleaning.take_sample()
    return {"sid": sid, "user": str(alice.pk), "blocked": str(bob.pk), "row": str(SignIn.objects.latest("pk").pk)}


def pages_of(there: dict[str, str]) -> dict[str, tuple[dict[str, str], list[str], dict[str, Any] | None]]:
    """Return for each page of the admin: what its address names, queries, and what is posted, if it takes a POST."""
    page = {name: {"object_id": there[name]} for name in ("sid", "row")}
    every = [
        "when=today",
        "when=week",
        "since=2026-03-08&until=2026-11-01",
        "active_on=2026-03-08",
        "state=ended",
        "q=alice",
    ]
    return {
        f"{SESSIONS}_numbers": ({}, ["", "range=week", "range=month", f"day={known_server_day()}"], None),
        f"{SESSIONS}_export": ({}, [""], {"format": "csv"}),
        f"{SESSIONS}_blocked": ({}, [""], None),
        f"{SESSIONS}_unblock": ({}, [""], {"user": there["blocked"]}),
        f"{SESSIONS}_confirm": ({}, ["", f"sid={there['sid']}"], None),
        f"{SESSIONS}_end": ({}, [""], {"sids": there["sid"]}),
        f"{SESSIONS}_changelist": ({}, ["", "active=5m", f"sid__in={there['sid']}", "q=alice", "guests=true"], None),
        f"{SESSIONS}_history": (page["sid"], [""], None),
        f"{SESSIONS}_change": (page["sid"], [""], None),
        f"{ITEMS}_confirm": ({}, [""], None),
        f"{ITEMS}_reset": ({}, [""], {"items": "lamp"}),
        f"{ITEMS}_changelist": ({}, [""], None),
        f"{ITEMS}_history": ({"object_id": "lamp"}, [""], None),
        f"{ITEMS}_change": ({"object_id": "lamp"}, [""], None),
        f"{SIGN_INS}_export": ({}, ["", "when=today"], {"format": "json"}),
        f"{SIGN_INS}_end": ({}, ["", "q=alice"], None),
        f"{SIGN_INS}_changelist": ({}, ["", *every], None),
        f"{SIGN_INS}_history": (page["row"], [""], None),
        f"{SIGN_INS}_change": (page["row"], [""], None),
    }


def test_every_page_of_the_admin_works(root, lived_in) -> None:
    asked = pages_of(lived_in)
    ours = [each for model, each in admin.site._registry.items() if model._meta.app_label in _LABELS]
    # Nothing is added or deleted there, and an address without a name leads to another one.
    names = {str(url.name) for each in ours for url in each.get_urls() if url.name}
    assert set(asked) == {name for name in names if not name.endswith(("_add", "_delete"))}
    for name, (arguments, queries, posted) in sorted(asked.items(), key=lambda each: each[1][2] is not None):
        for query in queries:
            url = reverse(f"admin:{name}", kwargs=arguments) + f"?{query}"
            response = root.get(url, follow=True) if posted is None else root.post(url, posted, follow=True)
            # Streamed answers are made while they are read.
            assert response.status_code == 200, url
            assert b"".join(response), url
    for user in (lived_in["user"], lived_in["blocked"]):
        assert root.get(f"/admin/auth/user/{user}/change/").status_code == 200


_LABELS = ("django_redsess", "redsess_history")


def test_every_page_of_users_works(history, users) -> None:
    here, there = sign_in(users["alice"]), sign_in(users["alice"])
    row(users["alice"], ended_at=times.to_column(datetime.now(UTC)), reason="kicked")
    for url in urls.urlpatterns:
        path = reverse(f"django_redsess:{url.name}", args=[sid_of(there)] if "<str:sid>" in str(url.pattern) else [])
        response = here.get(path) if url.name == "sessions" else here.post(path, follow=True)
        assert response.status_code == 200, path


def test_every_url_of_the_api_works(root, lived_in) -> None:
    api = "/api/v1/"
    until = (datetime.now(UTC) + timedelta(hours=2)).isoformat()
    bodies: dict[tuple[str, str], Any] = {
        ("post", "me/reauthenticate"): {"password": "wrong"},
        ("post", "sessions/end"): {"ids": [lived_in["sid"]]},
        ("put", "users/{user}/block"): {"until": until},
    }
    found = {}
    # Those first that end nothing.
    for method in ("get", "put", "post", "delete"):
        for path in (each for each, methods in ALL_OF_API.items() if method in methods):
            url = api + path.format(sid=lived_in["sid"], user=lived_in["user"])
            body = bodies.get((method, path))
            more = {} if body is None else {"data": json.dumps(body), "content_type": "application/json"}
            response = getattr(root, method)(url, **more)
            assert response.status_code < 500, url
            found[method, path] = response
    times_of_ends = [each["ended_at"] for each in found["get", "sign-ins"].json()["sign_ins"] if each["ended_at"]]
    assert all(0 < (datetime.now(UTC) - datetime.fromisoformat(at)).total_seconds() < 7200 for at in times_of_ends)
    assert times_of_ends
    assert found["put", "users/{user}/block"].status_code == 200


COMMANDS: dict[str, list[str]] = {
    "online": [
        *("", "--json", "--csv", "--user alice", "--search alice --staff", "--active", "--active 1h", "--id {sid}"),
        *("--guests", "--guests only", "--network 127.0.0.0/8", "--browser Chrome", "--system Android"),
        *("--device-bound", "--device-bound no"),
        *("--order created_at --offset 0 --limit 1", "--order=-last_seen_at"),
    ],
    "history": ["--repair --prune --heartbeat {file} --json", "--export alice", "--export alice --json"],
    "movesessions": ["--dry-run", "--json --heartbeat {file}", "--from-key a", "--back", "--finish"],
    "cleansessions": [
        *("", "--check", "--repair", "--dry-run", "--only expired --batch-size 10 --max-sessions 10", "--max-guests 0"),
        *("--heartbeat {file} --json", "--forever"),
    ],
    "cleanviewed": ["--dry-run --json", "--max-items 1 --batch-size 1 --heartbeat {file} --noinput", "--forever"],
    "supportgroup": ["", "Others"],
    "blockuser": [
        "--list",
        "bob --for 1h --message-code lost_device --message Later",
        "--list",
        "--list --json",
        "bob --lift",
    ],
    "endsessions": [
        *("alice --dry-run --json", "alice --keep {sid} --message Later --noinput"),
        "alice --keep {sid} --message-code lost_device --noinput",
        "--network 127.0.0.0/8 --browser Chrome --system Android --device-bound no --dry-run",
        "--all --new-secret-key --noinput",
    ],
}
"""Calls of each command, with each of its options, in an order in which a session stays until the last ones."""

OF_ALL = set(BaseCommand().create_parser("", "")._option_string_actions) | {"--no-input"}


def test_every_command_works_with_every_option(lived_in, settings, tmp_path, monkeypatch) -> None:
    folders = [*own_commands.__path__, *of_history.__path__, *of_moving.__path__]
    assert {each.name for each in iter_modules(folders)} == set(COMMANDS)
    for service in (cleansessions, cleanviewed):
        # It is asked to stop when it rests for the first time.
        monkeypatch.setattr(service.Command, "wait_for_work", lambda command: setattr(command.stop, "asked", True))
    monkeypatch.setattr(cleansessions, "FIRST_JOBS_SECONDS", 0)
    there = {"sid": lived_in["sid"], "file": str(tmp_path / "heart")}
    before, moves = settings.SESSION_ENGINE, {"MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": True}
    began = online.get(lived_in["sid"]).created_at.astimezone(ZONE)
    told = {}
    for name, calls in COMMANDS.items():
        settings.SESSION_ENGINE = "django_redsess.contrib.moving" if name == "movesessions" else before
        settings.REDSESS = {**settings.REDSESS, **(moves if name == "movesessions" else {"MOVE_FROM": None})}
        options = set(load_command_class(get_commands()[name], name).create_parser("", name)._option_string_actions)
        assert options - OF_ALL <= {each.partition("=")[0] for each in " ".join(calls).split()}, name
        for line in calls:
            told[name, line] = out = StringIO()
            arguments = [argument.format(**there) for argument in line.split()]
            call_command(name, *arguments, stdout=out, stderr=StringIO())
    table = told["online", ""].getvalue().splitlines()
    assert table[0].split()[1:4] == ["SIGNED", "IN", f"({datetime.now(ZONE).tzname()})"]
    assert f"{began:%Y-%m-%d %H:%M}" in table[1]


def calls_of(there: dict[str, str], users: dict[str, User]) -> dict[str, Callable[[Any], Any]]:
    alice, sid, soon = users["alice"], there["sid"], timezone.now() + timedelta(hours=1)
    return {
        "block": lambda call: call(alice, until=soon),
        "block_of": lambda call: call(users["bob"]),
        "blocked": lambda call: call(),
        "count": lambda call: call(),
        "details": lambda call: call(sid),
        "end": lambda call: call(sid),
        "end_all": lambda call: call(),
        "end_in_batches": lambda call: list(call()),
        "end_user": lambda call: call(alice),
        "find": lambda call: call([sid]),
        "get": lambda call: call(sid),
        "samples": lambda call: call(),
        "of_user": lambda call: call(alice),
        "ready_message": lambda call: call("lost_device"),
        "sessions": lambda call: call(),
        "totals": lambda call: call(),
        "unblock": lambda call: call(alice),
    }


def test_every_public_function_works_and_returns_aware_times(lived_in, users) -> None:
    calls = calls_of(lived_in, users)
    functions = [name for name in online.__all__ if inspect.isroutine(getattr(online, name))]
    without_async = {"end_in_batches", "ready_message"}
    assert set(calls) | {f"a{name}" for name in calls.keys() - without_async} == set(functions)
    found = [call(getattr(online, name)) for name, call in calls.items() if not name.startswith("end")]
    found += [calls[name](getattr(online, name)) for name in ("end", "end_user", "end_all", "end_in_batches")]
    found.append(viewed.total())
    assert all(at.tzinfo is not None for at in datetimes_in(found))
    assert asyncio.run(online.ablock(users["alice"], until=timezone.now() + timedelta(hours=2))) == 0
    assert online.block_of(users["alice"]).until - datetime.now(UTC) > timedelta(minutes=119)


def datetimes_in(value: Any) -> Iterator[datetime]:
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, dict):
        yield from datetimes_in(list(value.values()))
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from datetimes_in(each)


def test_a_naive_time_is_local_and_is_refused_with_time_zones(settings, users) -> None:
    alice, at = users["alice"], datetime(2099, 7, 1, 12)
    online.block(alice, until=at)
    assert online.block_of(alice).until == datetime(2099, 7, 1, 16, tzinfo=UTC)
    session = sign_in(users["bob"]).session
    session.set_expiry(datetime(2099, 7, 1, 12))
    session.save()
    # A visitor's own time zone is for what is shown, and changes nothing that is stored.
    with timezone.override("Asia/Tokyo"):
        assert times.to_column(datetime(2099, 7, 1, 16, tzinfo=UTC)) == at
        session.save()
    assert online.get(session.sid).expires_at == datetime(2099, 7, 1, 16, tzinfo=UTC)
    settings.USE_TZ = True
    with pytest.raises(ValueError, match="until must be an aware datetime"):
        online.block(alice, until=at)


def test_of_an_hour_that_comes_twice_exports_have_the_one_that_can_be(history, users, root) -> None:
    alice, second = users["alice"], FIRST + timedelta(hours=1)
    for created_at in (FIRST - timedelta(minutes=10), second - timedelta(minutes=10)):
        at = times.to_column(created_at + timedelta(minutes=10))
        SignIn.objects.create(user=alice, login_ms=int(created_at.timestamp() * 1000), last_seen_at=at, ended_at=at)
    out = StringIO()
    call_command("history", "--export", "alice", "--json", stdout=out)
    found = [json.loads(line)["ended_at"] for line in out.getvalue().splitlines()]
    assert found == ["2026-11-01T06:30:00.000+00:00", "2026-11-01T05:30:00.000+00:00"]
    answer = root.post("/admin/redsess_history/signin/export/?user=" + str(alice.pk), {"format": "json"})
    assert [each["ended_at"] for each in json.loads(b"".join(answer))["sign_ins"]] == found
    # On hover, since the column has room for the hour only.
    shown = root.get("/admin/redsess_history/signin/").text
    assert "EST" in shown
    assert "EDT" in shown


def test_a_day_is_as_long_as_it_is() -> None:
    days = [times.midnight(FIRST.date() + timedelta(days=number)) for number in range(-1, 3)]
    lengths = [(end - start) // timedelta(hours=1) for start, end in pairwise(days)]
    assert lengths == [24, 25, 24]


def test_a_block_that_ends_in_an_hour_that_comes_twice_is_not_put_back_too_short(history, users, redis) -> None:
    # Half past one in the first such night that is far ahead.
    second = next(
        at
        for day in range(366 * 8)
        if (at := datetime(2090, 1, 1, 6, 30, tzinfo=UTC) + timedelta(days=day)).astimezone(ZONE).fold
    )
    online.block(users["alice"], until=second)
    assert BlockCopy.objects.get().until == times.to_column(second)
    redis.flushall()
    assert [done for done, _ in restore_blocks()] == [1]
    assert online.block_of(users["alice"]).until == second
    assert str(BlockCopy.objects.get()).endswith(" UTC")
