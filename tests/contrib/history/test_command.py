"""``manage.py history``: what it prints on any terminal, and before ``migrate``."""

import os
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO, TextIOWrapper

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import connection

from django_redsess.contrib.history.checks import check_tables
from django_redsess.contrib.history.models import SignIn
from tests.contrib.history.rows import ended
from tests.project.docs.pages import ROOT


@pytest.fixture
def lukas(transactional_db) -> User:
    return User.objects.create_user("lukas")


@pytest.fixture
def without_table(lukas) -> Iterator[None]:
    with connection.schema_editor() as editor:
        editor.delete_model(SignIn)
    yield
    with connection.schema_editor() as editor:
        editor.create_model(SignIn)


@pytest.mark.parametrize("options", [{}, {"json": True}], ids=["csv", "json"])
def test_a_terminal_of_few_letters_gets_others_escaped(lukas, options) -> None:
    ended(lukas, stored_message="Geändert", agent="Jörgs Browser")
    out = TextIOWrapper(BytesIO(), encoding="ascii")
    call_command("history", export="lukas", stdout=out, **options)
    out.flush()
    printed = out.buffer.getvalue()  # type: ignore[attr-defined]
    assert (rb"Ge\u00e4ndert" if options else rb"Ge\xe4ndert") in printed


@pytest.mark.slow
def test_a_reader_who_has_seen_enough_ends_it(tmp_path) -> None:
    environ = {**os.environ, "REDSESS_DEMO_DIR": str(tmp_path)}
    manage = [sys.executable, "testproject/manage.py"]
    create = "from django.contrib.auth.models import User; User.objects.create_user('lukas')"
    for arguments in (["migrate", "--verbosity=0"], ["shell", "--verbosity=0", "-c", create]):
        subprocess.run([*manage, *arguments], cwd=ROOT, env=environ, check=True, capture_output=True, timeout=60)
    ear, mouth = os.pipe()
    os.close(ear)
    command = [*manage, "history", "--export", "lukas"]
    done = subprocess.run(command, cwd=ROOT, env=environ, stdout=mouth, stderr=subprocess.PIPE, timeout=60)
    os.close(mouth)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.usefixtures("without_table")
@pytest.mark.parametrize("options", [{"export": "lukas"}, {"repair": True}, {"prune": True}], ids=str)
def test_before_migrate_it_says_so_in_a_line(new_session, options) -> None:
    new_session(str(User.objects.get().pk))
    with pytest.raises(CommandError, match=r"redsess_history_signin.*\. If a table is missing, run 'manage"):
        call_command("history", verbosity=0, **options)


@pytest.mark.usefixtures("without_table")
def test_a_check_of_the_database_tells_of_a_missing_table() -> None:
    assert [found.id for found in check_tables(databases=["default"])] == ["django_redsess.W078"]
    assert check_tables(databases=None) == check_tables(databases=["other"]) == []


def test_a_check_of_a_database_with_all_tables_says_nothing(db) -> None:
    assert check_tables(databases=["default"]) == []
