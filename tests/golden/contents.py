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
from django_redsess.contrib.moving.other_store import ForeignStore
from django_redsess.session import messages
from django_redsess.session.other_store import EndBefore
from tests.helpers.store import (
    Binding,
    Client,
    Record,
    Visit,
    blocks,
    bucket_of_user,
    drive,
    make_due,
    new_key,
    pack_client,
    reading,
    sid_of,
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
    """A session of a golden store: who has it, what is in it, and how it is written."""

    user: str = ""
    data: dict[str, Any] = {}
    address: str = ""
    user_agent: str = ""
    serializer: str = JSON
    encrypts: bool = False
    expiry: int | datetime | None = None
    binding: Binding | None = None


def _django_user(user: str, password_hash: str = "5ec2e7" + "0f" * 29) -> dict[str, Any]:
    """What Django's login() puts into a session."""
    backend = "django.contrib.auth.backends.ModelBackend"
    return {SESSION_KEY: user, BACKEND_SESSION_KEY: backend, HASH_SESSION_KEY: password_hash}


BINDING = Binding(b"binding.", 1_790_000_001_000, 1_790_000_601_000, b"\x02" + b"\x7f" * 32)
"""Of a session that is bound to a device: with a key of ES256."""

RSA_BINDING = BINDING._replace(id=b"another.", public_key=b"\xff" * 256)

BUCKET_STEP = 300
"""Guests are this many buckets apart, so that they are in all of four partitions."""

BASKET = {"basket": {"lamp": 2, "chair": 1}, "greeting": "Grüße, 你好"}
RANDOM_TEXT = b64encode(random.Random(1).randbytes(600)).decode()

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
    "user, encrypted": Session("7", {**_django_user("7"), **BASKET}, "198.51.100.8", FIREFOX, encrypts=True),
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
    "user, new key": Session("14", _django_user("14"), "203.0.113.16", FIREFOX),
}

MOVED, ROTATED = "user, moved here", "user, new key"

ENDED = ("signed out", "kicked", "kicked with a message", "expired")
"""Sessions of which there is only a note, or nothing."""

VIEWS = {"guest": ["lamp", "chair"], "user": ["lamp", "table", "Stuhl ä"]}
POPULARITY = {"lamp": 2, "chair": 1, "table": 1, "Stuhl ä": 1}

MESSAGE = "Please call us: +49 30 12345."
BLOCKS = {"20": (MESSAGE, "1"), "21": ("", "")}


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
        "REDSESS": {"PREFIX": "golden", **options},
    }


def fill(client: Any) -> dict[str, str]:
    """Fill the empty store that is used. Return the session key of each session in it, and of those that are gone."""
    keys = {name: _saved(each, number) for number, (name, each) in enumerate(SESSIONS.items()) if name != MOVED}
    keys["old key"] = keys[ROTATED]
    keys[ROTATED] = _rotated(keys[ROTATED])
    keys[MOVED], keys["moved elsewhere"] = _moved()
    keys.update(_ended(client))
    for name, items in VIEWS.items():
        for item in items:
            viewed.record(SessionStore(keys[name]), item)
    for user, (message, by) in BLOCKS.items():
        assert blocks.set_block(blocks.Block(user, FOR_EVER, message, by)).run()
    assert blocks.set_block(blocks.Block("22", FOR_EVER)).run()
    assert blocks.lift_block("22").run()
    loaded = SessionStore(keys["user"])
    loaded.load()
    drive(count_try(loaded, "7", maximum=5, seconds=300))
    cleaning.take_sample()
    return keys


def _saved(given: Session, number: int = 0) -> str:
    redsess = {**settings.REDSESS, "ENCRYPT": given.encrypts}
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
    for which in (EndBefore(["20"]), EndBefore(None, users=True, guests=True)):
        drive(ForeignStore().note_end_before(which))
    return here, there


def _ended(client: Any) -> dict[str, str]:
    """Begin some sessions and end them. Return their keys."""
    keys = {name: _saved(Session("15", _django_user("15"))) for name in ENDED}
    leaving = SessionStore(keys["signed out"])
    leaving.signed_out()
    leaving.flush()
    online.end(sid_of(keys["kicked"]))
    online.end(sid_of(keys["kicked with a message"]), message=MESSAGE)
    drive(messages.tell_users(["15"], MESSAGE))
    make_due(client, sid_of(keys["expired"]))
    assert sum(cleaning.expire_sessions()) == 1
    return keys
