"""System checks of the database that has the sign-ins."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from django.contrib.auth import get_user_model
from django.core import checks
from django.db import connections, router

from django_redsess.checks.settings import problem
from django_redsess.contrib.history.models import BlockCopy, SignIn


@checks.register(checks.Tags.database)
def check_tables(databases: Collection[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a table that is missing. Django asks databases only in ``check --database`` and in ``migrate``."""
    for model in (SignIn, BlockCopy):
        using, table = router.db_for_write(model), model._meta.db_table
        if using in (databases or ()) and table not in connections[using].introspection.table_names():
            message = f"The table {table} is missing in the database {using!r}: no sign-in is recorded."
            return [problem("W078", message, "Run 'manage.py migrate'.")]
    return []


@checks.register(checks.Tags.models)
def check_transactions(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of SQLite without the option by which transactions wait for each other."""
    using = router.db_for_write(SignIn)
    # In a database of their own, sign-ins are all that is written, and the recorder waits by itself.
    if using != router.db_for_write(get_user_model()) or connections[using].vendor != "sqlite":
        return []
    mode = str(connections[using].settings_dict["OPTIONS"].get("transaction_mode") or "DEFERRED").upper()
    if mode != "DEFERRED":
        return []
    message = (
        f"DATABASES[{using!r}] is SQLite, whose transactions begin without the lock: one that reads first fails at "
        "once if a sign-in is recorded meanwhile ('database is locked')."
    )
    return [problem("W079", message, "Add 'OPTIONS': {'transaction_mode': 'IMMEDIATE'} to it.")]
