"""
System checks before a deployment: which settings are missing for level 2 of OWASP ASVS 5.0, chapter V7.

The page docs/explanation/asvs.rst answers each requirement, by the number that a message has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.conf import settings
from django.core import checks

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import problem
from django_redsess.conf import conf
from django_redsess.session import user_limit

STANDARD = "OWASP ASVS 5.0"

SWITCHES = {
    "REAUTHENTICATE": ("users end other sessions of theirs without their password", "7.5.2"),
    "END_ON_DEACTIVATION": ("the sessions of a deactivated user go on", "7.4.2"),
    "END_ON_DELETION": ("the sessions of a deleted user go on", "7.4.2"),
}


def _how_to_silence(number: str) -> str:
    return f"If your site has decided otherwise, add 'django_redsess.{number}' to SILENCED_SYSTEM_CHECKS."


@checks.register(checks.Tags.security, deploy=True)
def check_level_two(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of each setting that is missing for level 2, and with the profile "strict" of the cookie's settings, too."""
    if not is_in_use() or not isinstance(getattr(settings, "REDSESS", {}), Mapping):
        return []
    return [*_find_timeouts(), *_find_limit(), *_find_switches(), *(_find_cookie() if conf.PROFILE == "strict" else ())]


def _find_timeouts() -> Iterator[checks.CheckMessage]:
    # Either restarts the session's age at each active request, as an idle time-out does.
    counts_from_use = conf.SLIDING is True or settings.SESSION_SAVE_EVERY_REQUEST
    if conf.IDLE_TIMEOUT is None and not counts_from_use:
        message = (
            "REDSESS['IDLE_TIMEOUT'] is not set: an unused session ends SESSION_COOKIE_AGE after its last save "
            f"({STANDARD}, 7.3.1)."
        )
        hint = "Set it in seconds, or REDSESS['PROFILE'] to 'strict'."
        yield problem("W093", message, f"{hint} {_how_to_silence('W093')}")
    if conf.ABSOLUTE_TIMEOUT is None:
        message = (
            "REDSESS['ABSOLUTE_TIMEOUT'] is not set: a session that is used and saved never needs another sign-in "
            f"({STANDARD}, 7.3.2)."
        )
        hint = "Set it in seconds, or REDSESS['PROFILE'] to 'strict'."
        yield problem("W094", message, f"{hint} {_how_to_silence('W094')}")


def _find_limit() -> Iterator[checks.CheckMessage]:
    # With a stolen password, anybody could open any number of sessions unnoticed.
    if conf.MAX_SESSIONS_PER_USER is None:
        message = (
            f"{user_limit.MAXIMUM} is not set: a user may have as many sessions as USER_SESSIONS_CEILING allows "
            f"({STANDARD}, 7.1.2)."
        )
        hint = (
            "Set it to the number of devices that a person uses, such as 10, or REDSESS['PROFILE'] to 'strict'. A "
            "sign-in above it ends the oldest session."
        )
        yield problem("W047", message, hint)


def _find_switches() -> Iterator[checks.CheckMessage]:
    for name, (effect, requirement) in SWITCHES.items():
        if getattr(conf, name) is False:
            message = f"REDSESS[{name!r}] is False: {effect} ({STANDARD}, {requirement})."
            yield problem("W095", message, f"Leave it out: the default is True. {_how_to_silence('W095')}")


def _find_cookie() -> Iterator[checks.CheckMessage]:
    # SESSION_COOKIE_SECURE and SESSION_COOKIE_HTTPONLY: Django warns of them, or check_cookie() does.
    name, domain = settings.SESSION_COOKIE_NAME, settings.SESSION_COOKIE_DOMAIN
    prefix = "__Secure-" if domain else "__Host-"
    if not name.startswith(prefix):
        message = f"SESSION_COOKIE_NAME is {name!r}, without the prefix {prefix!r} ({STANDARD}, 3.3.3)."
        plain = name.removeprefix("__Secure-").removeprefix("__Host-")
        hint = f"Set it to '{prefix}{plain}'. A new name signs everybody out once. {_how_to_silence('W096')}"
        yield problem("W096", message, hint)
    elif prefix == "__Host-" and settings.SESSION_COOKIE_PATH != "/":
        message = "SESSION_COOKIE_NAME begins with '__Host-', and SESSION_COOKIE_PATH is not '/'."
        yield problem("W096", message, "Browsers refuse such a cookie. Set SESSION_COOKIE_PATH to '/'.")
    if settings.SESSION_COOKIE_SAMESITE not in ("Lax", "Strict"):
        message = f"SESSION_COOKIE_SAMESITE is {settings.SESSION_COOKIE_SAMESITE!r} ({STANDARD}, 3.3.2)."
        yield problem("W096", message, f"Set it to 'Lax' or 'Strict'. {_how_to_silence('W096')}")
