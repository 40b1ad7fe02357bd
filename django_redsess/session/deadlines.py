"""
When a session is due: the earliest of Django's deadline, the idle time-out and the absolute one.

Times are milliseconds of the server's clock. A deadline that moves with each request is set later than it needs to be,
by a slack, so that few requests have to move it. So no session ends early, and none ends later than by the slack.
"""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.session.record import Record

SLACK_MAX = 3_600_000
"""The most slack that a deadline has: an hour."""

ROUNDED_UP = 999
"""The most milliseconds by which a record's deadline, in whole seconds, is rounded up."""


class Expiry(NamedTuple):
    """Django's deadline: ``age`` after the last save; if that is 0, the time ``at``."""

    age: int
    at: int


class Times(NamedTuple):
    """
    The times that a save writes: those of the record, in seconds, and when the session is ``due``, in milliseconds.

    With ``later_stays``, a stored deadline that is later than ``due`` stays: nothing asks for an earlier one.
    """

    deadline_seconds: int
    age_seconds: int
    due: int
    later_stays: bool = False


def slack_of(length: int) -> int:
    """Return the slack of a deadline that each request moves: to ``length`` after the request."""
    return max(conf.TOUCH_INTERVAL * 1000, min(length // 20, SLACK_MAX))


def of_new(expiry: Expiry, login_at: int, now: int) -> Times:
    """Return the times of a new session, or of one that begins anew by a sign-in. ``login_at`` is 0 for a guest."""
    age, at = expiry
    if not age:
        return Times(-(-at // 1000), 0, _limited(at, login_at, now))
    due = now + age + (slack_of(age) if conf.SLIDING else 0)
    return Times(-(-(now + age) // 1000), -(-age // 1000), _limited(due, login_at, now))


def of_save(expiry: Expiry, base: Record, due: int, now: int, *, passive: bool) -> Times | None:
    """
    Return the times of a save over the record ``base``; None if it, or today's settings, ask for an earlier deadline.

    ``due`` is the deadline so far. In a ``passive`` request it stays, unless the age has changed.
    """
    age, at = expiry
    age_seconds, seconds = -(-age // 1000), -(-(at or now + age) // 1000)
    if (not age) != (not base.age_seconds) or age_seconds < base.age_seconds:
        return None
    if not age and seconds < base.deadline_seconds:
        return None
    limits = conf.IDLE_TIMEOUT or conf.ABSOLUTE_TIMEOUT
    if limits and is_limited(base, due, now):
        return None
    if passive and age_seconds == base.age_seconds and (age or seconds == base.deadline_seconds):
        return Times(base.deadline_seconds, age_seconds, due, True)
    seconds = max(base.deadline_seconds, seconds)
    needed, latest = seconds * 1000 - ROUNDED_UP, seconds * 1000
    if limits:
        needed = _limited(needed, base.login_ms, now, slack=False)
    if due < needed:
        if age and (conf.SLIDING or age > 20_000 * conf.TOUCH_INTERVAL):
            latest += slack_of(age)
        due = _limited(latest, base.login_ms, now)
    return Times(seconds, age_seconds, due, True)


def is_limited(base: Record, due: int, now: int) -> bool:
    """Tell whether today's idle or absolute time-out asks for a deadline that is earlier by more than the slack."""
    idle, absolute = (conf.IDLE_TIMEOUT or 0) * 1000, (conf.ABSOLUTE_TIMEOUT or 0) * 1000
    if idle and due > now + idle + 2 * slack_of(idle):
        return True
    return bool(absolute and base.login_ms and due > base.login_ms + absolute + conf.TOUCH_INTERVAL * 1000)


def may_move() -> bool:
    """Tell whether the settings let requests move deadlines."""
    return bool(conf.SLIDING or conf.IDLE_TIMEOUT or conf.ABSOLUTE_TIMEOUT)


def moved(base: Record, due: int, now: int) -> int | None:
    """Return where an active request moves the deadline ``due`` of the record ``base``; None where it stays."""
    age = base.age_seconds * 1000
    slides = conf.SLIDING and age
    latest = now + age + slack_of(age) if slides else base.deadline_seconds * 1000
    needed = now + age if slides else latest - ROUNDED_UP
    if due < needed or conf.IDLE_TIMEOUT or conf.ABSOLUTE_TIMEOUT:
        if due < _limited(needed, base.login_ms, now, slack=False):
            return _limited(latest, base.login_ms, now)
        if is_limited(base, due, now):
            return _limited(due, base.login_ms, now)
    return None


def sends_cookie(base: Record, before: int, due: int, now: int) -> bool:
    """
    Tell whether the cookie is to be sent again with the request that moved a deadline from ``before`` to ``due``.

    Nothing is stored of when it was sent last. So the age is cut into tenths, from the last save on, and the first move
    of the deadline in each tenth sends the cookie. (A move is as long as the time since the one before.) A move to the
    end that the absolute time-out sets sends it, too.
    """
    age = base.age_seconds * 1000
    if not (conf.SLIDING and age and due > before):
        return False
    tenth, since_saved = age / 10, now - (base.deadline_seconds * 1000 - age)
    at_the_end = due < now + age and conf.IDLE_TIMEOUT is None
    return at_the_end or since_saved // tenth > max(0, since_saved - (due - before)) // tenth


def _limited(due: int, login_at: int, now: int, *, slack: bool = True) -> int:
    if conf.IDLE_TIMEOUT:
        idle = conf.IDLE_TIMEOUT * 1000
        due = min(due, now + idle + (slack_of(idle) if slack else 0))
    if conf.ABSOLUTE_TIMEOUT and login_at:
        due = min(due, login_at + conf.ABSOLUTE_TIMEOUT * 1000)
    return due
