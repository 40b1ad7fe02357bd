"""The bytes of commands and script calls, and the commands that the package sends."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from django_redsess.transport.scripts import Script


KEYS_OF_SESSION_MAX = 11
"""How many keys a script about one session has. Scripts of lists may have hundreds, and others each time."""

COMMANDS = frozenset(
    (
        *(
            "DEL",
            "EVAL",
            "EVALSHA",
            "EXISTS",
            "GET",
            "HEXISTS",
            "HGET",
            "HINCRBY",
            "HLEN",
            "HMGET",
            "HSTRLEN",
            "MGET",
            "SET",
            "TIME",
        ),
        *("ZADD", "ZCARD", "ZCOUNT", "ZMSCORE", "ZRANGE", "ZSCAN", "ZSCORE"),
    )
)
"""The commands that every site sends, beside the commands in scripts. All others are in ``COMMANDS_OF_SOME``."""

COMMANDS_OF_SOME = frozenset(("ASKING", "BLPOP", "CLUSTER|SLOTS", "CONFIG|GET", "INFO", "PING", "SELECT", "WAIT"))
"""The commands that some sites send, as their settings say, and the commands of checks. No ACL can forbid HELLO."""

Part = str | bytes
"""A name or an argument that is not a number."""


def pack_command(name: str, *parts: Part | int) -> bytes:
    """Return a plain command as the server reads it. redis-py would take longer: it looks at each part anew."""
    return b"*%d\r\n%b" % (1 + len(parts), _packed(name, *parts))


@lru_cache(maxsize=4096)
def pack_head(parts: int, *first: Part) -> bytes:
    """Return the beginning of a plain command of so many ``parts``: the ``first`` ones. Results are cached."""
    return b"*%d\r\n%b" % (parts, _packed(*first))


@lru_cache(maxsize=256)
def pack_tail(*last: Part | int) -> bytes:
    """Return the other parts of a command that begins with :func:`pack_head`. Results are cached."""
    return _packed(*last)


def pack_script_call(
    script: Script, keys: tuple[Part, ...], args: Sequence[Part | int], *, by_digest: bool = True
) -> bytes:
    """Return the command that runs ``script``, with the digest or the text of the script."""
    how = ("EVALSHA", script.digest) if by_digest else ("EVAL", script.text)
    head = (_kept_head if len(keys) <= KEYS_OF_SESSION_MAX else _head)(*how, keys)
    return b"*%d\r\n%b%b" % (3 + len(keys) + len(args), head, _packed(*args))


def with_text(packed: bytes, script: Script) -> bytes:
    """Return ``packed`` with the text of ``script`` in place of its digest."""
    return packed.replace(_packed("EVALSHA", script.digest), _packed("EVAL", script.text), 1)


def split_commands(packed: bytes) -> list[bytes]:
    """Return the commands in ``packed``, each packed."""
    found, at = [], 0
    while at < len(packed):
        first, end = at, packed.index(b"\r\n", at)
        parts, at = int(packed[at + 1 : end]), end + 2
        for _ in range(parts):
            end = packed.index(b"\r\n", at)
            at = end + 2 + int(packed[at + 1 : end]) + 2
        found.append(packed[first:at])
    return found


def _packed(*parts: Part | int) -> bytes:
    read = b""
    for part in parts:
        encoded = part if type(part) is bytes else str(part).encode()
        read += b"$%d\r\n%b\r\n" % (len(encoded), encoded)
    return read


def _head(command: str, script: str, keys: tuple[Part, ...]) -> bytes:
    return _packed(command, script, len(keys), *keys)


# The same for all sessions of a partition.
_kept_head = lru_cache(maxsize=4096)(_head)
