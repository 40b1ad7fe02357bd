"""
The payload of a record, in as few bytes as it takes little time to make.

It is a raw deflate stream (RFC 1951) of user agent, newline and serialized data. It begins with a dictionary that both
sides know, as RFC 1950 describes it: what Django writes into most sessions, and what most browsers call themselves,
then takes a few bytes. Behind it is what can't be deflated: the address, of 0, 4 or 16 bytes; and where the content has
64 hexadecimal digits between quotes, as Django's session hash, their place (2 bytes) and the digits as 32 bytes. They
are cut out of the content.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from socket import AF_INET, AF_INET6, inet_ntop, inet_pton
from typing import Any

DICTIONARY = (
    b'{"_session_expiry":"_csrftoken":"_messages":"[[\\"__json_message\\",0,25,"_language":"en","de"}\n'
    b'{"_auth_user_id":"1","_auth_user_backend":"django.contrib.auth.backends.ModelBackend","_auth_user_hash":"'
    b"Firefox/14 Macintosh; Intel Mac OS X 10_15_7) Version/18 iPhone; CPU iPhone OS 18_ like Mac OS X) Mobile/15E148 "
    b"Safari/604.1 rv: Gecko/20100101 (X11; Linux x86_64 (Linux; Android 10; K) Mozilla/5.0 (Windows NT 10.0; Win64; "
    b"x64) AppleWebKit/605.1.15 AppleWebKit/537.36 (KHTML, like Gecko) Chrome/14.0.0.0 Mobile Safari/537.36"
)
"""A part of the record's format: with another dictionary no record could be read."""

# A window of 4 096 bytes: the usual one of 32 768 takes twice as long to set up, and most sessions are shorter.
WINDOW_BITS, MEMORY_LEVEL = -12, 4

# Few bytes are read twice as fast with the codes that deflate has ready, and take no more room. Long ones are better
# off with codes of their own, and with a search that ends early.
SHORT, LONG = (6, zlib.Z_FIXED), (1, zlib.Z_DEFAULT_STRATEGY)
SHORT_BYTES_MAX = 1024

# Quotes are in few places of a content: it is found in an eighth of the time that the digits alone take.
HASH = re.compile(rb'"([0-9a-f]{64})"')
HASH_SIZE = 2 + 32
HASH_PLACE_MAX = 65_535

DEPTH_MAX = 200
"""How many lists and dicts may be in each other. Of about 900, some places can write what others can't read."""

CONTAINERS = (dict, list, tuple)


def check_depth(data: Mapping[str, Any], serialized: bytes | None = None) -> None:
    """
    Raise ValueError where a value of ``data`` has more than 200 lists and dicts in each other.

    How deep Python can write and read depends on its version, and on how deep the stack is at that place. Where the
    text that was made of the data is given, and has too few brackets for that, there is nothing to look for.
    """
    if serialized is not None and serialized.count(b"[") + serialized.count(b"{") <= DEPTH_MAX:
        return
    # By identity: one that is shared is looked at once.
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


def packed(address: str, user_agent: str, data: bytes) -> bytes:
    """Pack who sent a request (``address`` of IPv4 or IPv6, or ``""``) and the session's data."""
    content, digits = b"%b\n%b" % (user_agent.encode(), data), b""
    found = HASH.search(content, 0, HASH_PLACE_MAX)
    if found:
        place, end = found.span(1)
        digits = place.to_bytes(2, "big") + bytes.fromhex(found[1].decode())
        content = content[:place] + content[end:]
    level, strategy = SHORT if len(content) <= SHORT_BYTES_MAX else LONG
    deflate = zlib.compressobj(level, zlib.DEFLATED, WINDOW_BITS, MEMORY_LEVEL, strategy, DICTIONARY)
    return b"".join((deflate.compress(content), deflate.flush(), _packed_address(address), digits))


def unpacked(payload: bytes) -> tuple[str, str, bytes]:
    """Return address, user agent and data of a payload that :func:`packed` made."""
    inflate = zlib.decompressobj(WINDOW_BITS, DICTIONARY)
    content, rest = inflate.decompress(payload), inflate.unused_data
    if len(rest) >= HASH_SIZE:
        rest, digits = rest[:-HASH_SIZE], rest[-HASH_SIZE:]
        place = int.from_bytes(digits[:2], "big")
        content = content[:place] + digits[2:].hex().encode() + content[place:]
    user_agent, data = content.split(b"\n", 1)
    address = inet_ntop(AF_INET if len(rest) == 4 else AF_INET6, rest) if rest else ""
    return address, user_agent.decode(), data


def _packed_address(address: str) -> bytes:
    return inet_pton(AF_INET6 if ":" in address else AF_INET, address) if address else b""
