"""
What a site and its store must agree on: the format of records, the number of partitions, and the ``SECRET_KEY``.

A process asks the store once, before its first operation.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_redsess.transport import client, scripts
from django_redsess.transport.keys import Keyspace, Partition, keyspace
from django_redsess.transport.scripts import Script

FORMAT = b"3"
"""The first byte of each record, and what a store notes as its format."""


class Question(NamedTuple):
    """What is asked of the store; ``read`` raises ImproperlyConfigured where the reply does not suit this site."""

    partition: Partition
    script: Script
    keys: tuple[client.Part, ...]
    args: tuple[client.Part | int, ...]
    read: Callable[[list[Any]], None]


_agreed: set[tuple[Any, Keyspace]] = set()
_agreed_last: tuple[Any, Any] = None, None


def take_new_secret_key() -> None:
    """Have the store take this site's ``SECRET_KEY`` as one of its own: for who replaced it without fallbacks."""
    asked = question(keyspace(), takes_key=True)
    if asked is not None:
        asked.read(client.run(asked.partition, asked.script, asked.keys, asked.args))


def question(space: Keyspace, pool: Any = None, *, takes_key: bool = False) -> Question | None:
    """Return what is to be asked before anything else; None where this process has asked the store already."""
    # With a wrong number of partitions every session is looked for where it is not. With another site's SECRET_KEY
    # none can be read, but all can be ended.
    pool = pool or client.pool()
    if pool is _agreed_last[0] and space is _agreed_last[1] and not takes_key:
        # Most often it is the store that was asked for before: then it need not be looked for.
        return None
    if (pool, space) in _agreed and not takes_key:
        return None
    here = [str(space.count), FORMAT.decode()]

    def read(reply: list[Any]) -> None:
        global _agreed_last
        *there, knows_key = [part.decode() for part in reply[:3]]
        if there[1] != here[1]:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} are in format {there[1]}, and this release reads and "
                f"writes format {here[1]} only. Go on with the release that wrote them; or begin anew, with "
                "everybody signed out, under another REDSESS['PREFIX']."
            )
        if there[0] != here[0]:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} are spread over {there[0]} partitions, and this site "
                f"would look for {here[0]}. Set REDSESS['PARTITIONS'] back to {there[0]}; or begin anew, with "
                "everybody signed out, under another REDSESS['PREFIX']."
            )
        if not knows_key:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} know another SECRET_KEY than this site's. If they are "
                "another site's, set another REDSESS['PREFIX'] here. If this site's key was replaced, put the old one "
                "into SECRET_KEY_FALLBACKS; or, where it has leaked, sign everybody out: manage.py endsessions --all "
                "--new-secret-key."
            )
        client.clock().learn(reply[3])
        _agreed_last = pool, space
        _agreed.add(_agreed_last)

    script, partition, known = scripts.AGREEMENT, Partition(space.prefix), fingerprints(space.prefix)
    args = script.arguments(partitions=here[0], format=here[1], takes_key=takes_key, fingerprints=known)
    return Question(partition, script, script.keys(partition, meta=space.meta), args, read)


def fingerprints(prefix: str) -> list[str]:
    """
    Return what tells the ``SECRET_KEY`` of one site from that of another, then those of ``SECRET_KEY_FALLBACKS``.

    They are 16 characters each, and stored: nothing can be made of them, and each prefix gives others.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [derived_key(key, b"redsess.store", prefix)[:8].hex() for key in keys]


@lru_cache(maxsize=8)
def derived_key(secret_key: str | bytes, purpose: bytes, prefix: str) -> bytes:
    """
    Return a key of 32 bytes for this ``purpose`` (up to 16 bytes).

    Each prefix has its own, so that no record of one site is good for another with the same ``SECRET_KEY``.
    """
    secret = secret_key.encode() if isinstance(secret_key, str) else secret_key
    of_purpose = blake2b(secret, digest_size=32, person=purpose).digest()
    return blake2b(prefix.encode(), digest_size=32, key=of_purpose).digest()
