"""
Fixtures of a site that sends mails, and of one whose sign-ins are in another database than its users.

``notify``: mails about new devices are sent, to ``mail.outbox``

``elsewhere``: a function that keeps them in a database with these entries of DATABASES
``keep_file``: a function that keeps them in a file of SQLite, with these entries, and returns its path
``file``: the file of SQLite that has them
"""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from django.core import mail
from django.db import connection, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from django_redsess.contrib.history.models import BlockCopy, SignIn
from tests.contrib.history.elsewhere import ALIAS, Router


@pytest.fixture
def notify(settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_NOTIFY": True}
    # Django 6.1 has named mailers.
    if hasattr(mail, "mailers"):
        settings.MAILERS = {"default": {"BACKEND": "django.core.mail.backends.locmem.EmailBackend"}}


@pytest.fixture
def elsewhere(settings, monkeypatch, history, django_db_blocker) -> Iterator[Callable[..., None]]:
    # Django's tests refuse connections to databases that were unknown at their start.
    monkeypatch.setattr(BaseDatabaseWrapper, "ensure_connection", django_db_blocker._real_ensure_connection)
    settings.DATABASE_ROUTERS = [f"{Router.__module__}.Router"]

    def keep(**entries: object) -> None:
        defaults = {name: value for name, value in connection.settings_dict.items() if name != "TEST"}
        connections.databases[ALIAS] = {**defaults, "OPTIONS": {}, "TEST": connection.settings_dict["TEST"], **entries}

    yield keep
    if ALIAS in connections.databases:
        connections[ALIAS].close()
        del connections.databases[ALIAS], connections[ALIAS]


@pytest.fixture
def keep_file(tmp_path: Path, elsewhere) -> Callable[..., Path]:
    def keep(**entries: object) -> Path:
        path = tmp_path / "sign-ins.sqlite3"
        elsewhere(ENGINE="django.db.backends.sqlite3", NAME=str(path), **entries)
        with connections[ALIAS].schema_editor() as editor:
            for model in (SignIn, BlockCopy):
                editor.create_model(model)
        return path

    return keep


@pytest.fixture
def file(keep_file) -> Path:
    return keep_file(OPTIONS={"timeout": 20})
