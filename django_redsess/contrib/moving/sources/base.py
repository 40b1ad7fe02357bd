"""A store that sessions are moved from, and a row of it: what all adapters share."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.core.exceptions import ImproperlyConfigured

from django_redsess.contrib.moving.contents import log_unmovable
from django_redsess.contrib.moving.outages import is_outage
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.client import Client
from django_redsess.transport.keys import is_session_key

PAGE = 500
"""How many rows are read at once."""

PAGE_BYTES = 2_000_000
"""About how much data is read or moved at once. A larger page would take longer than the server allows for its time."""

KEY_MAX = 250
"""The longest key of another store, in characters. Memcached takes no longer ones."""


class Row(NamedTuple):
    """
    A live session in the store that it is moved from.

    ``data`` is the session's dict. ``deadline_ms`` is when it expires, in milliseconds since 1970 by the clock of the
    server here, or None if that is not known. ``began_ms`` is when the session began there, in milliseconds by that
    clock, 0 if it was before the move. ``address`` and ``user_agent`` are those of who used it last, ``""`` if they are
    not known. Only ``movesessions`` stores them: a request that moves a session has newer ones.
    """

    data: dict[str, Any]
    deadline_ms: int | None = None
    began_ms: int = 0
    address: str = ""
    user_agent: str = ""


class Source:
    """
    A store that sessions are moved from. For a store that is not known here, write a subclass, and name it in
    ``MOVE_FROM``. All methods may wait, and raise the errors of their store in an outage: these sign nobody out.
    """

    engine: type[SessionBase] | None = None
    """The class of its sessions, which goes on writing them as long as ``MOVES`` is False."""

    @property
    def name(self) -> str:
        """What pages and commands call it."""
        return type(self).__name__

    in_order = False
    """Whether ``iter_rows`` is in the order of the keys. Then a move that was interrupted goes on where it was."""

    def read_row(self, key: str) -> Row | None:
        """Return the session with this key; None if there is none, or if it has expired. Nothing is written."""
        raise NotImplementedError

    def delete_row(self, key: str) -> None:
        """Delete the session with this key. A missing session is no error."""
        raise NotImplementedError

    def iter_rows(self, after: str = "") -> Iterator[tuple[str, Row | None]]:
        """
        Yield key and row of each live session, in the order of keys if possible: those with keys above ``after``.

        The row is None for a session that is there and can't be read, which the source has logged. Raises
        ImproperlyConfigured, before it yields, if this process can't list what is there.
        """
        raise NotImplementedError

    def read_rows(self, keys: Sequence[str]) -> dict[str, Row]:
        """Read several sessions. A subclass may do it at once."""
        found = {key: self.read_row(key) for key in keys}
        return {key: row for key, row in found.items() if row is not None}

    def delete_rows(self, keys: Sequence[str]) -> None:
        """Delete several sessions. A subclass may do it at once."""
        for key in keys:
            self.delete_row(key)

    def write_row(self, key: str, data: dict[str, Any]) -> None:
        """Write the data of a session that is there, as its engine does. Only ``movesessions --back`` needs it."""
        session = self.open_session(key, Client())
        fill(session, data)
        session.save()

    def write_rows(self, rows: Mapping[str, dict[str, Any]]) -> set[str]:
        """
        Write the data of several sessions that are there, by key. Return the keys of those that were written.

        Sessions that are gone are left out, and so are those that can't be written, which is logged. A subclass may do
        it at once.
        """
        return set(self._write_each(rows))

    def _write_each(self, rows: Mapping[str, dict[str, Any]]) -> Iterator[str]:
        for key, data in rows.items():
            try:
                self.write_row(key, data)
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

    def count_rows(self) -> int | None:
        """Return how many sessions there are, about; None if counting would take as long as reading them."""
        return None

    def could_be_key(self, key: str) -> bool:
        """Tell whether ``key`` could be a key of a session there. Others are not asked for."""
        return is_session_key(key)

    def open_session(self, key: str | None, client: Client) -> SessionBase:
        """Return a session object of ``engine``. django-qsessions and django-user-sessions take the client, too."""
        if self.engine is None:
            raise ImproperlyConfigured(f"{type(self).__name__} has no engine: REDSESS['MOVES'] can't be False with it.")
        takes = inspect.signature(self.engine).parameters
        known = {"ip": client.address or None, "user_agent": client.user_agent or None}
        return self.engine(key, **{name: value for name, value in known.items() if name in takes})


def fill(session: SessionBase, data: dict[str, Any]) -> None:
    """Give ``session`` these data, key by key: some engines notice by that whose session it is."""
    session._session_cache = {}  # type: ignore[attr-defined]
    for name, value in data.items():
        session[name] = value
