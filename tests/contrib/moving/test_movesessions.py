"""``manage.py movesessions``: all sessions, the end of the move, and the way back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.contrib.sessions.backends.db import SessionStore as DatabaseSession
from django.contrib.sessions.models import Session
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_redsess import online
from django_redsess.contrib.moving import SessionStore, in_bulk
from django_redsess.contrib.moving.contents import _log_release_before
from django_redsess.contrib.moving.sources.database import DatabaseSource
from tests.helpers.store import bucket_of, bucket_of_user, sid_of

DAY = 86_400

pytestmark = pytest.mark.usefixtures("moving")


@pytest.fixture
def rows(old_session: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of eight rows: of a guest, and of users with two sessions each. Pages have three rows."""
    monkeypatch.setattr("django_redsess.contrib.moving.in_bulk.PAGE", 3)
    users = ["", "", "1", "1", "2", "2", "3", "3"]
    return [old_session(user, basket=number).session_key for number, user in enumerate(users)]


def moved(*options: str, **named: Any) -> dict[str, Any]:
    """Run the command, and return what it has counted."""
    printed = []

    class Out:
        def write(self, text: str) -> None:
            printed.append(text)

    call_command("movesessions", *options, json=True, stdout=Out(), **named)
    return json.loads(printed[-1])


def test_all_are_moved_once_and_found_by_user(rows, step, partitions) -> None:
    with step(2):
        assert SessionStore(rows[2])["basket"] == 2
        assert moved(dry_run=True)["done"] == 7
        assert online.count(guests=True) == 1
        assert moved()["done"] == 7
        counted = moved()
        assert (counted["done"], counted["before"]) == (0, 8)
        assert online.count() == 6
        assert online.count(user_ids=["3"]) == 2
        for number, key in enumerate(rows):
            session = SessionStore(key)
            assert session["basket"] == number
            user = session.get("_auth_user_id")
            assert partitions == 1 or not user or bucket_of(session.session_key) == bucket_of_user(user)
        assert len(online.end(*(each.sid for each in online.sessions(user_ids=["3"])))) == 2
        assert SessionStore(rows[7]).load() == {}


def test_nothing_that_ended_is_moved_and_no_key_is_shown(rows, step, capsys) -> None:
    with step(2):
        SessionStore(rows[0]).load()
        online.end(sid_of(rows[0]))
        DatabaseSession(rows[1]).delete()
        call_command("movesessions")
        assert online.count(guests=True) == 6
        call_command("movesessions", finish=True)
        assert not Session.objects.exists()
        said = capsys.readouterr()
        assert not any(key in said.out + said.err for key in rows)


def test_a_row_that_is_written_meanwhile_is_merged(rows, step, monkeypatch) -> None:
    together = in_bulk.together

    def late(calls: Any) -> Any:
        for key in rows[:3]:
            old = DatabaseSession(key)
            old["colour"] = "red"
            old.save()
        return together(calls)

    monkeypatch.setattr(in_bulk, "together", late)
    with step(2):
        moved()
        assert [SessionStore(key).get("colour") for key in rows] == ["red"] * 3 + [None] * 5


def test_who_comes_while_the_command_copies_finds_what_was_written_before(rows, step, monkeypatch) -> None:
    together, take, key = in_bulk.together, in_bulk._take_late_changes, min(rows)
    found = []

    def late(calls: Any) -> Any:
        old = DatabaseSession(key)
        old["basket"] = 20
        old.save()
        monkeypatch.setattr(in_bulk, "together", together)
        return together(calls)

    def look_and_take(*args: Any) -> None:
        if not found:
            session = SessionStore(key)
            found.append(session["basket"])
            session["basket"] += 1
            session.save()
        take(*args)

    monkeypatch.setattr(in_bulk, "together", late)
    monkeypatch.setattr(in_bulk, "_take_late_changes", look_and_take)
    with step(2):
        moved()
        assert found == [20]
        assert SessionStore(key)["basket"] == 21


def test_a_page_that_takes_long_is_moved(rows, step, monkeypatch) -> None:
    def late(calls: Any) -> Any:
        # As if the server's time were another one by now, and by the second try again.
        return [("clock", 1)] * len(calls)
        yield

    monkeypatch.setattr(in_bulk, "together", late)
    with step(2):
        assert moved()["done"] == online.count(guests=True) == 8


def test_what_is_ended_by_its_old_key_meanwhile_has_ended(rows, step, partitions, monkeypatch) -> None:
    mark, ended = in_bulk._mark_new_keys, []

    def end_and_mark(moved: Any) -> Any:
        for each in moved:
            with step(1):
                SessionStore(each.name).flush()
        ended.extend(each.name for each in moved)
        return mark(moved)

    monkeypatch.setattr(in_bulk, "_mark_new_keys", end_and_mark)
    with step(2):
        moved()
        assert bool(ended) == (partitions > 1)
        assert {key for key in rows if not SessionStore(key).load()} == set(ended)
        assert online.count() == 6 - len(ended)


def test_finish_leaves_rows_that_were_not_moved(rows, step, capsys) -> None:
    with step(2):
        SessionStore(rows[0]).load()
        counted = moved(finish=True)
        assert (counted["done"], counted["left"]) == (1, 7)
        assert sorted(Session.objects.values_list("pk", flat=True)) == sorted(rows[1:])
        assert SessionStore(rows[0])["basket"] == 0
        assert SessionStore(rows[1])["basket"] == 1


def test_the_way_back(rows, step) -> None:
    with step(2):
        moved()
        session = SessionStore(rows[2])
        session["basket"] = 20
        session.save()
        online.end(SessionStore(rows[3]).sid or "", *(each.sid for each in online.sessions(user_ids=["2"])))
    with step(1):
        counted = moved(back=True)
        assert counted["ended"] >= 2
    # A process of the release before.
    assert DatabaseSession(rows[2])["basket"] == 20
    assert DatabaseSession(rows[4]).load() == {}
    assert DatabaseSession(rows[7])["basket"] == 7


def test_many_are_written_back_by_few_statements(old_session, step, round_trips) -> None:
    def asked() -> tuple[int, int]:
        round_trips()
        with CaptureQueriesContext(connection) as queries:
            assert list(in_bulk.bring_rows_back())
        return len(queries), round_trips()

    made = [old_session("1" if number % 2 else "").session_key for number in range(10)]
    with step(2):
        moved()
        few = asked()
        made += [old_session("1" if number % 2 else "").session_key for number in range(100)]
        moved()
        for key in made[:50]:
            session = SessionStore(key)
            session["basket"] = key[:4]
            session.save()
        assert asked() == few
    assert [DatabaseSession(key).get("basket") for key in made] == [key[:4] for key in made[:50]] + [None] * 60


@pytest.mark.parametrize("what", ["changed", "signed out", "ended"])
def test_what_happens_while_a_page_is_written_back_is_not_undone(rows, step, monkeypatch, what: str) -> None:
    write_rows, late = DatabaseSource.write_rows, list[str]()

    def meanwhile(source: DatabaseSource, written: Any) -> Any:
        if rows[2] in written and not late:
            late.append(rows[2])
            session = SessionStore(rows[2])
            if what == "changed":
                session["basket"] = 20
                session.save()
            elif what == "signed out":
                session.flush()
            else:
                session.load()
                online.end(session.sid or "")
        return write_rows(source, written)

    with step(2):
        moved()
    with step(1):
        monkeypatch.setattr(DatabaseSource, "write_rows", meanwhile)
        counted = moved(back=True)
    assert late
    assert DatabaseSession(rows[2]).get("basket") == (20 if what == "changed" else None)
    assert Session.objects.count() == (8 if what == "changed" else 7)
    assert counted["done"] == Session.objects.count()


def test_a_row_that_is_newer_than_its_copy_is_not_written_back(rows, step, monkeypatch) -> None:
    # As if the command had been killed before it looked for late changes.
    monkeypatch.setattr(in_bulk, "_take_late_changes", lambda moved: None)
    with step(2):
        moved()
    for key in rows[:4]:
        old = DatabaseSession(key)
        old["colour"] = "red"
        old.save()
    with step(1):
        assert moved(back=True)["done"] == 8
    assert [DatabaseSession(key).get("colour") for key in rows] == ["red"] * 4 + [None] * 4


def test_a_row_that_can_not_be_written_back_stops_no_other(rows, step) -> None:
    with step(2):
        moved()
        for key in rows:
            session = SessionStore(key)
            session["basket"] = 20
            session.save()
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TRIGGER refuse BEFORE UPDATE ON django_session "
            f"WHEN old.session_key = '{rows[0]}' BEGIN SELECT RAISE(ABORT, 'refused'); END"
        )
    with step(1):
        counted = moved(back=True)
    assert (counted["done"], counted["left"]) == (7, 1)
    assert [DatabaseSession(key)["basket"] for key in rows] == [0] + [20] * 7


def test_it_goes_on_from_a_key(rows, step) -> None:
    after = sorted(rows)[4]
    with step(2):
        assert moved("--from-key", after)["done"] == 3
        assert moved()["done"] == 5


def test_the_maximum_holds(rows, moving, step) -> None:
    moving.REDSESS = {**moving.REDSESS, "MAX_SESSIONS": 4}
    with step(2):
        moved()
        assert online.count() == 4


@pytest.mark.parametrize(
    ("changes", "options", "said"),
    [
        ({"MOVE_FROM": None}, {}, "MOVE_FROM"),
        ({"MOVES": False}, {}, "MOVES"),
        ({"MOVES": False}, {"finish": True}, "MOVES"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(rows, moving, changes, options, said: str) -> None:
    moving.REDSESS = {**moving.REDSESS, "MOVES": True, **changes}
    with pytest.raises(CommandError, match=said):
        call_command("movesessions", **options)
    assert Session.objects.count() == 8
    moving.REDSESS = {**moving.REDSESS, "MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": True}
    moving.SESSION_ENGINE = "django_redsess.backend"
    with pytest.raises(CommandError, match="SESSION_ENGINE"):
        call_command("movesessions", **options)


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], int]]:
    """Return a function that counts the warnings of a release before that runs beside step 2."""
    _log_release_before.cache_clear()
    yield lambda: sum("release before" in text for text in caplog.messages)
    _log_release_before.cache_clear()


def save_before(key: str, **ahead: int) -> None:
    """Save a session as the release before does, by a clock that is ahead or after this time has passed."""
    with time_machine.travel(datetime.now(UTC) + timedelta(**ahead)):
        old = DatabaseSession(key)
        old["colour"] = "red"
        old.save()


@pytest.mark.parametrize("option", ["", "finish"])
@pytest.mark.parametrize("used", [True, False])
def test_a_release_before_that_runs_beside_step_2_is_told_once(
    rows, step, partitions, told, caplog, option: str, used: bool
) -> None:
    DatabaseSession(rows[2]).save()
    with step(2):
        moved()
        for key in rows if used else ():
            session = SessionStore(key)
            session["basket"] = 20
            session.save()
        moved()
        assert told() == 0
    save_before(rows[2], minutes=10)
    save_before(rows[0], minutes=10)
    with step(2):
        moved(**({option: True} if option else {}))
        assert told() == 1
    assert not any(key in caplog.text for key in rows)


def test_one_that_saved_what_had_ended_is_told(rows, step, told) -> None:
    with step(2):
        SessionStore(rows[2]).load()
        online.end(SessionStore(rows[2]).sid or "", *(each.sid for each in online.sessions()))
        save_before(rows[2], minutes=10)
        moved()
        assert told() == 1


@pytest.mark.parametrize("expiry", [None, 60, 60 * DAY, timedelta(days=60)])
def test_what_may_be_is_no_release_before(rows, step, partitions, monkeypatch, told, expiry: Any) -> None:
    together = in_bulk.together

    def in_step_1(calls: Any) -> Any:
        with step(1):
            for key in rows[:3]:
                session = SessionStore(key)
                session.set_expiry(expiry)
                session.save()
        return together(calls)

    # The clock of this web server is ahead.
    for key in rows:
        save_before(key, hours=1)
    monkeypatch.setattr(in_bulk, "together", in_step_1)
    # As if it had been killed.
    monkeypatch.setattr(in_bulk, "_take_late_changes", lambda moved: None)
    with step(2):
        moved()
        monkeypatch.setattr(in_bulk, "together", together)
        moved()
        for key in rows:
            session = SessionStore(key)
            session.set_expiry(expiry)
            session.save()
        moved()
    with step(1):
        moved(back=True)
    # The release before is back, and then goes on to step 2 once more.
    save_before(rows[2], minutes=10)
    with step(2):
        moved()
        moved(finish=True)
    assert told() == 0


def test_in_a_cluster(rows, step, clustered, moving) -> None:
    with step(2):
        assert moved()["done"] == 8
        assert [SessionStore(key)["basket"] for key in rows] == list(range(8))
        assert len(online.end(*(each.sid for each in online.sessions(user_ids=["1"])))) == 2
        assert SessionStore(rows[2]).load() == {}


@pytest.mark.parametrize("killed", ["a request", "the command"])
@pytest.mark.parametrize("next_one", ["a request", "the command"])
def test_who_is_killed_before_the_new_key_is_noted_hides_no_change(
    rows, step, monkeypatch, partitions, killed: str, next_one: str
) -> None:
    class Killed(BaseException):
        pass

    def kill(*args: Any) -> Any:
        raise Killed

    # Of the users' rows, the one that is on the first page.
    key = min(rows[2:])

    def move(by: str) -> None:
        moved() if by == "the command" else SessionStore(key).load()

    with step(2), monkeypatch.context() as patched, suppress(Killed):
        patched.setattr("django_redsess.contrib.moving.marks.mark_moved_to", kill)
        patched.setattr("django_redsess.contrib.moving.in_bulk._mark_new_keys", kill)
        move(killed)
    with step(1):
        session = SessionStore(key)
        session["basket"] = 20
        session.save()
    with step(2):
        move(next_one)
        assert SessionStore(key)["basket"] == 20


def test_what_was_changed_here_meanwhile_is_newer_than_the_row(rows, step, monkeypatch) -> None:
    read_rows = DatabaseSource.read_rows

    def late(source: DatabaseSource, keys: Any) -> Any:
        found = read_rows(source, keys)
        if rows[2] in found:
            found[rows[2]].data["basket"] = 20
            session = SessionStore(rows[2])
            session["basket"] = 21
            session.save()
        return found

    monkeypatch.setattr(DatabaseSource, "read_rows", late)
    with step(2):
        moved()
        assert SessionStore(rows[2])["basket"] == 21
