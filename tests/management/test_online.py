"""``online``: whom it lists, in which order, what it shows of them, and what never reaches a terminal."""

import csv
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from io import BytesIO, StringIO, TextIOWrapper
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command, execute_from_command_line

from benchmarks.fill import fill
from django_redsess import cleaning, online, viewed
from django_redsess.management.commands import online as online_command
from django_redsess.online import listing, searching
from testproject import servers
from tests.helpers.online import sign_in
from tests.helpers.outages import caches
from tests.helpers.store import Client as Visitor
from tests.helpers.store import Visit, make_bound, make_due, make_seen, note, now_of

pytestmark = pytest.mark.django_db

ROOT = Path(__file__).parents[2]

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"

RED = "\x1b[31mred\x1b[0m\x07\x9b1m\u202e"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def run(*arguments: str, out: StringIO | None = None, **options: Any) -> list[str]:
    out = out or StringIO()
    call_command("online", *arguments, stdout=out, **options)
    return out.getvalue().splitlines()


def rows(*arguments: str, **options: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json", **options)]


def names(*arguments: str) -> list[str | None]:
    return [row["user"] for row in rows(*arguments)]


def visit(session: Any, *, address: str = "192.0.2.7", user_agent: str = FIREFOX, item: str = "") -> None:
    """Have ``session`` saved by a visitor from there with that browser, who looked at ``item``."""
    session.visit = Visit(lambda: Visitor(address, user_agent))
    session["visited"] = True
    session.save()
    if item:
        viewed.record(session, item)


@pytest.fixture
def users() -> dict[str, User]:
    return {
        "alice": User.objects.create_user("alice", "wonder@example.com", first_name="Alice", last_name="Liddell"),
        "bob": User.objects.create_user("bob", "builder@example.net"),
        "carol": User.objects.create_user("carol", is_staff=True),
    }


@pytest.fixture
def sids(users, new_session) -> dict[str, str]:
    """A session of each user, alice's the oldest."""
    return dict(zip(users, sign_in(new_session, *(str(user.pk) for user in users.values())), strict=True))


def test_nobody_is_an_answer(new_session) -> None:
    new_session(colour="blue")
    assert len(run()) == len(run("--active", "1d")) == len(run("--search", "nowhere")) == 1
    assert rows() == rows("--search", "nowhere") == []


@pytest.mark.usefixtures("partitions")
def test_the_newest_sign_in_comes_first_unless_told_otherwise(redis, sids) -> None:
    for seen, name in enumerate(("carol", "alice", "bob"), start=1_700_000_000_000):
        make_seen(redis, sids[name], seen)
    assert names() == names("--order=-created_at") == ["carol", "bob", "alice"]
    assert names("--order", "created_at") == ["alice", "bob", "carol"]
    assert names("--order", "last_seen_at") == ["carol", "alice", "bob"]
    assert names("--order=-last_seen_at") == ["bob", "alice", "carol"]


def test_an_order_with_a_minus_needs_no_equals_sign(sids, settings, capsys) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}, **settings.CACHES}
    execute_from_command_line(["manage.py", "online", "--order", "-last_seen_at", "--json"])
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_a_part_of_a_name_or_an_address_finds_users(sids) -> None:
    for term, found in {"ALIC": ["alice"], "example.net": ["bob"], "liddell": ["alice"], "ar": ["carol"]}.items():
        assert names("--search", term) == found


@pytest.mark.usefixtures("partitions")
def test_only_the_named_users_are_listed_and_several_conditions_all_hold(redis, sids) -> None:
    assert names("--user", "alice", "--user", "carol") == ["carol", "alice"]
    make_seen(redis, sids["carol"], 1_700_000_000_000)
    assert names("--search", "o", "--user", "bob", "--user", "carol") == ["carol", "bob"]
    assert names("--search", "o", "--user", "bob", "--user", "carol", "--active", "1h") == ["bob"]
    assert names("--search", "o", "--user", "bob", "--staff") == []
    assert names("--staff") == ["carol"]


@pytest.mark.usefixtures("partitions")
def test_everyone_is_listed_with_guests(redis, sids, new_session) -> None:
    [guest] = sign_in(new_session, "")
    [row] = rows("--guests", "--limit", "1")
    assert {name for name, value in row.items() if value} == {"id", "last_seen_at", "expires_at", "size"}
    assert row["id"] == guest
    assert run("--guests")[1].startswith("guest ")
    assert (len(rows("--guests")), len(rows())) == (4, 3)
    assert [row["id"] for row in rows("--guests", "only")] == [guest]


def test_everyone_ends_with_who_was_evicted(redis, new_session) -> None:
    note(redis, now_of(redis).replace(second=0, microsecond=0) - timedelta(minutes=1))
    for number in range(13):
        new_session(str(number) if number < 8 else "", colour="blue")
    evicted = sum(cleaning.evict_sessions(maximum=4, guests=1))
    cleaning.take_sample()
    signed_in = 8 - online.count()
    assert 0 < signed_in < evicted
    last = f"Evicted in the last 24 hours: {evicted - signed_in} of guests, {signed_in} of users."
    assert run("--guests")[-1] == last
    assert last not in run()


def test_a_user_who_was_deleted_is_named_as_such(users, sids) -> None:
    number = users["bob"].pk
    users["bob"].delete()
    assert any(line.startswith(f"deleted user {number} ") for line in run())
    assert [(row["user"], row["user_id"]) for row in rows() if row["id"] == sids["bob"]] == [(None, str(number))]


@pytest.mark.usefixtures("partitions")
def test_only_who_was_seen_lately_is_listed(redis, sids) -> None:
    now = int(datetime.now(UTC).timestamp() * 1000)
    make_seen(redis, sids["bob"], now - 3600_000)
    make_seen(redis, sids["alice"], now - 2 * 3600_000)
    for time, found in {"5m": ["carol"], "1.5h": ["carol", "bob"], "90s": ["carol"]}.items():
        assert names("--active", time) == found
        assert run("--active", time)[-1].startswith(f"{len(found)} ")


@pytest.mark.usefixtures("partitions")
def test_active_is_in_the_last_five_minutes_and_the_last_line_counts_it(redis, sids, new_session) -> None:
    [guest] = sign_in(new_session, "")
    now = int(datetime.now(UTC).timestamp() * 1000)
    make_seen(redis, sids["bob"], now - 400_000)
    # This is as late as it can be: the time is rounded down by up to ten seconds.
    make_seen(redis, sids["alice"], now - 305_000)
    assert names("--active") == ["carol", "alice"]
    assert names("--active", "5m") == ["carol"]
    assert {row["id"] for row in rows("--active", "--guests")} == {guest, sids["carol"], sids["alice"]}
    assert run()[-1] == "3 signed in, 2 active now."
    assert run("--guests")[-1] == "4 sessions, 3 active now."
    assert run("--limit", "1", "--offset", "1")[-1].endswith(" Listed: 2; --offset 2 shows the next.")
    assert run("--active")[-1] == "2 sessions match."


def test_an_offset_has_an_end_with_several_partitions_and_a_limit_has_none(monkeypatch, partitions, sids) -> None:
    monkeypatch.setattr(listing, "ROWS_MAX", 2)
    monkeypatch.setattr(online_command, "ROWS_MAX", 2)
    assert names("--offset", "1") == ["bob", "alice"]
    assert names("--user", "alice", "--offset", "2") == []
    if partitions == 1:
        assert names("--offset", "2") == ["alice"]
        assert run("--limit", "2")[-1].endswith("; --offset 2 shows the next.")
    else:
        assert run("--limit", "2")[-1].endswith("; a higher --limit shows more.")
        with pytest.raises(CommandError, match="--offset must be below 2 with several PARTITIONS, not 2"):
            run("--offset", "2")


@pytest.mark.usefixtures("partitions")
def test_pages_follow_on_each_other_and_more_sessions_than_are_read_at_once_are_listed_once_each(redis, sids) -> None:
    assert names("--limit", "2") + names("--limit", "2", "--offset", "2") == ["carol", "bob", "alice"]
    assert names("--offset", "3") == []
    fill(redis, 1001, viewed=0, users=9)
    listed = [row["id"] for row in rows("--limit", "5000")]
    assert len(listed) == len(set(listed)) == 1004
    assert run()[-1].startswith("1,004 signed in, ")
    assert run()[-1].endswith(" Listed: 1 to 50; --offset 50 shows the next.")


def test_more_users_than_can_be_asked_for_are_cut_with_a_word(new_session) -> None:
    User.objects.bulk_create([User(username=f"user {number:04}") for number in range(1001)])
    first, last = User.objects.order_by("pk").first(), User.objects.order_by("pk").last()
    sign_in(new_session, str(first.pk), str(last.pk))
    said = StringIO()
    assert [row["user"] for row in rows("--search", "user", stderr=said)] == [first.username]
    assert "1,000" in said.getvalue()


def test_one_session_is_found_by_its_sid_until_it_is_over(redis, sids, new_session) -> None:
    assert names("--id", sids["bob"]) == ["bob"]
    assert run("--id", new_session(colour="blue").sid)[1].startswith("guest ")
    make_due(redis, sids["bob"])
    assert run("--id", sids["bob"]) == run("--id", "x" * 20) == ["There is no such session."]


def test_json_has_every_detail(users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    visit(session, item="lamp")
    [row] = rows()
    created_at, last_seen_at, expires_at = (
        datetime.fromisoformat(row.pop(f"{name}_at")) for name in ("created", "last_seen", "expires")
    )
    assert created_at.utcoffset() == last_seen_at.utcoffset() == expires_at.utcoffset() == datetime.now(UTC).utcoffset()
    assert created_at <= last_seen_at < expires_at
    assert row.pop("size") == 1024
    assert row == {
        "id": session.sid,
        "user_id": str(users["alice"].pk),
        "user": "alice",
        "address": "192.0.2.7",
        "user_agent": FIREFOX,
        "device": "Firefox 145 on Linux",
        "place": "",
        "newest_item": "lamp",
        "device_bound": False,
    }


def test_no_session_key_is_shown(users, new_session) -> None:
    session = new_session(str(users["alice"].pk))
    visit(session, item="lamp")
    assert session.session_key not in "".join(run() + run("--json") + run("--id", session.sid))


def test_what_visitors_wrote_does_not_act_on_a_terminal(new_session, monkeypatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    user = User.objects.create(username=RED)
    visit(new_session(str(user.pk)), user_agent=RED, item=RED)
    for option, out in product(("--guests", "--json", "--csv"), (StringIO, Terminal)):
        shown = run(option, out=out(), no_color=True)
        assert all(line.isprintable() for line in shown)
        assert r"\x1b[31mred" in "".join(shown) or r"\u001b[31mred" in "".join(shown)


def test_a_terminal_of_few_letters_gets_others_escaped(new_session) -> None:
    sign_in(new_session, str(User.objects.create(username="Jörg").pk))
    out = TextIOWrapper(BytesIO(), encoding="ascii")
    call_command("online", stdout=out)
    assert rb"J\xf6rg" in out.buffer.getvalue()  # type: ignore[attr-defined]


def test_a_table_tells_who_it_is_and_from_where_in_english_on_any_site(users, new_session, settings) -> None:
    settings.LANGUAGE_CODE = "de"
    session = new_session(str(users["alice"].pk))
    visit(session, item="lamp")
    _, row, _ = run()
    assert {"alice", "192.0.2.7", "Firefox 145 on Linux", "lamp", session.sid} <= set(re.split("  +", row))


def test_an_outage_is_one_line_and_no_traceback(settings) -> None:
    settings.CACHES = caches(f"redis://127.0.0.1:{servers.free_port()}/0")
    out = StringIO()
    with pytest.raises(CommandError) as raised:
        run("--json", out=out)
    assert (out.getvalue(), len(str(raised.value).splitlines())) == ("", 1)


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_ends_it(server, new_session, tmp_path) -> None:
    for _ in range(5):
        new_session(colour="blue")
    ear, mouth = os.pipe()
    os.close(ear)
    environ = {**os.environ, "REDIS_URL": server.url, "REDSESS_DEMO_DIR": str(tmp_path)}
    command = [sys.executable, "testproject/manage.py", "online", "--guests", "--json"]
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=mouth, stderr=subprocess.PIPE, timeout=30)
    os.close(mouth)
    assert (done.returncode, done.stderr) == (0, b"")


def test_sessions_are_listed_by_address_or_browser(users, new_session) -> None:
    for name, address, browser in (("alice", "198.51.100.7", FIREFOX), ("bob", "2001:db8::7", "curl/8.5.0")):
        visit(new_session(str(users[name].pk)), address=address, user_agent=browser)
    errors = StringIO()
    assert [row["user"] for row in rows("--network", "198.51.100.0/24", stderr=errors)] == ["alice"]
    assert errors.getvalue() == "", "nothing was left out"
    assert names("--network", "198.51") == ["alice"]
    assert names("--network", "2001:db8::/32") == names("--browser", "CURL") == ["bob"]
    assert names("--browser", "firefox 145", "--user", "alice") == names("--system", "linux") == ["alice"]
    assert run("--browser", "opera") == ["There is no such session."]
    assert run("--network", "198.51.100.0/24", "--browser", "opera", "--csv") == run("--user", "carol", "--csv") != []


def test_sessions_that_are_bound_to_a_device_are_listed_and_the_others(redis, users, new_session) -> None:
    for name in ("alice", "bob"):
        session = new_session(str(users[name].pk))
        if name == "alice":
            make_bound(redis, session.sid)
    assert names("--device-bound") == names("--device-bound", "yes") == ["alice"]
    assert names("--device-bound", "no") == ["bob"]
    assert {row["user"]: row["device_bound"] for row in rows()} == {"alice": True, "bob": False}
    assert {row["user"]: row["device_bound"] for row in csv.DictReader(run("--csv"))} == {
        "alice": "True",
        "bob": "False",
    }
    assert run("--device-bound", "--browser", "opera") == ["There is no such session."]
    with pytest.raises(CommandError, match="--id and --device-bound can't be given together"):
        run("--id", str(session.sid), "--device-bound")


def test_how_far_a_search_looked_is_said(users, new_session, monkeypatch) -> None:
    monkeypatch.setattr(searching, "SCAN_LIMIT", 1)
    for name in ("alice", "bob"):
        visit(new_session(str(users[name].pk)))
    errors = StringIO()
    # One of the two: they may have signed in within the same millisecond.
    assert len(list(rows("--network", "192.0.2.7", stderr=errors))) == 1
    assert "Older ones may match, too." in errors.getvalue()


def test_csv_has_every_detail_and_no_formula(users, new_session) -> None:
    visit(new_session(str(users["alice"].pk)), user_agent='=HYPERLINK("https://example.com"),1')
    new_session(colour="blue")
    guest, alice = sorted(csv.DictReader(run("--csv", "--guests")), key=lambda row: row["user"])
    [as_json] = [row for row in rows("--guests") if row["user"] == "alice"]
    assert alice.pop("user_agent") == "'" + as_json.pop("user_agent")
    assert alice.pop("device") == "'" + as_json.pop("device")
    assert alice == {name: "" if value is None else str(value) for name, value in as_json.items()}
    assert (guest["user"], guest["created_at"], guest["newest_item"]) == ("", "", "")
    assert guest["address"] == guest["device"] == guest["user_agent"] == "not stored"


def test_the_heading_names_the_time_zone(settings, new_session) -> None:
    new_session("1")
    for zone, heading in (("UTC", "SIGNED IN  "), ("Asia/Tokyo", "SIGNED IN (JST)  ")):
        settings.TIME_ZONE = zone
        assert heading in run()[0]


@pytest.mark.django_db
def test_a_list_without_networks_is_named_as_the_reason(tmp_path, settings) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing today\n")
    settings.REDSESS = {**settings.REDSESS, "NETWORKS": {"tor": empty}}
    sign_in("7")
    for named in (f"@{empty}", "tor"):
        assert run("--network", named) == ["The list of networks is empty. There is no such session."]
    assert run("--network", "192.0.2.0/24") == ["There is no such session."]
