"""
Times, with ``USE_TZ`` and without.

Each datetime that the package returns is aware. Columns of the database have datetimes as Django does: without
``USE_TZ`` they are naive, in ``TIME_ZONE``. A naive argument is read in the same way.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, time

from django.conf import settings
from django.utils import timezone


def require_aware(at: datetime, name: str) -> datetime:
    """Return the argument ``name`` as an aware datetime. With ``USE_TZ``, raises ValueError for a naive one."""
    if settings.USE_TZ and timezone.is_naive(at):
        raise ValueError(f"{name} must be an aware datetime.")
    return to_aware(at)


def to_aware(at: datetime, *, not_before: datetime | None = None) -> datetime:
    """
    Return ``at`` as an aware datetime: a naive one is in ``TIME_ZONE``.

    The hour in which summer time ends comes twice. A naive time in it belongs to the first, unless its ``fold`` is set,
    or the first is earlier than ``not_before``.
    """
    if timezone.is_aware(at):
        return at
    local = timezone.make_aware(at, timezone.get_default_timezone())
    found = local.astimezone(UTC)
    return found if not_before is None or found >= not_before else local.replace(fold=1).astimezone(UTC)


def to_column(at: datetime) -> datetime:
    """Return the aware datetime ``at`` as a column of the database has it."""
    return at if settings.USE_TZ else timezone.make_naive(at, timezone.get_default_timezone())


def midnight(day: date) -> datetime:
    """Return when ``day`` begins in the present time zone. The day on which summer time ends has 25 hours."""
    # In UTC: Python subtracts datetimes of one time zone as if its offset never changed.
    return timezone.make_aware(datetime.combine(day, time.min)).astimezone(UTC)
