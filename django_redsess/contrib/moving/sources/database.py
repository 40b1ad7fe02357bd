"""Stores in a table of a database."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cached_property
from importlib import import_module
from itertools import accumulate
from typing import Any

from django.contrib.sessions.backends import cached_db, db
from django.db import DatabaseError, connections, router, transaction
from django.db.models import DateTimeField, Model, Value
from django.db.models.functions import Length, Now

from django_redsess.contrib.moving.contents import log_unmovable
from django_redsess.contrib.moving.outages import is_outage
from django_redsess.contrib.moving.sources.base import PAGE, PAGE_BYTES, Row, fill
from django_redsess.contrib.moving.sources.engines import EngineSource, decode_data, now_here
from django_redsess.session.client import Client
from django_redsess.times import to_aware, to_column
from django_redsess.transport.steps import time_of

COLUMNS = ("session_data", "expire_date", "there")

CLIENT_COLUMNS = ("ip", "user_agent")
"""Further columns of django-qsessions and django-user-sessions. The first has their values in the data, too."""

CLIENT_KEYS = {"_qsessions_ip", "_qsessions_user_agent"}
"""Their keys in the data of django-qsessions. Its engine adds them again with each save."""


class DatabaseSource(EngineSource):
    """A table of a database: of Django's ``db`` and ``cached_db``, of engines derived from them, of user-sessions."""

    in_order = True

    @property
    def model(self) -> Any:
        """The model of the table."""
        if hasattr(self.engine, "get_model_class"):
            return self.engine.get_model_class()
        return vars(import_module(self.engine.__module__))["Session"]

    @cached_property
    def _columns(self) -> tuple[str, ...]:
        fields = {field.name for field in self.model._meta.get_fields()}
        return (*COLUMNS, *CLIENT_COLUMNS) if fields.issuperset(CLIENT_COLUMNS) else COLUMNS

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
            at = Value(to_column(time_of(now_here())), DateTimeField())
        return rows.filter(expire_date__gt=at).annotate(there=at)

    def load_row(self, key: str) -> Row | None:
        found = self._live.filter(session_key=key).values_list("session_key", *self._columns).first()
        # Some databases take capitals for small letters, and what has ended must not return under such a key.
        return None if found is None or found[0] != key else self._build_row(*found)

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        last, limit = after or None, PAGE
        while found := self._next_rows(self._live if last is None else self._live.filter(session_key__gt=last), limit):
            # One after another: they may be compressed.
            yield from self._decode_rows(found)
            # Where rows are large, the sizes of fewer are asked for: for each, the whole row may have to be read.
            last, limit = found[-1][0], min(PAGE, 2 * len(found))

    def read_rows(self, keys: Sequence[str]) -> dict[str, Row]:
        found = list(self._live.filter(session_key__in=keys).values_list("session_key", *self._columns))
        return {key: row for key, row in self._decode_rows(found) if row is not None}

    def _next_rows(self, rows: Any, limit: int) -> list[Any]:
        rows = rows.order_by("session_key")
        # Sizes first: a table may have rows of any size, and few of them fill the memory.
        sizes = list(rows.values_list(Length("session_data"), flat=True)[:limit])
        count = sum(total <= PAGE_BYTES for total in accumulate(sizes))
        return list(rows.values_list("session_key", *self._columns)[: max(1, count)]) if sizes else []

    def _decode_rows(self, found: Iterable[Any]) -> Iterator[tuple[str, Row | None]]:
        rows = {each[0]: each for each in found}
        return self.load_each(rows, lambda key: self._build_row(*rows[key]))

    def could_be_key(self, key: str) -> bool:
        longest = self.model._meta.get_field("session_key").max_length
        return super().could_be_key(key) and (longest is None or len(key) <= longest)

    def delete_rows(self, keys: Sequence[str]) -> None:
        if (prefix := getattr(self.engine, "cache_key_prefix", None)) is not None:
            self.cache.delete_many([prefix + key for key in keys])
        self.model._base_manager.filter(session_key__in=keys).delete()

    def write_rows(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        saves_as_django = (
            self.engine.save in (db.SessionStore.save, cached_db.SessionStore.save)
            and self.engine.create_model_instance is db.SessionStore.create_model_instance
            and self.model.save is Model.save
        )
        if saves_as_django:
            try:
                return self._update_rows(rows)
            except DatabaseError as error:
                if is_outage(error):
                    raise
                # One of them can't be written. The others can.
        with self._lock_rows(rows) as found:
            # Some engines insert a row that is gone.
            return super().write_rows({key: data for key, data in rows.items() if key in found})

    def _update_rows(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        instances = []
        for key, data in rows.items():
            try:
                session: Any = self.open_session(key, Client())
                fill(session, data)
                instances.append(session.create_model_instance(data))
            except Exception as error:  # A serializer may raise anything.
                log_unmovable(key, type(error).__name__)
        with self._lock_rows(rows) as found:
            instances = [each for each in instances if each.session_key in found]
            self._send_updates(instances)
        written = {str(each.session_key) for each in instances}
        if (prefix := getattr(self.engine, "cache_key_prefix", None)) is not None:
            self.cache.delete_many([prefix + key for key in written])
        return written

    def _send_updates(self, instances: Sequence[Any]) -> None:
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
    def _lock_rows(self, keys: Iterable[str]) -> Iterator[set[str]]:
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

    def count_rows(self) -> int:
        return int(self._live.count())

    def _build_row(self, key: str, packed: str, expires: datetime, there: datetime, *client: str | None) -> Row:
        left = to_aware(expires) - to_aware(there)
        data = decode_data(self.engine(), packed)
        if client:
            data = {name: value for name, value in data.items() if name not in CLIENT_KEYS}
        address, user_agent = [each or "" for each in client] or ("", "")
        return Row(data, now_here(key) + int(left.total_seconds() * 1000), 0, address, user_agent)
