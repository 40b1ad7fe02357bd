"""The stores that sessions are moved from: one adapter for each kind. A row is read, its session is never loaded."""

from __future__ import annotations

import inspect
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import cache, db, file, signed_cookies
from django.contrib.sessions.backends.base import SessionBase
from django.core import signing
from django.core.cache import caches
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils import timezone
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.session import script_calls
from django_redsess.session.record import Client, data_of, log_unusable, unpack
from django_redsess.session.saving import Visit, is_key
from django_redsess.session.session_store import SessionStore
from django_redsess.times import aware
from django_redsess.transport import sending
from django_redsess.transport.keys import Store, keyspace, sid_of, using
from django_redsess.transport.round_trips import Steps, T, ask_each, drive, with_scores

PAGE = 500
"""How many rows are read at once."""


class Row(NamedTuple):
    """
    A live session in the store that it is moved from.

    ``data`` is the session's dict. ``deadline`` is when it expires there, in milliseconds since 1970, or None if that
    is not known. The rest is known by stores of this engine only: the times of the sign-in and of the last request in
    milliseconds, 0 if unknown; what the session viewed: item, time, item, time, …; and when it was read.
    """

    data: dict[str, Any]
    deadline: int | None = None
    signed_in: int = 0
    last_seen: int = 0
    viewed: tuple[bytes, ...] = ()
    read_at: int = 0


class Source:
    """
    A store that sessions are moved from. For one that is not known here, write a subclass, and name it in
    ``MOVE_FROM``. All methods may wait, and raise what their store raises in an outage: nobody is signed out by that.
    """

    engine: type[SessionBase] | None = None
    """The class of its sessions, which goes on writing them as long as ``MOVES`` is False."""

    @property
    def name(self) -> str:
        """What pages and commands call it."""
        return type(self).__name__

    names_are_sids = False
    """Whether ``rows`` names sessions by their sids here, and not by their keys."""

    def read(self, key: str) -> Row | None:
        """Return the session with this key; None if there is none, or if it has expired. Nothing is written."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Delete the session with this key. A missing session is no error."""
        raise NotImplementedError

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        """Yield key and row of each live session, in the order of keys if possible: those with keys above ``after``."""
        raise NotImplementedError

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """Read several sessions. A subclass may do it at once."""
        found = {key: self.read(key) for key in keys}
        return {key: row for key, row in found.items() if row is not None}

    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete several sessions. A subclass may do it at once."""
        for key in keys:
            self.delete(key)

    def write(self, key: str, data: dict[str, Any]) -> None:
        """Write the data of a session that is there, as its engine does. Only ``movesessions --back`` needs it."""
        session = self.opened(key, Client())
        fill(session, data)
        session.save()

    def count(self) -> int | None:
        """Return how many sessions there are, about; None if counting would take as long as reading them."""
        return None

    def is_key(self, key: str) -> bool:
        """Tell whether ``key`` could be a key of a session there. Others are not asked for."""
        return is_key(key)

    def opened(self, key: str | None, client: Client) -> SessionBase:
        """Return a session object of ``engine``. django-qsessions and django-user-sessions take the client, too."""
        if self.engine is None:
            raise ImproperlyConfigured(f"{type(self).__name__} has no engine: REDSESS['MOVES'] can't be False with it.")
        takes = inspect.signature(self.engine).parameters
        known = {"ip": client.address or None, "user_agent": client.user_agent or None}
        return self.engine(key, **{name: value for name, value in known.items() if name in takes})


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

    def opened(self, key: str | None, client: Client) -> SessionBase:
        session: Any = super().opened(key, client)
        if hasattr(session, "_cache"):
            # It takes the one of SESSION_CACHE_ALIAS, and that may be another one by now.
            session._cache = self.cache
        return session  # type: ignore[no-any-return]

    def delete(self, key: str) -> None:
        self.opened(None, Client()).delete(key)


def _decoded(session: Any, packed: str) -> dict[str, Any] | None:
    """
    Return a session's data, or None if it can't be read: decode() logs what was tampered with, and returns {}.

    A session without data is one, too: its cookie stays.
    """
    data: dict[str, Any] = session.decode(packed)
    if not data:
        try:
            signing.loads(packed, salt=session.key_salt, serializer=session.serializer)
        except Exception:  # A serializer may raise anything.
            return None
    return data


class DatabaseSource(EngineSource):
    """A table of a database: of Django's ``db`` and ``cached_db``, of engines derived from them, of user-sessions."""

    # By what is in the table: the last page of rows(). Those that have not changed are not decoded again.
    _page: Mapping[tuple[str, Any], Row | None] = {}

    @property
    def model(self) -> Any:
        """The model of the table."""
        if hasattr(self.engine, "get_model_class"):
            return self.engine.get_model_class()
        return vars(import_module(self.engine.__module__))["Session"]

    @property
    def _live(self) -> Any:
        return self.model._default_manager.filter(expire_date__gt=timezone.now())

    def read(self, key: str) -> Row | None:
        found = self._live.filter(session_key=key).values_list("session_data", "expire_date").first()
        return None if found is None else self._row(*found)

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        rows = self._live.order_by("session_key").values_list("session_key", "session_data", "expire_date")
        while page := list(rows.filter(session_key__gt=after)[:PAGE]):
            self._page = {each[1:]: self._row(*each[1:]) for each in page}
            for key, data, expires in page:
                if (row := self._page[data, expires]) is not None:
                    yield key, row
            after = page[-1][0]

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        found = self._live.filter(session_key__in=keys).values_list("session_key", "session_data", "expire_date")
        page = self._page
        rows = ((each[0], page[each[1:]] if each[1:] in page else self._row(*each[1:])) for each in found)
        return {key: row for key, row in rows if row is not None}

    def delete_many(self, keys: Sequence[str]) -> None:
        if (prefix := getattr(self.engine, "cache_key_prefix", None)) is not None:
            self.cache.delete_many([prefix + key for key in keys])
        self.model._base_manager.filter(session_key__in=keys).delete()

    def count(self) -> int:
        return int(self._live.count())

    def _row(self, packed: str, expires: Any) -> Row | None:
        data = _decoded(self.engine(), packed)
        return None if data is None else Row(data, int(aware(expires).timestamp() * 1000))


class CacheSource(EngineSource):
    """
    A cache of Django: of its ``cache`` engine on django-redis, on Django's own Redis cache, or in the memory.

    The cache itself is asked, since the engine takes an outage for a missing session. So is the server, where
    django-redis is told to ignore errors.
    """

    def __init__(self, engine: type[Any], alias: str) -> None:
        super().__init__(engine, alias)
        self.prefix: str = engine.cache_key_prefix

    def read(self, key: str) -> Row | None:
        return self._row(self.prefix + key)

    def delete(self, key: str) -> None:
        self.cache.delete(self.prefix + key)

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        for name in self._names():
            if name.startswith(self.prefix) and (row := self._row(name)) is not None:
                yield name[len(self.prefix) :], row

    def _row(self, name: str) -> Row | None:
        cache, full = self.cache, self.cache.make_key(name)
        if hasattr(cache, "client") and hasattr(cache.client, "get_client"):  # django-redis
            server = cache.client.get_client(write=False)
            packed, left = server.get(full), server.pttl(full)
            data = None if packed is None else cache.client.decode(packed)
        elif hasattr(cache, "_cache") and hasattr(cache._cache, "get_client"):  # Django's own Redis cache
            data, left = cache.get(name), cache._cache.get_client(full).pttl(full)
        else:
            data, left = cache.get(name), 0
            expires = getattr(cache, "_expire_info", {}).get(full)
            if expires:
                left = int((expires - time.time()) * 1000)
        if data is None:
            return None
        return Row(data, int(time.time() * 1000) + left if left > 0 else None)

    def _names(self) -> Iterator[str]:
        cache = self.cache
        pattern = self.prefix + "*"
        if hasattr(cache, "iter_keys"):
            yield from cache.iter_keys(pattern, itersize=PAGE)
            return
        if hasattr(cache, "_cache") and hasattr(cache._cache, "get_client"):
            full = cache._cache.get_client(None).scan_iter(cache.make_key(pattern), count=PAGE)
        elif hasattr(cache, "_expire_info"):
            full = list(cache._cache)
        else:
            raise ImproperlyConfigured(f"{type(cache).__name__} can't list its keys: sessions move at their requests.")
        start = len(cache.make_key(""))
        for name in full:
            yield (name.decode() if isinstance(name, bytes) else name)[start:]


class FileSource(EngineSource):
    """Django's ``file`` engine."""

    def read(self, key: str) -> Row | None:
        session = self.engine(key)
        if session.session_key is None:
            return None
        try:
            written = Path(session._key_to_file()).read_text(encoding="ascii")
            data = _decoded(session, written)
            age = 0 if data is None else session.get_expiry_age(expiry=session._expiry_date(data))
        except FileNotFoundError:
            return None
        return Row(data, int((time.time() + age) * 1000)) if data is not None and age > 0 else None

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        session = self.engine()
        folder, start = Path(session.storage_path), session.file_prefix
        for key in sorted(path.name[len(start) :] for path in folder.glob(f"{start}*")):
            if key > after and (row := self.read(key)) is not None:
                yield key, row


class SignedCookieSource(EngineSource):
    """Django's ``signed_cookies`` engine: the key is the session. There are no rows, and nothing can be deleted."""

    def read(self, key: str) -> Row | None:
        session = self.engine()
        salt, age = "django.contrib.sessions.backends.signed_cookies", session.get_session_cookie_age()
        try:
            data = signing.loads(key, serializer=session.serializer, max_age=age, salt=salt)
            signed_at = signing.b62_decode(key.rsplit(":", 2)[1])
        except Exception:  # A serializer may raise anything.
            return None
        return Row(data, (signed_at + age) * 1000)

    def delete(self, key: str) -> None:
        pass

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        return iter(())

    def is_key(self, key: str) -> bool:
        return key.count(":") >= 2


class RedisSessionsSource(EngineSource):
    """django-redis-sessions."""

    def read(self, key: str) -> Row | None:
        return self._row(self.engine(key).server, self.engine().get_real_stored_key(key))

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        session = self.engine()
        start = session.get_real_stored_key("")
        for found in session.server.scan_iter(f"{start}*", count=PAGE):
            name = found.decode() if isinstance(found, bytes) else found
            if (row := self._row(session.server, name)) is not None:
                yield name[len(start) :], row

    def _row(self, server: Any, name: str) -> Row | None:
        packed, left = server.get(name), server.pttl(name)
        if packed is None:
            return None
        data = _decoded(self.engine(), packed.decode() if isinstance(packed, bytes) else packed)
        return None if data is None else Row(data, int(time.time() * 1000) + left if left > 0 else None)


class _SessionOfStore(SessionStore):
    """A session in another store than that of the settings."""

    store: Store

    def save(self, must_create: bool = False) -> None:
        with using(self.store):
            super().save(must_create)

    def run(self, steps: Steps[T]) -> T:
        with using(self.store):
            return super().run(steps)

    async def arun(self, steps: Steps[T]) -> T:
        with using(self.store):
            return await super().arun(steps)


class OwnSource(Source):
    """
    Another store of this engine: with another prefix or number of partitions, on another server.

    No keys are stored there, so ``rows`` names sessions by their sids, which stay the same.
    """

    names_are_sids = True

    def __init__(self, named: Mapping[str, Any]) -> None:
        self.named = named

    @property
    def name(self) -> str:
        return f"{self.store.alias}, {self.store.prefix}"

    @property
    def store(self) -> Store:
        """What the settings do not name there is as here: PREFIX may be a function, so it is looked up each time."""
        named, alias = self.named, settings.SESSION_CACHE_ALIAS
        partitions = named.get("PARTITIONS", conf.PARTITIONS)
        return Store(named.get("SESSION_CACHE_ALIAS", alias), named.get("PREFIX", conf.PREFIX), partitions)

    def read(self, key: str) -> Row | None:
        sid = sid_of(key)
        return self.read_many([sid]).get(sid)

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        """Do as :meth:`read` does, for sessions that are named by their sids."""
        with using(self.store):
            space = keyspace()
            partitions, times = [space.of_sid(sid) for sid in keys], [0] * len(keys)

            def reading(number: int, at: int) -> bytes:
                names, sid, command, times[number] = partitions[number], keys[number], sending.command, at
                lists = (names.expire, names.recent, names.guests)
                scores = (command("ZSCORE", name, sid) for name in lists)
                viewed = command("ZRANGE", names.viewed_by(sid), 0, -1, "WITHSCORES")
                return b"".join([command("HGET", names.login, sid), *scores, viewed])

            found = drive(ask_each("read", partitions, reading, 5)) if keys else []
            rows = {sid: self._row(sid, at, *replies) for sid, at, replies in zip(keys, times, found, strict=True)}
        return {sid: row for sid, row in rows.items() if row is not None}

    def _row(self, sid: str, at: int, packed: bytes | None, due: Any, *rest: Any) -> Row | None:
        recent, guests, viewed = rest
        if packed is None or float(due or 0) <= at:
            return None
        try:
            record = unpack(sid, packed)
            data = data_of(record)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            return None
        items = tuple(part for score, item in with_scores(viewed) for part in (item, b"%d" % score))
        seen = int(float(recent or guests or 0))
        return Row(data, record.deadline_seconds * 1000, record.login_ms, seen, items, at)

    def delete(self, key: str) -> None:
        self.delete_many([sid_of(key)])

    def delete_many(self, keys: Sequence[str]) -> None:
        with using(self.store):
            drive(script_calls.end(keys, script_calls.Ending()))

    def rows(self, after: str = "") -> Iterator[tuple[str, Row]]:
        with using(self.store):
            partitions = keyspace().partitions
        for partition in partitions:
            cursor: int | None = None
            while cursor != 0:
                # Not while this waits: the caller uses the store of the settings.
                with using(self.store):
                    cursor, found = script_calls.records(partition, cursor or 0, about=PAGE).run()
                    rows = self.read_many([sid.decode(errors="replace") for sid, _ in found])
                yield from rows.items()

    def opened(self, key: str | None, client: Client) -> SessionBase:
        session = _SessionOfStore(key)
        session.store, session.visit = self.store, Visit(lambda: client)
        if key is not None:
            # Then a save of it merges what others have written meanwhile.
            session.get(SESSION_KEY)
        return session

    def write(self, key: str, data: dict[str, Any]) -> None:
        raise ImproperlyConfigured("The way back to a store of this engine is to set MOVES to False, and to stay so.")

    def count(self) -> int:
        with using(self.store):
            partitions = keyspace().partitions
            sizes = drive(ask_each("count", partitions, lambda n, at: sending.command("HLEN", partitions[n].login), 1))
        return sum(size for [size] in sizes)


def fill(session: SessionBase, data: dict[str, Any]) -> None:
    """Give ``session`` these data, key by key: some engines notice by that whose session it is."""
    session._session_cache = {}  # type: ignore[attr-defined]
    for name, value in data.items():
        session[name] = value


@lru_cache(maxsize=1)
def source() -> Source:
    """Return the store that ``MOVE_FROM`` names. Raises ImproperlyConfigured if that can't be."""
    named: Any = conf.MOVE_FROM
    if named is None:
        raise ImproperlyConfigured(
            "SESSION_ENGINE is django_redsess.moving, and REDSESS['MOVE_FROM'] does not say where sessions are moved "
            "from. Name the engine that the site had, such as 'django.contrib.sessions.backends.db'."
        )
    alias = settings.SESSION_CACHE_ALIAS
    if isinstance(named, Mapping):
        if "SESSION_ENGINE" not in named:
            return OwnSource(named)
        named, alias = named["SESSION_ENGINE"], named.get("SESSION_CACHE_ALIAS", alias)
    try:
        engine = import_module(named).SessionStore
    except (ImportError, AttributeError):
        return _of_class(named)
    for known, adapter in ADAPTERS.items():
        if issubclass(engine, known):
            return adapter(engine, alias)
    if engine.__module__ in OF_PEERS:
        return OF_PEERS[engine.__module__](engine, alias)
    raise ImproperlyConfigured(
        f"REDSESS['MOVE_FROM'] is {named!r}, an engine that is not known here. Name a subclass of "
        "django_redsess.moving.Source that reads its rows."
    )


ADAPTERS: dict[type[Any], type[EngineSource]] = {
    db.SessionStore: DatabaseSource,
    cache.SessionStore: CacheSource,
    file.SessionStore: FileSource,
    signed_cookies.SessionStore: SignedCookieSource,
}


OF_PEERS: dict[str, type[EngineSource]] = {
    "redis_sessions.session": RedisSessionsSource,
    "user_sessions.backends.db": DatabaseSource,
}


def _of_class(named: str) -> Source:
    try:
        found = import_string(named)
    except ImportError as error:
        raise ImproperlyConfigured(f"REDSESS['MOVE_FROM'] is {named!r}, which can't be imported: {error}") from error
    if not (isinstance(found, type) and issubclass(found, Source)):
        raise ImproperlyConfigured(f"REDSESS['MOVE_FROM'] is {named!r}, neither a session engine nor a Source.")
    return found()


def _forget_source(*, setting: str, **kwargs: Any) -> None:
    if setting in ("REDSESS", "CACHES", "SESSION_CACHE_ALIAS"):
        source.cache_clear()


setting_changed.connect(_forget_source)
