"""
The encryption of records: AES-GCM with keys of 256 bits, from the package ``cryptography``.

An encrypted record has no seal: what AES-GCM adds, a nonce before and a tag behind, takes its place. The header of the
record, its format and its sid are covered as by the seal. Nonces are random. So a key may write a bounded number of
records, and there are several: sessions are divided into 16 groups by their sids, and each has a key of its own. A key
for each session would cost as much as the encryption itself: a cipher takes long to set up.

Before the nonce stands the name of the site's key that has encrypted the record. AES-GCM alone can't tell a record of
another key from a forged one. By the name, a process knows that it lacks the key, and signs nobody out.

The package is imported when it is first needed: a site that never encrypts needs none.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
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
from django_redsess.transport.agreement import FORMAT, derived_key
from django_redsess.transport.keys import PREFIXES_KEPT, prefix

NONCE_SIZE, TAG_SIZE = 12, 16
"""In bytes. These are the sizes that NIST SP 800-38D recommends."""

NAME_SIZE = 2
"""Bytes of the name of a key. The first bit says whether it is one of ``ENCRYPTION_KEYS``; the others are a hash."""

OWN_BIT = 128
"""The first bit of the name of one of ``ENCRYPTION_KEYS``. It is not set in those of ``SECRET_KEY`` and fallbacks."""

KEY_LENGTH_MIN, KEY_CHARACTERS_MIN = 32, 8
"""How long a key is at least, and how many different characters or bytes it has."""

INSECURE_PREFIX = "django-insecure-"
"""Prefix of the keys that Django's ``startproject`` makes."""

logger = logging.getLogger("django_redsess")

GROUPS = 16
"""How many groups of sessions have a key of their own. A part of the record's format."""


class KeyMissing(SessionNotReadable):
    """A record was encrypted with one of ``ENCRYPTION_KEYS`` that this process does not have."""


class Ciphers(NamedTuple):
    """
    What encrypts the records of one prefix.

    ``of_names`` are the lists of ciphers of each key of the site, by its name, as far as two keys have one name. Each
    list has a cipher for each group. The key called ``writing`` writes, by its first list. ``invalid_tag`` is what a
    cipher raises for bytes that it did not make.
    """

    writing: bytes
    of_names: dict[bytes, list[list[Any]]]
    invalid_tag: type[Exception]


def encrypted(sid: str, header: bytes, parts: bytes) -> bytes:
    """
    Return ``parts`` of the record of ``sid`` encrypted: name of the key, nonce, ciphertext, tag.

    ``header`` is covered, not hidden. Raises SessionNotReadable if the package or the keys are missing here.
    """
    ciphers = _ciphers(prefix())
    nonce = urandom(NONCE_SIZE)
    name = ciphers.writing
    cipher = ciphers.of_names[name][0][_group_of(sid)]
    sealed: bytes = cipher.encrypt(nonce, parts, _covered(sid, header, name))
    return name + nonce + sealed


def decrypted(sid: str, header: bytes, encrypted: bytes) -> bytes | None:
    """
    Return the parts that :func:`encrypted` got, or None: no key of this site made these bytes, with this header.

    Raises KeyMissing if another one of ``ENCRYPTION_KEYS`` made them, as far as their first bytes tell. Raises
    SessionNotReadable if the package or the keys are missing here.
    """
    ciphers = _ciphers(prefix())
    if len(encrypted) < NAME_SIZE + NONCE_SIZE + TAG_SIZE:
        return None
    name, nonce, sealed = encrypted[:NAME_SIZE], encrypted[NAME_SIZE:_SEALED_AT], encrypted[_SEALED_AT:]
    if name not in ciphers.of_names and name[0] & OWN_BIT:
        raise KeyMissing(
            "A session is encrypted with a key that is not in REDSESS['ENCRYPTION_KEYS'] of this process. Each process "
            "needs all keys that write: deploy a new one to all of them before the first one writes with it."
        )
    group, covered = _group_of(sid), _covered(sid, header, name)
    for of_groups in ciphers.of_names.get(name, ()):
        try:
            parts: bytes = of_groups[group].decrypt(nonce, sealed, covered)
        except ciphers.invalid_tag:
            continue
        return parts
    return None


_SEALED_AT = NAME_SIZE + NONCE_SIZE


def has_key(name: bytes) -> bool:
    """Tell whether this process has a key of this name. Raises SessionNotReadable as :func:`encrypted` does."""
    return name in _ciphers(prefix()).of_names


def _group_of(sid: str) -> int:
    # Not by the bucket: that of a busy user would be that of all their sessions.
    return crc32(sid.encode()) % GROUPS


def _covered(sid: str, header: bytes, name: bytes) -> bytes:
    # Sid and name have a fixed length, and the header has its own. So no two of them make the same bytes.
    return b"".join((FORMAT, sid.encode(), name, header))


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
    # The calls that may raise come first: a page of an error shows the values of the functions that it came through.
    cipher, invalid_tag = aesgcm()
    keys = [(key, OWN_BIT) for key in own_keys()]
    keys += [(key, 0) for key in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]
    of_names, writing = dict[bytes, list[list[Any]]](), b""
    for key, bit in keys:
        # Another purpose than the seal's gives another key.
        derived = derived_key(key, b"redsess.cipher", prefix)
        name = _name_of(derived, bit)
        writing = writing or name
        of_names.setdefault(name, []).append([cipher(_key_of(derived, group)) for group in range(GROUPS)])
    return Ciphers(writing, of_names, invalid_tag)


def _key_of(key: bytes, group: int) -> bytes:
    return blake2b(bytes([group]), digest_size=32, key=key).digest()


def _name_of(key: bytes, bit: int) -> bytes:
    first, second = blake2b(b"name", digest_size=NAME_SIZE, key=key).digest()
    return bytes([first & ~OWN_BIT | bit, second])


@lru_cache(maxsize=1)
def own_keys() -> tuple[str | bytes, ...]:
    """
    Return ``ENCRYPTION_KEYS``, none if the setting is None. A function that it names is called once in a process.

    A weak key that the function returns is logged: no check can call it. Raises SessionNotReadable if that function
    fails, or for anything but a list of texts or bytes, at least one.
    """
    keys, why = _read_keys()
    # Not raised there: neither the error nor its cause, nor the values of a function that it came through, may show a
    # key. One that was mistaken for a dotted path is in the text of the error of its import.
    if why:
        raise SessionNotReadable(why)
    return keys


def _read_keys() -> tuple[tuple[str | bytes, ...], str]:
    """Return ``ENCRYPTION_KEYS``, or why there are none."""
    keys: Any = conf.ENCRYPTION_KEYS
    is_function = isinstance(keys, str)
    if is_function:
        try:
            keys = import_string(keys)()
        except Exception as error:
            return (), f"The function REDSESS['ENCRYPTION_KEYS'] raised {type(error).__name__}."
    elif keys is None:
        return (), ""
    if not are_keys(keys):
        # Not even an empty list stands for SECRET_KEY: who wants its own keys must not get a key that more people know.
        given = "The function REDSESS['ENCRYPTION_KEYS'] returns" if is_function else "REDSESS['ENCRYPTION_KEYS'] is"
        return (), f"{given} no list of texts or bytes, or an empty one."
    for number, key in enumerate(keys if is_function else ()):
        weak = [*weaknesses(key), *(["is SECRET_KEY, or one of its fallbacks"] if is_secret_key(key) else [])]
        if why := ", ".join(weak):
            logger.warning("The function REDSESS['ENCRYPTION_KEYS'] returns a weak key, number %d: it %s.", number, why)
    return tuple(keys), ""


def weaknesses(key: str | bytes) -> Iterator[str]:
    """Say why a key of ``ENCRYPTION_KEYS`` is weak, in words that follow "it". Nothing for a strong one."""
    if len(key) < KEY_LENGTH_MIN:
        yield f"has fewer than {KEY_LENGTH_MIN} characters"
    if len(set(key)) < KEY_CHARACTERS_MIN:
        yield f"has fewer than {KEY_CHARACTERS_MIN} different ones"
    if _bytes(key).startswith(INSECURE_PREFIX.encode()):
        yield f"begins with {INSECURE_PREFIX!r}"


def is_secret_key(key: str | bytes) -> bool:
    """Tell whether a key is ``SECRET_KEY``, or one of its fallbacks."""
    return _bytes(key) in map(_bytes, (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS))


def _bytes(key: str | bytes) -> bytes:
    return key.encode() if isinstance(key, str) else key


def _forget(*, setting: str, **kwargs: Any) -> None:
    if setting in ("SECRET_KEY", "SECRET_KEY_FALLBACKS", "REDSESS"):
        _ciphers.cache_clear()
        own_keys.cache_clear()


setting_changed.connect(_forget)
