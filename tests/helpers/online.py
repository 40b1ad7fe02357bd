"""Users who are online, without a sign-in by a form."""

from __future__ import annotations

import threading
from collections.abc import Callable

from django_redsess.backend import SessionStore
from django_redsess.session.notice import Notice
from django_redsess.transport.cluster_map import Cluster
from django_redsess.transport.connections import pool

NewSession = Callable[..., SessionStore]


def sign_in(new_session: NewSession, *users: str) -> list[str]:
    """Sign these users in one after the other, a moment apart, and return the sids."""
    sids = []
    for user in users:
        # Times are milliseconds: within one, the order would be that of the sids. Of two nodes, this process knows the
        # clocks less exactly.
        threading.Event().wait(0.1 if isinstance(pool(), Cluster) else 0.002)
        sids.append(new_session(user).sid)
    return sids


def notice_of(session: SessionStore) -> Notice:
    """Return what the user of a session that has ended is told at the next request."""
    notice = SessionStore(session.session_key).ended
    assert notice is not None
    return notice
