"""System checks of the database that has the sign-ins, and of the cookie of devices."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.messages.storage.cookie import CookieStorage
from django.core import checks
from django.db import connections, router

from django_redsess.checks.settings import problem
from django_redsess.conf import Conf
from django_redsess.contrib.history.models import BlockCopy, SignIn


@checks.register(checks.Tags.database)
def check_tables(databases: Collection[str] | None = None, **kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a missing table. Django passes databases only in ``check --database`` and ``migrate``."""
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
    # A separate database has no other writers, and the recorder waits for locks itself.
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


@checks.register(checks.Tags.security)
def check_device_cookie(**kwargs: Any) -> list[checks.CheckMessage]:
    """Report a HISTORY_DEVICE_COOKIE that is the name of another cookie, or that browsers reject."""
    redsess = getattr(settings, "REDSESS", {})
    name = redsess.get("HISTORY_DEVICE_COOKIE") if isinstance(redsess, Mapping) else None
    if name is None or not Conf.HISTORY_DEVICE_COOKIE.rule.allows(name):
        return []
    names = {settings.SESSION_COOKIE_NAME, settings.CSRF_COOKIE_NAME, settings.LANGUAGE_COOKIE_NAME}
    if name in {*names, CookieStorage.cookie_name}:
        message = f"REDSESS['HISTORY_DEVICE_COOKIE'] is {name!r}, the name of another cookie of the site."
        return [problem("E118", message, "Leave it out, or choose another name.")]
    is_on_host = settings.SESSION_COOKIE_PATH == "/" and not settings.SESSION_COOKIE_DOMAIN
    if (name.startswith("__Secure-") and not settings.SESSION_COOKIE_SECURE) or (
        name.startswith("__Host-") and not (settings.SESSION_COOKIE_SECURE and is_on_host)
    ):
        message = f"REDSESS['HISTORY_DEVICE_COOKIE'] is {name!r}: browsers refuse the cookie, and each device is new."
        hint = "It has the attributes of the session's cookie: set SESSION_COOKIE_SECURE to True."
        if name.startswith("__Host-"):
            hint += " With '__Host-', SESSION_COOKIE_DOMAIN must be None and SESSION_COOKIE_PATH '/'."
        return [problem("E119", message, hint)]
    return []
