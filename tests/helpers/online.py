"""Users who are online without a sign-in by a form, and the ends of their sessions."""

import threading
from collections.abc import Callable
from typing import Any

from asgiref.sync import async_to_sync
from django.contrib.auth import SESSION_KEY

from django_redsess.backend import SessionStore
from django_redsess.signals import EndedSession
from django_redsess.transport.cluster_map import Cluster
from tests.helpers.store import Notice, operations, pool

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


class AdmitsAll:
    """The guard of a site that binds sessions, for tests of pages: it asks for no proof."""

    def prepare(self, request: Any, session: Any) -> None:
        pass

    def claim(self, request: Any) -> bytes:
        return b""

    def admits(self, *args: Any) -> bool:
        return True


def notice_of(session: SessionStore) -> Notice:
    """Return what the user of a session that has ended is told at the next request."""
    notice = SessionStore(session.session_key).ended
    assert notice is not None
    return notice


Told = list[EndedSession]


def ends(told: Told) -> list[tuple[str, str, str]]:
    """Sid, user id and reason of each, without when."""
    return [(each.sid, each.user_id, each.reason) for each in told]


def user_elsewhere(sid: str) -> str:
    """Return a user id whose home is another partition than that of ``sid``: any user, where there is only one."""
    ids = [str(number) for number in range(100)]
    return next((user_id for user_id in ids if not operations.at_home(sid, user_id)), ids[0])


def add_session(user: str) -> None:
    session = SessionStore()
    session[SESSION_KEY] = user
    session.save()


WAYS_TO_DELETE: dict[str, Callable[[str], object]] = {
    "flush": lambda key: SessionStore(key).flush(),
    "delete": lambda key: SessionStore(key).delete(),
    "delete of another": lambda key: SessionStore().delete(key),
    "aflush": lambda key: async_to_sync(SessionStore(key).aflush)(),
    "adelete": lambda key: async_to_sync(SessionStore(key).adelete)(),
    "adelete of another": lambda key: async_to_sync(SessionStore().adelete)(key),
}
