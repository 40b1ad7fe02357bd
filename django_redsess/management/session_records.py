"""Sessions as lines of JSON or rows of a CSV file, as the command ``online`` prints them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator
from io import StringIO
from typing import TYPE_CHECKING

from django_redsess.online.export import COLUMNS, Record, csv_row, record_of
from django_redsess.querysets.sessions import users_by_id

if TYPE_CHECKING:
    from django_redsess.online import Session


def json_lines(page: Iterable[Session]) -> Iterator[str]:
    """Yield a line of JSON for each session."""
    for record in _records(list(page)):
        yield json.dumps(record)


def csv_rows(page: Iterable[Session]) -> Iterator[str]:
    """Yield a row of a CSV file for each session."""
    for record in _records(list(page)):
        yield _row(csv_row(record))


def csv_header() -> str:
    """Return the first row of a CSV file. No byte order mark: a program in a pipe would take it for text."""
    return _row(COLUMNS)


def _row(cells: Iterable[str]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()


def _records(page: list[Session]) -> Iterator[Record]:
    users = users_by_id({session.user_id for session in page})
    for session in page:
        user = users.get(session.user_id)
        # The command endsessions takes this name.
        yield record_of(session, None if user is None else str(user.get_username()))
