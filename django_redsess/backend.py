"""The session engine: ``SESSION_ENGINE = "django_redsess.backend"``. Public."""

from __future__ import annotations

from importlib import import_module

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_redsess.session.notice import Notice
from django_redsess.session.store import SessionStore

__all__ = ["Notice", "SessionStore"]


def require_app() -> None:
    """
    Raise an error if the app is not in INSTALLED_APPS: then none of its checks can say so.

    While apps are loading, it is not known yet. A command prints one line, and no traceback.
    """
    if not apps.apps_ready or apps.is_installed("django_redsess"):
        return
    from django.core.management.base import SystemCheckError

    class AppNotInstalledError(ImproperlyConfigured, SystemCheckError):
        pass

    raise AppNotInstalledError(
        "'django_redsess' is not in INSTALLED_APPS: add it there. Without it, sessions do not end with a new password "
        "or a deactivated account, and there are no checks, commands and admin pages."
    )


def is_in_use(engine: type[SessionStore] = SessionStore) -> bool:
    """Tell whether ``SESSION_ENGINE`` is this engine, or one derived from it."""
    try:
        return issubclass(import_module(settings.SESSION_ENGINE).SessionStore, engine)
    except Exception:  # Importing an engine may raise anything. Django reports it.
        return False
