"""Another program writes any number or text into keys of ours: no reader fails, and no line of a log is forged."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import Client

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.checks.moving import seconds_since_first_move
from django_redsess.contrib.prometheus import metrics_page
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.online.listing import SessionFilter, iterate_pages
from tests.helpers.accounts import PASSWORD, sign_in
from tests.helpers.admin_pages import LIST, page_of
from tests.helpers.api import API
from tests.helpers.store import keyspace, pool

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

MANY_PARTITIONS = pytest.mark.parametrize("partitions", [4], indirect=True)


class World(NamedTuple):
    """The shop with an administrator and Alice, who have a session each, a guest, and Mallory, who is blocked."""

    root: Client
    visitor: Client
    alice: User
    mallory: User
    sid: str
    guest: str


@pytest.fixture
def world(partitions, settings, monkeypatch) -> World:
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 3600, "TOUCH_INTERVAL": 0}
    monkeypatch.setattr(metrics_page, "ASKED_SECONDS", -1)
    alice, mallory = (User.objects.create_user(name, password=PASSWORD) for name in ("alice", "mallory"))
    root, visitor = sign_in(User.objects.create_superuser("root", password=PASSWORD)), sign_in(alice)
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    viewed.record(visitor.session, "lamp")
    viewed.record(visitor.session, "chair")
    online.block(mallory, until=datetime.now(UTC) + timedelta(hours=1), message="Call us.")
    cleaning.take_sample()
    return World(root, visitor, alice, mallory, visitor.session.sid, str(guest.sid))


@pytest.fixture
def put_back(redis, world) -> Iterator[Callable[[], None]]:
    """Return a function that gives the store the content that it had."""
    stored = {name: redis.dump(name) for name in redis.keys()}

    def put_back() -> None:
        redis.flushall()
        for name, packed in stored.items():
            redis.restore(name, 0, packed)

    yield put_back
    redis.flushall()
    pool().invalidate()


Read = Callable[[World], object]


def page(who: str, path: str) -> Read:
    def ask(world: World) -> None:
        named = {"alice": world.alice.pk, "mallory": world.mallory.pk, "sid": world.sid, "page": page_of(world.sid)}
        # Whose session is over by a forged deadline is signed out.
        assert getattr(world, who).get(path.format(**named)).status_code in (200, 302, 400, 401, 404)

    return ask


def export(form: str) -> Read:
    def ask(world: World) -> None:
        answer = world.root.post(f"{LIST}export/", {"format": form})
        assert answer.status_code in (200, 302)
        assert answer.getvalue() or answer.status_code == 302

    return ask


def walk(path: str) -> Read:
    """Read a list of the API one by one."""

    def ask(world: World) -> None:
        place: dict[str, str] = {}
        for _ in range(10):
            answer = world.root.get(API + path.format(alice=world.alice.pk), {"limit": 1, **place})
            if answer.status_code == 401 or answer.json()["next_cursor"] is None:
                return
            place = {"cursor": answer.json()["next_cursor"]}
        raise AssertionError("there is no end")

    return ask


def command(line: str) -> Read:
    def run(world: World) -> None:
        with suppress(CommandError):
            words = line.format(alice=world.alice.pk, sid=world.sid).split()
            call_command(*words, stdout=io.StringIO(), stderr=io.StringIO())

    return run


ORDERS = ("created_at", "-created_at", "last_seen_at", "-last_seen_at")
LISTS = [
    *("", "?o=4", "?o=-4", "?guests=true", "?guests=only", "?active=1d", "?user={alice}", "?q=127.0.0.1"),
    *("numbers/", "blocked/"),
]
API_LISTS = [
    *("sessions", "sessions?guests=true", "sessions?guests=only", "sessions?active=5m", "sessions?order=last_seen_at"),
    *("sessions?order=-created_at", "sessions?network=127.0.0.1", "users/{alice}/sessions", "sessions/{sid}", "counts"),
    *("users/{mallory}/block", "me/sessions"),
]
PAGES = {
    "root": [*(LIST + query for query in LISTS), "{page}", "/admin/django_redsess/popularitem/", "/metrics", "/ready"],
    "visitor": ["/", "/account/sessions/", f"{API}me/sessions", f"{API}me/sessions/{{sid}}"],
}
COMMANDS = [
    *("online", *(f"online --order={order}" for order in ORDERS), "online --guests", "online --guests only"),
    *("online --active", "online --json", "online --csv", "online --network 127.0.0.1", "online --id {sid}"),
    *("online --user {alice}", "blockuser", "cleansessions --dry-run", "cleansessions --check", "cleansessions"),
    *("cleanviewed --dry-run --max-items 1", "endsessions --all --dry-run"),
]
READERS: dict[str, Read] = {
    **{f"{who} {path}": page(who, path) for who, paths in PAGES.items() for path in paths},
    **{path: page("root", API + path) for path in API_LISTS},
    **{form: export(form) for form in ("csv", "json")},
    **{f"walk {path}": walk(path) for path in ("sessions", "sessions?guests=true", "users/{alice}/sessions")},
    **{f"sessions({order})": lambda world, order=order: online.sessions(order=order) for order in ORDERS},
    "sessions(guests)": lambda world: online.sessions(guests=True, active_seconds=300),
    "sessions(offset)": lambda world: online.sessions(offset=1, limit=1),
    "sessions(users)": lambda world: online.sessions(user_ids=[str(world.alice.pk), str(world.mallory.pk)]),
    "sessions(network)": lambda world: online.sessions(network="127.0.0.0/8", guests=True),
    "pages": lambda world: [list(iterate_pages(SessionFilter(), order)) for order in ORDERS],
    "of_user": lambda world: online.of_user(world.alice),
    "find": lambda world: [online.find([world.sid, world.guest]), online.details(world.sid)],
    "count": lambda world: [online.count(), online.count(guests=True), online.count(active_seconds=300)],
    "totals": lambda world: online.totals(),
    "samples": lambda world: [online.samples(hours=hours) for hours in (1, 24, 720)],
    "blocked": lambda world: [online.blocked(), online.block_of(world.mallory)],
    "popular": lambda world: [viewed.popular(), viewed.popular(offset=1), viewed.rank(1), viewed.total()],
    "views": lambda world: [viewed.count("lamp"), viewed.recent(world.sid)],
    "record": lambda world: viewed.record(world.visitor.session, "lamp"),
    "cleaner": lambda world: [cleaning.take_sample(), cleaning.report_totals(), cleaning.count_backlog()],
    **{line: command(line) for line in COMMANDS},
    "trimmed": lambda world: list(cleaning.trim_viewed_items(limit=1)),
    "reset": lambda world: [viewed.reset("lamp"), viewed.reset_all()],
    "new session": lambda world: SessionStore().create(),
    "sign in": lambda world: sign_in(world.alice),
    "evicted": lambda world: list(cleaning.evict_sessions(maximum=1)),
    "end": lambda world: online.end_all(),
}
OF_NUMBERS = [
    *("root " + LIST, f"root {LIST}numbers/", "root /metrics", "root /admin/django_redsess/popularitem/", "counts"),
    *("totals", "samples", "popular", "record", "cleaner", "trimmed", "reset", "new session", "evicted", "end"),
]


def failures(world: World, names: Any = READERS) -> list[str]:
    """Return which of the readers fail, and how."""
    found = []
    for name in names:
        try:
            READERS[name](world)
        except (Exception, SystemExit) as error:
            found.append(f"{name}: {type(error).__name__}")
    return found


def forged(caplog: pytest.LogCaptureFixture) -> list[int]:
    """Return the lengths of lines in the log that another program may have written."""
    lines = [record.getMessage() for record in caplog.records if record.name.startswith(("django_redsess", "django.s"))]
    return [len(line) for line in lines if not line.isprintable() or len(line) > 500]


@pytest.fixture(autouse=True)
def all_is_logged(caplog) -> None:
    caplog.set_level(logging.INFO)


SCORES = ["inf", "-1", *(pytest.param(each, marks=pytest.mark.slow) for each in ("-inf", "1e308", "-1e308", "0.5"))]
NOT_DEADLINES = {
    **dict.fromkeys(["recent", "online_user", "online_user_of"], "sid"),
    "guests": "guest",
    "viewed": "lamp",
    "viewed_by": "lamp",
    "blocked": "mallory",
}


def write_score(redis: Any, world: World, key: str, member: str, score: str) -> None:
    space = keyspace()
    homes = {"viewed": space.of_item("lamp"), "blocked": space.of_user(str(world.mallory.pk))}
    partition = homes.get(key) or space.of_sid(world.guest if member == "guest" else world.sid)
    name = getattr(partition, key)
    if callable(name):
        name = name(str(world.alice.pk) if key == "online_user_of" else world.sid)
    members = {"sid": world.sid, "guest": world.guest, "mallory": str(world.mallory.pk)}
    redis.zadd(name, {members.get(member, member): score})


@MANY_PARTITIONS
@pytest.mark.parametrize("score", SCORES)
def test_any_score_is_shown_within_bounds(world, redis, put_back, caplog, score: str) -> None:
    for key, member in NOT_DEADLINES.items():
        write_score(redis, world, key, member, score)
    assert failures(world) == []
    put_back()
    for member in ("sid", "guest"):
        write_score(redis, world, "expire", member, score)
    assert failures(world) == []
    assert forged(caplog) == []


COUNTS: list[str | bytes] = [
    *("9" * 400, "-" + "9" * 400, "9" * 5000, str(2**63 - 1), str(-(2**63)), "1e308", "inf", "nan", "-1", "0x10"),
    *("1_000", " 7 ", "", "1\n2", b"\xff"),
]


@MANY_PARTITIONS
def test_any_count_is_told_within_bounds(world, redis, put_back, caplog) -> None:
    found = {}
    for count in COUNTS:
        put_back()
        for partition in keyspace().partitions:
            fields = ("created", "kicked", "guests:evicted", "views", "views_since", "logout", "moved_since")
            redis.hset(partition.totals, mapping=dict.fromkeys(fields, count))
        totals = online.totals()
        for number in (totals.created, *totals.ended.values(), *totals.guests_ended.values()):
            assert 0 <= number < 2**63 * keyspace().count
        seconds_since_first_move()
        assert 0 <= viewed.total().views <= 2**53 * keyspace().count
        found[count[:10]] = failures(world, OF_NUMBERS)
    assert {count: names for count, names in found.items() if names} == {}
    assert forged(caplog) == []


SAMPLES = {
    "9" * 400: ("minute", "inf"),
    "-5": ("minute", "-inf"),
    "9" * 16: ("minute", "1e308"),
    "0" * 5000: ("minute",),
    "x": ("minute", "inf"),
}
"""Counts in a sample, and the scores that the sample has."""


@MANY_PARTITIONS
def test_any_sample_is_shown_within_bounds(world, redis, put_back, caplog) -> None:
    minute = int(redis.time()[0] * 1000)
    found = {}
    for count, scores in SAMPLES.items():
        texts = [f"{at} {' '.join([count] * numbers)}" for at in (minute, count) for numbers in (2, 3, 14, 15, 40)]
        for score in scores:
            put_back()
            for partition in keyspace().partitions:
                for name in partition.both_samples:
                    redis.zadd(name, dict.fromkeys(texts, minute if score == "minute" else score))
            found[count[:5], score] = failures(world, OF_NUMBERS)
    assert {what: names for what, names in found.items() if names} == {}
    assert forged(caplog) == []


META = [b"\xff\xfe", b"x" * 100_000, b"4\nforged line", b"", b"9" * 400, b"-1"]


@pytest.mark.parametrize("field", ["partitions", "format"])
def test_a_meta_that_nobody_writes_is_an_outage(world, redis, put_back, caplog, field: str) -> None:
    key = world.visitor.cookies["sessionid"].value
    metas = {keyspace().deciding_partition.meta, *(each.meta for each in keyspace().partitions)}
    for value in META:
        put_back()
        for name in metas:
            redis.hset(name, field, value)
        for path in ("/account/sessions/", LIST, f"{API}me/sessions", "/ready"):
            pool().invalidate()
            answer = world.root.get(path)
            assert (answer.status_code, "sessionid" in answer.cookies) == (503, False), (path, value[:10])
        pool().invalidate()
        assert world.root.get("/metrics").status_code == 200
        pool().invalidate()
        with pytest.raises(SessionStoreUnavailable) as caught:
            SessionStore(key).load()
        assert str(caught.value).isprintable()
        pool().invalidate()
        out = io.StringIO()
        with suppress(CommandError):
            call_command("online", stdout=out, stderr=out)
        with suppress(CommandError, SystemExit):
            call_command("check", databases=["default"], stdout=out, stderr=out)
        assert "forged line" not in out.getvalue().splitlines()
        assert max(map(len, out.getvalue().splitlines()), default=0) < 1000
    put_back()
    pool().invalidate()
    assert world.root.get(LIST).status_code == 200
    assert forged(caplog) == []


@pytest.mark.parametrize(("field", "value"), [("partitions", "1024"), ("format", "4"), ("keys", "0123456789abcdef")])
def test_a_meta_of_another_site_is_refused_as_such(world, redis, put_back, field: str, value: str) -> None:
    for name in {keyspace().deciding_partition.meta, *(each.meta for each in keyspace().partitions)}:
        redis.hset(name, field, value)
    pool().invalidate()
    with pytest.raises(ImproperlyConfigured):
        online.count()
    assert json.loads(world.root.get("/ready").content)["ready"] is False
