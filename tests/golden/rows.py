"""
Golden rows: what a release writes into the tables of the sign-in history, and the migrations that made the tables.

They are kept by the names of columns, as a process of that release gives them to the database.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from django.core.serializers.json import DjangoJSONEncoder
from django.db import connection
from django.db.models import Model

import django_redsess
from django_redsess.contrib.history.models import STAFF, USER_HERE, BlockCopy, SignIn
from django_redsess.signals import Reason
from tests.golden import dumps

PACKAGE = Path(django_redsess.__file__).parent
LOGIN_MS = 1_795_800_000_123
SOON, LATE = datetime(2026, 11, 28, 5, 30, 1, 250_000, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, tzinfo=UTC)

MODELS: tuple[type[Model], ...] = (SignIn, BlockCopy)

OBJECTS: tuple[Model, ...] = (
    SignIn(id=1, user_id=11, login_ms=LOGIN_MS),
    SignIn(
        id=2,
        user_id=11,
        login_ms=LOGIN_MS + 1,
        last_seen_at=SOON,
        ended_at=SOON,
        ended_at_is_approximate=True,
        reason=Reason.LOGOUT,
        ended_by="11",
        who_ended=USER_HERE,
        stored_message="Schönen Feierabend.",
        address="2001:db8::7",
        address_score=4_503_599_627_370_495,
        client="Firefox on Linux",
        user_agent="Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0",
        device_cookie="0123456789abcdef",
        is_new_device=True,
        is_notified=True,
        unproven_at=SOON,
        unproven_address="203.0.113.9",
        unproven_user_agent="curl/8.14.1",
        unproven_refused=True,
        unproven_notified_at=SOON,
        internal_note="Called back, 28 Nov.",
    ),
    SignIn(
        id=3,
        user_id=12,
        login_ms=LOGIN_MS + 2,
        ended_at=SOON,
        reason=Reason.KICKED,
        ended_by="1",
        who_ended=STAFF,
        stored_message="password_changed\t",
        internal_note="Called back, 28 Nov.",
    ),
    BlockCopy(user_id=12, until=LATE),
    BlockCopy(
        user_id=13, until=SOON, stored_message="known_password\tCall us.", by="1", internal_note="Called back, 28 Nov."
    ),
)
"""A sign-in and a block with as little as they may have, one of each with all, and one with a ready-made message."""


class Rows(NamedTuple):
    """``migrations`` are the hashes of their files, ``tables`` the columns and values of each row."""

    migrations: dict[str, str]
    tables: dict[str, list[dict[str, Any]]]


def written() -> Rows:
    """Return what the present tree writes."""
    files = sorted(PACKAGE.glob("**/migrations/0*.py"))
    migrations = {str(file.relative_to(PACKAGE)): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    tables = {model._meta.db_table: described(each for each in OBJECTS if type(each) is model) for model in MODELS}
    return Rows(migrations, tables)


def described(objects: Iterable[Model]) -> list[dict[str, Any]]:
    rows = [{field.column: field.value_from_object(each) for field in each._meta.concrete_fields} for each in objects]
    found: list[dict[str, Any]] = json.loads(json.dumps(rows, cls=DjangoJSONEncoder))
    return found


def read(release: str) -> Rows:
    return Rows(**dumps.contents(release, "rows"))


def insert(rows: Rows) -> None:
    """Write the rows as a process of that release does, which knows no other columns."""
    quote = connection.ops.quote_name
    with connection.cursor() as cursor:
        for model in MODELS:
            fields, table = {field.column: field for field in model._meta.concrete_fields}, model._meta.db_table
            for row in rows.tables.get(table, []):
                columns, marks = ", ".join(map(quote, row)), ", ".join(["%s"] * len(row))
                values = [fields[name].get_db_prep_save(fields[name].to_python(row[name]), connection) for name in row]
                cursor.execute(f"INSERT INTO {quote(table)} ({columns}) VALUES ({marks})", values)
