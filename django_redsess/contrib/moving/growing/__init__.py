"""
The session engine for the time in which sessions move to another store of this engine. Public.

``SESSION_ENGINE = "django_redsess.contrib.moving.growing"``. In step 1, ``REDSESS["MOVE_TO"]`` describes the next
store. Once every process of the site runs that, the settings become those of the next store, and
``REDSESS["MOVE_FROM"]`` describes the one before: each session moves at its next request. ``manage.py movesessions``
moves the others.
"""

from __future__ import annotations

from django_redsess.contrib.moving.growing.session_store import SessionStore

__all__ = ["SessionStore"]
