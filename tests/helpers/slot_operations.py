"""
Everything that can be done in a store, each time as a generator.

It does its work, yields, and then compares what is stored. The store has one partition. An operation may need keys that
are not there yet, such as the list of a user who was never signed in.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from django.contrib.auth import SESSION_KEY

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.online import listing
from django_redsess.online.listing import SessionFilter
from django_redsess.session import eviction, script_calls
from django_redsess.session.record import Client
from django_redsess.session.saving import Visit
from django_redsess.session.user_limit import Limit
from django_redsess.signals import Reason
from django_redsess.transport import agreement
from django_redsess.transport.keys import keyspace
from django_redsess.transport.round_trips import drive
from django_redsess.viewed import popularity
from tests.helpers.behind import faults, make_due

Work = Generator[None, None, None]
OPERATIONS: list[Callable[[World], Work]] = []


class World:
    """
    A guest who has viewed an item and one who has not; a user with two sessions, who has viewed an item with one.

    A session that was ended, with a note; one that is due.
    """

    def __init__(self, client: Any) -> None:
        self.guest, self.quiet_guest = _stored(colour="blue"), _stored(colour="blue")
        self.user, self.quiet_user = _stored("7", colour="blue"), _stored("7", colour="blue")
        for session in (self.guest, self.user):
            viewed.record(session, "lamp")
        self.ended, self.due = _stored("8"), _stored("7")
        online.end(self.ended.sid or "")
        make_due(client, self.due.sid or "")
        cleaning.sample()
        self.partition = keyspace().partitions[0]


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


def _visited(session: SessionStore) -> SessionStore:
    found = _loaded(session)
    found.visit = Visit(lambda: Client("198.51.100.7", "Mozilla"))
    found["colour"] = "red"
    found.save()
    return found


def _there(session: SessionStore, **data: Any) -> None:
    found = dict(SessionStore(session.session_key).items())
    assert {name: found.get(name) for name in data} == data


def _gone(*sessions: SessionStore) -> None:
    assert [dict(SessionStore(each.session_key).items()) for each in sessions] == [{} for _ in sessions]


def operation(work: Callable[[World], Work]) -> Callable[[World], Work]:
    OPERATIONS.append(work)
    return work


@operation
def add_guest(world: World) -> Work:
    session = _stored(colour="red")
    yield
    _there(session, colour="red")


@operation
def add_user(world: World) -> Work:
    session = _stored("9", colour="red")
    yield
    _there(session, colour="red")


@operation
def create_with_a_view(world: World) -> Work:
    session = SessionStore()
    session["colour"] = "red"
    session.viewed("vase")
    session.save()
    yield
    assert [found.item for found in viewed.recent(session)] == ["vase"]


@operation
def create_within_a_limit(world: World) -> Work:
    session = SessionStore()
    session.update({SESSION_KEY: "7", "colour": "red"})
    session.signed_in(Limit(1, "end_oldest"))
    session.save()
    yield
    _there(session, colour="red")
    _gone(world.user, world.quiet_user)


@operation
def read_guest(world: World) -> Work:
    _loaded(world.guest)
    yield


@operation
def read_ended(world: World) -> Work:
    session = SessionStore(world.ended.session_key)
    assert dict(session.items()) == {}
    assert session.cookie.notice is not None
    yield


@operation
def change_guest(world: World) -> Work:
    session = _loaded(world.guest)
    session["colour"] = "red"
    session.save()
    yield
    _there(world.guest, colour="red")


@operation
def change_user(world: World) -> Work:
    session = _loaded(world.user)
    session["colour"] = "red"
    session.save()
    yield
    _there(world.user, colour="red")


@operation
def change_address_of_guest(world: World) -> Work:
    session = _visited(world.guest)
    yield
    _there(session, colour="red")


@operation
def change_address_of_user(world: World) -> Work:
    session = _visited(world.user)
    yield
    _there(session, colour="red")


@operation
def save_sooner(world: World) -> Work:
    session = _loaded(world.user)
    session.set_expiry(3600)
    session.save()
    yield
    _there(world.user, _session_expiry=3600)


@operation
def save_with_a_view(world: World) -> Work:
    session = _loaded(world.quiet_guest)
    session["colour"] = "red"
    session.viewed("vase")
    session.save()
    yield
    _there(session, colour="red")
    assert [found.item for found in viewed.recent(session)] == ["vase"]


@operation
def sign_in(world: World) -> Work:
    session = _loaded(world.guest)
    session.cycle_key()
    session[SESSION_KEY] = "9"
    session.signed_in()
    session.save()
    yield
    _there(session, colour="blue")
    assert [found.item for found in viewed.recent(session)] == ["lamp"]
    _gone(world.guest)


@operation
def sign_in_within_a_limit(world: World) -> Work:
    session = _loaded(world.quiet_guest)
    session.cycle_key()
    session[SESSION_KEY] = "7"
    session.signed_in(Limit(1, "end_oldest"))
    session.save()
    yield
    _there(session, colour="blue")
    _gone(world.quiet_guest, world.user, world.quiet_user)


@operation
def sign_in_again(world: World) -> Work:
    session = _loaded(world.user)
    session.signed_in()
    session.save()
    yield
    _there(session, colour="blue")
    _gone(world.user)


@operation
def cycle_key(world: World) -> Work:
    session = _loaded(world.quiet_user)
    session.cycle_key()
    session.viewed("vase")
    session.save()
    yield
    _there(session, colour="blue")
    _gone(world.quiet_user)


@operation
def take_user_out(world: World) -> Work:
    session = _loaded(world.user)
    del session[SESSION_KEY]
    session.save()
    yield
    _there(world.user, colour="blue", **{SESSION_KEY: None})


@operation
def flush_user(world: World) -> Work:
    session = _loaded(world.user)
    session.signed_out()
    session.flush()
    yield
    _gone(world.user)


@operation
def end(world: World) -> Work:
    online.end(world.user.sid or "", message="Please sign in again.")
    yield
    session = SessionStore(world.user.session_key)
    assert dict(session.items()) == {}
    assert session.cookie.notice is not None


@operation
def end_of_a_user(world: World) -> Work:
    drive(online.end_all_of(["7"], Reason.KICKED, keep=world.user.sid, message=""))
    yield
    _there(world.user, colour="blue")
    _gone(world.quiet_user)


@operation
def end_all(world: World) -> Work:
    online.end_all()
    yield
    _gone(world.user, world.quiet_user)
    _there(world.guest, colour="blue")


@operation
def end_above(world: World) -> Work:
    script_calls.end_above(Limit(1, "end_oldest"), "7", keep=world.user.sid or "").run()
    yield
    _there(world.user, colour="blue")
    _gone(world.quiet_user)


@operation
def prolong(world: World) -> Work:
    loaded = script_calls.read(world.user.sid or "").run()
    later = loaded.due + 60_000
    script_calls.prolong(loaded, later).run()
    yield
    assert script_calls.read(world.user.sid or "").run().due == later


@operation
def clean_along(world: World) -> Work:
    call = eviction.cleaning_along(world.partition, due=100, recent=3, guests=2)
    assert call is not None
    call.run()
    yield
    assert sum(cleaning.expired()) == 0


@operation
def expire(world: World) -> Work:
    list(cleaning.expired())
    yield
    assert sum(cleaning.expired()) == 0


@operation
def evict(world: World) -> Work:
    list(cleaning.evicted(maximum=1, guests=0))
    yield
    _gone(world.guest, world.quiet_guest)


@operation
def record_a_view(world: World) -> Work:
    viewed.record(world.quiet_user, "lamp")
    yield
    assert [found.item for found in viewed.recent(world.quiet_user)] == ["lamp"]
    assert viewed.count("lamp") == 3


@operation
def count_a_view(world: World) -> Work:
    viewed.count_view("lamp").run()
    yield
    assert viewed.count("lamp") == 3


@operation
def forget_views(world: World) -> Work:
    viewed.forget(world.user)
    yield
    assert viewed.recent(world.user) == []


@operation
def reset_an_item(world: World) -> Work:
    viewed.reset("lamp")
    yield
    assert viewed.count("lamp") == 0


@operation
def reset_all_items(world: World) -> Work:
    viewed.reset_all()
    yield
    assert tuple(viewed.total())[:2] == (0, 0)


@operation
def trim_items(world: World) -> Work:
    for call in popularity.trim([0], limit=10):
        call.run()
    yield
    assert tuple(viewed.total())[:2] == (0, 0)


@operation
def sample(world: World) -> Work:
    cleaning.sample()
    yield


@operation
def take_new_secret_key(world: World) -> Work:
    drive(agreement.take_new_secret_key())
    yield


def reads_of(world: World) -> dict[str, Callable[[], Any]]:
    """Return what only reads. Nobody is due any more."""
    sid = world.user.sid or ""
    everybody, of_user = SessionFilter(guests=True), SessionFilter(user_ids=["7"])
    return {
        "count": lambda: [call.run().sessions for call in listing.count(everybody)],
        "count users": lambda: [call.run().sessions for call in listing.count(of_user)],
        "list": lambda: [each.sid for each in online.sessions(guests=True)],
        "list by sign-in": lambda: [each.sid for each in online.sessions()],
        "list of users": lambda: [each.sid for each in online.sessions(user_ids=["7"])],
        "search by browser": lambda: online.count(browser="Chrome"),
        "search by network": lambda: [each.sid for each in online.sessions(network="192.0.2.0/24")],
        "find": lambda: [each.sid for each in online.find([sid])],
        "history": lambda: len(online.history()),
        "recent items": lambda: [each.item for each in viewed.recent(world.user)],
        "no recent items": lambda: viewed.recent(world.quiet_user),
        "popular": viewed.popular,
        "views": lambda: viewed.count("lamp"),
        "total of views": viewed.total,
        "rank": lambda: viewed.rank(1),
        "items to move": lambda: len(script_calls.viewed_by(sid).run()),
        "backlog": lambda: [call.run() for call in cleaning.count_backlog()],
        "next deadline": lambda: [call.run() is None for call in cleaning.next_deadline()],
        "check": faults,
        "gone": lambda: SessionStore(world.ended.session_key).exists(world.ended.session_key),
    }
