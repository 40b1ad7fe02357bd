"""Where a middleware stands in ``MIDDLEWARE``."""

from __future__ import annotations

from django.conf import settings
from django.utils.module_loading import import_string


def places_of(middleware: type) -> list[int]:
    """Return where in ``MIDDLEWARE`` this class stands, or one that is derived from it."""
    return [at for at, path in enumerate(settings.MIDDLEWARE) if issubclass(_class_at(path), middleware)]


def _class_at(path: str) -> type:
    try:
        found = import_string(path)
    except Exception:  # Django says so itself when it starts to serve.
        return object
    return found if isinstance(found, type) else object
