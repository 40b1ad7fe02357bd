"""
The encryption of records: AES-GCM with keys of 256 bits, from the package ``cryptography``.

An encrypted record has no seal: what AES-GCM adds, a nonce before and a tag behind, takes its place. The header of the
record, its format and its sid are covered as by the seal. Nonces are random. So a key may write a bounded number of
records, and there are several: sessions are divided into 16 groups by their sids, and each has a key of its own. A key
for each session would cost as much as the encryption itself: a cipher takes long to set up.

The package is imported when it is first needed: a site that never encrypts needs none.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b
from os import urandom
from typing import Any, NamedTuple
from zlib import crc32

from django.conf import settings
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from django_redsess.conf import are_keys, conf
from django_redsess.exceptions import SessionNotReadable
from django_redsess.transport.compatibility import FORMAT, derived_key
from django_redsess.transport.keys import PREFIXES_KEPT, prefix

NONCE_SIZE, TAG_SIZE = 12, 16
"""In bytes. These are the sizes that NIST SP 800-38D recommends."""

GROUPS = 16
"""How many groups of sessions have a key of their own. A part of the record's format."""


class Ciphers(NamedTuple):
    """
    What encrypts the records of one prefix.

    ``of_groups`` are lists of ciphers, one for each group. Each list comes from one key of the site: the first one
    writes, and all read. ``invalid_tag`` is what a cipher raises for bytes that it did not make.
    """

    of_groups: list[list[Any]]
    invalid_tag: type[Exception]


def encrypted(sid: str, header: bytes, parts: bytes) -> bytes:
    """
    Return ``parts`` of the record of ``sid`` encrypted: nonce, ciphertext, tag. ``header`` is covered, not hidden.

    Raises SessionNotReadable if the package or the keys are missing here.
    """
    ciphers = _ciphers(prefix())
    nonce = urandom(NONCE_SIZE)
    sealed: bytes = ciphers.of_groups[0][_group_of(sid)].encrypt(nonce, parts, _covered(sid, header))
    return nonce + sealed


def decrypted(sid: str, header: bytes, encrypted: bytes) -> bytes | None:
    """
    Return the parts that :func:`encrypted` got, or None: no key of this site made these bytes, with this header.

    Raises SessionNotReadable if the package or the keys are missing here.
    """
    ciphers = _ciphers(prefix())
    if len(encrypted) < NONCE_SIZE + TAG_SIZE:
        return None
    nonce, sealed, covered = encrypted[:NONCE_SIZE], encrypted[NONCE_SIZE:], _covered(sid, header)
    group = _group_of(sid)
    for of_groups in ciphers.of_groups:
        try:
            parts: bytes = of_groups[group].decrypt(nonce, sealed, covered)
        except ciphers.invalid_tag:
            continue
        return parts
    return None


def _group_of(sid: str) -> int:
    # Not by the bucket: that of a busy user would be that of all their sessions.
    return crc32(sid.encode()) % GROUPS


def _covered(sid: str, header: bytes) -> bytes:
    # The sid has a fixed length, and the header has its own. So no two of them make the same bytes.
    return FORMAT + sid.encode() + header


def aesgcm() -> tuple[Any, type[Exception]]:
    """Return the class ``AESGCM`` and what its methods raise. Raises SessionNotReadable if the package is missing."""
    try:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise SessionNotReadable(
            f"Sessions are encrypted, and this process can't decrypt them: {error}. Install the extra 'encryption': "
            "pip install 'django-redsess[encryption]'."
        ) from error
    return AESGCM, InvalidTag


@lru_cache(maxsize=PREFIXES_KEPT)
def _ciphers(prefix: str) -> Ciphers:
    keys = (*own_keys(), settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    cipher, invalid_tag = aesgcm()
    # Another purpose than the seal's gives another key.
    derived = [derived_key(key, b"redsess.cipher", prefix) for key in keys]
    return Ciphers([[cipher(_key_of(key, group)) for group in range(GROUPS)] for key in derived], invalid_tag)


def _key_of(key: bytes, group: int) -> bytes:
    return blake2b(bytes([group]), digest_size=32, key=key).digest()


@lru_cache(maxsize=1)
def own_keys() -> tuple[str | bytes, ...]:
    """
    Return ``ENCRYPTION_KEYS``. A function that the setting names is called once in a process.

    Raises SessionNotReadable if that function fails, or for anything but a list of texts or bytes.
    """
    keys: Any = conf.ENCRYPTION_KEYS
    if isinstance(keys, str):
        try:
            keys = import_string(keys)()
        except Exception as error:
            # Neither its text nor the setting is told: a key that was mistaken for a path may be in them.
            why = type(error).__name__
            raise SessionNotReadable(f"The function REDSESS['ENCRYPTION_KEYS'] raised {why}.") from error
    if not are_keys(keys):
        raise SessionNotReadable("REDSESS['ENCRYPTION_KEYS'] is no list of texts or bytes, and returns none.")
    return tuple(keys)


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting in ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "REDSESS"):
        _ciphers.cache_clear()
        own_keys.cache_clear()


setting_changed.connect(_forget)
