"""
The session engine for the time in which sessions move here from another store. Public.

``SESSION_ENGINE = "django_redsess.contrib.moving"``, and ``REDSESS["MOVE_FROM"]`` names the other store. As long as
``REDSESS["MOVES"]`` is False, sessions stay there and are used. Once every process of the site runs that, it is set to
True: each session moves at its next request. ``manage.py movesessions`` moves the others.
"""

from __future__ import annotations

from django_redsess.contrib.moving.session_store import SessionStore
from django_redsess.contrib.moving.sources.base import Row, Source

__all__ = ["Row", "SessionStore", "Source"]
