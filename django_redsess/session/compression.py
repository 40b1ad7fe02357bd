"""
The streams in a record: texts that most records have take a few bytes there.

Streams are raw deflate (RFC 1951) with a preset dictionary (RFC 1950). One dictionary has the user agents of most
browsers. The other has what Django and others write into most sessions.
"""

from __future__ import annotations

import zlib

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

CLIENT_BYTES_MAX = 2048
"""Far more than a user agent has. Searches inflate a client part before they check its seal, and never beyond this."""


def deflated_agent(user_agent: str) -> bytes:
    """Pack a user agent, for the client part."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, WINDOW_BITS, 4, zlib.Z_FIXED, AGENTS)
    return deflate.compress(user_agent.encode()) + deflate.flush()


def inflated_agent(packed: bytes) -> tuple[str, bytes]:
    """
    Return the user agent that :func:`deflated_agent` has packed, and the bytes behind it.

    Raises ValueError or zlib.error for bytes that it did not write.
    """
    inflate = zlib.decompressobj(WINDOW_BITS, AGENTS)
    user_agent = inflate.decompress(packed, CLIENT_BYTES_MAX)
    if not inflate.eof:
        raise ValueError("cut short, or too long")
    return user_agent.decode(), inflate.unused_data


def deflate_data(data: bytes) -> bytes:
    """Return the data of a session as a stream."""
    if len(data) <= SHORT_BYTES_MAX:
        deflate = _SHORT_DATA.copy()
    else:
        # Level 1: the search for repetitions ends early.
        deflate = zlib.compressobj(1, zlib.DEFLATED, WINDOW_BITS, 4, zlib.Z_DEFAULT_STRATEGY, DATA)
    return deflate.compress(data) + deflate.flush()


def inflate_data(stream: bytes) -> bytes:
    """Return the data in a stream. Raises ValueError or zlib.error for one that :func:`deflate_data` did not make."""
    inflate = zlib.decompressobj(WINDOW_BITS, DATA)
    data = inflate.decompress(stream)
    if not inflate.eof:
        raise ValueError("cut short")
    return data
