"""SQLite with Django's default options: no row is lost because other connections write, too."""

import itertools
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from django.db import connection, connections
from django.test import RequestFactory

from django_redsess.clock import monotonic
from django_redsess.contrib.history import blocks, database, lost, receivers, repair
from django_redsess.contrib.history.checks import check_transactions
from django_redsess.contrib.history.database import losses
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.signals import BegunSession
from tests.contrib.history.elsewhere import ALIAS

T = TypeVar("T")

AT = datetime(2031, 1, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def nothing_lost() -> None:
    losses.reset()


def rows() -> int:
    return SignIn.objects.using(ALIAS).count()


def signs_in(user_id: int) -> None:
    """Tell of a sign-in by a request, in a connection of this thread."""
    begun = BegunSession("0" * 20, str(user_id), AT + timedelta(milliseconds=user_id), None, "192.0.2.7", "")
    receivers.record_beginnings(BegunSession, sessions=[begun], request=RequestFactory().post("/login/"))


def blocks_user(user_id: int) -> None:
    blocks.copy_block(None, str(user_id), AT, "Call us.", "")


def in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Return ``work`` as a thread calls it: it closes the connection that it has opened."""

    def call() -> T:
        try:
            return work()
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

    thread = threading.Thread(target=in_thread(lambda: database.try_write(slow, rows=1, using=ALIAS)))
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
    assert [each.id for each in check_transactions()] == ["django_redsess.W079"] * is_told


OLD = 5000
"""Rows that are pruned while others sign in. That is no long work here, so it is made to take 1.5 seconds."""


def test_sign_ins_while_old_rows_are_deleted_each_have_a_row(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 1)
    closed_at, device = AT - timedelta(days=400), "0123456789abcdef"
    SignIn.objects.using(ALIAS).bulk_create(
        [SignIn(user_id=1, login_ms=number, ended_at=closed_at, device_cookie=device) for number in range(1, OLD + 2)]
    )
    deleted, begun, over = itertools.count(), threading.Event(), threading.Event()

    def each_deleted() -> None:
        begun.set()
        if next(deleted) % 100 == 0:
            time.sleep(0.03)

    with connections[ALIAS].cursor() as cursor:
        connections[ALIAS].connection.create_function("each_deleted", 0, each_deleted)
        cursor.execute(
            "CREATE TEMP TRIGGER slow BEFORE DELETE ON redsess_history_signin BEGIN SELECT each_deleted(); END"
        )

    def sign_in_again_and_again() -> int:
        begun.wait(30)
        for user_id in itertools.count(2):
            signs_in(user_id)
            if over.wait(0.02):
                return user_id - 1
        raise AssertionError

    with ThreadPoolExecutor(1) as pool:
        signed_in = pool.submit(in_thread(sign_in_again_and_again))
        try:
            pruned = sum(changed for changed, _ in repair.prune())
        finally:
            over.set()
    assert pruned == OLD
    assert (lost(), rows()) == (0, 1 + signed_in.result())


def test_after_a_lock_it_rests_for_a_moment_only(file: Path, monkeypatch) -> None:
    monkeypatch.setattr(database, "WAIT_SECONDS", 0.2)
    with closing(sqlite3.connect(file, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        signs_in(5)
        other.execute("ROLLBACK")
    assert lost() == 1
    rests_until, now = losses.rests_until, monotonic()
    assert 0 < rests_until - now <= database.REST_AFTER_LOCK_SECONDS
    # As time goes by.
    monkeypatch.setattr(losses, "rests_until", now)
    signs_in(6)
    assert (lost(), rows()) == (1, 1)
