"""When a session ends, in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import NamedTuple

from django.conf import settings
from django.utils.timesince import TIME_STRINGS
from django.utils.translation import gettext, ngettext

from django_redsess import online
from django_redsess.conf import conf
from django_redsess.session.deadlines import SLACK_MAX, slack_of

UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60}


class Deadline(NamedTuple):
    """A deadline: ``text`` says what it follows from, ``at`` when it is, ``moves`` whether requests make it later."""

    text: str
    at: datetime
    moves: bool = False


def deadlines_of(session: online.Session, details: online.Details | None) -> list[Deadline]:
    """Return the deadlines of ``session``, the first to come first."""
    deadlines = sorted(_deadlines_of(session, details), key=lambda deadline: deadline.at)
    # The store ends a session a little later, so that not every request has to move the deadline. Nor does every
    # request move the time when the session was last seen.
    slack = timedelta(milliseconds=SLACK_MAX, seconds=conf.TOUCH_INTERVAL)
    if deadlines and session.expires_at - deadlines[0].at <= slack:
        # A passive request moves that time, but no deadline. Then the store ends a session earlier.
        is_late = deadlines[0].at - session.expires_at > timedelta(seconds=1)
        first = next((deadline for deadline in deadlines if is_late and deadline.moves), deadlines[0])
        deadlines.remove(first)
        deadlines.insert(0, first._replace(at=session.expires_at))
    return deadlines


def ends_with_browser(details: online.Details | None) -> bool:
    """Tell whether the browser forgets the session when it closes. False if the data can't be read."""
    if details is None or details.data is None:
        return False
    expiry = details.data.get("_session_expiry")
    return settings.SESSION_EXPIRE_AT_BROWSER_CLOSE if expiry is None else expiry == 0


def duration(seconds: float) -> str:
    """Return ``seconds`` as text, in the largest unit that needs no fraction: "2 weeks", "90 minutes"."""
    whole = round(seconds)
    for unit, length in UNITS.items():
        if whole >= length and whole % length == 0:
            return TIME_STRINGS[unit] % {"num": whole // length}
    return ngettext("%(num)d second", "%(num)d seconds", whole) % {"num": whole}


def _deadlines_of(session: online.Session, details: online.Details | None) -> Iterator[Deadline]:
    if details is not None:
        yield _django_deadline(session, details)
    if conf.IDLE_TIMEOUT:
        slack = timedelta(milliseconds=slack_of(conf.IDLE_TIMEOUT * 1000))
        at = session.seen_at + timedelta(seconds=conf.IDLE_TIMEOUT) + slack
        yield Deadline(_after_last_request(conf.IDLE_TIMEOUT), at, moves=True)
    if conf.ABSOLUTE_TIMEOUT and session.login_at:
        text = gettext("%(time)s after the sign-in") % {"time": duration(conf.ABSOLUTE_TIMEOUT)}
        yield Deadline(text, session.login_at + timedelta(seconds=conf.ABSOLUTE_TIMEOUT))


def _django_deadline(session: online.Session, details: online.Details) -> Deadline:
    age = details.age_seconds
    if not age:
        return Deadline(gettext("At the date that the site has set"), details.django_deadline)
    if conf.SLIDING:
        return Deadline(_after_last_request(age), session.seen_at + timedelta(seconds=age), moves=True)
    return Deadline(gettext("%(time)s after the last change") % {"time": duration(age)}, details.django_deadline)


def _after_last_request(seconds: float) -> str:
    return gettext("%(time)s after the last request") % {"time": duration(seconds)}
