"""
How often the password was tried in a session.

The count is not in the session's data: while sessions move, another engine saves those, and the last one to save wins.
It is in the user's home partition, by the time of the sign-in, which stays when the session gets another key. A session
that has no such time here, since another engine saves it, shares the count of all such sessions of its user.

While sessions move between two stores of this engine, each try is counted in both. So it does not matter in which one
the session is by then.
"""

from __future__ import annotations

from django_redsess.session.other_store import stores_of_site
from django_redsess.session.store import SessionStore
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Pipeline, ScriptCall, Steps, in_store


def count(session: SessionStore, user_id: str, *, maximum: int, seconds: int, counts: bool = True) -> Steps[int]:
    """
    Count a try before it is made. Return how many were left, including this one. 0: the try may not be made.

    A try counts for this number of ``seconds``. A try that may not be made is not counted. Without ``counts``, this
    one is not counted either.
    """
    left = maximum
    for store in stores_of_site():
        # The server takes no lifetime of 0.
        call = in_store(store, _counting, session, user_id, max(1, seconds * 1000), maximum, counts)
        left = min(left, (yield from call))
        if not left:
            break
    return left


def forget(session: SessionStore, user_id: str) -> Steps[None]:
    """Forget the tries: the password was right."""
    for store in stores_of_site():
        yield from in_store(store, _forgetting, session, user_id)


def _counting(session: SessionStore, user_id: str, window: int, maximum: int, counts: bool) -> ScriptCall[int]:
    partition, script = keyspace().of_user(user_id), scripts.COUNT_TRY
    args = script.arguments(window=window, max=maximum, counts=counts)
    return ScriptCall(partition, script, script.keys(partition, tries=_name(session, user_id)), args, int)


def _forgetting(session: SessionStore, user_id: str) -> Pipeline[None]:
    packed = packing.pack_command("DEL", _name(session, user_id))
    return Pipeline(keyspace().of_user(user_id), "tries", packed, 1, lambda replies: None)


def _name(session: SessionStore, user_id: str) -> str:
    record = session.snapshot.record
    return keyspace().of_user(user_id).tries_of(user_id, record.login_ms if record else 0)
