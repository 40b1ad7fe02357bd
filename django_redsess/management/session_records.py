"""Sessions as lines of JSON or rows of a CSV file, as the command ``online`` prints them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping
from io import StringIO
from typing import TYPE_CHECKING, Any

from django_redsess.online import presentation
from django_redsess.online.export import csv_cell
from django_redsess.querysets.sessions import users_by_id

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from django_redsess.online import Session

FIELDS = (
    *("sid", "user_id", "username", "login_at", "seen_at", "expires_at"),
    *("address", "user_agent", "browser", "size", "newest_item"),
)


def json_lines(page: Iterable[Session]) -> Iterator[str]:
    """Yield a line of JSON for each session."""
    for record in _records(list(page)):
        yield json.dumps(record)


def csv_rows(page: Iterable[Session]) -> Iterator[str]:
    """Yield a row of a CSV file for each session."""
    for record in _records(list(page)):
        yield _row("" if value is None else str(value) for value in record.values())


def csv_header() -> str:
    """Return the first row of a CSV file."""
    return _row(FIELDS)


def _row(cells: Iterable[str]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="").writerow(map(csv_cell, cells))
    return text.getvalue()


def _records(page: list[Session]) -> Iterator[dict[str, Any]]:
    users = users_by_id({session.user_id for session in page})
    for session in page:
        yield dict(zip(FIELDS, _values(session, users), strict=True))


def _values(session: Session, users: Mapping[str, AbstractBaseUser]) -> tuple[Any, ...]:
    user = users.get(session.user_id)
    return (
        session.sid,
        session.user_id,
        None if user is None else str(user.get_username()),
        session.login_at and session.login_at.isoformat(),
        session.seen_at.isoformat(),
        session.expires_at.isoformat(),
        session.address,
        session.user_agent,
        presentation.browser_name(session.user_agent),
        session.size,
        session.newest_item,
    )
