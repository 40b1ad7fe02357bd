"""
What a site and its store must agree on: the format of records, the number of partitions, and the ``SECRET_KEY``.

A key ``meta`` has it. With several partitions, each has a copy of that key. A process asks each partition once, before
it first uses the partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import ResponseError

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import attempts, packing, scripts
from django_redsess.transport.attempts import Sends
from django_redsess.transport.connections import by_server, server_of
from django_redsess.transport.keys import PREFIXES_KEPT, Keyspace, Partition, keyspace

FORMAT = b"6"
"""The first byte of each record. A store keeps it as its format."""


class StoredMeta(NamedTuple):
    """A key ``meta``: partitions and format, each ``""`` if missing, and whether the store knows one of our keys."""

    partitions: str
    format: str
    knows_key: bool


class Mismatch(NamedTuple):
    """Why a store does not suit this site, and what a person can do. ``about`` names what differs."""

    about: str
    message: str
    hint: str


def agree(partitions: Sequence[Partition]) -> Sends[None]:
    """
    Ask the ``partitions`` that this process has not asked yet. Raises ImproperlyConfigured for a mismatch.

    A copy in the partition itself is enough. So nodes that are not used are not asked.
    """
    # With a wrong number of partitions, every session is looked for in the wrong place. With another site's SECRET_KEY,
    # none can be read, but all can be ended.
    asked = [each for each in partitions if each.tag not in server_of(each).agreed]
    if not asked:
        return
    space = keyspace()
    found = yield from _read_meta(space, asked, begins=space.count == 1)
    _refuse_mismatch(space, [each for each in found if space.count == 1 or each[:2] != ours(space)])
    # A site with another number of partitions may use names that no copy has. And a copy that was not used for long may
    # not know the present SECRET_KEY. Then the key decides whose name all sites know.
    unsure = [each for each, there in zip(asked, found, strict=True) if not there.knows_key]
    if unsure:
        try:
            decides = yield from _read_meta(space, [space.deciding_partition])
        except SessionStoreUnavailable:
            _refuse_mismatch(space, found)
            raise
        _refuse_mismatch(space, decides)
        yield from _read_meta(space, unsure, takes_key=True)
    for each in asked:
        server_of(each).agreed.add(each.tag)


def take_new_secret_key() -> Sends[None]:
    """Have the store take this site's ``SECRET_KEY`` as its own: for a site that replaced it without fallbacks."""
    space = keyspace()
    _refuse_mismatch(space, (yield from _read_meta(space, [space.deciding_partition], takes_key=True)))


def ours(space: Keyspace) -> tuple[str, str]:
    """Return the number of partitions and the format that this site goes by."""
    return str(space.count), FORMAT.decode()


def _read_meta(
    space: Keyspace, partitions: Sequence[Partition], *, begins: bool = True, takes_key: bool = False
) -> Sends[list[StoredMeta]]:
    """Read the key ``meta`` of each partition, those on one server in one round trip."""
    (count, written), script, replies = ours(space), scripts.AGREEMENT, dict[int, Any]()
    known = fingerprints(space.prefix)
    args = script.arguments(partitions=count, format=written, begins=begins, takes_key=takes_key, fingerprints=known)
    for server, numbers in by_server(partitions, range(len(partitions))).items():
        calls = [(partitions[number].tag, script.keys(partitions[number])) for number in numbers]
        answers: list[Any] = [ResponseError()]
        if len(calls) > 1:
            packed = b"".join(packing.pack_script_call(script, keys, args) for _, keys in calls)
            answers = yield from attempts.fetch(server, calls[0][0], script.name, packed, len(calls), 0)
        for number, (tag, keys), answer in zip(numbers, calls, answers, strict=True):
            if isinstance(answer, ResponseError):
                # The server does not know the script, or another server has the partition by now.
                answer, _ = yield from attempts.run_script(tag, script, keys, args)
            server_of(partitions[number]).clock.learn(answer[3])
            replies[number] = answer
    return [
        StoredMeta(count.decode(), written.decode(), bool(knows_key))
        for count, written, knows_key, _ in (replies[number] for number in range(len(partitions)))
    ]


def _refuse_mismatch(space: Keyspace, found: Sequence[StoredMeta]) -> None:
    for each in found:
        if each.format and (fault := _mismatch_with(space, each)):
            raise ImproperlyConfigured(f"{fault.message} {fault.hint}")


def fault_in(space: Keyspace, stored: Sequence[bytes | None]) -> Mismatch | None:
    """Return the mismatch by the three fields of a key ``meta``; None if it is missing, or suits this site."""
    partitions, written = map(_printable, stored[:2])
    keys = (stored[2] or b"").decode(errors="replace")
    knows_key = not keys or not set(keys.split()).isdisjoint(fingerprints(space.prefix))
    return _mismatch_with(space, StoredMeta(partitions, written, knows_key)) if written else None


def _printable(stored: bytes | None) -> str:
    # Another program may have written anything.
    text = (stored or b"").decode(errors="replace")[:20]
    return text if text.isprintable() else ascii(text)[1:-1]


def _mismatch_with(space: Keyspace, there: StoredMeta) -> Mismatch | None:
    sessions, (count, written) = f"The sessions under the prefix {space.prefix!r}", ours(space)
    anew = "or begin anew, with everybody signed out, under another REDSESS['PREFIX']."
    if there.format != written:
        return Mismatch(
            "format",
            f"{sessions} are in format {there.format}, and this release reads and writes format {written} only.",
            f"Go on with the release that wrote them; {anew}",
        )
    if there.partitions != count:
        return Mismatch(
            "partitions",
            f"{sessions} are spread over {there.partitions} partitions, and this site would look for {count}.",
            f"Set REDSESS['PARTITIONS'] back to {there.partitions}; or have the sessions move to another "
            f"REDSESS['PREFIX'] with {count}, by SESSION_ENGINE = 'django_redsess.contrib.moving.growing'; {anew}",
        )
    if not there.knows_key:
        return Mismatch(
            "secret key",
            f"{sessions} know another SECRET_KEY than this site's.",
            "If they are another site's, set another REDSESS['PREFIX'] here. If this site's key was replaced, put the "
            "old one into SECRET_KEY_FALLBACKS; or, where it has leaked, sign everybody out: manage.py endsessions "
            "--all --new-secret-key.",
        )
    return None


def fingerprints(prefix: str) -> list[str]:
    """
    Return a fingerprint of ``SECRET_KEY``, and then one of each of ``SECRET_KEY_FALLBACKS``.

    A fingerprint has 16 characters, and is stored. Nobody can compute the key from it. Each prefix gives another.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [derived_key(key, b"redsess.store", prefix)[:8].hex() for key in keys]


@lru_cache(maxsize=4 * PREFIXES_KEPT)
def derived_key(secret_key: str | bytes, purpose: bytes, prefix: str) -> bytes:
    """
    Return a key of 32 bytes for this ``purpose`` (up to 16 bytes).

    Each prefix has a key of its own. So a record of one site is not valid at another with the same ``SECRET_KEY``.
    """
    secret = secret_key.encode() if isinstance(secret_key, str) else secret_key
    of_purpose = blake2b(secret, digest_size=32, person=purpose).digest()
    return blake2b(prefix.encode(), digest_size=32, key=of_purpose).digest()
