"""System checks: a wrong setting is reported at start, with a hint."""

from django_redsess.checks import server, settings

__all__ = ["server", "settings"]
