"""What a release has written into the database is read by this one, which lets processes of that release go on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader

from django_redsess.contrib.history.models import BlockCopy, SignIn
from tests.golden import dumps, rows

APP = "redsess_history"
WHAT_TO_DO = """
This tree writes other columns or values than release {release} did, or has other migrations. If that is meant, keep
the old folder, and make one of what is written now: python -m tests.golden MINOR_VERSION
"""


@pytest.fixture
def migrated(transactional_db) -> Iterator[None]:
    yield
    call_command("migrate", APP, verbosity=0)


def stored() -> dict[str, list[dict[str, object]]]:
    return {model._meta.db_table: rows.described(model._default_manager.order_by("pk")) for model in rows.MODELS}


@pytest.mark.unit
def test_what_is_written_is_what_the_newest_golden_rows_have() -> None:
    release = dumps.releases()[-1]
    assert rows.read(release) == rows.written(), WHAT_TO_DO.format(release=release)


@pytest.mark.unit
@pytest.mark.parametrize("release", dumps.releases())
def test_no_migration_of_a_release_has_changed(release: str) -> None:
    now = rows.written().migrations
    assert {file: now.get(file) for file in rows.read(release).migrations} == rows.read(release).migrations


@pytest.mark.django_db
@pytest.mark.parametrize("release", dumps.releases())
def test_processes_of_a_release_write_and_this_one_reads_and_writes(release: str) -> None:
    written = rows.read(release)
    rows.insert(written)
    now = stored()
    for table, lines in written.tables.items():
        assert [{name: row[name] for name in line} for line, row in zip(lines, now[table], strict=True)] == lines
    for each in [*SignIn.objects.all(), *BlockCopy.objects.all()]:
        assert str(each)
        each.save()
    # What that release asks for.
    with connection.cursor() as cursor:
        for table, [line, *_] in written.tables.items():
            columns = ", ".join(map(connection.ops.quote_name, line))
            cursor.execute(f"SELECT {columns} FROM {connection.ops.quote_name(table)}")
            assert len(cursor.fetchall()) == len(written.tables[table])


def test_each_migration_can_be_taken_back_and_loses_only_what_it_added(migrated) -> None:
    names = sorted(name for app, name in MigrationLoader(connection).graph.nodes if app == APP)
    for each in rows.OBJECTS:
        type(each)._default_manager.bulk_create([each])
    before = stored()
    for name in reversed(names[:-1]):
        call_command("migrate", APP, name, verbosity=0)
    with connection.cursor() as cursor:
        kept = {
            table: {column.name for column in connection.introspection.get_table_description(cursor, table)}
            for table in before
        }
    # A column may have had another name then: it is kept, and not compared.
    kept = {table: columns & set(before[table][0]) for table, columns in kept.items()}
    assert any(kept[table] < set(lines[0]) for table, lines in before.items())
    call_command("migrate", APP, verbosity=0)
    for table, lines in stored().items():
        for was, row in zip(before[table], lines, strict=True):
            assert {name: row[name] for name in kept[table]} == {name: was[name] for name in kept[table]}
