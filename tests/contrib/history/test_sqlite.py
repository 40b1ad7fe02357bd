"""SQLite with Django's default options: no row is lost because other connections write, too."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.db import connection, connections
from django.test import RequestFactory

from django_redsess.contrib.history import blocks, database, lost, receivers
from django_redsess.contrib.history.database import losses
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.signals import BegunSession
from tests.contrib.history.elsewhere import ALIAS
from tests.helpers.checks import found

AT = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_lost() -> None:
    losses.forget()


def rows() -> int:
    return SignIn.objects.using(ALIAS).count()


def signs_in(user_id: int) -> None:
    """Tell of a sign-in by a request, in a connection of this thread."""
    begun = BegunSession("0" * 20, str(user_id), AT + timedelta(milliseconds=user_id), None, "192.0.2.7", "")
    receivers.began(BegunSession, sessions=[begun], request=RequestFactory().post("/login/"))


def blocks_user(user_id: int) -> None:
    blocks.blocked(None, str(user_id), AT, "Call us.", "")


def in_thread(work: Callable[[], None]) -> Callable[[], None]:
    """Return ``work`` as a thread calls it: it closes the connection that it has opened."""

    def call() -> None:
        try:
            work()
        finally:
            connections[ALIAS].close()

    return call


@pytest.mark.parametrize(
    ("write", "options"),
    [(signs_in, {}), (blocks_user, {}), (signs_in, {"timeout": 0, "transaction_mode": "DEFERRED"})],
)
def test_a_lock_of_another_connection_costs_no_row(keep_file, write: Callable[[int], None], options) -> None:
    path = keep_file(OPTIONS=options)
    waiting = threading.Barrier(5)

    def work(user_id: int) -> None:
        connections[ALIAS].ensure_connection()
        waiting.wait(30)
        write(user_id)

    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with ThreadPoolExecutor(4) as pool:
            done = [pool.submit(in_thread(lambda user_id=user_id: work(user_id))) for user_id in range(1, 5)]
            waiting.wait(30)
            threading.Event().wait(0.3)
            other.execute("ROLLBACK")
        for each in done:
            each.result()
    model = SignIn if write is signs_in else BlockCopy
    assert (lost(), model.objects.using(ALIAS).count()) == (0, 4)


def test_a_write_that_was_under_way_before_a_failure_does_not_end_the_rest(file: Path, caplog, monkeypatch) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    begun, failed = threading.Event(), threading.Event()

    def slow() -> None:
        receivers.upsert([SignIn(user_id=5, login_ms=5)], receivers.AT_END, ALIAS)
        begun.set()
        failed.wait(30)

    thread = threading.Thread(target=in_thread(lambda: database.write(slow, rows=1, using=ALIAS)))
    thread.start()
    begun.wait(30)
    signs_in(6)
    failed.set()
    thread.join(30)
    signs_in(7)
    assert (lost(), rows()) == (2, 1)
    assert len([each for each in caplog.records if each.name == "django_redsess"]) == 1


@pytest.mark.skipif(connection.vendor != "sqlite", reason="the site's database is another")
@pytest.mark.parametrize(
    ("options", "is_told"),
    [({}, True), ({"transaction_mode": "deferred"}, True), ({"transaction_mode": "EXCLUSIVE"}, False)],
)
def test_a_check_tells_of_transactions_that_do_not_wait(monkeypatch, options: dict[str, str], is_told: bool) -> None:
    monkeypatch.setitem(connection.settings_dict, "OPTIONS", options)
    assert ("W079" in found()) == is_told
