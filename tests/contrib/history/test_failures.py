"""A database that is locked, full, down or silent fails no sign-in, no end and no cleaner."""

import logging
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import DatabaseError, connections
from django.test import Client

from django_redsess import cleaning, online
from django_redsess.contrib.history import database, lost
from django_redsess.contrib.history.database import losses
from django_redsess.contrib.history.models import SignIn
from testproject import databases
from testproject.servers import free_port
from tests.contrib.history.elsewhere import ALIAS
from tests.helpers.store import make_due


@pytest.fixture(autouse=True)
def short(monkeypatch) -> Iterator[None]:
    """Wait for a short time, and nothing was lost so far."""
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    losses.reset()
    yield
    losses.reset()


def rows() -> int:
    return SignIn.objects.using(ALIAS).count()


def signs_in_and_out() -> float:
    """Sign somebody in and out, have the cleaner end another session, and return how long that took."""
    user, _ = User.objects.get_or_create(username="alice")
    began = time.monotonic()
    browser = Client()
    browser.force_login(user)
    assert browser.get("/account/sessions/").status_code == 200
    assert browser.post("/logout/").status_code == 302
    assert online.count(user_ids=[str(user.pk)]) == 0
    return time.monotonic() - began


def lines(caplog) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name.startswith(("django_redsess", "django.dispatch"))]


def test_a_locked_database_is_waited_for_once_and_then_left_alone(file: Path, redis, new_session, caplog) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        # SQLite would wait for 20 seconds, each time.
        assert signs_in_and_out() < 10
        make_due(redis, *(new_session(str(number)).sid for number in range(9)))
        assert sum(cleaning.expire_sessions()) == 9
        [line] = lines(caplog)
        assert "locked" in line
        # One begin and one end of alice; nine of others.
        assert lost() == 20
        other.execute("ROLLBACK")
    assert rows() == 0


def test_after_the_rest_rows_are_written_again_and_the_log_says_so(file: Path, caplog, monkeypatch) -> None:
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        signs_in_and_out()
        other.execute("ROLLBACK")
    signs_in_and_out()
    assert rows() == 0
    monkeypatch.setattr(losses, "rests_until", 0.0)
    with caplog.at_level(logging.INFO, "django_redsess"):
        signs_in_and_out()
    assert rows() == 1
    assert [line.split(",")[0] for line in lines(caplog)[1:]] == ["Sign-ins are recorded again"]
    # The wait of the site's own queries is as it was.
    with connections[ALIAS].cursor() as cursor:
        assert cursor.execute("PRAGMA busy_timeout").fetchone() == (20_000,)


def test_after_a_failure_nothing_is_tried_for_ten_seconds(file: Path, monkeypatch) -> None:
    at, tried = [1000.0], []
    monkeypatch.setattr(database, "monotonic", lambda: at[0])

    def fail() -> None:
        tried.append(at[0])
        raise DatabaseError("It is down.")

    for seconds in (0, 9, 2, 9):
        at[0] += seconds
        database.try_write(fail, rows=1, using=ALIAS)
    assert tried == [1000, 1011]
    assert lost() == 4


@pytest.mark.slow
def test_a_full_database_fails_nothing(file: Path, caplog) -> None:
    with connections[ALIAS].cursor() as cursor:
        # Migrations leave empty pages.
        cursor.execute("VACUUM")
        cursor.execute("PRAGMA page_count")
        [pages] = cursor.fetchone()
        cursor.execute(f"PRAGMA max_page_count = {pages}")
    for _ in range(60):
        signs_in_and_out()
        if losses.total:
            break
    assert losses.total
    assert ["full" in line for line in lines(caplog)] == [True]


TOLD = ["Sign-ins are not recorded", "Sign-ins can't be read"]
"""One line each: of what was to be written, and of the page of the user's own sessions."""


def test_a_database_that_is_down_fails_nothing(elsewhere, caplog) -> None:
    pytest.importorskip("psycopg")
    elsewhere(ENGINE="django.db.backends.postgresql", NAME="site", HOST="127.0.0.1", PORT=str(free_port()), USER="site")
    signs_in_and_out()
    assert losses.total == 2
    assert [line.partition(":")[0] for line in lines(caplog)] == TOLD


def test_a_database_that_never_answers_is_left_alone_after_its_time_out(elsewhere, caplog) -> None:
    pytest.importorskip("psycopg")
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        port = str(silent.getsockname()[1])
        options = {"connect_timeout": 2}
        elsewhere(ENGINE="django.db.backends.postgresql", NAME="site", HOST="127.0.0.1", PORT=port, OPTIONS=options)
        assert signs_in_and_out() < 15
    assert losses.total == 2
    assert [line.partition(":")[0] for line in lines(caplog)] == TOLD


LOCKS_GAPS = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"
"""With it, the place after the last row is locked with the rows."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "lock"),
    [
        ("PostgreSQL", "BEGIN; LOCK TABLE redsess_history_signin"),
        ("MariaDB", "LOCK TABLES redsess_history_signin WRITE"),
        ("MariaDB", f"{LOCKS_GAPS}; BEGIN; SELECT * FROM redsess_history_signin FOR UPDATE"),
    ],
    ids=["PostgreSQL", "MariaDB, a table", "MariaDB, rows"],
)
def test_a_database_server_records_and_is_not_waited_for(elsewhere, caplog, kind: str, lock: str) -> None:
    if kind not in databases.available():
        pytest.skip(f"no {kind}, or no driver for it")
    with closing(databases.available()[kind]()) as server:
        elsewhere(**server.database)
        call_command("migrate", "redsess_history", database=ALIAS, verbosity=0)
        signs_in_and_out()
        row = SignIn.objects.using(ALIAS).get()
        assert (row.reason, row.ended_at is None) == ("logout", False)
        locked, done = threading.Event(), threading.Event()

        def hold() -> None:
            with connections[ALIAS].cursor() as cursor:
                for statement in lock.split("; "):
                    cursor.execute(statement)
                locked.set()
                done.wait(30)
            connections[ALIAS].close()

        other = threading.Thread(target=hold)
        other.start()
        locked.wait(30)
        assert signs_in_and_out() < 10
        done.set()
        other.join()
        assert losses.total == 2
        told, *unread = lines(caplog)
        assert told.startswith("Sign-ins are not recorded: ")
        # The user's own page does not wait for the lock of a table either: it is shown without the past.
        assert [line.partition(":")[0] for line in unread] == ["Sign-ins can't be read"] * ("LOCK TABLE" in lock)
        connections[ALIAS].close()
