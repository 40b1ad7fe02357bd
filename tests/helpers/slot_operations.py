"""
Everything that can be done in a store, each time as a generator.

It does its work, yields, and then compares what is stored. The store has one partition. An operation may need keys that
are not there yet, such as the list of a user who was never signed in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from datetime import timedelta
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.utils import timezone

from django_redsess import cleaning, online, viewed
from django_redsess.accounts.reauthentication import count_try
from django_redsess.backend import SessionStore
from django_redsess.contrib.moving import Row, marks
from django_redsess.contrib.moving.copying import copy_session
from django_redsess.contrib.moving.growing import transfer
from django_redsess.contrib.moving.other_store import ForeignStore, find_beginning
from django_redsess.online import blocking, ending, listing
from django_redsess.online.listing import SessionFilter
from django_redsess.session import eviction
from django_redsess.session.lock import SessionLock
from django_redsess.session.other_store import EndBefore
from django_redsess.signals import Reason
from django_redsess.viewed import popularity
from tests.helpers.store import (
    Client,
    Limit,
    Visit,
    agreement,
    drive,
    faults,
    keyspace,
    make_due,
    new_key,
    operations,
    reading,
    revision_of,
    sid_of,
    with_revision,
)

Work = Generator[None, None, None]
LIMIT = Limit(1, "end_oldest")
OPERATIONS: list[Callable[[World], Work]] = []


class World:
    """
    A guest who has viewed an item and one who has not; a user with two sessions, who has viewed an item with one.

    A session that was ended, with a note; one that is due. Another user is blocked. A session was copied from another
    store of this engine, and is still there, too.
    """

    def __init__(self, client: Any) -> None:
        self.guest, self.quiet_guest = _stored(colour="blue"), _stored(colour="blue")
        self.user, self.quiet_user = _stored("7", colour="blue"), _stored("7", colour="blue")
        for session in (self.guest, self.user):
            viewed.record(session, "lamp")
        self.ended, self.due = _stored("8"), _stored("7")
        online.end(self.ended.sid or "")
        make_due(client, self.due.sid or "")
        online.block(User(pk=6), until=timezone.now() + timedelta(hours=1), message="Call us.")
        cleaning.take_sample()
        self.partition = keyspace().partitions[0]
        self.coming, self.copied = sid_of(new_key()), _stored("5", size="M")
        sid = self.copied.sid or ""
        record = with_revision(client.hget(self.partition.login, sid), marks.COPIED)
        client.hset(self.partition.login, sid, record)
        self.copy = self.copied.snapshot.revision + b"random"
        client.set(self.partition.moved_of(sid), self.copy, px=100_000)


def _stored(user: str = "", **data: Any) -> SessionStore:
    session = SessionStore()
    session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla"))
    session.update({**data, **({SESSION_KEY: user} if user else {})})
    session.save()
    return session


def _loaded(session: SessionStore) -> SessionStore:
    found = SessionStore(session.session_key)
    assert found["colour"] == "blue"
    return found


def _has(session: SessionStore, **data: Any) -> bool:
    found = dict(SessionStore(session.session_key).items())
    return {name: found.get(name) for name in data} == data


def _are_gone(*sessions: SessionStore) -> bool:
    return not any(SessionStore(each.session_key).items() for each in sessions)


def _is_noted(session: SessionStore) -> bool:
    """Tell whether it has ended, and its user will be told."""
    found = SessionStore(session.session_key)
    return (dict(found.items()), found.cookie.notice is None) == ({}, False)


def _found(world: World) -> transfer.Original:
    """A session of another store, as it was read there."""
    now = reading.read_time().run()
    return transfer.Original(now, world.user.snapshot.record, now + 100_000, now)


def _tries_left(session: SessionStore) -> int:
    return drive(count_try(_loaded(session), "7", maximum=5, seconds=300))


def _viewed_by(session: SessionStore) -> list[str]:
    return [found.item for found in viewed.recent(session)]


def _sign_in(session: SessionStore, user: str, limit: Limit | None = None) -> SessionStore:
    found = _loaded(session)
    found.cycle_key()
    found[SESSION_KEY] = user
    found.signed_in(limit)
    found.save()
    return found


def operation(work: Callable[[World], Work]) -> Callable[[World], Work]:
    OPERATIONS.append(work)
    return work


@operation
def add_guest(world: World, user: str = "") -> Work:
    session = _stored(user, colour="red")
    yield
    assert _has(session, colour="red")


@operation
def add_user(world: World) -> Work:
    yield from add_guest(world, "9")


@operation
def create_within_a_limit(world: World) -> Work:
    session = SessionStore()
    session.update({SESSION_KEY: "7", "colour": "red"})
    session.signed_in(LIMIT)
    session.save()
    yield
    assert _has(session, colour="red")
    assert _are_gone(world.user, world.quiet_user)


@operation
def move_here(world: World) -> Work:
    session = SessionStore(new_key())
    sid = session.sid or ""
    drive(copy_session(session, sid, Row({SESSION_KEY: "7", "colour": "red"}), sid))
    yield
    assert _has(session, colour="red")


@operation
def read_guest(world: World) -> Work:
    _loaded(world.guest)
    yield


@operation
def read_ended(world: World) -> Work:
    assert _is_noted(world.ended)
    yield


@operation
def change_guest(world: World, whose: str = "guest") -> Work:
    session = _loaded(getattr(world, whose))
    session["colour"] = "red"
    session.save()
    yield
    assert _has(session, colour="red")


@operation
def change_user(world: World) -> Work:
    yield from change_guest(world, "user")


@operation
def change_address_of_guest(world: World, whose: str = "guest") -> Work:
    session = _loaded(getattr(world, whose))
    session.visit = Visit(lambda: Client("198.51.100.7", "Mozilla"))
    session["colour"] = "red"
    session.save()
    yield
    assert _has(session, colour="red")


@operation
def change_address_of_user(world: World) -> Work:
    yield from change_address_of_guest(world, "user")


@operation
def save_sooner(world: World) -> Work:
    session = _loaded(world.user)
    session.set_expiry(3600)
    session.save()
    yield
    assert _has(world.user, _session_expiry=3600)


@operation
def sign_in(world: World) -> Work:
    session = _sign_in(world.guest, "9")
    yield
    assert _has(session, colour="blue")
    assert _viewed_by(session) == ["lamp"]
    assert _are_gone(world.guest)


@operation
def sign_in_within_a_limit(world: World) -> Work:
    session = _sign_in(world.quiet_guest, "7", LIMIT)
    yield
    assert _has(session, colour="blue")
    assert _are_gone(world.quiet_guest, world.user, world.quiet_user)


@operation
def sign_in_again(world: World) -> Work:
    session = _loaded(world.user)
    session.signed_in()
    session.save()
    yield
    assert _has(session, colour="blue")
    assert _are_gone(world.user)


@operation
def cycle_key(world: World) -> Work:
    session = _loaded(world.quiet_user)
    session.cycle_key()
    session.save()
    yield
    assert _has(session, colour="blue")
    assert _are_gone(world.quiet_user)


@operation
def take_user_out(world: World) -> Work:
    session = _loaded(world.user)
    del session[SESSION_KEY]
    session.save()
    yield
    assert _has(world.user, colour="blue", **{SESSION_KEY: None})


@operation
def flush_user(world: World) -> Work:
    session = _loaded(world.user)
    session.signed_out()
    session.flush()
    yield
    assert _are_gone(world.user)


@operation
def prolong(world: World) -> Work:
    loaded = drive(reading.read_session(world.user.sid or ""))
    later = loaded.due + 60_000
    operations.prolong(loaded, later).run()
    yield
    assert drive(reading.read_session(world.user.sid or "")).due == later


def _lock(session: SessionStore) -> list[Any]:
    lock = SessionLock(session, session.sid or "", 30)
    return [drive(lock.taking(0)), lock._unlock_call().run()]


def _no_views() -> bool:
    return tuple(viewed.total())[:2] == (0, 0)


def _clean_on_create(world: World) -> None:
    call = eviction.clean_on_create(world.partition, due=100, recent=3, guests=2)
    assert call is not None
    call.run()


CALLS: dict[str, tuple[Callable[[World], object], Callable[[World], bool]]] = {
    "end": (
        lambda world: online.end(world.user.sid or "", message="Please sign in again."),
        lambda world: _is_noted(world.user),
    ),
    "end_of_a_user": (
        lambda world: drive(ending.end_all_of_users(["7"], Reason.KICKED, keep=world.user.sid, message="")),
        lambda world: _has(world.user, colour="blue") and _are_gone(world.quiet_user),
    ),
    "end_all": (
        lambda world: online.end_all(),
        lambda world: _has(world.guest, colour="blue") and _are_gone(world.user, world.quiet_user),
    ),
    "block": (
        lambda world: online.block(User(pk=7), until=timezone.now() + timedelta(hours=1), message="Call us."),
        lambda world: online.block_of(User(pk=7)) is not None and _are_gone(world.user, world.quiet_user),
    ),
    "restore a block": (
        lambda world: drive(
            blocking.restore_and_end(online.Block("7", timezone.now() + timedelta(hours=1), "Call us."))
        ),
        lambda world: online.block_of(User(pk=7)) is not None and _are_gone(world.user, world.quiet_user),
    ),
    "unblock": (lambda world: online.unblock(User(pk=6)), lambda world: online.blocked() == []),
    "end_before": (
        lambda world: drive(ForeignStore().note_end_before(EndBefore(["7"]))),
        lambda world: drive(find_beginning("", "7", 0)) is None,
    ),
    "receive": (
        lambda world: drive(transfer._receive({world.coming: _found(world)}, {})),
        lambda world: revision_of(drive(reading.read_session(world.coming)).record or b"") == marks.COPIED,
    ),
    "depart": (
        lambda world: drive(
            transfer._depart(
                {world.user.sid or "": world.user.snapshot.revision + b"random"}, {world.user.sid or "": _found(world)}
            )
        ),
        lambda world: _are_gone(world.user),
    ),
    "arrive": (
        lambda world: drive(transfer._arrive({world.copied.sid or "": world.copy})),
        lambda world: world.copied.sid in {each.sid for each in online.sessions()} and _has(world.copied, size="M"),
    ),
    "copies": (
        lambda world: drive(transfer.find_copies([world.copied.sid or "", world.user.sid or ""])),
        lambda world: drive(transfer.find_copies([world.user.sid or ""])) == [],
    ),
    "count_try": (lambda world: _tries_left(world.user), lambda world: _tries_left(world.user) == 4),
    "lock and unlock": (lambda world: _lock(world.user), lambda world: _lock(world.user) == ["locked", 1]),
    "end_above": (
        lambda world: operations.end_above(LIMIT, "7", keep=world.user.sid or "").run(),
        lambda world: _has(world.user, colour="blue") and _are_gone(world.quiet_user),
    ),
    "clean_on_create": (_clean_on_create, lambda world: sum(cleaning.expire_sessions()) == 0),
    "expire": (lambda world: list(cleaning.expire_sessions()), lambda world: sum(cleaning.expire_sessions()) == 0),
    "evict": (
        lambda world: list(cleaning.evict_sessions(maximum=1, guests=0)),
        lambda world: _are_gone(world.guest, world.quiet_guest),
    ),
    "record_a_view": (
        lambda world: viewed.record(world.quiet_user, "lamp"),
        lambda world: (_viewed_by(world.quiet_user), viewed.count("lamp")) == (["lamp"], 3),
    ),
    "count_a_view": (lambda world: viewed.call_count_view("lamp").run(), lambda world: viewed.count("lamp") == 3),
    "forget_views": (lambda world: viewed.forget(world.user), lambda world: _viewed_by(world.user) == []),
    "reset_an_item": (lambda world: viewed.reset("lamp"), lambda world: viewed.count("lamp") == 0),
    "reset_all_items": (lambda world: viewed.reset_all(), lambda world: _no_views()),
    "trim_items": (
        lambda world: [call.run() for call in popularity.trim_items([0], limit=10)],
        lambda world: _no_views(),
    ),
    "sample": (lambda world: cleaning.take_sample(), lambda world: True),
    "take_new_secret_key": (lambda world: drive(agreement.take_new_secret_key()), lambda world: True),
}
"""What is done by a single call, and what holds afterwards."""


def _working(name: str) -> Callable[[World], Work]:
    call, holds = CALLS[name]

    def work(world: World) -> Work:
        call(world)
        yield
        assert holds(world)

    work.__name__ = name
    return work


OPERATIONS += map(_working, CALLS)


def reads_of(world: World) -> dict[str, Callable[[], Any]]:
    """Return what only reads. Nobody is due any more."""
    sid = world.user.sid or ""
    everybody, of_user = SessionFilter(guests=True), SessionFilter(user_ids=["7"])
    return {
        "count": lambda: [call.run()[0] for call in listing.count_calls(everybody)],
        "count users": lambda: [call.run()[0] for call in listing.count_calls(of_user)],
        "list": lambda: [each.sid for each in online.sessions(guests=True)],
        "list by sign-in": lambda: [each.sid for each in online.sessions()],
        "list of users": lambda: [each.sid for each in online.sessions(user_ids=["7"])],
        "search by browser": lambda: online.count(browser="Chrome"),
        "search by network": lambda: [each.sid for each in online.sessions(network="192.0.2.0/24")],
        "blocked": lambda: [each.user_id for each in online.blocked()],
        "block": lambda: online.block_of(User(pk=6)),
        "find": lambda: [each.sid for each in online.find([sid])],
        "samples": lambda: len(online.samples()),
        "recent items": lambda: [each.item for each in viewed.recent(world.user)],
        "no recent items": lambda: viewed.recent(world.quiet_user),
        "popular": viewed.popular,
        "views": lambda: viewed.count("lamp"),
        "total of views": viewed.total,
        "rank": lambda: viewed.rank(1),
        "items to move": lambda: len(reading.read_viewed_items(sid).run()),
        "backlog": lambda: [call.run() for call in cleaning.backlogs_by_partition()],
        "next deadline": lambda: [call.run() is None for call in cleaning.deadlines_by_partition()],
        "check": faults,
        "gone": lambda: SessionStore(world.ended.session_key).exists(world.ended.session_key),
    }
