"""What is in each golden store: one of every kind of session and of everything that is kept beside them."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.serializers import JSONSerializer
from django.test import override_settings

from django_redsess import cleaning, online, viewed
from django_redsess.accounts.reauthentication import count_try
from django_redsess.backend import SessionStore
from django_redsess.contrib.moving import copying, marks
from django_redsess.contrib.moving.growing import transfer
from django_redsess.contrib.moving.other_store import ForeignStore
from django_redsess.session import messages
from django_redsess.session.lock import SessionLock
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.other_store import EndBefore
from django_redsess.signals import Reason
from tests.helpers.store import (
    YET_TO_BE_BOUND,
    Binding,
    Client,
    Record,
    Store,
    Visit,
    blocks,
    bucket_of_user,
    drive,
    in_store,
    make_due,
    new_key,
    operations,
    pack_client,
    reading,
    sid_of,
    using,
)

AGE_SECONDS = 50 * 365 * 86_400
"""The sessions are to live until nobody runs these tests any more."""

FOR_EVER = datetime(2076, 1, 1, tzinfo=UTC)

STORES: dict[str, dict[str, Any]] = {
    "plain": {"PARTITIONS": 1},
    "partitions": {"PARTITIONS": 4},
}
"""The settings of each store, as far as they decide what is written."""

JSON = "django.contrib.sessions.serializers.JSONSerializer"
PICKLES, BACKWARDS = "tests.golden.serializers.Pickles", "tests.golden.serializers.Backwards"

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0"
SAFARI = (
    "Mozilla/5.0 (iPhone; CPU iPhone OS 18_7 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) "
    "Version/26.0 Mobile/15E148 Safari/604.1"
)


class Session(NamedTuple):
    """
    A session of a golden store: who has it, what is in it, and how it is written.

    One that ``encrypts`` is encrypted with a key derived from ``SECRET_KEY``, or with its ``own_key``.
    """

    user: str = ""
    data: dict[str, Any] = {}
    address: str = ""
    user_agent: str = ""
    serializer: str = JSON
    encrypts: bool = False
    expiry: int | datetime | None = None
    binding: Binding | None = None
    own_key: bool = False


OWN_KEY = "a key of golden stores that is used for nothing else"
"""The one of ``ENCRYPTION_KEYS``."""


def _django_user(user: str, password_hash: str = "5ec2e7" + "0f" * 29) -> dict[str, Any]:
    """What Django's login() puts into a session."""
    backend = "django.contrib.auth.backends.ModelBackend"
    return {SESSION_KEY: user, BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: password_hash}


BINDING = Binding(b"binding.", 1_790_000_001_000, 1_790_000_601_000, b"\x02" + b"\x7f" * 32)
"""Of a session that is bound to a device: with a key of ES256."""

RSA_BINDING = BINDING._replace(id=b"another.", public_key=b"\xff" * 256)
NO_BINDING = Binding.unpack(YET_TO_BE_BOUND)

BUCKET_STEP = 300
"""Guests are this many buckets apart, so that they are in all of four partitions."""

BASKET = {"basket": {"lamp": 2, "chair": 1}, "greeting": "Grüße, 你好"}
RANDOM_TEXT = b64encode(random.Random(1).randbytes(600)).decode()

MESSAGE = "Please call us: +49 30 12345."
READY = "password_changed\t"
"""A ready-made message, as it is stored."""

READY_AND_WORDS = f"{READY}{MESSAGE}"

SESSIONS = {
    "empty guest": Session(data={"seen": True}),
    "guest": Session(data=BASKET, address="192.0.2.9", user_agent=FIREFOX),
    "guest, long text": Session(data={"text": "so many words " * 400}),
    "guest, random text": Session(data={"text": RANDOM_TEXT}),
    "guest, encrypted": Session(data=BASKET, address="192.0.2.10", encrypts=True),
    "guest, pickles": Session(data=BASKET, serializer=PICKLES),
    "user": Session("7", {**_django_user("7"), **BASKET}, "198.51.100.7", FIREFOX),
    "user, second": Session("7", _django_user("7"), "2001:db8::7", SAFARI),
    "user, no address": Session("8", _django_user("8")),
    "user, other hash": Session("8", _django_user("8", "not a digest"), "203.0.113.8"),
    "user, other id": Session("ä:9", {SESSION_KEY: "ä:9"}, "203.0.113.9", "curl/8.14"),
    "user, long agent": Session("10", _django_user("10"), "203.0.113.10", "Browser/1.0 " * 20),
    "user, random agent": Session("10", _django_user("10"), "203.0.113.10", RANDOM_TEXT[:256]),
    "user, long id": Session("9" * 255, _django_user("9" * 255), "203.0.113.19", FIREFOX),
    "user, other order": Session("8", dict(reversed(_django_user("8").items()))),
    "user, told": Session("17", {**_django_user("17"), MESSAGE_KEY: READY_AND_WORDS}, "203.0.113.20", FIREFOX),
    "user, encrypted": Session("7", {**_django_user("7"), **BASKET}, "198.51.100.8", FIREFOX, encrypts=True),
    "guest, own key": Session(data=BASKET, encrypts=True, own_key=True),
    "user, own key": Session("7", _django_user("7"), "198.51.100.9", FIREFOX, encrypts=True, own_key=True),
    "user, pickles": Session("11", {**_django_user("11"), **BASKET}, "203.0.113.11", FIREFOX, PICKLES),
    "user, backwards": Session("11", _django_user("11"), "", "", BACKWARDS),
    "user, backwards, encrypted": Session("11", _django_user("11"), "203.0.113.12", FIREFOX, BACKWARDS, True),
    "user, until the browser closes": Session("12", _django_user("12"), "203.0.113.13", FIREFOX, expiry=0),
    "user, until a date": Session("12", _django_user("12"), "203.0.113.14", FIREFOX, expiry=FOR_EVER),
    "user, moved here": Session("13", _django_user("13"), "203.0.113.15", FIREFOX),
    "user, bound": Session("16", {**_django_user("16"), **BASKET}, "203.0.113.17", FIREFOX, binding=BINDING),
    "user, bound, RSA": Session("16", _django_user("16"), binding=RSA_BINDING),
    "user, bound, encrypted": Session("16", _django_user("16"), "203.0.113.18", FIREFOX, JSON, True, binding=BINDING),
    "user, bound, backwards": Session("16", _django_user("16"), "", "", BACKWARDS, binding=BINDING),
    "user, yet to be bound": Session("16", _django_user("16"), "203.0.113.21", FIREFOX, binding=NO_BINDING),
    "user, signed in": Session("29", {**BASKET, **_django_user("29")}, "203.0.113.23", FIREFOX),
    "user, on the way": Session("18", {**_django_user("18"), **BASKET}, "203.0.113.22", FIREFOX),
    "user, new key": Session("14", _django_user("14"), "203.0.113.16", FIREFOX),
}

MOVED, ROTATED, SIGNED_IN, ON_THE_WAY = "user, moved here", "user, new key", "user, signed in", "user, on the way"

ENDED = {
    "kicked": (Reason.KICKED, ""),
    "kicked with a message": (Reason.KICKED, MESSAGE),
    "kicked with a ready-made message": (Reason.KICKED, READY),
    "kicked with both": (Reason.KICKED, READY_AND_WORDS),
    "expired": (Reason.EXPIRED, ""),
    "evicted": (Reason.EVICTED, ""),
    "replaced": (Reason.REPLACED, ""),
    "invalidated": (Reason.INVALIDATED, READY),
}
"""Sessions of which there is only a note: of why they have ended, and with which message."""

GONE = ("signed out", "guest, ended")
"""Sessions of which there is nothing."""

VIEWS = {"guest": ["lamp", "chair"], "user": ["lamp", "table", "Stuhl ä"]}
POPULARITY = {"lamp": 2, "chair": 1, "table": 1, "Stuhl ä": 1}

NOTE = "Called back, 28 Nov."
BLOCKS = {
    "20": (MESSAGE, "1", ""),
    "21": ("", "", ""),
    "23": (READY, "1", NOTE),
    "24": (READY_AND_WORDS, "", ""),
    "25": ("", "1", NOTE),
}
"""Message, author and internal note of the block of each user."""


@contextmanager
def store_of(options: dict[str, Any]) -> Iterator[None]:
    """Use a golden store with these settings, on the server that ``CACHES`` names."""
    with override_settings(**settings_of(options)):
        yield


def settings_of(options: dict[str, Any]) -> dict[str, Any]:
    """The settings of a site that uses a golden store."""
    return {
        "SECRET_KEY": "the key of golden stores",
        "SECRET_KEY_FALLBACKS": [],
        "SESSION_COOKIE_AGE": AGE_SECONDS,
        "SESSION_SERIALIZER": JSON,
        "REDSESS": {"PREFIX": "golden", "ENCRYPTION_KEYS": [OWN_KEY], **options},
    }


def fill(client: Any) -> dict[str, str]:
    """Fill the empty store that is used. Return the session key of each session in it, and of those that are gone."""
    later = (MOVED, SIGNED_IN, ON_THE_WAY)
    keys = {name: _saved(each, number) for number, (name, each) in enumerate(SESSIONS.items()) if name not in later}
    drive(messages.tell_users(["17"], READY_AND_WORDS))
    keys["old key"] = keys[ROTATED]
    keys[ROTATED] = _rotated(keys[ROTATED])
    keys["guest's key"], keys[SIGNED_IN] = _signed_in()
    keys[MOVED], keys["moved elsewhere"] = _moved()
    keys[ON_THE_WAY], keys["departed"] = _on_the_way(client)
    keys.update(_ended(client))
    for name, items in VIEWS.items():
        for item in items:
            viewed.record(SessionStore(keys[name]), item)
    for user, content in BLOCKS.items():
        assert blocks.set_block(blocks.Block(user, FOR_EVER, *content)).run()
    assert blocks.set_block(blocks.Block("22", FOR_EVER)).run()
    assert blocks.lift_block("22").run()
    loaded = SessionStore(keys["user"])
    loaded.load()
    drive(count_try(loaded, "7", maximum=5, seconds=300))
    cleaning.take_sample()
    _locked(keys["user"])
    return keys


def _saved(given: Session, number: int = 0) -> str:
    own = settings.REDSESS["ENCRYPTION_KEYS"] if given.own_key else None
    redsess = {**settings.REDSESS, "ENCRYPT": given.encrypts, "ENCRYPTION_KEYS": own}
    with override_settings(SESSION_SERIALIZER=given.serializer, REDSESS=redsess):
        session = SessionStore()
        session.visit = Visit(lambda: Client(given.address, given.user_agent))
        session.update(given.data)
        if not given.user:
            # Each in the same partition whenever the store is written: a guest's bucket would be random.
            session._session_key = key = new_key(BUCKET_STEP * number % 1024)
            session.pending = session.pending._replace(own_key=key)
        if given.expiry is not None:
            session.set_expiry(given.expiry)
        if given.binding is not None:
            session.bind(given.binding)
        session.save(must_create=not given.user)
    return str(session.session_key)


def _rotated(key: str) -> str:
    session = SessionStore(key)
    session.load()
    session.cycle_key()
    session.save()
    return str(session.session_key)


def _signed_in() -> tuple[str, str]:
    """Sign a user in who was a guest. Return the session's key before and after that."""
    given = SESSIONS[SIGNED_IN]
    before = _saved(Session(data=BASKET), 1)
    session = SessionStore(before)
    session.visit = Visit(lambda: Client(given.address, given.user_agent))
    session.load()
    session.cycle_key()
    session.update(_django_user(given.user))
    session.signed_in()
    session.save()
    return before, str(session.session_key)


def _moved() -> tuple[str, str]:
    """
    Copy a session as from another engine, into its user's bucket, and note what has ended in that engine.

    Return its key here, and the one that it had there.
    """
    user, data, address, agent = SESSIONS[MOVED][:4]
    here, there, now = new_key(bucket_of_user(user)), new_key(0), reading.read_time().run()
    end = now + AGE_SECONDS * 1000
    packed = pack_client(Client(address, agent))
    record = Record(user, now, end // 1000, AGE_SECONDS, packed, JSONSerializer().dumps(data))
    status, _ = copying.copy_call(sid_of(here), copying.Copy(record, end, now, end, now), now, sid_of(there)).run()
    assert status == "copied"
    assert drive(marks.mark_moved_to(sid_of(there), end, sid_of(here)))
    for which in (
        EndBefore(["20"]),
        EndBefore(["26"], keep=[sid_of(here)]),
        EndBefore(None, users=True, guests=True),
        EndBefore(None, users=True, keep_user_ids=["27"]),
    ):
        drive(ForeignStore().note_end_before(which))
    return here, there


def _on_the_way(client: Any) -> tuple[str, str]:
    """
    Begin to move a session from another store of this engine, and to move one there.

    The process is stopped when the first has been copied, and the second has departed. Return their keys.
    """
    other = Store(settings.SESSION_CACHE_ALIAS, "elsewhere", 1)
    with using(other):
        coming = _saved(SESSIONS[ON_THE_WAY])
    leaving = _saved(SESSIONS[ON_THE_WAY])
    drive(in_store(None, transfer._receive, drive(in_store(other, transfer.read_originals, [sid_of(coming)])), {}))
    found = drive(transfer.read_originals([sid_of(leaving)]))
    copies = drive(in_store(other, transfer._receive, found, {}))
    [(outcome, _)] = drive(transfer._depart(copies, found)).values()
    assert outcome == b"departed"
    client.delete(*client.keys("{elsewhere}*"))
    return coming, leaving


def _locked(key: str) -> None:
    """Have a request hold the lock of a session, and another one wait for it."""
    holds, waits = (SessionLock(SessionStore(key), sid_of(key), 300) for _ in range(2))
    assert drive(holds.taking(0)) == "locked"
    assert drive(in_store(None, waits._lock_call, waits=True)) == 0


def _ended(client: Any) -> dict[str, str]:
    """Begin some sessions and end them. Return their keys."""
    # The deadline of one is near: it wakes the cleaner.
    keys = {
        name: _saved(Session("15", _django_user("15"), expiry=3600 if name == "expired" else None))
        for name in (*ENDED, *GONE[:1])
    }
    keys["guest, ended"] = _saved(Session())
    leaving = SessionStore(keys["signed out"])
    leaving.signed_out()
    leaving.flush()
    online.end(sid_of(keys["guest, ended"]))
    for name, (reason, message) in ENDED.items():
        if reason is not Reason.EXPIRED:
            [ended] = drive(operations.end_by_sid([sid_of(keys[name])], operations.Ending(reason, message)))
            assert ended.reason is reason
    drive(messages.tell_users(["15"], MESSAGE))
    drive(messages.tell_users(["28"], READY))
    make_due(client, sid_of(keys["expired"]))
    assert sum(cleaning.expire_sessions()) == 1
    return keys
