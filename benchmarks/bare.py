"""
What is done with sessions besides the engines: the least that the server and the network take, and the listing.

Two use a plain socket and no client. "Our scripts" sends what our engine would send, made and packed before, and reads
the replies: the engine can't be quicker. "GET" reads what the cache engine would read. The listing is that of *Redis in
Action*, see ``views.py``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import redis
from django.conf import settings
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.core.cache import caches
from django.utils.crypto import get_random_string
from django_redis import get_redis_connection

from benchmarks.engines import BASE, ENGINES, OURS
from benchmarks.fill import ITEMS
from benchmarks.operations import NEW_USERS, Ours, Run, Side, data_of, found, history
from benchmarks.views import CLIENT, SESSIONS_AT_ONCE, update_token
from django_redsess import scripts, store
from django_redsess.call import Call
from django_redsess.keys import sid_of
from django_redsess.record import Record, pack, unpack
from django_redsess.signals import Reason

try:
    import hiredis
except ImportError:  # What needs it is left out then.
    hiredis = None  # type: ignore[assignment]

SCRIPTS, GET, LISTING = "bare socket, our scripts", "bare socket, GET", "listing of Redis in Action"

OTHERS = {
    engine.name: engine
    for engine in (
        replace(ENGINES[OURS], name=SCRIPTS, database=21, needs=("hiredis",)),
        replace(ENGINES[BASE], name=GET, database=22, needs=("hiredis",)),
        replace(ENGINES[BASE], name=LISTING, database=23),
    )
}
"""By name: the engine that makes the sessions, or whose settings are used, with a database of its own."""


class Bare(Side):
    """A side that sends what was packed before, over a socket of its own, and checks each reply."""

    def fill(self, sessions: int) -> None:
        super().fill(sessions)
        where = get_redis_connection("sessions").connection_pool.connection_kwargs
        self.socket = socket.create_connection((where["host"], where["port"]), timeout=where["socket_timeout"])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = hiredis.Reader()
        self.ask(_packed("SELECT", where["db"]))
        for script in (scripts.LOAD, scripts.CREATE, scripts.SAVE, scripts.ROTATE, scripts.END, scripts.VIEW):
            self.ask(_packed("SCRIPT", "LOAD", script.text))

    def ask(self, packed: bytes) -> Any:
        """Send one command, and return its reply. Raises what the server says it is an error."""
        self.socket.sendall(packed)
        while (reply := self.reader.gets()) is False:
            received = self.socket.recv(65536)
            if not received:
                raise ConnectionError("The server has closed the connection.")
            self.reader.feed(received)
        if isinstance(reply, Exception):
            raise reply
        return reply

    def asking(self, commands: list[tuple[bytes, Callable[[Any], object]]]) -> Run:
        """Return what sends these commands in turn; with each is what finds something in a good reply."""

        def run() -> None:
            for packed, content in commands:
                found(content(self.ask(packed)))

        return run


class BareGet(Bare):
    """Reads sessions of the cache engine, and leaves them packed as they are."""

    operations = ("load", "reload")

    def prepare_load(self, count: int) -> Run:
        cache: Any = caches["sessions"]
        prefix = self.session_class.cache_key_prefix
        names = [str(cache.client.make_key(prefix + key)) for key in self.some(count)]
        return self.asking([(_packed("GET", name), bool) for name in names])


class BareScripts(Bare, Ours):
    """Runs the scripts of our engine, with the same sessions."""

    def prepare_load(self, count: int) -> Run:
        return self.asking([self._load(key) for key in self.some(count)])

    def prepare_change(self, count: int) -> Run:
        commands = []
        for key in self.some(count):
            record = self._record_of(key)
            data = self.session_class().serializer().loads(record.data) | {"basket": self.basket()}
            written = self._written(key, record.user_id, data)
            commands += [self._load(key), self._command(store.save(sid_of(key), written, loaded=record.revision))]
        return self.asking(commands)

    def prepare_create(self, count: int) -> Run:
        users = self.users(count, NEW_USERS)
        self.made = [_new_key() for _ in users]
        return self.asking(
            [
                self._command(store.create(sid_of(key), self._written(key, user, data_of(user)), is_new=True))
                for key, user in zip(self.made, users, strict=True)
            ]
        )

    def prepare_sign_in(self, count: int) -> Run:
        commands = []
        for user in self.users(count, NEW_USERS):
            old, new = self.saved({"basket": self.basket()}), _new_key()
            self.gone.append(old)
            self.made.append(new)
            record = self._record_of(old)
            data = self.session_class().serializer().loads(record.data) | data_of(user)
            written = self._written(new, user, data)._replace(signs_in=True)
            rotate = store.rotate(sid_of(old), sid_of(new), written, loaded=record.revision)
            commands += [self._load(old), self._command(rotate)]
        self.unseen(self.gone)
        return self.asking(commands)

    def prepare_end(self, count: int) -> Run:
        self.gone = self.stored([data_of(user) for user in self.users(count, NEW_USERS)])
        steps = [store.end([sid_of(key)], Reason.KICKED, follow=True) for key in self.gone]
        return self.asking([self._command(next(each)) for each in steps])

    def prepare_view(self, count: int) -> Run:
        keys = self.some(count)
        items = self.dice.choices(ITEMS, k=count)
        return self.asking(
            [
                self._command(store.view(sid_of(key), item, store.Touch.ACTIVE))
                for key, item in zip(keys, items, strict=True)
            ]
        )

    def _load(self, key: str) -> tuple[bytes, Callable[[Any], object]]:
        return self._command(store.load(sid_of(key), store.Touch.ACTIVE))

    def _command(self, call: Any) -> tuple[bytes, Callable[[Any], object]]:
        assert isinstance(call, Call)
        script = call.script
        parts = ("EVALSHA", script.digest, len(call.keys), *call.keys, *call.args, *call.once)
        return _packed(*parts), CONTENT[script.name]

    def _record_of(self, key: str) -> Record:
        sid = sid_of(key)
        packed = store.load(sid).run().record
        found(packed)
        return unpack(sid, packed or b"")

    def _written(self, key: str, user: str, data: dict[str, Any]) -> store.Written:
        record = Record(user, CLIENT, self.session_class().serializer().dumps(data))
        return store.Written(pack(sid_of(key), record, age_seconds=settings.SESSION_COOKIE_AGE), user)


CONTENT: dict[str, Callable[[Any], object]] = {
    "load": lambda reply: reply[0],
    "save": lambda reply: reply[0] == b"saved",
    "create": lambda reply: reply[0][0] == b"saved",
    "rotate": lambda reply: reply[0][0] == b"saved",
    "end": lambda reply: reply[2:],  # Which have ended.
    "view": lambda reply: reply[0],
}
"""By script: what says of its reply whether it was not in vain."""


class Listing(Side):
    """Records views as the listing does."""

    operations = ("view",)

    def fill(self, sessions: int) -> None:
        self.known = [_new_key() for _ in range(sessions)]
        for start in range(0, sessions, SESSIONS_AT_ONCE):
            with self._conn.pipeline(transaction=False) as together:
                for number, token in enumerate(self.known[start : start + SESSIONS_AT_ONCE], start):
                    update_token(together, token, str(number))
                    together.zadd("viewed:" + token, history())
                together.execute()

    def prepare_view(self, count: int) -> Run:
        items = self.dice.choices(ITEMS, k=count)
        views = list(zip(self.some(count), map(str, range(count)), items, strict=True))

        def run() -> None:
            for token, user, item in views:
                update_token(self._conn, token, user, item)

        return run

    @property
    def _conn(self) -> redis.Redis:
        conn: redis.Redis = get_redis_connection("sessions")
        return conn


ALL = {**ENGINES, **OTHERS}
"""All that is compared, in the order of tables."""

SIDES: dict[str, type[Side]] = {OURS: Ours, SCRIPTS: BareScripts, GET: BareGet, LISTING: Listing}


def operations_of(name: str) -> tuple[str, ...]:
    """Return what the side of this name can do."""
    return SIDES.get(name, Side).operations


def side_of(name: str) -> Side:
    """Return the side of this name, an engine's or one of those here, in a process that has its settings."""
    return SIDES.get(name, Side)(ALL[name])


def _new_key() -> str:
    return get_random_string(32, VALID_KEY_CHARS)


def _packed(*parts: str | bytes | int) -> bytes:
    packed: bytes = hiredis.pack_command(parts)  # type: ignore[arg-type]
    return packed
