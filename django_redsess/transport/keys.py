"""Session keys and sids, buckets and partitions, and the name of every key in Redis."""

from __future__ import annotations

import re
from binascii import b2a_base64
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import product
from os import urandom
from string import ascii_lowercase, digits
from typing import NamedTuple

from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.core.exceptions import ImproperlyConfigured
from redis.crc import REDIS_CLUSTER_HASH_SLOTS, key_slot

from django_redsess.conf import PREFIX_TEXT, conf

PREFIXES_KEPT = 256
"""For how many prefixes names are cached. Each tenant may have one."""

BUCKETS = 1024
"""How many parts sessions are divided into. A partition has a run of them, so there are at most as many partitions."""

KEY_LENGTH = 32
"""The length of a session key that is made here. Keys that were made elsewhere may have others."""

KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)

# The two characters that stand for each bucket, as the first two of a key.
_BUCKET_CHARS = [a + b for a, b in product(digits + ascii_lowercase, repeat=2)][:BUCKETS]

# Each byte stands for a character, and each character for equally many bytes. The bytes left over are not used.
_CHARACTERS = (VALID_KEY_CHARS * 8).encode()[:256]
_LEFT_OVER = bytes(range(256 - 256 % len(VALID_KEY_CHARS), 256))

_NO_ESCAPING = bytes.maketrans(b"+/", b"._")
_SID = re.compile(r"[0-9a-z]{2}[0-9A-Za-z._]{18}")


def new_key(bucket: int | None = None) -> str:
    """
    Return a session key that nobody can guess.

    Its first two characters write ``bucket``, or a random one; the other 30 are random: 155 bits.
    """
    # As random as Django's keys, and twenty times as fast: Django asks for each character alone. Twice as many bytes
    # are asked for as are needed. More than half of them are left over once in 10^40 times.
    random = urandom(2 * KEY_LENGTH)
    if bucket is None:
        # Two random characters would not do: they have 1 296 values, of which some stand for the same bucket.
        bucket = int.from_bytes(random[:2], "big") % BUCKETS
    return key_in_bucket(bucket, random[2:])


def key_in_bucket(bucket: int, random: bytes) -> str:
    """Return a session key in ``bucket``, of 62 or more random bytes."""
    return _BUCKET_CHARS[bucket] + random.translate(_CHARACTERS, _LEFT_OVER)[: KEY_LENGTH - 2].decode()


def sid_of(session_key: str) -> str:
    """
    Return the sid of ``session_key``, which names the session and does not give the key away.

    It has 20 characters: the key's first two, which tell the bucket, and 18 of the base64 of its SHA-256, with ``.``
    and ``_`` in place of ``+`` and ``/``. Nobody can make a cookie from it.
    """
    digest = b2a_base64(sha256(session_key.encode()).digest())
    return session_key[:2] + digest[:18].translate(_NO_ESCAPING).decode()


def is_session_key(key: object) -> bool:
    """Tell whether ``key`` may be a session key. Another one names no session, and is never sent to the server."""
    # Eight is Django's own minimum length.
    return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)


def is_sid(text: str) -> bool:
    """Tell whether ``text`` has the form of a sid."""
    return _SID.fullmatch(text) is not None


def bucket_of(key_or_sid: str) -> int:
    """Return the bucket of a session. Its key and its sid tell the same, and it never changes."""
    return int(key_or_sid[:2], 36) % BUCKETS


def bucket_of_user(user_id: str) -> int:
    """Return the bucket in which all sessions of a user are: the first ten bits of the digest of the id."""
    return int.from_bytes(sha256(user_id.encode()).digest()[:2], "big") >> 6


@dataclass(frozen=True, slots=True)
class Partition:
    """
    The names of a complete set of keys, all of them in one hash slot.

    Each name begins with ``tag`` in braces. The server hashes only what is in the braces.
    """

    tag: str

    def _name(self, rest: str) -> str:
        return f"{{{self.tag}}}:{rest}"

    @property
    def login(self) -> str:
        """Hash: sid → record."""
        return self._name("login")

    @property
    def expire(self) -> str:
        """Sorted set: sid → deadline."""
        return self._name("expire")

    @property
    def recent(self) -> str:
        """Sorted set: sid → last seen, sessions with a user."""
        return self._name("recent")

    @property
    def guests(self) -> str:
        """Sorted set: sid → last seen, sessions without a user."""
        return self._name("guests")

    @property
    def online_user(self) -> str:
        """Sorted set: sid → login time, sessions with a user."""
        return self._name("online:user")

    def online_user_of(self, user_id: str) -> str:
        """Sorted set: sid → login time, the sessions of one user. Scripts append the id to the name of ``''``."""
        return self._name(f"online:user:{user_id}")

    def message_of(self, user_id: str) -> str:
        """Text: a message for the next sign-in of one user, kept for a day. See ``session/notice.py``."""
        return self._name(f"message:{user_id}")

    def tries_of(self, user_id: str, login_ms: int) -> str:
        """Text: when passwords were tried in one user's session with this login time. See ``lua/tries.lua``."""
        return self._name(f"tries:{login_ms}:{user_id}")

    def lock_of(self, sid: str) -> str:
        """Text: the token of the request that has the lock of a session. See ``session/lock.py``."""
        return self._name(f"lock:{sid}")

    def waiting_of(self, sid: str) -> str:
        """Sorted set: token → number in line, the requests that wait for the lock of a session."""
        return self._name(f"lock:waiting:{sid}")

    def alive_of(self, sid: str) -> str:
        """Sorted set: token → until when the waiting request counts as alive."""
        return self._name(f"lock:alive:{sid}")

    @property
    def blocked(self) -> str:
        """Sorted set: user id → when the user may sign in again. See ``session/blocks.py``."""
        return self._name("blocked")

    def block_of(self, user_id: str) -> str:
        """
        Text: the message for one blocked user, and the user who set the block. It goes with the block.

        Or that the block was lifted. It goes when the block would have been over.
        """
        return self._name(f"blocked:{user_id}")

    def viewed_by(self, sid: str) -> str:
        """Sorted set: item → time viewed, in one session. Scripts append the sid to the name of ``''``."""
        return self._name(f"viewed:{sid}")

    def ended_of(self, sid: str) -> str:
        """Text: why a session is gone, kept for a while. Scripts append the sid to the name of ``''``."""
        return self._name(f"ended:{sid}")

    def moved_of(self, sid: str) -> str:
        """Text: that a session was moved here from another store: see ``moving``. It stays when the session ends."""
        return self._name(f"moved:{sid}")

    def over_of(self, user_id: str) -> str:
        """Text: until when the sessions are over that one user has in the store that sessions are moved from."""
        return self._name(f"over:user:{user_id}")

    @property
    def over_users(self) -> str:
        """Text: the same of all sessions with a user."""
        return self._name("over:users")

    @property
    def over_guests(self) -> str:
        """Text: the same of all sessions without a user."""
        return self._name("over:guests")

    @property
    def wake(self) -> str:
        """List, at most one entry: wakes a cleaner when a deadline appears that is earlier than all others."""
        return self._name("wake")

    @property
    def totals(self) -> str:
        """Hash: how many sessions were created, and ended for each reason, guests also apart; all views of items."""
        return self._name("totals")

    @property
    def samples(self) -> str:
        """Sorted set, bounded: how many were signed in and how many guests, and the totals → minute."""
        return self._name("samples")

    @property
    def samples_active(self) -> str:
        """Sorted set, bounded: how many of both were active → minute."""
        return self._name("samples:active")

    @property
    def both_samples(self) -> list[str]:
        """The names of the two sorted sets of samples."""
        return [self.samples, self.samples_active]

    @property
    def viewed(self) -> str:
        """Sorted set: item → views, negative, so that the most viewed comes first."""
        return self._name("viewed")

    @property
    def meta(self) -> str:
        """Hash: what all processes with this store must agree on. See :attr:`Keyspace.deciding_partition`."""
        return self._name("meta")

    @property
    def lists(self) -> list[str]:
        """The names of the hash and the sorted sets that hold all sessions, or all of a kind."""
        return [self.login, self.expire, self.recent, self.guests, self.online_user]

    @property
    def names(self) -> list[str]:
        """A name of each kind."""
        of_one = [self.online_user_of("0"), self.message_of("0"), self.viewed_by("0"), self.ended_of("0")]
        of_one += [self.moved_of("0"), self.over_of("0"), self.over_users, self.over_guests]
        of_one += [self.block_of("0"), self.blocked, self.tries_of("0", 0)]
        of_one += [self.lock_of("0"), self.waiting_of("0"), self.alive_of("0")]
        return [*self.lists, *of_one, self.wake, self.totals, *self.both_samples, self.viewed, self.meta]

    def kind_of(self, name: str) -> str:
        """
        Tell what key of this partition ``name`` is: ``"list"`` holds sessions, ``"user"`` those of one user.

        ``"session"`` belongs to a session, ``"other"`` is any other, and ``""`` is a name that is not made here.
        """
        if name in self.lists:
            return "list"
        others = (self.blocked, self.wake, self.totals, *self.both_samples, self.viewed, self.meta)
        others += (self.over_users, self.over_guests)
        of_user = (self.message_of(""), self.over_of(""), self.block_of(""), self._name("tries:"))
        # A lock's name begins as those of who waits for it.
        of_one = (*of_user, self.moved_of(""), self.lock_of(""))
        if name in others or name.startswith(of_one):
            return "other"
        if name.startswith(self.online_user_of("")):
            return "user"
        return "session" if name.startswith((self.viewed_by(""), self.ended_of(""))) else ""


@dataclass(frozen=True, slots=True)
class Keyspace:
    """All partitions of one store. ``count`` is how many there are: a power of two, at most 1 024."""

    prefix: str
    count: int = 1

    @property
    def deciding_partition(self) -> Partition:
        """
        The partition whose key ``meta`` decides: the only one. With several partitions, it is none of them.

        Its name does not depend on ``count``. Each of several partitions has a copy of that key.
        """
        return Partition(self.prefix)

    @property
    def partitions(self) -> list[Partition]:
        """Every partition, in order."""
        return _partitions(self.prefix, self.count)

    @property
    def pattern(self) -> str:
        """The pattern by which SCAN finds every name of this store. It may find names of other stores too."""
        prefix = "".join(f"\\{letter}" if letter in "*?[]\\^-" else letter for letter in self.prefix)
        return f"{{{prefix}}}:*" if self.count == 1 else f"{{{prefix}[:}}]*"

    def quota(self, maximum: int) -> int:
        """Return the share of ``maximum`` that one partition has, rounded up."""
        return -(-maximum // self.count)

    def of_name(self, name: str) -> Partition | None:
        """Return the partition whose key ``name`` is; None for one of another store, or of no partition."""
        tag = name[1:].partition("}")[0]
        mine = name.startswith("{") and tag in _tags(self.prefix, self.count)
        return Partition(tag) if mine else None

    def of_sid(self, sid: str) -> Partition:
        """Return the partition of a session."""
        return self.of_bucket(bucket_of(sid)) if self.count > 1 else self.partitions[0]

    def number_of(self, sid: str) -> int:
        """Return the number of a session's partition, from 0 on."""
        return bucket_of(sid) * self.count >> 10

    def of_user(self, user_id: str) -> Partition:
        """Return the home partition of a user, where all of that user's sessions are."""
        return self.of_bucket(bucket_of_user(user_id))

    def of_item(self, item: str) -> Partition:
        """Return the partition that counts the views of ``item``."""
        return self.partitions[int.from_bytes(sha256(item.encode()).digest()[:3], "big") * self.count >> 24]

    def of_bucket(self, bucket: int) -> Partition:
        """Return the partition that has ``bucket``. Of twice as many partitions, each has half as many buckets."""
        return self.partitions[bucket * self.count >> 10]


@lru_cache(maxsize=PREFIXES_KEPT)
def _partitions(prefix: str, count: int) -> list[Partition]:
    return [Partition(tag) for tag in _tags(prefix, count)]


@lru_cache(maxsize=PREFIXES_KEPT)
def _tags(prefix: str, count: int) -> list[str]:
    # In a cluster each node serves a range of hash slots. The slots are divided into ``count`` equal ranges, and each
    # gets one tag. So the partitions spread evenly over any number of nodes.
    if count == 1:
        return [prefix]
    tags: dict[int, str] = {}
    number = 0
    while len(tags) < count:
        tag = f"{prefix}:{number}"
        tags.setdefault(key_slot(tag.encode()) * count // REDIS_CLUSTER_HASH_SLOTS, tag)
        number += 1
    return [tags[part] for part in range(count)]


class Store(NamedTuple):
    """A store of this engine: the entry of ``CACHES`` that connects to it, its prefix, its number of partitions."""

    alias: str
    prefix: str
    partitions: int


_OTHER: ContextVar[Store | None] = ContextVar("django_redsess_store", default=None)
other_store = _OTHER.get
"""Return the store that is used in place of the settings' own; None for that."""


@contextmanager
def using(store: Store | None) -> Iterator[None]:
    """Let the calls within use ``store`` in place of the one that the settings describe; None stands for that one."""
    token = _OTHER.set(store)
    try:
        yield
    finally:
        _OTHER.reset(token)


def prefix() -> str:
    """Return the prefix of the store that is used."""
    other = other_store()
    return conf.PREFIX if other is None else other.prefix


def keyspace() -> Keyspace:
    """Return the keyspace of the store that is used. Raises ImproperlyConfigured for a prefix that can't be."""
    other = other_store()
    if other is None:
        return _keyspace(conf.PREFIX, conf.PARTITIONS)
    return _keyspace(other.prefix, other.partitions)


@lru_cache(maxsize=PREFIXES_KEPT)
def _keyspace(prefix: str, count: int) -> Keyspace:
    # Checks are not always run, and what belongs to another site must not be touched.
    if not PREFIX_TEXT.allows(prefix):
        raise ImproperlyConfigured(f"REDSESS['PREFIX'] must be {PREFIX_TEXT.words}; it is {prefix!r}.")
    return Keyspace(prefix, count)
