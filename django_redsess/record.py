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
16     22 + n  seal: keyed BLAKE2b of format, sid, user id and payload
rest   38 + n  payload: address, user agent and the serialized data, a newline between, deflated
====== ======= ====================================================================

The seal leaves out the two times: what a script must write, it can't seal.

The payload is a raw deflate stream (RFC 1951) that begins with a dictionary both sides know, as RFC 1950 describes it:
what Django writes into most sessions and what most browsers call themselves then takes a few bytes.
"""

from __future__ import annotations

import logging
import secrets
import zlib
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from typing import NamedTuple

from django.conf import settings

FORMAT = b"2"
SEAL_SIZE = 16
REVISION_SIZE = 8
USER_ID_AT = 22
USER_ID_MAX = 255
AGE_MAX = 2**47
"""Milliseconds: 4 459 years. Twice as much still fits."""

DICTIONARY = (
    b'{"_session_expiry":"_csrftoken":"_messages":"[[\\"__json_message\\",0,25,"_language":"en","de"}\n'
    b'{"_auth_user_id":"1","_auth_user_backend":"django.contrib.auth.backends.ModelBackend","_auth_user_hash":"'
    b"Firefox/14 Macintosh; Intel Mac OS X 10_15_7) Version/18 iPhone; CPU iPhone OS 18_ like Mac OS X) Mobile/15E148 "
    b"Safari/604.1 rv: Gecko/20100101 (X11; Linux x86_64 (Linux; Android 10; K) Mozilla/5.0 (Windows NT 10.0; Win64; "
    b"x64) AppleWebKit/605.1.15 AppleWebKit/537.36 (KHTML, like Gecko) Chrome/14.0.0.0 Mobile Safari/537.36"
)
"""A part of the format: with another dictionary no record could be read."""

# A window of 4 096 bytes: the usual one of 32 768 takes twice as long to set up, and most sessions are shorter.
WINDOW_BITS, MEMORY_LEVEL = -12, 4

# Few bytes are read twice as fast with the codes that deflate has ready, and take no more room. Long ones are better
# off with codes of their own, and with a search that ends early.
SHORT, LONG = (6, zlib.Z_FIXED), (1, zlib.Z_DEFAULT_STRATEGY)
SHORT_BYTES_MAX = 1024


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
    address, user_agent = record.client.address.encode(), record.client.user_agent.encode()
    plain = b"\n".join((address, user_agent, record.data))
    level, strategy = SHORT if len(plain) <= SHORT_BYTES_MAX else LONG
    deflate = zlib.compressobj(level, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, strategy, DICTIONARY)
    payload = deflate.compress(plain) + deflate.flush()
    head = bytes([len(user_id)]) + user_id
    seal = _seal(settings.SECRET_KEY, sid, head, payload)
    times = bytes(6) + age.to_bytes(6, "big")
    return b"".join((FORMAT, secrets.token_bytes(REVISION_SIZE), times, head, seal, payload))


def revision_of(packed: bytes) -> bytes:
    """Return the revision of a packed record."""
    return packed[1 : 1 + REVISION_SIZE]


def django_times(packed: bytes) -> tuple[int, int]:
    """Return Django's deadline and age of a packed record, in milliseconds: see the table above."""
    return int.from_bytes(packed[9:15], "big"), int.from_bytes(packed[15:21], "big")


def unpack(sid: str, packed: bytes) -> Record:
    """
    Read what :func:`pack` wrote for the session ``sid``.

    Raises RecordError when the format is unknown or the seal fits neither ``SECRET_KEY`` nor any of
    ``SECRET_KEY_FALLBACKS``: the record was changed, cut short, or copied from another session.
    """
    if packed[:1] != FORMAT or len(packed) < USER_ID_AT:
        raise RecordError("unknown format")
    seal_at = USER_ID_AT + packed[USER_ID_AT - 1]
    head, seal = packed[USER_ID_AT - 1 : seal_at], packed[seal_at : seal_at + SEAL_SIZE]
    payload = packed[seal_at + SEAL_SIZE :]
    if not compare_digest(seal, _seal(settings.SECRET_KEY, sid, head, payload)) and not any(
        compare_digest(seal, _seal(key, sid, head, payload)) for key in settings.SECRET_KEY_FALLBACKS
    ):
        raise RecordError("the seal does not fit")
    plain = zlib.decompressobj(WINDOW_BITS, DICTIONARY).decompress(payload)
    address, user_agent, data = plain.split(b"\n", 2)
    client = Client(address.decode(), user_agent.decode())
    return Record(head[1:].decode(), client, data, revision_of(packed))


def log_unusable(sid: str, error: Exception) -> None:
    """Log that the record of ``sid`` can't be used. The text of a foreign exception could show its data: not logged."""
    reason = str(error) if isinstance(error, RecordError) else type(error).__name__
    logger.warning("Session data of %s is not usable: %s", sid, reason)


def _seal(secret_key: str | bytes, sid: str, head: bytes, payload: bytes) -> bytes:
    # The sid has a fixed length and the head tells its own, so that no two contents run together to the same bytes.
    sealed = b"".join((FORMAT, sid.encode(), head, payload))
    return blake2b(sealed, digest_size=SEAL_SIZE, key=_seal_key(secret_key)).digest()


@lru_cache(maxsize=8)
def _seal_key(secret_key: str | bytes) -> bytes:
    secret = secret_key.encode() if isinstance(secret_key, str) else secret_key
    return blake2b(secret, digest_size=32, person=b"redsess.record").digest()
