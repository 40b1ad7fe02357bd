"""Messages about ended sessions, which are stored in the user's other sessions and for the next sign-in."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any

from redis.exceptions import ResponseError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations, reading
from django_redsess.session.record import log_unusable, pack, revision_of, serializer_named, unpack
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import Partition, is_sid, keyspace
from django_redsess.transport.steps import Pipeline, Steps
from django_redsess.user_messages import STORED_MAX

MESSAGE_KEY = "_redsess_message"
"""The key of the message in the data of a session, until a request shows it."""

USERS_MAX = 200
"""The most users who get the message of one call that ends sessions."""

SESSIONS_MAX = 200
"""The most sessions of a user that get a message: those that signed in last."""

TRIES = 5
"""How often a message is put into a session that other requests change at the same time."""


def tell_users(user_ids: Iterable[str], message: str, *, among: Collection[str] | None = None) -> Steps[None]:
    """
    Store ``message`` in the live sessions of these users, and for the next sign-in of each within a day.

    ``among`` are the sids of the sessions that may get it. None: any. An outage raises nothing: the sessions have
    ended, and their end must be reported.
    """
    homes: dict[Partition, list[str]] = {}
    for user_id in list(dict.fromkeys(user_ids))[:USERS_MAX]:
        homes.setdefault(keyspace().of_user(user_id), []).append(user_id)
    for partition, of_partition in homes.items():
        # Another program may have stored anything as a user's list.
        with suppress(SessionStoreUnavailable, ResponseError):
            for user_id, sids in (yield from _leaving(partition, of_partition, message)):
                for sid in sids:
                    if among is None or sid in among:
                        yield from _put(sid, user_id, message)


def deliver_message(sid: str, user_id: str, message: bytes) -> Steps[None]:
    """Put the ``message`` that waited for this user into the session ``sid``, which has just signed in."""
    home = keyspace().of_user(user_id)
    # The user is signed in, even if this fails.
    with suppress(SessionStoreUnavailable):
        # In this order: at worst the user is told twice, never zero times.
        yield from _put(sid, user_id, message.decode(errors="replace")[:STORED_MAX])
        yield from Pipeline(home, "message", packing.pack_command("DEL", home.message_of(user_id)), 1, list)


def _leaving(partition: Partition, user_ids: list[str], message: str) -> Pipeline[list[tuple[str, list[str]]]]:
    """Store the message for the next sign-in of these users. Return the sids of each."""
    day = scripts.CONSTANTS["DAY"]
    lists = [packing.pack_command("ZRANGE", partition.online_user_of(each), -SESSIONS_MAX, -1) for each in user_ids]
    stored = [packing.pack_command("SET", partition.message_of(each), message, "PX", day) for each in user_ids]

    def sids_in(replies: list[Any]) -> list[tuple[str, list[str]]]:
        return [
            (user_id, [sid for each in reply if is_sid(sid := each.decode(errors="replace"))])
            for user_id, reply in zip(user_ids, replies, strict=False)
        ]

    # A full server refuses to store the message for the next sign-in. The sessions still get it.
    return Pipeline(partition, "message", b"".join(lists + stored), 2 * len(user_ids), sids_in, needed=len(user_ids))


def _put(sid: str, user_id: str, message: str) -> Steps[None]:
    """Put the message into the data of a session of this user: compare and set, as a save does."""
    for _ in range(TRIES):
        loaded = yield from reading.read_session(sid)
        if loaded.record is None:
            return
        try:
            record = unpack(sid, loaded.record)
            serializer = serializer_named(record.serializer)()
            data = {**serializer.loads(record.data), MESSAGE_KEY: message}
            packed = pack(sid, record._replace(data=serializer.dumps(data)))
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            return
        if record.user_id != user_id:
            return
        changing = operations.save_fast(sid, packed, revision=revision_of(packed), loaded=record.revision)
        if (yield from changing).status != "changed":
            return
