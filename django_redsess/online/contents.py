"""The data of a session."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django_redsess.session import operations, reading
from django_redsess.session.record import django_times, log_unusable, unpack
from django_redsess.session.serializers import named
from django_redsess.transport.keys import is_sid
from django_redsess.transport.steps import Steps


@dataclass(frozen=True, slots=True)
class Details:
    """
    The data of a session.

    ``data`` is None if it can't be read. ``sizes`` has the bytes of each top-level value, serialized.
    ``django_deadline`` is Django's expiry date as stored. ``age_seconds`` is Django's expiry age, or 0 if the expiry
    was set as a date.
    """

    data: dict[str, Any] | None
    sizes: dict[str, int]
    django_deadline: datetime
    age_seconds: float


def details(sid: str) -> Steps[Details | None]:
    """Return the data of the live session ``sid``, without a touch. None if it is gone or due, or ``sid`` is no sid."""
    if not is_sid(sid):
        return None
    loaded = yield from reading.read(sid)
    if loaded.record is None:
        return None
    try:
        record = unpack(sid, loaded.record)
        serializer = named(record.serializer)()
        data = serializer.loads(record.data)
        sizes = {key: len(serializer.dumps(value)) for key, value in data.items()}
    except Exception as error:  # A serializer may raise anything.
        log_unusable(sid, error)
        data, sizes = None, {}
    deadline, age = django_times(loaded.record)
    return Details(data, sizes, operations.time_of(b"%d000" % deadline), age)
