"""Which serializer wrote the data of a record: a record names it, so that SESSION_SERIALIZER can change."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from django.conf import settings
from django.contrib.sessions.serializers import JSONSerializer
from django.utils.module_loading import import_string

from django_redsess.session.record import Record, RecordError


def name_of(serializer: Any) -> str:
    """
    Return the name of a serializer class for a record: its dotted path, ``""`` for Django's own.

    A class that can't be imported gets the name of ``SESSION_SERIALIZER``.
    """
    return "" if serializer is JSONSerializer else _name_of(serializer, settings.SESSION_SERIALIZER)


@lru_cache(maxsize=64)
def _name_of(serializer: Any, setting: str) -> str:
    present = import_string(setting)
    if serializer is not present:
        own = f"{serializer.__module__}.{getattr(serializer, '__qualname__', '')}"
        try:
            if import_string(own) is serializer:
                return own
        except ImportError:
            pass
    return "" if present is JSONSerializer else setting


def named(name: str) -> Any:
    """
    Return the serializer class with this name, which must be from a record whose seal was checked.

    Raises RecordError if it can't be imported.
    """
    if not name:
        return JSONSerializer
    try:
        return import_string(name)
    except ImportError:
        raise RecordError(f"its serializer {name!r} can't be imported") from None


def data_of(record: Record) -> dict[str, Any]:
    """Return the session data in ``record``. Raises RecordError, or what its serializer raises."""
    data: dict[str, Any] = named(record.serializer)().loads(record.data)
    return data
