"""
The record of a session: a plain header that Lua reads, and a payload sealed by us.

====== ======= ====================================================================
bytes  from    content
====== ======= ====================================================================
1      0       the format, ``2``
8      1       revision: random, new with each write
6      9       Django's deadline, milliseconds since 1970: a script writes it with the record
6      15      Django's age, milliseconds; 0 where the deadline was set as a date
1      21      length of the user id, in bytes
n      22      user id, UTF-8; nothing for a guest
12     22 + n  seal: keyed BLAKE2b of format, sid, user id and payload; each PREFIX has a key of its own
rest   34 + n  payload: address, user agent and the serialized data, see payload.py
====== ======= ====================================================================

The seal leaves out the two times: what a script must write, it can't seal.
"""

from __future__ import annotations

import logging
import secrets
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from django.conf import settings

from django_redsess.conf import conf
from django_redsess.payload import packed, unpacked

FORMAT = b"2"
SEAL_SIZE = 12
"""96 bits, as RFC 2404 has them too: whoever guesses must have the site try each."""

REVISION_SIZE = 8
USER_ID_AT = 22
USER_ID_MAX = 255
AGE_MAX = 2**47
"""Milliseconds: 4 459 years. Twice as much still fits."""

logger = logging.getLogger("django.security.SuspiciousSession")


class RecordError(ValueError):
    """A record that this site did not write for this session, or that it can't read."""


class Client(NamedTuple):
    """Who sent the request: its address and its ``User-Agent``, as the server saw them; ``""`` where unknown."""

    address: str = ""
    user_agent: str = ""


class Record(NamedTuple):
    """A record, read: ``user_id`` is ``""`` for a guest, ``data`` the bytes that the session serializer made."""

    user_id: str
    client: Client
    data: bytes
    revision: bytes = b""


def pack(sid: str, record: Record, *, age_seconds: float) -> bytes:
    """
    Write ``record`` for the session ``sid``, sealed, under a new revision.

    ``age_seconds`` is how long it lives, 0 where its deadline is a date; the script that stores it adds the deadline.
    Raises ValueError for a user id above 255 bytes.
    """
    age = min(max(0, int(age_seconds * 1000)), AGE_MAX)
    user_id = record.user_id.encode()
    if len(user_id) > USER_ID_MAX:
        raise ValueError(f"A user id has at most {USER_ID_MAX} bytes; this one has {len(user_id)}.")
    payload = packed(*record.client, record.data)
    head = bytes([len(user_id)]) + user_id
    seal = _seal(settings.SECRET_KEY, sid, head, payload)
    times = bytes(6) + age.to_bytes(6, "big")
    return b"".join((FORMAT, secrets.token_bytes(REVISION_SIZE), times, head, seal, payload))


def revision_of(record: bytes) -> bytes:
    """Return the revision of a packed record."""
    return record[1 : 1 + REVISION_SIZE]


def django_times(record: bytes) -> tuple[int, int]:
    """Return Django's deadline and age of a packed record, in milliseconds: see the table above."""
    return int.from_bytes(record[9:15], "big"), int.from_bytes(record[15:21], "big")


def unpack(sid: str, record: bytes) -> Record:
    """
    Read what :func:`pack` wrote for the session ``sid``.

    Raises RecordError when the format is unknown or the seal fits neither ``SECRET_KEY`` nor any of
    ``SECRET_KEY_FALLBACKS``: the record was changed, cut short, or copied from another session or ``PREFIX``.
    """
    if record[:1] != FORMAT or len(record) < USER_ID_AT:
        raise RecordError("unknown format")
    seal_at = USER_ID_AT + record[USER_ID_AT - 1]
    head, seal = record[USER_ID_AT - 1 : seal_at], record[seal_at : seal_at + SEAL_SIZE]
    payload = record[seal_at + SEAL_SIZE :]
    if not compare_digest(seal, _seal(settings.SECRET_KEY, sid, head, payload)) and not any(
        compare_digest(seal, _seal(key, sid, head, payload)) for key in settings.SECRET_KEY_FALLBACKS
    ):
        raise RecordError("the seal does not fit")
    address, user_agent, data = unpacked(payload)
    return Record(head[1:].decode(), Client(address, user_agent), data, revision_of(record))


def fingerprints(prefix: str) -> list[str]:
    """
    Return what tells the ``SECRET_KEY`` of one site from that of another, then those of ``SECRET_KEY_FALLBACKS``.

    They are 16 characters each, and stored: nothing can be made of them, and each prefix gives others.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [_derived(key, b"redsess.store", prefix)[:8].hex() for key in keys]


def log_unusable(sid: str, error: Exception) -> None:
    """Log that the record of ``sid`` can't be used. The text of a foreign exception could show its data: not logged."""
    reason = str(error) if isinstance(error, RecordError) else type(error).__name__
    logger.warning("Session data of %s is not usable: %s", sid, reason)


def _seal(secret_key: str | bytes, sid: str, head: bytes, payload: bytes) -> bytes:
    # The sid has a fixed length and the head tells its own, so that no two contents run together to the same bytes.
    sealed = b"".join((FORMAT, sid.encode(), head, payload))
    return blake2b(sealed, digest_size=SEAL_SIZE, key=_derived(secret_key, b"redsess.record", conf.PREFIX)).digest()


@lru_cache(maxsize=8)
def _derived(secret_key: str | bytes, purpose: bytes, prefix: str) -> bytes:
    # For each prefix another, so that no record of one site is good for another that has the same SECRET_KEY.
    secret = secret_key.encode() if isinstance(secret_key, str) else secret_key
    of_purpose = blake2b(secret, digest_size=32, person=purpose).digest()
    return blake2b(prefix.encode(), digest_size=32, key=of_purpose).digest()
