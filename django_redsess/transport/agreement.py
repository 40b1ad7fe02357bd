"""
What a site and its store must agree on: the format of records, the number of partitions, and the ``SECRET_KEY``.

A process asks the store once, before its first operation.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from django_redsess.transport import repeating, scripts
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import Keyspace, Partition, keyspace
from django_redsess.transport.repeating import Sends

FORMAT = b"3"
"""The first byte of each record. A store keeps it as its format."""


_agreed: set[tuple[Any, Keyspace]] = set()
_agreed_last: tuple[Any, Any] = None, None


def agrees(space: Keyspace, connections: Any) -> bool:
    """Tell whether this process has asked the store already, which it reaches by ``connections``."""
    # Most often it is the same store as the last time. Then there is no need to look for it.
    if connections is _agreed_last[0] and space is _agreed_last[1]:
        return True
    return (connections, space) in _agreed


def agree(space: Keyspace, *, takes_key: bool = False) -> Sends[None]:
    """
    Ask the store. Raises ImproperlyConfigured where it does not suit this site.

    With ``takes_key``, the store takes this site's ``SECRET_KEY`` as one of its own.
    """
    # With a wrong number of partitions every session is looked for where it is not. With another site's SECRET_KEY
    # none can be read, but all can be ended.
    global _agreed_last
    connections, here = pool(), [str(space.count), FORMAT.decode()]
    script, known = scripts.AGREEMENT, fingerprints(space.prefix)
    args = script.arguments(partitions=here[0], format=here[1], takes_key=takes_key, fingerprints=known)
    reply, _ = yield from repeating.run(
        space.prefix, script, script.keys(Partition(space.prefix), meta=space.meta), args
    )
    *there, knows_key = [part.decode() for part in reply[:3]]
    if fault := _fault(space.prefix, here, there, knows_key):
        raise ImproperlyConfigured(fault)
    connections.of(space.prefix).clock.learn(reply[3])
    _agreed_last = connections, space
    _agreed.add(_agreed_last)


def take_new_secret_key() -> Sends[None]:
    """Have the store take this site's ``SECRET_KEY`` as its own: for a site that replaced it without fallbacks."""
    return agree(keyspace(), takes_key=True)


def _fault(prefix: str, here: list[str], there: list[str], knows_key: str) -> str:
    # What a person reads about a store that does not suit this site. ``here`` and ``there`` are partitions and format.
    if there[1] != here[1]:
        return (
            f"The sessions under the prefix {prefix!r} are in format {there[1]}, and this release reads and "
            f"writes format {here[1]} only. Go on with the release that wrote them; or begin anew, with "
            "everybody signed out, under another REDSESS['PREFIX']."
        )
    if there[0] != here[0]:
        return (
            f"The sessions under the prefix {prefix!r} are spread over {there[0]} partitions, and this site "
            f"would look for {here[0]}. Set REDSESS['PARTITIONS'] back to {there[0]}; or begin anew, with "
            "everybody signed out, under another REDSESS['PREFIX']."
        )
    if not knows_key:
        return (
            f"The sessions under the prefix {prefix!r} know another SECRET_KEY than this site's. If they are "
            "another site's, set another REDSESS['PREFIX'] here. If this site's key was replaced, put the old one "
            "into SECRET_KEY_FALLBACKS; or, where it has leaked, sign everybody out: manage.py endsessions --all "
            "--new-secret-key."
        )
    return ""


def fingerprints(prefix: str) -> list[str]:
    """
    Return a fingerprint of ``SECRET_KEY``, and then one of each of ``SECRET_KEY_FALLBACKS``.

    A fingerprint has 16 characters, and is stored. Nobody can compute the key from it. Each prefix gives another.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    return [derived_key(key, b"redsess.store", prefix)[:8].hex() for key in keys]


@lru_cache(maxsize=8)
def derived_key(secret_key: str | bytes, purpose: bytes, prefix: str) -> bytes:
    """
    Return a key of 32 bytes for this ``purpose`` (up to 16 bytes).

    Each prefix has its own. So a record of one site is not valid at another with the same ``SECRET_KEY``.
    """
    secret = secret_key.encode() if isinstance(secret_key, str) else secret_key
    of_purpose = blake2b(secret, digest_size=32, person=purpose).digest()
    return blake2b(prefix.encode(), digest_size=32, key=of_purpose).digest()
