"""Stores that are known by their session engine: caches, files, signed cookies, and django-redis-sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from secrets import token_urlsafe
from typing import Any

from django.conf import settings
from django.contrib.sessions.backends import cached_db
from django.contrib.sessions.backends.base import VALID_KEY_CHARS, SessionBase
from django.core import signing
from django.core.cache import caches
from django.core.cache.backends.base import InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from django.utils.crypto import get_random_string

from django_redsess.contrib.moving.contents import log_unmovable
from django_redsess.contrib.moving.outages import is_outage
from django_redsess.contrib.moving.sources.base import KEY_MAX, PAGE, Row, Source
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.client import Client
from django_redsess.session.state import ENDED, not_saved
from django_redsess.transport.keys import is_session_key, keyspace, sid_of
from django_redsess.transport.steps import current_time, drive

FOR_EVER = -1
"""What PTTL replies for a name without an end."""

KEY_LENGTH = 32
"""The length of the keys that Django's engines make."""

PROBES = 1000
"""How many random keys show how a store makes names of keys. Nothing is written under them."""

OTHER_PREFIX = cached_db.KEY_PREFIX
"""The prefix of another engine in the same cache. It begins with that of the engine ``cache``."""


def _not_listed(why: str) -> ImproperlyConfigured:
    return ImproperlyConfigured(
        f"{why}: sessions there move at their requests only. After SESSION_COOKIE_AGE in step 2, none is left that "
        "could move. Then set SESSION_ENGINE to 'django_redsess.backend', and remove MOVE_FROM and MOVES."
    )


def _texts(names: Iterable[bytes | str]) -> Iterator[str]:
    for name in names:
        yield name.decode(errors="surrogateescape") if isinstance(name, bytes) else name


def _escaped(text: str) -> str:
    """Return a pattern of Redis that stands for ``text`` itself."""
    return re.sub(r"[\\*?\[\]]", r"\\\g<0>", text)


class EngineSource(Source):
    """A store that is known by its session engine, and by the alias of its cache if it has one."""

    def __init__(self, engine: type[Any], alias: str) -> None:
        self.engine: type[Any] = engine
        self.alias = alias

    @property
    def name(self) -> str:
        return self.engine.__module__

    @property
    def cache(self) -> Any:
        """The cache of an engine that has one."""
        return caches[self.alias]

    def load_row(self, key: str) -> Row | None:
        """Return the session with this key, None if there is none. Raises anything if it is there and can't be read."""
        raise NotImplementedError

    def read_row(self, key: str) -> Row | None:
        return next((row for _, row in self.load_each([key], self.load_row)), None)

    def load_each(self, keys: Iterable[str], load_row: Callable[[str], Row | None]) -> Iterator[tuple[str, Row | None]]:
        """Yield key and row of each session that ``load_row`` finds. A row that can't be read is None, and logged."""
        for key in keys:
            row, why = None, "its key is none"
            if self.could_be_key(key):
                try:
                    if (row := load_row(key)) is None:
                        continue
                    why = "its data are no dict"
                except (ImproperlyConfigured, NotImplementedError, SessionStoreUnavailable):
                    raise
                except Exception as error:  # What was pickled may raise anything.
                    if is_outage(error):
                        raise
                    why = type(error).__name__
            if row is None or not isinstance(row.data, dict):
                log_unmovable(key, why)
                row = None
            yield key, row

    def open_session(self, key: str | None, client: Client) -> SessionBase:
        session: Any = super().open_session(key, client)
        if hasattr(session, "_cache"):
            # It takes the one of SESSION_CACHE_ALIAS, and that may be another one by now.
            session._cache = self.cache
        return session  # type: ignore[no-any-return]

    def delete_row(self, key: str) -> None:
        self.open_session(None, Client()).delete(key)

    def could_be_key(self, key: str) -> bool:
        # Django takes any text of eight characters. It writes none that can't be printed.
        return is_session_key(key) or (8 <= len(key) <= KEY_MAX and key.isprintable())


def now_here(key: str = "") -> int:
    """
    Return the time of the server here that is asked for the session ``key`` first, in milliseconds.

    The clock of a web server may be an hour off, and the other store's may be another one. Raises
    SessionStoreUnavailable in an outage.
    """
    space = keyspace()
    partition = space.of_sid(sid_of(key)) if is_session_key(key) else space.partitions[0]
    return drive(current_time(partition))


def _row_with_ttl(key: str, data: dict[str, Any], left: int) -> Row | None:
    """Return the row of a session that has so many milliseconds ``left``, as PTTL tells."""
    if left == FOR_EVER:
        return Row(data)
    return Row(data, now_here(key) + left) if left > 0 else None


def decode_data(session: Any, packed: str) -> dict[str, Any]:
    """
    Return a session's data. Raises anything if they can't be read: decode() logs tampering itself, and returns {}.

    A session without data is one, too: its cookie stays.
    """
    data: dict[str, Any] = session.decode(packed)
    if not data:
        signing.loads(packed, salt=session.key_salt, serializer=session.serializer)
    return data


class CacheSource(EngineSource):
    """
    A cache of Django: of its ``cache`` engine on django-redis, on Django's own Redis cache, or in the memory.

    The cache itself is asked, since the engine takes an outage for a missing session. So is the server, where
    django-redis is told to ignore errors.
    """

    def __init__(self, engine: type[Any], alias: str) -> None:
        super().__init__(engine, alias)
        self.prefix: str = engine.cache_key_prefix

    def delete_row(self, key: str) -> None:
        self.cache.delete(self.prefix + key)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        return self.load_each(self._list_keys(), self.load_row)

    def load_row(self, key: str) -> Row | None:
        cache, name = self.cache, self.prefix + key
        full = cache.make_key(name)
        server = self._server(full)
        try:
            if server is not None and hasattr(cache, "client"):
                packed = server.get(full)
                data = None if packed is None else cache.client.decode(packed)
            else:
                data = cache.get(name)
        except InvalidCacheKey:
            return None
        left = server.pttl(full) if server is not None else self._left_in_memory(full)
        return None if data is None else _row_with_ttl(key, data, left)

    def _server(self, full: str) -> Any:
        """Return the client of the server with this full name, or None. A replica may lack what was just written."""
        client: Any = getattr(self.cache, "client", None)
        django: Any = getattr(self.cache, "_cache", None)
        if hasattr(client, "get_server"):  # It has several, and chooses one by the name.
            return client.get_server(full)
        if hasattr(client, "get_client"):  # django-redis and django-valkey
            return client.get_client(write=True)
        return django.get_client(full, write=True) if hasattr(django, "get_client") else None

    def _left_in_memory(self, full: str) -> int:
        expires = getattr(self.cache, "_expire_info", {}).get(full)
        # In its own memory, a process has written that by the same clock.
        return int((expires - timezone.now().timestamp()) * 1000) if expires else FOR_EVER

    def _list_keys(self) -> Iterator[str]:
        """Yield the keys of all sessions there. Raises ImproperlyConfigured unless each name tells its key."""
        cache, kind = self.cache, type(self.cache).__name__
        server = None if hasattr(getattr(cache, "client", None), "get_server") else self._server("")
        if server is None:
            raise _not_listed(f"{kind} can't list all its keys")
        # Many: a part of the name may depend on the key.
        probes = (get_random_string(KEY_LENGTH, VALID_KEY_CHARS) for _ in range(PROBES))
        around = {tuple(cache.make_key(self.prefix + probe).split(probe)) for probe in probes}
        if len(around) != 1 or len(next(iter(around))) != 2:
            raise _not_listed(f"The names that {kind} makes by its KEY_FUNCTION do not tell the keys")
        [(start, end)] = around
        for full in _texts(server.scan_iter(match=f"{_escaped(start)}*{_escaped(end)}", count=PAGE)):
            key = full[len(start) : len(full) - len(end)]
            if (self.prefix + key).startswith(OTHER_PREFIX) and self.prefix != OTHER_PREFIX:
                continue
            if cache.make_key(self.prefix + key) != full:
                raise _not_listed(f"A name in {kind} does not tell its key")
            yield key


class FileSource(EngineSource):
    """Django's ``file`` engine."""

    in_order = True

    def load_row(self, key: str) -> Row | None:
        session = self.engine(key)
        try:
            written = Path(session._key_to_file()).read_text(encoding="ascii")
            data = decode_data(session, written)
            age = session.get_expiry_age(expiry=session._expiry_date(data))
        except FileNotFoundError:
            return None
        except (IsADirectoryError, PermissionError) as error:
            # That file is odd, and not the disk.
            raise ValueError("The session's file is a folder, or can't be read.") from error
        # The clock of this computer has written the file's time, too.
        return _row_with_ttl(key, data, int(max(age, 0) * 1000))

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        if not getattr(settings, "SESSION_FILE_PATH", None):
            raise ImproperlyConfigured(
                "SESSION_FILE_PATH is not set, and this process may have another temporary folder than the site: set "
                "it to the folder where the files of the sessions are."
            )
        session = self.engine()
        start = len(session.file_prefix)
        # The cookie of another site may have a name that begins as ours. Then its files do, too.
        length = len(session._get_new_session_key())
        names = sorted(name for name in os.listdir(session.storage_path) if name.startswith(session.file_prefix))
        keys = (name[start:] for name in names if len(name) == start + length and name[start:] > after)
        return self.load_each(keys, self.load_row)

    def could_be_key(self, key: str) -> bool:
        # It is a part of a path.
        return is_session_key(key)


RANDOM = "_redsess"
"""The key under which signed cookies have a random text: see :func:`_with_random_text`."""


def _with_random_text(engine: type[Any]) -> type[Any]:
    """
    Return a class of signed cookies no two of which are equal.

    Those of Django are, if they have the same data and are signed within a second. Then an end of one ends the other,
    and a new key is the old one.
    """

    class SessionStore(engine):  # type: ignore[misc]
        def save(self, must_create: bool = False) -> None:
            self._session[RANDOM] = token_urlsafe(9)
            super().save(must_create)

    return SessionStore


class SignedCookieSource(EngineSource):
    """Django's ``signed_cookies`` engine: the key is the session. There are no rows, and nothing can be deleted."""

    def __init__(self, engine: type[Any], alias: str) -> None:
        super().__init__(_with_random_text(engine), alias)

    def read_row(self, key: str) -> Row | None:
        session = self.engine()
        salt, age = "django.contrib.sessions.backends.signed_cookies", session.get_session_cookie_age()
        try:
            data = signing.loads(key, serializer=session.serializer, salt=salt)
            data.pop(RANDOM, None)
            deadline = (signing.b62_decode(key.rsplit(":", 2)[1]) + age) * 1000
        except Exception:  # A serializer may raise anything.
            return None
        # Of the servers' clocks this is the one that all processes of the site share.
        return Row(data, deadline) if deadline > now_here() else None

    def delete_row(self, key: str) -> None:
        pass

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        raise _not_listed("Signed cookies are in the browsers only")

    def could_be_key(self, key: str) -> bool:
        return key.count(":") >= 2


class RedisSessionsSource(EngineSource):
    """django-redis-sessions."""

    def load_row(self, key: str) -> Row | None:
        session = self.engine(key)
        name = session.get_real_stored_key(key)
        packed, left = session.server.get(name), session.server.pttl(name)
        if packed is None:
            return None
        return _row_with_ttl(key, decode_data(session, packed.decode() if isinstance(packed, bytes) else packed), left)

    def write_row(self, key: str, data: dict[str, Any]) -> None:
        if not self.open_session(None, Client()).exists(key):
            # Its engine saves what is gone, too.
            raise not_saved(ENDED)
        super().write_row(key, data)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        if import_module("redis_sessions.settings").SESSION_REDIS_POOL:
            raise _not_listed("SESSION_REDIS_POOL has several servers")
        session = self.engine()
        start = session.get_real_stored_key("")
        # Without a prefix, all that the database has could be a session.
        pattern = f"{_escaped(start)}*" if start else "[0-9a-z]" * KEY_LENGTH
        names = _texts(session.server.scan_iter(pattern, count=PAGE))
        # A longer prefix of another site may begin as this one.
        return self.load_each((name[len(start) :] for name in names if ":" not in name[len(start) :]), self.load_row)
