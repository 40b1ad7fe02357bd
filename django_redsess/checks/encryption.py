"""System checks of the encryption of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.core import checks

from django_redsess.checks.settings import is_function, problem
from django_redsess.conf import Conf, conf
from django_redsess.exceptions import SessionNotReadable
from django_redsess.session.encryption import aesgcm, is_secret_key, weaknesses


@checks.register(checks.Tags.security)
def check_encryption(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require the package that ENCRYPT needs. Warn of ENCRYPTION_KEYS that are weak, or Django's SECRET_KEY."""
    # check_settings() has reported a wrong type.
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping) or not _is_right(Conf.ENCRYPTION_KEYS):
        return []
    found = []
    if conf.ENCRYPT is True and not _can_encrypt():
        message = "REDSESS['ENCRYPT'] is True, and the package 'cryptography' is missing: no session can be saved."
        found.append(problem("E100", message, "pip install 'django-redsess[encryption]'."))
    keys = conf.ENCRYPTION_KEYS
    if isinstance(keys, str):
        if not is_function(keys):
            message = "REDSESS['ENCRYPTION_KEYS'] is a path that can't be imported or called: no session can be saved."
            hint = "It must name a function without arguments that returns a list of keys. A single key needs a list."
            found.append(problem("E102", message, hint))
        return found
    for number, key in enumerate(keys or ()):
        if why := ", ".join(weaknesses(key)):
            message = f"REDSESS['ENCRYPTION_KEYS'][{number}] is weak: it {why}."
            hint = "python -c 'import secrets; print(secrets.token_urlsafe(48))' makes one."
            found.append(problem("W101", message, hint))
        if is_secret_key(key):
            message = f"REDSESS['ENCRYPTION_KEYS'][{number}] is SECRET_KEY, or one of its fallbacks."
            hint = "Leave ENCRYPTION_KEYS out to use SECRET_KEY, or set a key that nothing else uses."
            found.append(problem("W103", message, hint))
    return found


def _can_encrypt() -> bool:
    try:
        aesgcm()
    except SessionNotReadable:
        return False
    return True


def _is_right(setting: Any) -> bool:
    return bool(setting.rule.allows(getattr(conf, setting.name)))
