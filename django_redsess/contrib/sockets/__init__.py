"""
Open sockets of sessions that have ended. Public: ``ends``, and ``consumers`` for Channels.

It needs no package but Django. ``consumers`` needs the extra ``channels``.
"""

from __future__ import annotations

from django_redsess.contrib.sockets.ended_sessions import End, WatchedSession, ends

__all__ = ["End", "WatchedSession", "ends"]
