"""The record of a session: a plain header that Lua reads, then the client part and the data part.

====== ======= =======================================================================================
bytes  from    content
====== ======= =======================================================================================
1      0       the format, ``6``
6      1       revision: random, new with each write
5      7       Django's deadline, seconds since 1970, rounded up
4      12      Django's age, seconds, rounded up; 0 if the deadline was set as a date
1      16      how the record is written: see below
1      17      length of the user id, in bytes
n      18      user id, UTF-8; empty for a guest
6      18 + n  login time, milliseconds since 1970; left out for a guest
8      24 + n  id of the binding, only with ``BOUND``
12 or 14       seal: keyed BLAKE2b of format, sid, all from 16 on and all that follows; or name of key, and nonce
1 or 3         length of the client part; from 255 on, the byte 255 and two more bytes
c              client part: a stream of the user agent, then the address of 0, 4 or 16 bytes; empty if unknown
2 + b          only with ``BOUND``: length of the rest of the binding, and the rest: see binding.py
rest           data part: see below
16             only of an encrypted record: its tag
====== ======= =======================================================================================

The seal does not cover the revision and the two times. A session's deadline is in ``expire``, which has no seal either.
With ``ENCRYPT``, client part and data part are encrypted, and what covers them takes the seal's place: name of the key,
nonce and tag, see encryption.py. A process reads both kinds, whichever it writes.

Each PREFIX has its own key. A record names the serializer that wrote its data, so that SESSION_SERIALIZER can change.

The byte at 16:

========== =============================================================================================
bits       meaning
========== =============================================================================================
1, 2, 4    the kind of the data part: ``DEFLATED``, ``SIGNED_IN`` and ``HASH``
8          ``NAMED``: the data part begins with the name of its serializer. Without it, Django's wrote them
16         ``ENCRYPTED``: name of the key, nonce and tag take the place of the seal
32 and 64  ``DICTIONARIES``: which dictionaries the streams of both parts have. 0: those of compression.py.
           No release has others yet. A record with others can't be read here, and is not taken for bad
128        ``BOUND``: the session has a binding. Only a user's session has one
========== =============================================================================================

The data part has a kind, which the byte at 16 holds: ``SIGNED_IN``, ``HASH`` or 0 (nothing is cut out); plus
``DEFLATED`` if the rest is a stream, see compression.py. Then come, unless the kind is 0 or ``DEFLATED``:

====== =================================================================================================
bytes  content
====== =================================================================================================
32     Django's session hash. It is cut out of the data with its key. With ``SIGNED_IN``, all three keys
       that Django's ``login()`` writes are cut out: the hash and the user id are enough to restore them
2      the place of what was cut out
====== =================================================================================================

And the rest of the data, plain or as a stream. Place and rest are left out if the rest is ``{}``. If another serializer
than Django's wrote the data, its dotted path comes first, after one byte with the path's length.
"""

from __future__ import annotations

import logging
from binascii import hexlify, unhexlify
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from hmac import compare_digest
from os import urandom
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.serializers import JSONSerializer
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.exceptions import SessionNotReadable
from django_redsess.session.binding import ID_SIZE
from django_redsess.session.client import Client, unpack_client
from django_redsess.session.compression import deflate_data, inflate_data
from django_redsess.session.encryption import KeyMissing, decrypted, encrypted
from django_redsess.transport.agreement import FORMAT, derived_key
from django_redsess.transport.keys import PREFIXES_KEPT, prefix

SEAL_SIZE = 12
"""96 bits, as in RFC 2404. Only the site can test whether a guessed seal is right."""

REVISION_SIZE = 6
"""48 bits, new for each write. They only need to differ from those of concurrent writes."""

HOW_AT, LENGTH_AT, USER_ID_AT = 16, 17, 18
LOGIN_SIZE = 6

PLAIN_BYTES_MAX, PLAIN_SIGNED_IN_MAX = 29, 64
"""Data up to these sizes are not deflated. The first number is for a guest's data: the record then has 60 bytes, and
a shorter one would take the same memory. The second is for the rest that a user has: it is larger, but read faster."""

DEFLATED, SIGNED_IN, HASH = 1, 2, 4
"""The kind of the data part, in the three lowest bits of a number."""

# The text around the user id and before the hash, in the JSON of Django's serializer. A quote follows the hash.
ID_KEY = b'"_auth_user_id":"'
BACKEND_KEY = b'","_auth_user_backend":"django.contrib.auth.backends.ModelBackend","_auth_user_hash":"'
HASH_KEY = b'"_auth_user_hash":"'
PLACE_MAX = 65_535

KIND = DEFLATED | SIGNED_IN | HASH
NAMED, ENCRYPTED, DICTIONARIES, BOUND = 8, 16, 32 | 64, 128
"""Bits of the byte that says how a record is written. The table at the top of this file has their meanings."""

USER_ID_MAX = 255
DEADLINE_MAX, AGE_MAX = 2**40 - 1, 2**32 - 1
"""In seconds. The longest age is 136 years."""

ROUNDED_UP = 999
"""Django's deadline is rounded up to whole seconds, by this many milliseconds at most."""

_BYTES = [bytes([number]) for number in range(256)]

logger = logging.getLogger("django.security.SuspiciousSession")


class RecordError(ValueError):
    """The site did not write this record for this session, or can't read it."""


class Record(NamedTuple):
    """
    A record after unpacking.

    For a guest, ``user_id`` is ``""`` and ``login_ms`` is 0. ``age_seconds`` is 0 if the deadline was set as a date.
    :func:`stored_client` unpacks ``client_packed``. ``data`` are the bytes that the session serializer made.
    ``serializer`` is its dotted path, ``""`` for Django's own: see :func:`name_of`. ``binding`` is the binding of a
    user's session to a device, as :meth:`~django_redsess.session.binding.Binding.pack` returns it; ``b""`` for none.
    """

    user_id: str
    login_ms: int
    deadline_seconds: int
    age_seconds: int
    client_packed: bytes
    data: bytes
    serializer: str = ""
    binding: bytes = b""
    revision: bytes = b""


def pack(sid: str, record: Record) -> bytes:
    """
    Pack and seal ``record`` for the session ``sid``, with a new revision: see :func:`revision_of`.

    With ``ENCRYPT``, it is encrypted and not sealed. Raises ValueError for a user id of more than 255 bytes, and
    SessionNotReadable if this process can't encrypt.
    """
    user_id, login_ms, deadline, age, client, data, serializer, binding, _ = record
    name = user_id.encode()
    if len(name) > USER_ID_MAX:
        raise ValueError(f"A user id has at most {USER_ID_MAX} bytes; this one has {len(name)}.")
    login = login_ms.to_bytes(6, "big") if name else b""
    length = _BYTES[len(client)] if len(client) < 255 else b"\xff" + len(client).to_bytes(2, "big")
    how, packed = packed_data(data, name)
    if serializer:
        how, packed = how | NAMED, packed_name(serializer) + packed
    if binding and name:
        how, login = how | BOUND, login + binding[:ID_SIZE]
        packed = (len(binding) - ID_SIZE).to_bytes(2, "big") + binding[ID_SIZE:] + packed
    encrypts = conf.ENCRYPT
    if encrypts:
        how |= ENCRYPTED
    header, parts = b"".join((_BYTES[how], _BYTES[len(name)], name, login)), length + client + packed
    if not (0 <= deadline <= DEADLINE_MAX and 0 <= age <= AGE_MAX):
        deadline, age = min(max(0, deadline), DEADLINE_MAX), min(max(0, age), AGE_MAX)
    times = (deadline << 32 | age).to_bytes(9, "big")
    if encrypts:
        return b"".join((FORMAT, urandom(REVISION_SIZE), times, header, encrypted(sid, header, parts)))
    seal = _seal(_sealings(prefix())[0], sid, header, parts)
    return b"".join((FORMAT, urandom(REVISION_SIZE), times, header, seal, parts))


def revision_of(record: bytes) -> bytes:
    """Return the revision of a packed record."""
    return record[1 : 1 + REVISION_SIZE]


def with_revision(record: bytes, revision: bytes) -> bytes:
    """Return a packed record with another revision."""
    return record[:1] + revision + record[1 + REVISION_SIZE :]


def django_times(record: bytes) -> tuple[int, int]:
    """Return Django's deadline and age in a packed record, in seconds. The seal is not checked."""
    return int.from_bytes(record[7:12], "big"), int.from_bytes(record[12:16], "big")


def has_user(record: bytes) -> bool:
    """Return whether a packed record has a user. The seal is not checked."""
    return record[:1] == FORMAT and len(record) > LENGTH_AT and record[LENGTH_AT] > 0


def unpack(sid: str, record: bytes) -> Record:
    """
    Unpack the record that :func:`pack` made for the session ``sid``. The client part stays packed.

    Raises RecordError if the format is unknown, or if the seal fits neither ``SECRET_KEY`` nor any of
    ``SECRET_KEY_FALLBACKS``. Such a record was changed, cut short, or copied from another session or ``PREFIX``. Raises
    SessionNotReadable for a genuine one that only another process can read.
    """
    header, parts = checked(sid, record)
    how, name, login_ms, binding = header[0], header[2:], 0, b""
    if how >= BOUND:
        name, binding = name[:-ID_SIZE], name[-ID_SIZE:]
    if name:
        name, login_ms = name[:-LOGIN_SIZE], int.from_bytes(name[-LOGIN_SIZE:], "big")
    length, at = parts[0], 1
    if length == 255:
        length, at = int.from_bytes(parts[1:3], "big"), 3
    data_at = at + length
    times = int.from_bytes(record[7:16], "big")
    client, packed, serializer = parts[at:data_at], parts[data_at:], ""
    if how > KIND:
        _require_readable(how)
        if binding:
            rest_at = 2 + int.from_bytes(packed[:2], "big")
            binding, packed = binding + packed[2:rest_at], packed[rest_at:]
        if how & NAMED:
            serializer, packed = unpacked_name(packed)
    data, revision = unpacked_data(how & KIND, packed, name), record[1 : 1 + REVISION_SIZE]
    # As Record() does, in half the time.
    return tuple.__new__(
        Record,
        (name.decode(), login_ms, times >> 32, times & AGE_MAX, client, data, serializer, binding, revision),
    )


def packed_data(data: bytes, user_id: bytes) -> tuple[int, bytes]:
    """Pack the data of a session. Return their kind, and the bytes. ``user_id`` is empty for a guest."""
    kind, cut = 0, b""
    if user_id:
        kind, cut, data = _cut(data, user_id)
        if not data:
            return kind, cut
    if len(data) > (PLAIN_SIGNED_IN_MAX if kind else PLAIN_BYTES_MAX):
        deflated = deflate_data(data)
        if len(deflated) < len(data):
            kind, data = kind | DEFLATED, deflated
    return kind, cut + data


def unpacked_data(kind: int, packed: bytes, user_id: bytes) -> bytes:
    """
    Unpack the data that :func:`packed_data` has packed.

    Raises ValueError or zlib.error for other bytes.
    """
    if kind <= DEFLATED:
        return inflate_data(packed) if kind else packed
    place, rest = 1, b"{}"
    if len(packed) != 32:
        place, rest = int.from_bytes(packed[32:34], "big"), packed[34:]
        if len(packed) < 34 or kind > HASH | DEFLATED:
            raise ValueError("not packed here")
        if kind & DEFLATED:
            rest = inflate_data(rest)
    keys = HASH_KEY if kind & HASH else ID_KEY + user_id + BACKEND_KEY
    return b"".join((rest[:place], keys, hexlify(packed[:32]), b'"', rest[place:]))


def _cut(data: bytes, user_id: bytes) -> tuple[int, bytes, bytes]:
    # Returns the kind, what was cut out with its place, and the rest. Place and rest are left out if the rest is {}.
    kind, keys = SIGNED_IN, ID_KEY + user_id + BACKEND_KEY
    place = data.find(keys, 0, PLACE_MAX)
    if place < 0:
        kind, keys = HASH, HASH_KEY
        place = data.find(keys, 0, PLACE_MAX)
        if place < 0:
            return 0, b"", data
    start = place + len(keys)
    end = start + 64
    try:
        cut = unhexlify(data[start:end])
    except ValueError:
        return 0, b"", data
    # Cut out only what is restored exactly: not fewer digits, and no capitals.
    if hexlify(cut) + b'"' != data[start : end + 1]:
        return 0, b"", data
    rest = data[:place] + data[end + 1 :]
    if place == 1 and rest == b"{}":
        return kind, cut, b""
    return kind, cut + place.to_bytes(2, "big"), rest


def packed_name(serializer: str) -> bytes:
    """Pack the dotted path of a serializer, to stand before the data. Raises ValueError for more than 255 bytes."""
    name = serializer.encode()
    return bytes((len(name),)) + name


def unpacked_name(packed: bytes) -> tuple[str, bytes]:
    """Return the dotted path that :func:`packed_name` has packed, and the bytes behind it."""
    end = 1 + packed[0]
    return packed[1:end].decode(), packed[end:]


def _require_readable(how: int) -> None:
    if how & DICTIONARIES:
        raise SessionNotReadable("A later release of django-redsess has written this session. Install it here, too.")


def is_bound(record: bytes) -> bool:
    """Return whether a packed record has a binding. The seal is not checked."""
    return record[:1] == FORMAT and len(record) > LENGTH_AT and record[HOW_AT] & BOUND > 0


def binding_id_in(record: bytes) -> bytes:
    """Return the id of the binding in a packed record, of which the header is enough. The seal is not checked."""
    if not is_bound(record):
        return b""
    at = USER_ID_AT + record[LENGTH_AT] + LOGIN_SIZE
    return record[at : at + ID_SIZE]


def is_encrypted(record: bytes) -> bool:
    """Return whether a packed record is encrypted."""
    return record[:1] == FORMAT and len(record) > LENGTH_AT and record[HOW_AT] & ENCRYPTED > 0


def client_in(sid: str, record: bytes) -> bytes:
    """
    Return the client part of a packed record. See :attr:`Record.client_packed`.

    Of a sealed record, the first bytes are enough, and the seal is not checked: any bytes may be returned. ``b""`` if
    the format is unknown. An encrypted record must be whole: raises RecordError if it is not as this site wrote it.
    """
    if record[:1] != FORMAT or len(record) <= LENGTH_AT:
        return b""
    if record[HOW_AT] & ENCRYPTED:
        parts, at = checked(sid, record)[1], 0
    else:
        parts, at = record, _seal_at(record) + SEAL_SIZE
    length = parts[at] if at < len(parts) else 0
    if length == 255:
        length = int.from_bytes(parts[at + 1 : at + 3], "big")
        at += 2
    return parts[at + 1 : at + 1 + length]


def stored_client(record: Record) -> Client:
    """Return the sender that ``record`` stores."""
    return unpack_client(record.client_packed)


def log_unusable(sid: str, error: Exception) -> None:
    """
    Log that the record of ``sid`` can't be used. A foreign exception's text is not logged: it may show data.

    Raises ``error`` again if it is SessionNotReadable: the record is good.
    """
    if isinstance(error, SessionNotReadable):
        raise error
    log_left_out(sid, error)


def log_left_out(sid: str, error: Exception) -> None:
    """
    Log as :func:`log_unusable` does, and raise nothing: for what shows many sessions, and goes on without one of them.

    It may be a record of a key that this process lacks (:class:`KeyMissing`).
    """
    reason = str(error) if isinstance(error, RecordError | KeyMissing) else type(error).__name__
    logger.warning("Session data of %s is not usable: %s", sid, reason)


def checked(sid: str, record: bytes) -> tuple[bytes, bytes]:
    """
    Return two pieces of a packed record as this site wrote them: the header from 16 on, and all after the seal.

    Of an encrypted record, the second is decrypted. Raises RecordError as :func:`unpack` does, and SessionNotReadable
    if this process can't decrypt.
    """
    if record[:1] != FORMAT or len(record) <= LENGTH_AT:
        raise RecordError("unknown format")
    seal_at = _seal_at(record)
    if record[HOW_AT] & ENCRYPTED:
        header = record[HOW_AT:seal_at]
        opened = decrypted(sid, header, record[seal_at:])
        if opened is None:
            raise RecordError("no key decrypts it")
        return header, opened
    parts_at = seal_at + SEAL_SIZE
    header, seal, parts = record[HOW_AT:seal_at], record[seal_at:parts_at], record[parts_at:]
    for sealing in _sealings(prefix()):
        if compare_digest(seal, _seal(sealing, sid, header, parts)):
            return header, parts
    raise RecordError("the seal does not fit")


def _seal_at(record: bytes) -> int:
    length = record[LENGTH_AT]
    if not length:
        return USER_ID_AT
    return USER_ID_AT + length + LOGIN_SIZE + (ID_SIZE if record[HOW_AT] & BOUND else 0)


def _seal(sealing: blake2b, sid: str, header: bytes, parts: bytes) -> bytes:
    # The sid has a fixed length, and the rest has its own lengths. So two contents never make the same bytes.
    seal = sealing.copy()
    seal.update(sid.encode() + header)
    seal.update(parts)
    return seal.digest()


@lru_cache(maxsize=PREFIXES_KEPT)
def _sealings(prefix: str) -> list[blake2b]:
    # One for each key that may have sealed a record, the present key first. They are cached and then copied: a new one
    # takes more time than a copy, and reading Django's settings takes half as long as a seal.
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [blake2b(FORMAT, digest_size=SEAL_SIZE, key=derived_key(key, b"redsess.record", prefix)) for key in keys]


def _forget_sealings(*, setting: str, **kwargs: Any) -> None:
    if setting in ("SECRET_KEY", "SECRET_KEY_FALLBACKS"):
        _sealings.cache_clear()


setting_changed.connect(_forget_sealings)


def name_of(serializer: Any) -> str:
    """
    Return the name of a serializer class for a record: its dotted path, ``""`` for Django's own.

    A class that can't be imported gets the name of ``SESSION_SERIALIZER``.
    """
    return "" if serializer is JSONSerializer else _name_of(serializer, settings.SESSION_SERIALIZER)


@lru_cache(maxsize=64)
def _name_of(serializer: Any, setting: str) -> str:
    present = import_string(setting)
    if serializer is not present:
        own = f"{serializer.__module__}.{getattr(serializer, '__qualname__', '')}"
        try:
            if import_string(own) is serializer:
                return own
        except ImportError:
            pass
    return "" if present is JSONSerializer else setting


def serializer_named(name: str) -> Any:
    """
    Return the serializer class with this name, which must be from a record whose seal was checked.

    Raises RecordError if it can't be imported.
    """
    if not name:
        return JSONSerializer
    try:
        return import_string(name)
    except ImportError:
        raise RecordError(f"its serializer {name!r} can't be imported") from None


def data_of(record: Record) -> dict[str, Any]:
    """Return the session data in ``record``. Raises RecordError, or what its serializer raises."""
    data: dict[str, Any] = serializer_named(record.serializer)().loads(record.data)
    return data


def serialized(serializer: Any, data: dict[str, Any]) -> tuple[bytes, str]:
    """
    Return ``data`` as the class ``serializer`` writes them, and its name for the record.

    Raises ValueError if they have too many levels to be read.
    """
    try:
        written: bytes = serializer().dumps(data)
    except RecursionError:
        check_depth(data)
        raise
    check_depth(data, written)
    return written, "" if serializer is JSONSerializer else name_of(serializer)


def user_of(data: dict[str, Any]) -> str:
    """Return the user id in the data of a session, ``""`` for a guest."""
    return "" if data.get(SESSION_KEY) is None else str(data[SESSION_KEY])


DEPTH_MAX = 200
"""The most levels of lists and dicts. At about 900, one place in the code can write what another can't read."""

CONTAINERS = (dict, list, tuple)


def check_depth(data: Mapping[str, Any], serialized: bytes | None = None) -> None:
    """
    Raise ValueError if a value of ``data`` has more than 200 levels of lists and dicts.

    How deep Python can write and read depends on its version and on the depth of the stack. ``serialized`` is the text
    of the data. If it has too few brackets for so many levels, the data are not searched.
    """
    if serialized is not None and serialized.count(b"[") + serialized.count(b"{") <= DEPTH_MAX:
        return
    # By identity, so that a shared container is searched once.
    level = {id(value): (key, value) for key, value in data.items() if isinstance(value, CONTAINERS)}
    for _ in range(DEPTH_MAX):
        level = {
            id(inner): (key, inner)
            for key, each in level.values()
            for inner in (each.values() if isinstance(each, dict) else each)
            if isinstance(inner, CONTAINERS)
        }
        if not level:
            return
    key, _ = next(iter(level.values()))
    raise ValueError(f"What is under {key!r} in the session has more than {DEPTH_MAX} levels: not saved.")
