"""The client part and the data part of a record, which follow its header. Both are packed to be small and fast.

Streams are raw deflate (RFC 1951) with a preset dictionary (RFC 1950). One dictionary has the user agents of most
browsers. The other has what Django and others write into most sessions. Such texts then take a few bytes.

The client part is a stream of the user agent, then the address of 0, 4 or 16 bytes. It is empty if both are unknown.

The data part has a kind, which the record's header holds: ``SIGNED_IN``, ``HASH`` or 0 (nothing is cut out); plus
``DEFLATED`` if the rest is a stream. Then come, unless the kind is 0 or ``DEFLATED``:

====== =================================================================================================
bytes  content
====== =================================================================================================
32     Django's session hash. It is cut out of the data with its key. With ``SIGNED_IN``, all three keys
       that Django's ``login()`` writes are cut out: the hash and the user id are enough to restore them
2      the place of what was cut out
====== =================================================================================================

And the rest of the data, plain or as a stream. Place and rest are left out if the rest is ``{}``.

If another serializer than Django's wrote the data, its dotted path comes first, after one byte with the path's length.
"""

from __future__ import annotations

import zlib
from binascii import hexlify, unhexlify

AGENTS = (
    b"Mozilla/5.0 (compatible; bot/1.0; +https://www..com/bot.html) okhttp/4.12.0 python-requests/2.32.3 curl/8.5.0 "
    b"Mozilla/5.0 (Linux; Android 15; SM-S911B) AppleWebKit/537.36 (KHTML, like Gecko) SamsungBrowser/28.0 "
    b"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) Mozilla/5.0 (X11; Ubuntu; Linux x86_64; rv:140.0) "
    b"Mozilla/5.0 (iPad; CPU OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) GSA/380.0 CriOS/140.0 "
    b"FxiOS/140.0 Mobile/15E148 Safari/604.1 "
    b"Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0 "
    b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10.15; rv:140.0) Gecko/20100101 Firefox/140.0"
    b"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
    b"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0"
    b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 "
    b"Safari/605.1.15"
    b"Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 "
    b"Mobile/15E148 Safari/604.1"
    b"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 OPR/124.0"
    b"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 "
    b"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36"
    b"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 "
    b"Edg/140.0.0.0"
)
"""A part of the record's format: another dictionary could not read the records. The most frequent texts are last."""

DATA = (
    b'{"account_authentication_methods":[{"method":"password","at":17,"email":"socialaccount_state'
    b'"allauth.account.auth_backends.AuthenticationBackend","django_timezone":"Europe/Berlin","_language":"en","de"'
    b'"_password_reset_token":"_csrftoken":"_messages":"[[\\"__json_message\\",0,25,\\"\\"]]","_session_expiry":'
    b'"next":"/","last_":"2026-"name":"user_id":"_auth_user_id":"1","_auth_user_backend":"'
    b'django.contrib.auth.backends.ModelBackend","_auth_user_hash":""price":"0.00","quantity":1},"'
    b'product_id":"items":[{"id":true,false,null,"cart":{"basket":{"1":2}}":1,"'
)
"""A part of the record's format too."""

# A window of 4 096 bytes. The usual one of 32 768 takes twice as long to set up, and most sessions are shorter.
WINDOW_BITS = -12

# Short data are read twice as fast with deflate's fixed codes. This object is only copied, never fed: a copy, with its
# dictionary, takes less time than a new object. A small window makes the copy faster.
_SHORT_DATA = zlib.compressobj(6, zlib.DEFLATED, -10, 2, zlib.Z_FIXED, DATA)
SHORT_BYTES_MAX = 512
"""Longer data get their own codes. They get smaller by a fifth to a third, at no cost in time overall."""

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

CLIENT_BYTES_MAX = 2048
"""Far more than a user agent has. Searches inflate a client part before they check its seal, and never beyond this."""


def packed_data(data: bytes, user_id: bytes) -> tuple[int, bytes]:
    """Pack the data of a session. Return their kind, and the bytes. ``user_id`` is empty for a guest."""
    kind, cut = 0, b""
    if user_id:
        kind, cut, data = _cut(data, user_id)
        if not data:
            return kind, cut
    if len(data) > (PLAIN_SIGNED_IN_MAX if kind else PLAIN_BYTES_MAX):
        deflated = _deflated(data)
        if len(deflated) < len(data):
            kind, data = kind | DEFLATED, deflated
    return kind, cut + data


def unpacked_data(kind: int, packed: bytes, user_id: bytes) -> bytes:
    """
    Unpack the data that :func:`packed_data` has packed.

    Raises ValueError or zlib.error for what it did not return.
    """
    if kind <= DEFLATED:
        return _inflated(packed, DATA)[0] if kind else packed
    place, rest = 1, b"{}"
    if len(packed) != 32:
        place, rest = int.from_bytes(packed[32:34], "big"), packed[34:]
        if len(packed) < 34 or kind > HASH | DEFLATED:
            raise ValueError("not packed here")
        if kind & DEFLATED:
            rest, _ = _inflated(rest, DATA)
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


def deflated_agent(user_agent: str) -> bytes:
    """Pack a user agent, for the client part."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, WINDOW_BITS, 4, zlib.Z_FIXED, AGENTS)
    return deflate.compress(user_agent.encode()) + deflate.flush()


def inflated_agent(packed: bytes) -> tuple[str, bytes]:
    """
    Return the user agent that :func:`deflated_agent` has packed, and the bytes behind it.

    Raises ValueError or zlib.error for bytes that it did not write.
    """
    user_agent, rest = _inflated(packed, AGENTS, CLIENT_BYTES_MAX)
    return user_agent.decode(), rest


def _deflated(data: bytes) -> bytes:
    if len(data) <= SHORT_BYTES_MAX:
        deflate = _SHORT_DATA.copy()
    else:
        # Level 1: the search for repetitions ends early.
        deflate = zlib.compressobj(1, zlib.DEFLATED, WINDOW_BITS, 4, zlib.Z_DEFAULT_STRATEGY, DATA)
    return deflate.compress(data) + deflate.flush()


def _inflated(stream: bytes, dictionary: bytes, most: int = 0) -> tuple[bytes, bytes]:
    # Returns the content, at most ``most`` bytes (0: any number), and the bytes after the stream.
    inflate = zlib.decompressobj(WINDOW_BITS, dictionary)
    content = inflate.decompress(stream, most)
    if not inflate.eof:
        raise ValueError("cut short, or too long")
    return content, inflate.unused_data
