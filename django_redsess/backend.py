"""The session engine: ``SESSION_ENGINE = "django_redsess.backend"``. Public."""

from __future__ import annotations

from importlib import import_module

from django.conf import settings

from django_redsess.session.store import SessionStore

__all__ = ["SessionStore"]


def is_in_use(engine: type[SessionStore] = SessionStore) -> bool:
    """Tell whether ``SESSION_ENGINE`` is this engine, or one derived from it."""
    try:
        return issubclass(import_module(settings.SESSION_ENGINE).SessionStore, engine)
    except Exception:  # Importing an engine may raise anything. Django reports it.
        return False
