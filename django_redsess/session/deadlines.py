"""
The deadline of a session: the earliest of Django's deadline, the idle time-out and the absolute time-out.

Times are milliseconds of the server's clock. A deadline that moves with each request is set later than necessary, by a
slack, so that few requests have to move it. A session never ends early. It may end late, by the slack at most.
"""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.session.record import ROUNDED_UP, Record

SLACK_MAX = 3_600_000
"""The longest slack of a deadline, in milliseconds: an hour."""


class Expiry(NamedTuple):
    """Django's deadline: ``age`` after the last save, or the time ``at`` if ``age`` is 0."""

    age: int
    at: int


class Times(NamedTuple):
    """
    The times that a save writes: the two times of the record in seconds, and the deadline ``due`` in milliseconds.

    With ``later_stays``, a stored deadline later than ``due`` is kept.
    """

    deadline_seconds: int
    age_seconds: int
    due: int
    later_stays: bool = False


def _in_seconds(milliseconds: int) -> int:
    """Return whole seconds, rounded up."""
    return (milliseconds + ROUNDED_UP) // 1000


def slack_of(length: int) -> int:
    """Return the slack of a deadline that each request moves to ``length`` after itself."""
    return max(conf.TOUCH_INTERVAL * 1000, min(length // 20, SLACK_MAX))


def times_of_new(expiry: Expiry, login_at: int, now: int) -> Times:
    """Return times that depend on no earlier deadline, as for a new session. ``login_at`` is 0 for a guest."""
    age, at = expiry
    if not age:
        return Times(_in_seconds(at), 0, _limited(at, login_at, now))
    due = now + age + (slack_of(age) if conf.SLIDING else 0)
    return Times(_in_seconds(now + age), _in_seconds(age), _limited(due, login_at, now))


def times_of_save(
    expiry: Expiry, base: Record, due: int, now: int, *, passive: bool, visited: bool = True
) -> Times | None:
    """
    Return the times of a save over the record ``base``. None if the save or the settings ask for an earlier deadline.

    ``due`` is the present deadline. A ``passive`` request keeps it, unless Django's age or date has changed. Without
    ``visited``, no request makes the save, and the idle time-out is kept: the next visit sets Django's new deadline.
    """
    age, at = expiry
    # As _in_seconds() does, without a call: this is on the way of each save.
    age_seconds, seconds = (age + ROUNDED_UP) // 1000, ((at or now + age) + ROUNDED_UP) // 1000
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
    if conf.IDLE_TIMEOUT and not visited:
        return Times(seconds, age_seconds, due, True)
    needed, latest = seconds * 1000 - ROUNDED_UP, seconds * 1000
    if limits:
        needed = _limited(needed, base.login_ms, now, slack=False)
    if due < needed:
        if age and (conf.SLIDING or age > 20_000 * conf.TOUCH_INTERVAL):
            latest += slack_of(age)
        due = _limited(latest, base.login_ms, now)
    return Times(seconds, age_seconds, due, True)


def times_of_moved(deadline: int, age_seconds: int, login_at: int, now: int) -> Times:
    """Return the times of a session that comes from another store, where it had this ``deadline`` in milliseconds."""
    slack = slack_of(age_seconds * 1000) if conf.SLIDING and age_seconds else 0
    return Times(_in_seconds(deadline), age_seconds, _limited(deadline + slack, login_at, now))


def is_limited(base: Record, due: int, now: int) -> bool:
    """Return whether the idle or absolute time-out asks for a deadline that is earlier by more than the slack."""
    idle, absolute = (conf.IDLE_TIMEOUT or 0) * 1000, (conf.ABSOLUTE_TIMEOUT or 0) * 1000
    if idle and due > now + idle + 2 * slack_of(idle):
        return True
    return bool(absolute and base.login_ms and due > base.login_ms + absolute + conf.TOUCH_INTERVAL * 1000)


def moved_by_visit(base: Record, due: int, now: int) -> int | None:
    """Return the deadline to which an active request moves ``due``. None if it stays. ``base`` is the record."""
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
    Return whether a request that moved the deadline from ``before`` to ``due`` sends the cookie again.

    The time of the last cookie is not stored. So the age is divided into tenths, counted from the last save. The first
    move of the deadline in each tenth sends the cookie. (A move is as long as the time since the previous move.) A move
    to the end that the absolute time-out sets also sends it.
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
