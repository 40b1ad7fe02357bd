"""
What is compared besides the engines: the least that server and network take, and the listing of *Redis in Action*.

Two sides use a plain socket and no client. "Our scripts" sends what our engine would send, scripts and plain commands,
packed before, and reads the replies: the engine can't be faster. "GET" reads what the cache engine would read. For the
listing see ``recording.py``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import redis
from django.core.cache import caches
from django_redis import get_redis_connection

from benchmarks.engines import BASE, ENGINES, OURS
from benchmarks.fill import ITEMS
from benchmarks.operations import AUTH_KEYS, NEW_USERS, Ours, Run, Side, data_of, found, history
from benchmarks.recording import CLIENT, SESSIONS_AT_ONCE, update_token
from django_redsess import viewed
from django_redsess.session import script_calls
from django_redsess.session import script_calls as operations
from django_redsess.session.saving import Visit
from django_redsess.signals import Reason
from django_redsess.transport import lua_scripts
from django_redsess.transport.keys import new_key, sid_of
from django_redsess.transport.round_trips import Steps
from django_redsess.transport.sending import Send

try:
    import hiredis
except ImportError:  # The sides that need it are left out.
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
"""By name: an engine whose settings and sessions the side uses, with a database of its own."""


class Request(NamedTuple):
    """Packed commands, the number of replies, and a function that finds something in replies that are good."""

    packed: bytes
    replies: int
    content: Callable[[list[Any]], object]


class Bare(Side):
    """A side that sends packed commands over a socket of its own, and checks the replies to each request."""

    def fill(self, sessions: int) -> None:
        super().fill(sessions)
        where = get_redis_connection("sessions").connection_pool.connection_kwargs
        self.socket = socket.create_connection((where["host"], where["port"]), timeout=where["socket_timeout"])
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.reader = hiredis.Reader()
        self.ask(_packed("SELECT", where["db"]))
        for script in (
            lua_scripts.CHANGE,
            lua_scripts.ADD,
            lua_scripts.ROTATE,
            lua_scripts.END,
            lua_scripts.RECORD_VIEW,
        ):
            self.ask(_packed("SCRIPT", "LOAD", script.text))

    def ask(self, packed: bytes, count: int = 1) -> list[Any]:
        """Send commands, and return ``count`` replies. Raises an error reply of the server."""
        self.socket.sendall(packed)
        replies: list[Any] = []
        while len(replies) < count:
            while (reply := self.reader.gets()) is False:
                received = self.socket.recv(65536)
                if not received:
                    raise ConnectionError("The server has closed the connection.")
                self.reader.feed(received)
            if isinstance(reply, Exception):
                raise reply
            replies.append(reply)
        return replies

    def asking(self, requests: list[Request]) -> Run:
        """Return a function that sends these requests in turn."""

        def run() -> None:
            for packed, replies, content in requests:
                found(content(self.ask(packed, replies)))

        return run


class BareGet(Bare):
    """Reads sessions of the cache engine, and does not unpack them."""

    operations = ("load", "reload")

    def prepare_load(self, count: int) -> Run:
        cache: Any = caches["sessions"]
        prefix = self.session_class.cache_key_prefix
        names = [str(cache.client.make_key(prefix + key)) for key in self.some(count)]
        return self.asking([Request(_packed("GET", name), 1, any) for name in names])


class BareScripts(Bare, Ours):
    """
    Sends what our engine sends, with the same sessions.

    Of a save, only its first step is sent. Records are packed before, and are valid for a second only; therefore the
    sessions themselves are stored before that.
    """

    def prepare_load(self, count: int) -> Run:
        return self.asking([self._load(key) for key in self.some(count)])

    def prepare_change(self, count: int) -> Run:
        requests = []
        for key in self.some(count):
            session = self._loaded(key)
            session["basket"] = self.basket()
            requests += [self._load(key), _first(session.saving(), "save")]
        return self.asking(requests)

    def prepare_create(self, count: int) -> Run:
        requests = []
        for user in self.users(count, NEW_USERS):
            session = self.opened()
            session.update(data_of(user))
            requests.append(_first(session.saving(), "add"))
            self.made.append(session.session_key)
        return self.asking(requests)

    def prepare_sign_in(self, count: int) -> Run:
        users = [data_of(user) for user in self.users(count, NEW_USERS)]
        self.gone = self.stored([{"basket": self.basket()} for _ in users])
        self.unseen(self.gone)
        requests = []
        for key, user in zip(self.gone, users, strict=True):
            session = self._loaded(key)
            session.cycle_key()
            session.update({name: user[name] for name in AUTH_KEYS})
            self.note_sign_in(session)
            requests += [self._load(key), _first(session.saving(), "rotate")]
            self.made.append(session.session_key)
        return self.asking(requests)

    def prepare_end(self, count: int) -> Run:
        self.gone = self.stored([data_of(user) for user in self.users(count, NEW_USERS)])
        steps = [operations.end([sid_of(key)], Reason.KICKED, follow=True) for key in self.gone]
        return self.asking([_first(each, "end") for each in steps])

    def prepare_view(self, count: int) -> Run:
        keys = self.some(count)
        items = self.rng.choices(ITEMS, k=count)
        return self.asking(
            [
                _first(iter(viewed.view(sid_of(key), item, script_calls.Touch.ACTIVE)), "view")
                for key, item in zip(keys, items, strict=True)
            ]
        )

    def _loaded(self, key: str) -> Any:
        # Without a client until it has been read, so that reading touches nothing.
        session = self.session_class(key)
        found(session.get("basket"))
        session.visit = Visit(lambda: CLIENT)
        return session

    def _load(self, key: str) -> Request:
        return _first(iter(script_calls.read(sid_of(key), script_calls.Touch.ACTIVE)), "read")


def _first(steps: Steps[Any], name: str) -> Request:
    """Return what these steps send first, which is so called."""
    send = next(steps)
    assert isinstance(send, Send)
    return Request(send.packed, send.replies, CONTENT[name])


CONTENT: dict[str, Callable[[list[Any]], object]] = {
    "read": lambda replies: replies[0],
    "save": lambda replies: replies[-1] == 1,
    "add": lambda replies: replies[-1] == 1,
    "rotate": lambda replies: replies[-1][0][0] == b"saved",
    "end": lambda replies: replies[-1][2:],  # The sids of those that have ended.
    "view": lambda replies: replies[-1],
}
"""By name of script or command: what is true of the replies if something was found or done."""


class Listing(Side):
    """Records views as the listing does."""

    operations = ("view",)

    def fill(self, sessions: int) -> None:
        self.known = [new_key() for _ in range(sessions)]
        for start in range(0, sessions, SESSIONS_AT_ONCE):
            with self._conn.pipeline(transaction=False) as together:
                for number, token in enumerate(self.known[start : start + SESSIONS_AT_ONCE], start):
                    update_token(together, token, str(number))
                    together.zadd("viewed:" + token, history())
                together.execute()

    def prepare_view(self, count: int) -> Run:
        items = self.rng.choices(ITEMS, k=count)
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
"""All engines and sides, in the order of tables."""

SIDES: dict[str, type[Side]] = {OURS: Ours, SCRIPTS: BareScripts, GET: BareGet, LISTING: Listing}


def operations_of(name: str) -> tuple[str, ...]:
    """Return the operations of this side."""
    return SIDES.get(name, Side).operations


def side_of(name: str) -> Side:
    """Return the side of this name. The process must have its settings."""
    return SIDES.get(name, Side)(ALL[name])


def _packed(*parts: str | bytes | int) -> bytes:
    packed: bytes = hiredis.pack_command(parts)  # type: ignore[arg-type]
    return packed
