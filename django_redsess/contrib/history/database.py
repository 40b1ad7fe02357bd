"""
Writes of rows that delay nothing else for long, and fail nothing else.

A write waits for a lock for at most ``WAIT_SECONDS``, except on Oracle, which has no such limit. After a failed write,
this process writes nothing for ``REST_SECONDS``, or for ``REST_AFTER_LOCK_SECONDS`` if SQLite was locked. Rows that are
not written are counted as lost. The log has one line when losses begin, and one when they are over.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

from django.db import connections, transaction

from django_redsess import forks
from django_redsess.clock import monotonic

WAIT_SECONDS = 2
"""The longest wait for a lock. The response has been sent by then, but a worker is busy."""

REST_SECONDS = 10
"""How long after a failure no write is tried."""

REST_AFTER_LOCK_SECONDS = 1
"""The same after a lock of SQLite, whose other writers are soon done."""

PAUSE_SECONDS = 0.15
"""The pause between batches. Waiting connections of SQLite try for the lock each tenth of a second, unordered."""

ROWS_OF_ONE_WRITER = 500
"""The most rows of a batch in a database with one writer."""

logger = logging.getLogger("django_redsess")


def first_line(error: Exception) -> str:
    """Return the first line of the text of ``error``: other lines may show data of the row."""
    return str(error).strip().partition("\n")[0]


class _Losses:
    """The failures and lost rows of this process."""

    def __init__(self) -> None:
        self.lock = forks.Lock()
        self.reset()

    def reset(self) -> None:
        self.total = self.since_failure = self.failures = 0
        self.failed_at: float | None = None
        self.rests_until = 0.0

    def rests(self, rows: int) -> bool:
        """Tell whether no write may be tried now. If so, count ``rows`` as lost."""
        if self.failed_at is None:
            return False
        with self.lock:
            now = monotonic()
            if now < self.rests_until:
                self._lose(rows)
                return True
            # This thread tries. All others rest meanwhile.
            self.rests_until = now + REST_SECONDS
        return False

    def note_failure(self, rows: int, error: Exception, rest_seconds: float) -> None:
        with self.lock:
            begins = self.failed_at is None
            if self.failed_at is None:
                self.failed_at = monotonic()
            self.rests_until = monotonic() + rest_seconds
            self.failures += 1
            self._lose(rows)
        if begins:
            logger.error("Sign-ins are not recorded: %s: %s", type(error).__name__, first_line(error))

    def note_success(self, failures: int) -> None:
        """Note that a write worked. ``failures`` is the number of failures when the write began."""
        if self.failed_at is None:
            return
        with self.lock:
            if self.failures != failures:
                # Another write has failed meanwhile: the database may still fail.
                return
            began, lost = self.failed_at, self.since_failure
            self.failed_at, self.since_failure = None, 0
        if began is not None:
            seconds = monotonic() - began
            logger.warning(
                "Sign-ins are recorded again, after %.1f seconds. %d rows were not written: "
                "manage.py history --repair makes up for them.",
                seconds,
                lost,
            )

    def _lose(self, rows: int) -> None:
        self.total += rows
        self.since_failure += rows


losses = _Losses()


def try_write(work: Callable[[], object], *, rows: int, using: str, then: Callable[[], None] | None = None) -> None:
    """
    Call ``work``, which writes the number of ``rows`` to the database ``using``. Never raise its errors.

    After success, call ``then``. Within a transaction, both are called after the commit. Without rows, do nothing.
    """
    if not rows:
        return
    attempt = partial(_attempt, work, then, rows, using)
    if connections[using].in_atomic_block:
        transaction.on_commit(attempt, using=using, robust=True)
    else:
        attempt()


def _attempt(work: Callable[[], object], then: Callable[[], None] | None, rows: int, using: str) -> None:
    failures = losses.failures
    if losses.rests(rows):
        return
    try:
        with short_waits(using):
            work()
    except Exception as error:  # The driver, the router and the fields of the user model may raise anything.
        losses.note_failure(rows, error, REST_AFTER_LOCK_SECONDS if _is_locked(using, error) else REST_SECONDS)
        connection = connections[using]
        if connection.errors_occurred and not connection.in_atomic_block:
            # Django closes it after a request, but not in a command.
            connection.close()
    else:
        losses.note_success(failures)
        if then is not None:
            then()


def has_one_writer(using: str) -> bool:
    """Tell whether only one connection at a time can write to the database ``using``."""
    return connections[using].vendor == "sqlite"


def rows_at_once(most: int, using: str) -> int:
    """Return how many rows a batch in the database ``using`` may have: ``most``, or fewer with one writer."""
    return min(most, ROWS_OF_ONE_WRITER) if has_one_writer(using) else most


def let_others_write(using: str) -> None:
    """Pause between two batches if other connections wait for this one."""
    if has_one_writer(using):
        time.sleep(PAUSE_SECONDS)


def _is_locked(using: str, error: Exception) -> bool:
    # The low byte of an extended error code is the kind of the error.
    code = getattr(error.__cause__, "sqlite_errorcode", 0) & 0xFF
    return has_one_writer(using) and code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@contextmanager
def short_waits(using: str) -> Iterator[None]:
    """Return the context of a transaction in which the database waits for locks for a short time only."""
    connection: Any = connections[using]
    waiting = {"sqlite": _waiting_of_sqlite, "mysql": _waiting_of_mysql}.get(connection.vendor, nullcontext)
    with waiting(connection), transaction.atomic(using):
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL statement_timeout = {WAIT_SECONDS * 1000}")
        yield


@contextmanager
def _waiting_of_sqlite(connection: Any) -> Iterator[None]:
    """
    Return a context in which SQLite waits for a lock at the beginning of a transaction.

    By Django's default, a transaction takes the lock at its first write. SQLite does not wait if it has read before.
    """
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout")
        [wait] = cursor.fetchone()
        cursor.execute(f"PRAGMA busy_timeout = {int(WAIT_SECONDS * 1000)}")
    mode = connection.transaction_mode
    # Also if the site has another option.
    connection.transaction_mode = "IMMEDIATE"
    try:
        yield
    finally:
        connection.transaction_mode = mode
        with connection.cursor() as cursor:
            cursor.execute(f"PRAGMA busy_timeout = {wait}")


SET_WAITS = "SET SESSION innodb_lock_wait_timeout = %s, lock_wait_timeout = %s"
"""The waits for the lock of a row, by default 50 seconds, and of a table, by default a day or a year."""


@contextmanager
def _waiting_of_mysql(connection: Any) -> Iterator[None]:
    """Return a context in which MariaDB or MySQL waits for locks of rows and tables, in whole seconds."""
    seconds = max(1, WAIT_SECONDS)
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@SESSION.innodb_lock_wait_timeout, @@SESSION.lock_wait_timeout")
        waits = cursor.fetchone()
        cursor.execute(SET_WAITS, (seconds, seconds))
    try:
        yield
    finally:
        # Django has closed a lost connection. The next one has the site's waits.
        if connection.connection is not None:
            with connection.cursor() as cursor:
                cursor.execute(SET_WAITS, waits)
