"""
The operations that are measured: each does what a request would do, on sessions that were stored before.

``load`` loads sessions that were last seen a minute ago, ``reload`` those that this process has just loaded, and
``load-elsewhere`` those that another process has. Our engine touches a session once in ten seconds, and a process
remembers which sessions it has touched. A session that is changed was saved less than an hour ago, so our engine does
not move its deadline.
"""

from __future__ import annotations

import io
import json
import random
import time
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr
from importlib import import_module
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.http import HttpRequest
from django_redis import get_redis_connection

from benchmarks.engines import ENGINES, Engine
from benchmarks.fill import ITEMS, SESSION, USER_AGENT, fill
from django_redsess import online, viewed
from django_redsess.session.binding import Binding
from django_redsess.session.client import Client
from django_redsess.session.deadlines import SLACK_MAX
from django_redsess.session.state import Visit
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import keyspace, sid_of

OPERATIONS = ("load", "reload", "load-elsewhere", "change", "create", "sign-in", "end", "view")
"""In the order of tables. ``view`` is for our engine only."""

KNOWN = 1000
"""How many sessions operations use, at most. They lie in the middle of the others, whose keys are not kept."""

SEED = 1
"""All engines do the same operations in the same order."""

CLIENT = Client("192.0.2.1", USER_AGENT)
HISTORY = 25
"""How many viewed items a session keeps."""

AUTH_KEYS = (SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY)
UNSEEN_MILLISECONDS = 60_000

# The first user ids of the known sessions, and of those that are made for an operation or by it.
KNOWN_USERS, NEW_USERS = 90_000_000, 91_000_000

Data = dict[str, Any]
Run = Callable[[], object]


class Side:
    """
    The sessions of an engine, and its operations. The process must have the engine's settings.

    ``known`` are the session keys that operations use. ``made`` are those of sessions that the last operation created,
    ``gone`` those of sessions that it ended.
    """

    operations: tuple[str, ...] = OPERATIONS[:-1]

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.known: list[str] = []
        self.made: list[str] = []
        self.gone: list[str] = []
        self.rng = random.Random(SEED)
        self.session_class: Any = import_module(engine.session_engine).SessionStore

    def opened(self, key: str | None = None) -> Any:
        """Open a session as the engine's middleware does for a request."""
        if self.engine.opens_with_client:
            return self.session_class(session_key=key, user_agent=CLIENT.user_agent, ip=CLIENT.address)
        return self.session_class(key)

    def fill(self, sessions: int) -> None:
        """Store this number of signed-in sessions."""
        self.known = self.stored([data_of(user) for user in self.users(sessions, KNOWN_USERS)])

    def prepare(self, operation: str, count: int) -> Run:
        """Prepare ``operation``, ``count`` times. Return the function that does it: only that is measured."""
        if count > len(self.known):
            raise ValueError(f"{operation} {count} times needs more than {len(self.known)} sessions.")
        prepare: Callable[[int], Run] = getattr(self, "prepare_" + operation.replace("-", "_"))
        return prepare(count)

    def tidy(self) -> None:
        """Delete what the last operation left, so that each operation finds the same number of sessions."""
        for key in self.made:
            self.opened(key).delete()
        self.made, self.gone = [], []

    def prepare_load(self, count: int) -> Run:
        keys = self.some(count)

        def run() -> None:
            for key in keys:
                found(self.opened(key).get(SESSION_KEY))

        return run

    def prepare_reload(self, count: int) -> Run:
        load = self.prepare_load(count)
        load()
        return load

    def prepare_load_elsewhere(self, count: int) -> Run:
        load = self.prepare_reload(count)
        self.forget()
        return load

    def prepare_change(self, count: int) -> Run:
        changes = [(key, self.basket()) for key in self.some(count)]

        def run() -> None:
            for key, basket in changes:
                session = self.opened(key)
                found(session.get(SESSION_KEY))
                session["basket"] = basket
                session.save()

        return run

    def prepare_create(self, count: int) -> Run:
        new = [data_of(user) for user in self.users(count, NEW_USERS)]

        def run() -> None:
            self.made = [self.saved(data) for data in new]

        return run

    def prepare_sign_in(self, count: int) -> Run:
        whole = [data_of(user) for user in self.users(count, NEW_USERS)]
        users = [{key: data[key] for key in AUTH_KEYS} for data in whole]
        self.gone = self.stored([{"basket": self.basket()} for _ in users])
        self.unseen(self.gone)

        def run() -> None:
            for key, user in zip(self.gone, users, strict=True):
                session = self.opened(key)
                found(session.get("basket"))
                session.cycle_key()
                session.update(user)
                self.note_sign_in(session)
                session.save()
                self.made.append(session.session_key)

        return run

    def prepare_end(self, count: int) -> Run:
        self.gone = self.stored([data_of(user) for user in self.users(count, NEW_USERS)])

        def run() -> None:
            for key in self.gone:
                self.opened(key).delete()

        return run

    def some(self, count: int) -> list[str]:
        """Draw ``count`` of the known sessions, and set when they were last seen to a minute ago."""
        keys = self.rng.sample(self.known, count)
        self.unseen(keys)
        return keys

    def basket(self) -> dict[str, int]:
        """Return a basket with another quantity of one item."""
        return {ITEMS[0]: self.rng.randint(1, 9), ITEMS[1]: 2}

    def users(self, count: int, first: int) -> list[str]:
        """Return the ids of ``count`` users. If the engine needs them, they are in the table of users."""
        numbers = range(first, first + count)
        if self.engine.opens_with_client:
            from django.contrib.auth.models import User

            users = [User(pk=number, username=f"user-{number}", password="!") for number in numbers]
            User.objects.bulk_create(users, ignore_conflicts=True)
        return [str(number) for number in numbers]

    def saved(self, data: Data) -> str:
        """Save a new session with this data through the engine, and return its key."""
        session = self.opened()
        session.update(data)
        session.save()
        return str(session.session_key)

    def stored(self, contents: Iterable[Data]) -> list[str]:
        """Store sessions with these data, and return their keys."""
        return [self.saved(data) for data in contents]

    def unseen(self, keys: Iterable[str]) -> None:
        """Set when these sessions were last seen to a minute ago, if the engine stores that."""

    def forget(self) -> None:
        """Go on as a process that has not loaded any session yet, if the engine remembers them."""

    def note_sign_in(self, session: Any) -> None:
        """Tell the session that its user signs in, if the engine needs that."""


class Ours(Side):
    """Our engine."""

    operations: tuple[str, ...] = OPERATIONS

    @property
    def conn(self) -> Any:
        return get_redis_connection("sessions")

    def opened(self, key: str | None = None) -> Any:
        session = self.session_class(key)
        session.visit = Visit(lambda: CLIENT)
        return session

    def fill(self, sessions: int) -> None:
        known = min(sessions, KNOWN)
        # Another process has a progress bar on this terminal.
        with redirect_stderr(io.StringIO()):
            fill(self.conn, (sessions - known) // 2, viewed=0)
            super().fill(known)
            fill(self.conn, sessions - known - (sessions - known) // 2, viewed=0)
        with self.conn.pipeline(transaction=False) as together:
            for sid in map(sid_of, self.known):
                names = keyspace().of_sid(sid)
                # A full history: a view then drops the oldest item.
                together.zadd(names.viewed_by(sid), history())
                # The deadline as a save would have set it.
                together.zincrby(names.expire, SLACK_MAX, sid)
            together.execute()

    def tidy(self) -> None:
        sids = [sid_of(key) for key in self.made]
        online.end(*sids)
        if notes := [keyspace().of_sid(sid).ended_of(sid) for sid in (*sids, *map(sid_of, self.gone))]:
            self.conn.delete(*notes)
        self.made, self.gone = [], []

    def prepare_end(self, count: int) -> Run:
        self.gone = self.stored([data_of(user) for user in self.users(count, NEW_USERS)])
        sids = [sid_of(key) for key in self.gone]

        def run() -> None:
            for sid in sids:
                found(online.end(sid))

        return run

    def prepare_view(self, count: int) -> Run:
        views = list(zip(self.some(count), self.rng.choices(ITEMS, k=count), strict=True))

        def run() -> None:
            for key, item in views:
                found(viewed.record(self.opened(key), item))

        return run

    def unseen(self, keys: Iterable[str]) -> None:
        seen = int(time.time() * 1000) - UNSEEN_MILLISECONDS
        with self.conn.pipeline(transaction=False) as together:
            for sid in map(sid_of, keys):
                names = keyspace().of_sid(sid)
                for name in (names.recent, names.guests):
                    together.zadd(name, {sid: seen}, xx=True)
            together.execute()
        self.forget()

    def forget(self) -> None:
        for partition in keyspace().partitions:
            server_of(partition).invalidate_reads()

    def note_sign_in(self, session: Any) -> None:
        session.signed_in()  # As our receiver of Django's signal does.


class Bound(Ours):
    """
    Our engine with sessions that are bound to devices. Browsers bring each key with a proof.

    A session is bound after its sign-in, in a request of its own: see ``device_bound.py`` for that. So these sides have
    only operations on sessions that are bound.
    """

    operations: tuple[str, ...] = ("load", "reload", "load-elsewhere", "change", "end")

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        self.proofs: dict[str, str] = {}
        # To make one is no part of what is measured: each site has one.
        self.request = HttpRequest()
        self.request.META = {"REQUEST_METHOD": "GET", "PATH_INFO": "/", "HTTP_USER_AGENT": CLIENT.user_agent}
        self.request.path = self.request.path_info = "/"

    def opened(self, key: str | None = None) -> Any:
        session = super().opened(key)
        self.request.COOKIES = {"sessionid": key or "", "sessionid_proof": self.proofs.get(key or "", "")}
        # As the middleware does.
        self.request.session, session.brought_by = session, self.request
        return session

    def saved(self, data: Data) -> str:
        from django_redsess.contrib.device_bound import protocol

        session, now = super().opened(), int(time.time() * 1000)
        session.update(data)
        binding = Binding(random.randbytes(8), now, now, b"\x02" + random.randbytes(32))
        session.bind(binding)
        session.save()
        self.proofs[session.session_key] = protocol.make_proof(binding.id, now)
        return str(session.session_key)


def data_of(user_id: str) -> Data:
    """Return the data of a session of this user."""
    data: Data = json.loads(SESSION % (user_id, random.randbytes(32).hex()))
    return data


def history() -> dict[Any, float]:
    """Return a full history of viewed items: item → milliseconds."""
    return {item: number for number, item in enumerate(ITEMS[:HISTORY], start=1)}


def found(what: object) -> None:
    """Raise LookupError if ``what`` is empty: an engine that finds nothing must not look fast."""
    if not what:
        raise LookupError("A session does not have the data that it was stored with.")


def _class_of(engine: Engine) -> type[Side]:
    if engine.is_bound:
        return Bound
    return Ours if engine.is_ours else Side


def operations_of(name: str) -> tuple[str, ...]:
    """Return the operations of this engine."""
    return _class_of(ENGINES[name]).operations


def side_of(name: str) -> Side:
    """Return the side of this engine. The process must have its settings."""
    return _class_of(ENGINES[name])(ENGINES[name])
