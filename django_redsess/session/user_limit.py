"""The limit of a user's sessions.

``MAX_SESSIONS_PER_USER`` and ``SESSION_LIMIT_POLICY`` set it. Where they set none, ``USER_SESSIONS_CEILING`` holds.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string
from django.utils.translation import gettext, ngettext, ngettext_lazy

from django_redsess.conf import FROM_ONE_OR_NONE, POLICIES, REFUSE, conf
from django_redsess.transport.keys import keyspace

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


MAXIMUM, POLICY = "REDSESS['MAX_SESSIONS_PER_USER']", "REDSESS['SESSION_LIMIT_POLICY']"

REFUSED = ngettext_lazy(
    "You are already signed in on %(maximum)d device, and more are not allowed. Sign out there first.",
    "You are already signed in on %(maximum)d devices, and more are not allowed. Sign out on one of them first.",
    "maximum",
)

CEILING_MIN = 10
"""The ceiling of a user's sessions in a store whose partitions may have fewer than a hundred."""

UNUSED = "end_unused"
"""The policy of the ceiling. A site can't choose it."""

NO_LIMIT = 2**53
"""More sessions than there can be. Lua counts exactly up to this number."""

logger = logging.getLogger("django_redsess")

_is_lifted = ContextVar("django_redsess_limit_is_lifted", default=False)


class Limit(NamedTuple):
    """
    The maximum number of a user's sessions, and what a sign-in above it does: see ``SESSION_LIMIT_POLICY``.

    In a partition that has ``full_at`` signed-in sessions, the sign-in ends another session of the same user, so that
    no other user loses one. None: it ends none. ``is_built_in`` is True if the site sets no limit for the user.
    """

    maximum: int
    policy: str
    full_at: int | None = None
    is_built_in: bool = False


@contextmanager
def without_limit() -> Iterator[None]:
    """
    Lift the limits of a user's sessions: a sign-in within ends no other session of the user, and is not refused.

    It is a context manager for code that signs in as somebody else. It lifts ``MAX_SESSIONS_PER_USER`` and
    ``USER_SESSIONS_CEILING`` for calls of ``login()`` and ``await alogin()`` in its block, in this thread or task only.
    The session that begins counts as one of the user's at later sign-ins.
    """
    token = _is_lifted.set(True)
    try:
        yield
    finally:
        _is_lifted.reset(token)


def limit_of(user: AbstractBaseUser | None) -> Limit | None:
    """
    Return the limit of the user's sessions. None for no limit. Only a function as the setting needs the user.

    Raises ImproperlyConfigured if a setting is wrong, or if the function of ``MAX_SESSIONS_PER_USER`` fails.
    """
    if _is_lifted.get():
        return None
    setting: Any = conf.MAX_SESSIONS_PER_USER
    maximum, found = setting, f"it is {setting!r}"
    if isinstance(setting, str):
        try:
            maximum = import_string(setting)(user)
        except Exception as error:
            raise ImproperlyConfigured(f"{MAXIMUM}, {setting!r}, failed with {type(error).__name__}.") from error
        found = f"{setting!r} returned {maximum!r}"
    if not FROM_ONE_OR_NONE.allows(maximum):
        raise ImproperlyConfigured(f"{MAXIMUM} must be {FROM_ONE_OR_NONE.words}; {found}.")
    if conf.SESSION_LIMIT_POLICY not in POLICIES:
        raise ImproperlyConfigured(f"{POLICY} must be one of {', '.join(POLICIES)}; not {conf.SESSION_LIMIT_POLICY!r}.")
    return None if maximum is None else Limit(maximum, conf.SESSION_LIMIT_POLICY)


def limit_at_sign_in(user: AbstractBaseUser | None) -> Limit | None:
    """
    Return the limit of a sign-in of ``user``: the user's own, else the ceiling. None within :func:`without_limit`.

    Raises as :func:`limit_of` does.
    """
    if _is_lifted.get():
        return None
    limit, built_in = limit_of(user), ceiling()
    return built_in if limit is None else limit._replace(full_at=built_in.full_at)


def limit_without_login() -> Limit | None:
    """
    Return the limit of a save with a user whose sign-in sent no signal: Channels' ``login()`` has no request.

    It is the limit of a sign-in if ``MAX_SESSIONS_PER_USER`` is an integer or None. A function needs the user's object,
    which is not known here: then it is the ceiling.
    """
    return ceiling() if isinstance(conf.MAX_SESSIONS_PER_USER, str) else limit_at_sign_in(None)


def ceiling() -> Limit:
    """
    Return the limit of a user for whom the site sets none.

    The sessions that were never used since their sign-in end first, then the longest unseen. So a client that signs in
    at each request ends its own sessions, and not the one in the user's browser.

    It is ``USER_SESSIONS_CEILING``, and at most a tenth of a partition's share of ``MAX_SESSIONS``: a user's sessions
    are all in one partition, and must leave room there for others.
    """
    share = keyspace().quota(conf.MAX_SESSIONS)
    most = conf.USER_SESSIONS_CEILING
    maximum = NO_LIMIT if most is None else min(most, max(share // 10, CEILING_MIN))
    return Limit(maximum, UNUSED, share, True)


def maximum_of(user: AbstractBaseUser) -> int | None:
    """Return how many sessions the site allows ``user``, for a text. None if it sets no limit, or it is not known."""
    try:
        limit = limit_of(user)
    except ImproperlyConfigured:  # describe_own() logs it, on the same page.
        return None
    return limit and limit.maximum


def describe(user: AbstractBaseUser | None) -> str:
    """
    Return a text about the limit of the user's sessions and the effect of one more sign-in. ``""`` for no limit.

    It is for administrators.
    """
    if not isinstance(limit := _limit_to_show(user), Limit):
        return limit
    number = limit.maximum
    allowed = ngettext("At most %(maximum)d session is allowed.", "At most %(maximum)d sessions are allowed.", number)
    ends_it = gettext("Another sign-in ends it.") if number == 1 else None
    above = {
        "end_oldest": ends_it or gettext("Another sign-in ends the oldest one."),
        "end_least_recent": ends_it or gettext("Another sign-in ends the one that was unused for longest."),
        REFUSE: gettext("Another sign-in is refused until a session ends."),
    }[limit.policy]
    return f"{allowed % {'maximum': number}} {above}"


def describe_own(user: AbstractBaseUser) -> str:
    """Return the same text for the user, who has devices."""
    if not isinstance(limit := _limit_to_show(user), Limit):
        return limit
    number = limit.maximum
    allowed = ngettext(
        "You can be signed in on %(maximum)d device at a time.",
        "You can be signed in on %(maximum)d devices at a time.",
        number,
    )
    signs_it_out = gettext("If you sign in on another one, this one is signed out.") if number == 1 else None
    above = {
        "end_oldest": signs_it_out
        or gettext("If you sign in on another one, the one that signed in first is signed out."),
        "end_least_recent": signs_it_out
        or gettext("If you sign in on another one, the one that you have not used for longest is signed out."),
        REFUSE: gettext("To sign in on another one, sign out on one of these first."),
    }[limit.policy]
    return f"{allowed % {'maximum': number}} {above}"


def _limit_to_show(user: AbstractBaseUser | None) -> Limit | str:
    """Return the limit of ``user``, or the text that stands in its place: ``""`` for no limit."""
    try:
        limit = limit_of(user) if user is not None else None
    except ImproperlyConfigured:
        logger.exception("A page can't show how many sessions a user may have.")
        return gettext("The number of allowed sessions is not known at the moment.")
    return "" if limit is None else limit
