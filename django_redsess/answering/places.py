"""The position of a middleware in ``MIDDLEWARE``."""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string


def places_of(middleware: type) -> list[int]:
    """Return the positions in ``MIDDLEWARE`` of this class and of classes derived from it."""
    return [at for at, path in enumerate(settings.MIDDLEWARE) if issubclass(_class_at(path), middleware)]


def _class_at(path: str) -> type:
    try:
        found = import_string(path)
    except Exception:  # Django reports it when it starts to serve.
        return object
    return found if isinstance(found, type) else object
