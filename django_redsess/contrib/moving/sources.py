"""The stores that sessions are moved from: one adapter for each kind. A row is read, its session is never loaded."""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import lru_cache
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from secrets import token_urlsafe
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.sessions.backends import cache, cached_db, db, file, signed_cookies
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.core import signing
from django.core.cache import caches
from django.core.cache.backends.base import InvalidCacheKey
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import DatabaseError, connections, router, transaction
from django.db.models import DateTimeField, Model, Value
from django.db.models.functions import Length, Now
from django.utils import timezone
from django.utils.module_loading import import_string

from django_redsess.conf import conf
from django_redsess.contrib.moving.contents import log_unmovable
from django_redsess.contrib.moving.outages import is_outage
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.known import is_key
from django_redsess.session.record import Client
from django_redsess.times import aware, stored
from django_redsess.transport.connections import of
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import time_of

COLUMNS = ("session_data", "expire_date", "there")

PAGE = 500
"""How many rows are read at once."""

PAGE_BYTES = 2_000_000
"""About how much data is read or moved at once. A larger page would take longer than the server allows for its time."""

KEY_MAX = 250
"""The longest key of another store, in characters. Memcached takes no longer ones."""


class Row(NamedTuple):
    """
    A live session in the store that it is moved from.

    ``data`` is the session's dict. ``deadline`` is when it expires, in milliseconds since 1970 by the clock of the
    server here, or None if that is not known. ``signed_in`` is when the session began there, in milliseconds by that
    clock, 0 if it was before the move.
    """

    data: dict[str, Any]
    deadline: int | None = None
    signed_in: int = 0


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

    in_order = False
    """Whether ``rows`` is in the order of the keys. Then a move that was interrupted goes on where it was."""

    def read(self, key: str) -> Row | None:
        """Return the session with this key; None if there is none, or if it has expired. Nothing is written."""
        raise NotImplementedError

    def delete(self, key: str) -> None:
        """Delete the session with this key. A missing session is no error."""
        raise NotImplementedError

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        """
        Yield key and row of each live session, in the order of keys if possible: those with keys above ``after``.

        The row is None for a session that is there and can't be read, which the source has logged. Raises
        ImproperlyConfigured, before it yields, if this process can't list what is there.
        """
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

    def write_many(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        """
        Write the data of several sessions that are there, by key. Return the keys of those that were written.

        Sessions that are gone are left out, and so are those that can't be written, which is logged. A subclass may do
        it at once.
        """
        return set(self._written(rows))

    def _written(self, rows: Mapping[str, dict[str, Any]]) -> Iterator[str]:
        for key, data in rows.items():
            try:
                self.write(key, data)
            except (ImproperlyConfigured, NotImplementedError, SessionStoreUnavailable):
                raise
            except Exception as error:  # An engine of the site's own may raise anything.
                is_gone = isinstance(error, UpdateError)
                # Django's database engine takes an outage for a row that is gone.
                if is_outage(error.__context__ if is_gone else error):
                    raise
                if not is_gone:
                    log_unmovable(key, type(error).__name__)
                continue
            yield key

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


FOR_EVER = -1
"""What PTTL replies for a name without an end."""

PROBES = ("0123456789abcdefghijklmnopqrstuv", "vutsrqponmlkjihgfedcba9876543210")
"""Keys that nobody has, to see how a store makes names of keys. Nothing is written under them."""

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

    def find(self, key: str) -> Row | None:
        """Do as :meth:`read` does. Raises anything if the session is there and can't be read."""
        raise NotImplementedError

    def read(self, key: str) -> Row | None:
        return next((row for _, row in self.each([key], self.find)), None)

    def each(self, keys: Iterable[str], find: Callable[[str], Row | None]) -> Iterator[tuple[str, Row | None]]:
        """Yield the sessions that ``find`` returns for these keys. The row is None, and logged, if it can't be read."""
        for key in keys:
            row, why = None, "its key is none"
            if self.is_key(key):
                try:
                    if (row := find(key)) is None:
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

    def opened(self, key: str | None, client: Client) -> SessionBase:
        session: Any = super().opened(key, client)
        if hasattr(session, "_cache"):
            # It takes the one of SESSION_CACHE_ALIAS, and that may be another one by now.
            session._cache = self.cache
        return session  # type: ignore[no-any-return]

    def delete(self, key: str) -> None:
        self.opened(None, Client()).delete(key)

    def is_key(self, key: str) -> bool:
        # Django takes any text of eight characters. It writes none that can't be printed.
        return is_key(key) or (8 <= len(key) <= KEY_MAX and key.isprintable())


def now_here(key: str = "") -> int:
    """
    Return the time of the server here that is asked for the session ``key`` first, in milliseconds.

    The clock of a web server may be an hour off, and the other store's may be another one. Raises
    SessionStoreUnavailable in an outage.
    """
    space = keyspace()
    partition = space.of_sid(sid_of(key)) if is_key(key) else space.partitions[0]
    return of(partition).clock.now() or operations.time(partition).run()


def _row_of(key: str, data: dict[str, Any], left: int) -> Row | None:
    """Return the row of a session that has so many milliseconds ``left``, as PTTL tells."""
    if left == FOR_EVER:
        return Row(data)
    return Row(data, now_here(key) + left) if left > 0 else None


def _decoded(session: Any, packed: str) -> dict[str, Any]:
    """
    Return a session's data. Raises anything if they can't be read: decode() logs tampering itself, and returns {}.

    A session without data is one, too: its cookie stays.
    """
    data: dict[str, Any] = session.decode(packed)
    if not data:
        signing.loads(packed, salt=session.key_salt, serializer=session.serializer)
    return data


class DatabaseSource(EngineSource):
    """A table of a database: of Django's ``db`` and ``cached_db``, of engines derived from them, of user-sessions."""

    in_order = True

    @property
    def model(self) -> Any:
        """The model of the table."""
        if hasattr(self.engine, "get_model_class"):
            return self.engine.get_model_class()
        return vars(import_module(self.engine.__module__))["Session"]

    @property
    def _live(self) -> Any:
        """
        The rows that have not expired, with the time ``there``.

        That is PostgreSQL's. Django writes other databases' times in a zone that these may not know: they are compared
        with the time of the server here.
        """
        rows = self.model._default_manager.all()
        at: Any = Now()
        if connections[rows.db].vendor != "postgresql":
            at = Value(stored(time_of(now_here())), DateTimeField())
        return rows.filter(expire_date__gt=at).annotate(there=at)

    def find(self, key: str) -> Row | None:
        found = self._live.filter(session_key=key).values_list("session_key", *COLUMNS).first()
        # Some databases take capitals for small letters, and what has ended must not return under such a key.
        return None if found is None or found[0] != key else self._row(*found)

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        last, limit = after or None, PAGE
        while found := self._listed(self._live if last is None else self._live.filter(session_key__gt=last), limit):
            # One after another: they may be compressed.
            yield from self._read(found)
            # Where rows are large, the sizes of fewer are asked for: for each, the whole row may have to be read.
            last, limit = found[-1][0], min(PAGE, 2 * len(found))

    def read_many(self, keys: Sequence[str]) -> dict[str, Row]:
        found = list(self._live.filter(session_key__in=keys).values_list("session_key", *COLUMNS))
        return {key: row for key, row in self._read(found) if row is not None}

    def _listed(self, rows: Any, limit: int) -> list[Any]:
        rows = rows.order_by("session_key")
        # Sizes first: a table may have rows of any size, and few of them fill the memory.
        sizes = list(rows.values_list(Length("session_data"), flat=True)[:limit])
        count = sum(total <= PAGE_BYTES for total in accumulate(sizes))
        return list(rows.values_list("session_key", *COLUMNS)[: max(1, count)]) if sizes else []

    def _read(self, found: Iterable[Any]) -> Iterator[tuple[str, Row | None]]:
        rows = {each[0]: each for each in found}
        return self.each(rows, lambda key: self._row(*rows[key]))

    def is_key(self, key: str) -> bool:
        longest = self.model._meta.get_field("session_key").max_length
        return super().is_key(key) and (longest is None or len(key) <= longest)

    def delete_many(self, keys: Sequence[str]) -> None:
        if (prefix := getattr(self.engine, "cache_key_prefix", None)) is not None:
            self.cache.delete_many([prefix + key for key in keys])
        self.model._base_manager.filter(session_key__in=keys).delete()

    def write_many(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        saves_as_django = (
            self.engine.save in (db.SessionStore.save, cached_db.SessionStore.save)
            and self.engine.create_model_instance is db.SessionStore.create_model_instance
            and self.model.save is Model.save
        )
        if saves_as_django:
            try:
                return self._written_at_once(rows)
            except DatabaseError as error:
                if is_outage(error):
                    raise
                # One of them can't be written. The others can.
        with self._locked(rows) as found:
            # Some engines insert a row that is gone.
            return super().write_many({key: data for key, data in rows.items() if key in found})

    def _written_at_once(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        instances = []
        for key, data in rows.items():
            try:
                session: Any = self.opened(key, Client())
                fill(session, data)
                instances.append(session.create_model_instance(data))
            except Exception as error:  # A serializer may raise anything.
                log_unmovable(key, type(error).__name__)
        with self._locked(rows) as found:
            instances = [each for each in instances if each.session_key in found]
            self._update(instances)
        written = {str(each.session_key) for each in instances}
        if (prefix := getattr(self.engine, "cache_key_prefix", None)) is not None:
            self.cache.delete_many([prefix + key for key in written])
        return written

    def _update(self, instances: Sequence[Any]) -> None:
        # bulk_update() takes longer to make its statement than the database takes for all of these.
        meta, there = self.model._meta, connections[self._written_to]
        fields = [meta.get_field(name) for name in ("session_data", "expire_date", "session_key")]
        table, data, expires, key = map(there.ops.quote_name, [meta.db_table, *(field.column for field in fields)])
        values = [
            [field.get_db_prep_save(getattr(each, field.attname), there) for field in fields] for each in instances
        ]
        with there.cursor() as cursor:
            cursor.executemany(f"UPDATE {table} SET {data} = %s, {expires} = %s WHERE {key} = %s", values)  # noqa: S608

    @contextmanager
    def _locked(self, keys: Iterable[str]) -> Iterator[set[str]]:
        """Open a transaction in which nobody else writes or deletes these rows. Yield the keys of those that exist."""
        using = self._written_to
        rows = self.model._base_manager.using(using)
        with transaction.atomic(using):
            if not connections[using].features.has_select_for_update:
                # It changes nothing. SQLite lets no transaction write that has read before somebody else wrote.
                rows.filter(session_key="").update(session_data="")
            wanted = rows.filter(session_key__in=list(keys)).order_by("session_key")
            yield set(wanted.select_for_update().values_list("session_key", flat=True))

    @property
    def _written_to(self) -> str:
        return router.db_for_write(self.model)

    def count(self) -> int:
        return int(self._live.count())

    def _row(self, key: str, packed: str, expires: datetime, there: datetime) -> Row:
        left = aware(expires) - aware(there)
        return Row(_decoded(self.engine(), packed), now_here(key) + int(left.total_seconds() * 1000))


class CacheSource(EngineSource):
    """
    A cache of Django: of its ``cache`` engine on django-redis, on Django's own Redis cache, or in the memory.

    The cache itself is asked, since the engine takes an outage for a missing session. So is the server, where
    django-redis is told to ignore errors.
    """

    def __init__(self, engine: type[Any], alias: str) -> None:
        super().__init__(engine, alias)
        self.prefix: str = engine.cache_key_prefix

    def delete(self, key: str) -> None:
        self.cache.delete(self.prefix + key)

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        return self.each(self._keys(), self.find)

    def find(self, key: str) -> Row | None:
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
        return None if data is None else _row_of(key, data, left)

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

    def _keys(self) -> Iterator[str]:
        """Yield the keys of all sessions there. Raises ImproperlyConfigured unless each name tells its key."""
        cache, kind = self.cache, type(self.cache).__name__
        server = None if hasattr(getattr(cache, "client", None), "get_server") else self._server("")
        if server is None:
            raise _not_listed(f"{kind} can't list all its keys")
        around = {tuple(cache.make_key(self.prefix + probe).split(probe)) for probe in PROBES}
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

    def find(self, key: str) -> Row | None:
        session = self.engine(key)
        try:
            written = Path(session._key_to_file()).read_text(encoding="ascii")
            data = _decoded(session, written)
            age = session.get_expiry_age(expiry=session._expiry_date(data))
        except FileNotFoundError:
            return None
        except (IsADirectoryError, PermissionError) as error:
            # That file is odd, and not the disk.
            raise ValueError from error
        # The clock of this computer has written the file's time, too.
        return _row_of(key, data, int(max(age, 0) * 1000))

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
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
        return self.each(keys, self.find)

    def is_key(self, key: str) -> bool:
        # It is a part of a path.
        return is_key(key)


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

    def read(self, key: str) -> Row | None:
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

    def delete(self, key: str) -> None:
        pass

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        raise _not_listed("Signed cookies are in the browsers only")

    def is_key(self, key: str) -> bool:
        return key.count(":") >= 2


class RedisSessionsSource(EngineSource):
    """django-redis-sessions."""

    def find(self, key: str) -> Row | None:
        session = self.engine(key)
        name = session.get_real_stored_key(key)
        packed, left = session.server.get(name), session.server.pttl(name)
        if packed is None:
            return None
        return _row_of(key, _decoded(session, packed.decode() if isinstance(packed, bytes) else packed), left)

    def write(self, key: str, data: dict[str, Any]) -> None:
        if not self.opened(None, Client()).exists(key):
            # Its engine saves what is gone, too.
            raise UpdateError
        super().write(key, data)

    def rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        if import_module("redis_sessions.settings").SESSION_REDIS_POOL:
            raise _not_listed("SESSION_REDIS_POOL has several servers")
        session = self.engine()
        start = session.get_real_stored_key("")
        # Without a prefix, all that the database has could be a session.
        pattern = f"{_escaped(start)}*" if start else "[0-9a-z]" * len(PROBES[0])
        names = _texts(session.server.scan_iter(pattern, count=PAGE))
        # A longer prefix of another site may begin as this one.
        return self.each((name[len(start) :] for name in names if ":" not in name[len(start) :]), self.find)


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
            "SESSION_ENGINE is django_redsess.contrib.moving, and REDSESS['MOVE_FROM'] does not say where sessions are "
            "moved from. Name the engine that the site had, such as 'django.contrib.sessions.backends.db'."
        )
    alias = settings.SESSION_CACHE_ALIAS
    if isinstance(named, Mapping):
        if "SESSION_ENGINE" not in named:
            raise ImproperlyConfigured(
                "SESSION_ENGINE is django_redsess.contrib.moving, and REDSESS['MOVE_FROM'] describes another store of "
                "this engine. From there, sessions move with SESSION_ENGINE = 'django_redsess.contrib.moving.growing'."
            )
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
        "django_redsess.contrib.moving.Source that reads its rows."
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
