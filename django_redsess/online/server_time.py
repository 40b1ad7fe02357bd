"""
The present time, for all that is compared with times of sessions, shown beside them, or stored: the server's.

The wall clock of a web process is nobody's time here: it may be minutes off, and that of another process may not.
"""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime

from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import steps
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace


def server_time() -> datetime:
    """
    Return the time of the server that stores the sessions; of several, of the one with the first partition.

    The server is asked only if it has not told its time to this process yet. Raises SessionStoreUnavailable if it does
    not answer then.
    """
    return steps.time_of(steps.drive(steps.now(keyspace().partitions[0])))


def known_server_time() -> datetime:
    """
    Return the same time without asking the server: for what is only shown, and for pages that work in an outage.

    Before the server has told its time, return that of this process.
    """
    known = None
    with suppress(SessionStoreUnavailable, ImproperlyConfigured):
        # Of a cluster in an outage, it is not known which server that is. A site that has left the engine has none.
        known = server_of(keyspace().partitions[0]).clock.now()
    return datetime.now(UTC) if known is None else steps.time_of(known)


def known_server_day() -> date:
    """Return the day of :func:`known_server_time` in the present time zone."""
    return timezone.localdate(known_server_time())
