"""How many sessions a user may have at once: ``MAX_SESSIONS_PER_USER`` and ``SESSION_LIMIT_POLICY``."""

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
    "You are signed in with %(maximum)d session already, and more are not allowed. Sign out there first.",
    "You are signed in with %(maximum)d sessions already, and more are not allowed. Sign out of one of them first.",
    "maximum",
)

logger = logging.getLogger("django_redsess")


def is_maximum(value: object) -> bool:
    """Tell whether ``value`` can be the most sessions of a user."""
    return value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 1)


def limit_of(user: AbstractBaseUser) -> Limit | None:
    """
    Return how many sessions ``user`` may have, and what happens above that; None for no limit.

    Raises ImproperlyConfigured where the settings can't be made sense of, or their function fails.
    """
    given: Any = conf.MAX_SESSIONS_PER_USER
    maximum, said = given, f"it is {given!r}"
    if isinstance(given, str):
        try:
            maximum = import_string(given)(user)
        except Exception as error:
            raise ImproperlyConfigured(f"{MAXIMUM}, {given!r}, failed with {type(error).__name__}.") from error
        said = f"{given!r} returned {maximum!r}"
    if not is_maximum(maximum):
        raise ImproperlyConfigured(f"{MAXIMUM} must be an integer of 1 or more, or None; {said}.")
    if conf.SESSION_LIMIT_POLICY not in POLICIES:
        raise ImproperlyConfigured(f"{POLICY} must be one of {', '.join(POLICIES)}; not {conf.SESSION_LIMIT_POLICY!r}.")
    return None if maximum is None else Limit(maximum, conf.SESSION_LIMIT_POLICY)


def describe(user: AbstractBaseUser | None) -> str:
    """Say how many sessions ``user`` may have, and what one more sign-in does; ``""`` without a limit, or a user."""
    try:
        limit = limit_of(user) if user is not None else None
    except ImproperlyConfigured:
        logger.exception("A page can't tell how many sessions a user may have.")
        return gettext("How many sessions are allowed can't be told at the moment.")
    if limit is None:
        return ""
    number = limit.maximum
    allowed = ngettext("At most %(maximum)d session is allowed.", "At most %(maximum)d sessions are allowed.", number)
    ends_it = gettext("Another sign-in ends it.") if number == 1 else None
    above = {
        "end_oldest": ends_it or gettext("Another sign-in ends the one that was signed in first."),
        "end_least_recent": ends_it or gettext("Another sign-in ends the one that has not been used for longest."),
        REFUSE: gettext("Another sign-in is refused until there is room."),
    }[limit.policy]
    return f"{allowed % {'maximum': number}} {above}"
