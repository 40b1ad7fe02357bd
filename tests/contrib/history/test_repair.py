"""``manage.py history``: rows and sessions are compared, old rows deleted, and those of a user exported."""

import csv
import io
import json
import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_redsess import cleaning, online
from django_redsess.contrib.history import receivers, repair
from django_redsess.contrib.history.models import SignIn
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.management import cleaning_command
from django_redsess.management.commands import cleansessions
from django_redsess.online import listing
from testproject.servers import free_port
from tests.helpers.outages import caches, lines_of, our_errors
from tests.helpers.sign_ins import sign_in

pytestmark = pytest.mark.usefixtures("history")

DAY_MS = 24 * 3600 * 1000


@pytest.fixture
def alice(history) -> User:
    return User.objects.create_user("alice", password="secret")


@pytest.fixture(autouse=True)
def nothing_is_too_young(monkeypatch) -> None:
    """The tests would have to wait for five minutes."""
    monkeypatch.setattr(repair, "AGE_SECONDS", -1)


@pytest.fixture
def unrecorded(history):
    """Return a function that has something happen of which no row is written, as if the process had been killed."""

    def do(action, *arguments):
        receivers.disconnect_receivers()
        result = action(*arguments)
        receivers.connect_receivers()
        return result

    return do


def run(*arguments: str) -> str:
    out = io.StringIO()
    call_command("history", *arguments, stdout=out)
    return out.getvalue()


def numbers(*arguments: str) -> dict[str, int]:
    counts = json.loads(run(*arguments, "--json"))
    return {name: counts[name] for name in ("closed", "inserted", "pruned")}


def test_the_row_of_a_session_that_is_gone_is_closed_without_a_reason(alice, unrecorded) -> None:
    gone, stays = sign_in(str(alice.pk)), sign_in(str(alice.pk))
    unrecorded(online.end, gone.sid)
    assert numbers("--repair") == {"closed": 1, "inserted": 0, "pruned": 0}
    row = SignIn.objects.get(ended_at__isnull=False)
    assert (row.ended_at_is_approximate, row.reason) == (True, "")
    assert row.created_at < online.get(stays.sid).created_at
    assert numbers("--repair") == {"closed": 0, "inserted": 0, "pruned": 0}


def test_a_living_session_without_a_row_gets_one(alice, unrecorded) -> None:
    session = unrecorded(sign_in, str(alice.pk))
    assert numbers("--repair") == {"closed": 0, "inserted": 1, "pruned": 0}
    row = SignIn.objects.get()
    assert (row.user, row.created_at, row.ended_at) == (alice, online.get(session.sid).created_at, None)


def test_the_closed_row_of_a_living_session_is_opened(alice) -> None:
    sign_in(str(alice.pk))
    row = SignIn.objects.get()
    SignIn.objects.update(ended_at=row.created_at, reason="kicked", ended_by="7", stored_message="Gone.")
    assert numbers("--repair") == {"closed": 0, "inserted": 1, "pruned": 0}
    row.refresh_from_db()
    assert (row.ended_at, row.reason, row.ended_by, row.stored_message) == (None, "", "", "")


def test_a_session_keeps_its_row_with_another_key_and_gets_another_with_another_sign_in(alice, unrecorded) -> None:
    session = sign_in(str(alice.pk))

    def rotate() -> None:
        session.cycle_key()
        session.save()

    unrecorded(rotate)
    assert numbers("--repair") == {"closed": 0, "inserted": 0, "pruned": 0}
    unrecorded(sign_in, str(alice.pk), session)
    # With the row of the first sign-in, nothing more will happen. The second has none yet.
    assert numbers("--repair") == {"closed": 1, "inserted": 1, "pruned": 0}
    assert SignIn.objects.get(ended_at=None).created_at == online.of_user(alice)[0].created_at


def test_a_session_that_ends_while_its_row_is_opened_keeps_the_recorded_end(alice, monkeypatch) -> None:
    session = sign_in(str(alice.pk))
    SignIn.objects.update(ended_at=SignIn.objects.get().created_at, ended_at_is_approximate=True)
    are_live = repair.are_live

    def ends_then(sign_ins: list[tuple[str, int]]) -> list[bool]:
        found = are_live(sign_ins)
        online.end(session.sid)
        return found

    monkeypatch.setattr(repair, "are_live", ends_then)
    assert sum(changed for changed, _ in repair.insert_missing()) == 0
    row = SignIn.objects.get()
    assert (row.ended_at is None, row.ended_at_is_approximate, row.reason) == (False, False, "kicked")


def test_a_user_who_was_deleted_gets_no_row_for_a_session_that_still_lives(alice, unrecorded) -> None:
    unrecorded(sign_in, str(alice.pk))
    users = User.objects.filter(pk=alice.pk)
    # As another program deletes a user: nobody is told.
    users._raw_delete(users.db)
    assert numbers("--repair") == {"closed": 0, "inserted": 0, "pruned": 0}
    assert not SignIn.objects.exists()


@pytest.fixture
def out_of_reach(settings) -> dict[str, Any]:
    """Settings with which nobody answers."""
    return {**settings.CACHES, **caches(f"redis://127.0.0.1:{free_port()}/0")}


def test_an_outage_of_the_server_closes_nothing_and_opens_nothing(alice, monkeypatch, unrecorded, out_of_reach) -> None:
    monkeypatch.setattr(repair, "READ_AT_ONCE", 1)
    monkeypatch.setattr(listing, "PAGE_SIZE", 1)
    for _ in range(3):
        sign_in(str(alice.pk))
    unrecorded(sign_in, str(alice.pk))
    works = (repair.close_ended(), repair.insert_missing())
    for work in works:
        assert next(work) == (0, 1)
    with override_settings(CACHES=out_of_reach):
        for work in works:
            with pytest.raises(SessionStoreUnavailable):
                list(work)
    assert SignIn.objects.filter(ended_at=None).count() == SignIn.objects.count() == 3


def test_in_an_outage_the_hourly_repair_says_one_line_and_the_command_fails(
    alice, monkeypatch, caplog, out_of_reach
) -> None:
    # It does not wait for a server that has not answered.
    monkeypatch.setattr(cleaning_command, "PATIENCE_SECONDS", 3)
    with override_settings(CACHES=out_of_reach):
        repair.repair_hourly(None, go_on=lambda: True)
        assert len([line for line in our_errors(caplog) if "repaired" in line]) == 1
        with pytest.raises(CommandError, match="Connection refused"):
            run("--repair")


def test_who_is_about_to_be_recorded_is_left_alone(alice, unrecorded, monkeypatch) -> None:
    monkeypatch.setattr(repair, "AGE_SECONDS", 300)
    unrecorded(sign_in, str(alice.pk))
    unrecorded(online.end, sign_in(str(alice.pk)).sid)
    assert numbers("--repair") == {"closed": 0, "inserted": 0, "pruned": 0}


def test_a_recorded_end_is_better_than_a_repaired_one(alice, unrecorded) -> None:
    session = sign_in(str(alice.pk))
    [ended] = unrecorded(online.end, session.sid)
    run("--repair")
    receivers.record_ends(None, sessions=[ended])
    row = SignIn.objects.get()
    assert (row.ended_at_is_approximate, row.reason) == (False, "kicked")


@pytest.mark.usefixtures("partitions")
def test_many_rows_are_taken_in_batches(new_session, monkeypatch, unrecorded) -> None:
    monkeypatch.setattr(repair, "READ_AT_ONCE", 3)
    monkeypatch.setattr(listing, "PAGE_SIZE", 3)
    monkeypatch.setattr(repair, "DELETED_AT_ONCE", 3)
    # Users of their own: two sign-ins of one in the same millisecond share a row.
    User.objects.bulk_create(User(pk=number, username=f"user {number}") for number in range(1, 17))
    sids = [new_session(str(number)).sid for number in range(1, 9)]
    for number in range(9, 17):
        unrecorded(new_session, str(number))
    unrecorded(online.end, *sids)
    assert numbers("--repair") == {"closed": 8, "inserted": 8, "pruned": 0}
    for row in SignIn.objects.filter(ended_at__isnull=False):
        SignIn.objects.filter(pk=row.pk).update(login_ms=row.login_ms - 91 * DAY_MS)
        SignIn.objects.create(user_id=row.user_id, login_ms=row.login_ms)
    assert numbers("--prune") == {"closed": 0, "inserted": 0, "pruned": 8}


@pytest.mark.usefixtures("partitions")
def test_sessions_that_end_meanwhile_leave_out_no_other_one(new_session, monkeypatch, unrecorded) -> None:
    monkeypatch.setattr(listing, "PAGE_SIZE", 4)
    User.objects.bulk_create(User(pk=number, username=f"user {number}") for number in range(1, 17))
    sids = [unrecorded(new_session, str(number)).sid for number in range(1, 17)]
    pages = repair.insert_missing()
    assert next(pages) == (4, 4)
    unrecorded(online.end, *sids[:3])
    assert sum(changed for changed, _ in pages) == 12
    assert set(SignIn.objects.values_list("user_id", flat=True)) == set(range(1, 17))


def test_rows_are_kept_for_so_many_days_and_those_of_living_sessions_longer(alice, settings) -> None:
    now = receivers.ms_of(online.get(sign_in(str(alice.pk)).sid).created_at)
    SignIn.objects.all().delete()
    at = online.of_user(alice)[0].created_at
    for days in (5, 20, 89, 91):
        SignIn.objects.create(user=alice, login_ms=now - days * DAY_MS, ended_at=at + timedelta(seconds=days))
    SignIn.objects.create(user=alice, login_ms=now - 100 * DAY_MS)
    assert numbers("--prune")["pruned"] == 1
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DAYS": 10}
    assert numbers("--prune")["pruned"] == 2
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DAYS": None}
    assert numbers("--prune")["pruned"] == 0
    assert sorted((now - row.login_ms) // DAY_MS for row in SignIn.objects.all()) == [5, 100]


def test_of_each_users_latest_sign_in_the_device_is_kept_and_nothing_of_the_sender(alice, monkeypatch) -> None:
    monkeypatch.setattr(repair, "DELETED_AT_ONCE", 2)
    bob = User.objects.create_user("bob")
    kept = {"client": "Firefox on Linux", "device_cookie": "0123456789abcdef"}
    gone = {
        "address": "192.0.2.7",
        "address_score": 7,
        "user_agent": "Firefox",
        "ended_by": "7",
        "stored_message": "Bye.",
    }
    for user in (alice, bob):
        for login_ms in (1, 2, 3):
            SignIn.objects.create(user=user, login_ms=login_ms, ended_at=datetime.now(UTC), **kept, **gone)
    # What was kept is looked at again each time, and goes with the next sign-in.
    assert [numbers("--prune")["pruned"] for _ in range(2)] == [4, 0]
    assert list(SignIn.objects.values_list("login_ms", *kept, *gone)) == [(3, *kept.values(), "", None, "", "", "")] * 2
    SignIn.objects.create(user=bob, login_ms=4, **kept)
    assert numbers("--prune")["pruned"] == 1
    assert set(SignIn.objects.values_list("user", "login_ms")) == {(alice.pk, 3), (bob.pk, 4)}


def test_the_cleaner_has_it_done(alice, unrecorded, monkeypatch) -> None:
    unrecorded(online.end, sign_in(str(alice.pk)).sid)
    unrecorded(sign_in, str(alice.pk))
    monkeypatch.setattr(cleansessions, "FIRST_JOBS_SECONDS", 0)
    # It runs until it is stopped: here by what it rests for.
    monkeypatch.setattr(cleansessions.Command, "wait_for_work", lambda command: setattr(command.stop, "asked", True))
    call_command("cleansessions", "--forever", verbosity=0)
    assert SignIn.objects.filter(ended_at_is_approximate=True).count() == 1
    assert SignIn.objects.filter(ended_at=None).count() == 1


def test_a_job_that_fails_does_not_stop_the_cleaner(alice, monkeypatch, caplog) -> None:
    called = []

    def fails(sender: object, **kwargs: object) -> None:
        called.append(sender)
        raise ArithmeticError

    def rest(command: cleansessions.Command) -> None:
        command.stop.asked = len(called) > 1

    monkeypatch.setattr(cleansessions, "FIRST_JOBS_SECONDS", 0)
    monkeypatch.setattr(cleansessions, "JOBS_SECONDS", 0)
    monkeypatch.setattr(cleansessions.Command, "wait_for_work", rest)
    cleaning.hourly.connect(fails)
    try:
        call_command("cleansessions", "--forever", verbosity=0)
    finally:
        cleaning.hourly.disconnect(fails)
    assert len(lines_of(caplog, "django.dispatch", logging.ERROR)) == len(called) == 2


def test_a_users_rows_are_exported(alice) -> None:
    bob = User.objects.create_user("bob")
    online.end(sign_in(str(alice.pk)).sid, message="=cmd()")
    sign_in(str(alice.pk))
    sign_in(str(bob.pk))
    living, gone = map(json.loads, run("--export", "alice", "--json").splitlines())
    assert (living["ended_at"], gone["reason"], gone["message"]) == (None, "kicked", "=cmd()")
    rows = list(csv.DictReader(io.StringIO(run("--export", "alice"))))
    assert [row["created_at"] for row in rows] == [living["created_at"], gone["created_at"]]
    # No spreadsheet takes it for a formula.
    assert rows[1]["message"] == "'=cmd()"


@pytest.mark.parametrize("line", ["", "--export nobody", "--export alice --repair"])
def test_what_is_wrong_is_told(alice, line: str) -> None:
    with pytest.raises(CommandError):
        run(*line.split())
