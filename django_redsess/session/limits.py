"""The limit of a user's sessions: ``MAX_SESSIONS_PER_USER`` and ``SESSION_LIMIT_POLICY``."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from django.utils.translation import gettext, ngettext, ngettext_lazy

from django_redsess.conf import conf
from django_redsess.session.operations import Limit

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

REFUSE = "refuse"
POLICIES = ("end_oldest", "end_least_recent", REFUSE)

MAXIMUM, POLICY = "REDSESS['MAX_SESSIONS_PER_USER']", "REDSESS['SESSION_LIMIT_POLICY']"

REFUSED = ngettext_lazy(
    "You already have %(maximum)d session, and more are not allowed. Sign out there first.",
    "You already have %(maximum)d sessions, and more are not allowed. Sign out of one of them first.",
    "maximum",
)

logger = logging.getLogger("django_redsess")


def is_maximum(value: object) -> bool:
    """Return whether ``value`` is a valid limit."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def limit_of(user: AbstractBaseUser) -> Limit | None:
    """
    Return the limit of the user's sessions. None for no limit.

    Raises ImproperlyConfigured if a setting is wrong, or if the function of ``MAX_SESSIONS_PER_USER`` fails.
    """
    setting: Any = conf.MAX_SESSIONS_PER_USER
    maximum, found = setting, f"it is {setting!r}"
    if isinstance(setting, str):
        try:
            maximum = import_string(setting)(user)
        except Exception as error:
            raise ImproperlyConfigured(f"{MAXIMUM}, {setting!r}, failed with {type(error).__name__}.") from error
        found = f"{setting!r} returned {maximum!r}"
    if not is_maximum(maximum):
        raise ImproperlyConfigured(f"{MAXIMUM} must be an integer of 1 or more, or None; {found}.")
    if conf.SESSION_LIMIT_POLICY not in POLICIES:
        raise ImproperlyConfigured(f"{POLICY} must be one of {', '.join(POLICIES)}; not {conf.SESSION_LIMIT_POLICY!r}.")
    return None if maximum is None else Limit(maximum, conf.SESSION_LIMIT_POLICY)


def describe(user: AbstractBaseUser | None) -> str:
    """Return a text about the limit of the user's sessions and the effect of one more sign-in. ``""`` for no limit."""
    try:
        limit = limit_of(user) if user is not None else None
    except ImproperlyConfigured:
        logger.exception("A page can't show how many sessions a user may have.")
        return gettext("The number of allowed sessions is not known at the moment.")
    if limit is None:
        return ""
    number = limit.maximum
    allowed = ngettext("At most %(maximum)d session is allowed.", "At most %(maximum)d sessions are allowed.", number)
    ends_it = gettext("Another sign-in ends it.") if number == 1 else None
    above = {
        "end_oldest": ends_it or gettext("Another sign-in ends the oldest one."),
        "end_least_recent": ends_it or gettext("Another sign-in ends the one that was unused for longest."),
        REFUSE: gettext("Another sign-in is refused until a session ends."),
    }[limit.policy]
    return f"{allowed % {'maximum': number}} {above}"
