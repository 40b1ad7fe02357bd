"""
How often the password was tried in a session.

The count is not in the session's data: while sessions move, another engine saves those, and the last one to save wins.
It is in the user's home partition, by the time of the sign-in, which stays when the session gets another key. A session
that has no such time here, since another engine saves it, shares the count of all such sessions of its user.
"""

from __future__ import annotations

from django_redsess.session.store import SessionStore
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Call, Commands


def count(session: SessionStore, user_id: str, *, maximum: int, seconds: int, counts: bool = True) -> Call[int]:
    """
    Count a try before it is made. Return how many were left, including this one. 0: the try may not be made.

    A try counts for this number of ``seconds``. A try that may not be made is not counted. Without ``counts``, this
    one is not counted either.
    """
    partition, script = keyspace().of_user(user_id), scripts.COUNT_TRY
    # The server takes no lifetime of 0.
    args = script.arguments(window=max(1, seconds * 1000), max=maximum, counts=counts)
    return Call(partition, script, script.keys(partition, tries=_name(session, user_id)), args, int)


def forget(session: SessionStore, user_id: str) -> Commands[None]:
    """Forget the tries: the password was right."""
    partition = keyspace().of_user(user_id)
    return Commands(partition, "tries", packing.command("DEL", _name(session, user_id)), 1, lambda replies: None)


def _name(session: SessionStore, user_id: str) -> str:
    record = session.known.record
    return keyspace().of_user(user_id).tries_of(user_id, record.login_ms if record else 0)
