"""
Whatever several requests do to sessions, in whatever order: the store holds what a model in plain dicts holds.

A request is an actor: it opens a session, works with what it has read (however long ago that is), and saves. After each
step all keys of the store agree with each other, and with the model.
"""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, login, logout
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from django_redsess.session import operations
from django_redsess.session.binding import BindingChanged
from django_redsess.session.client import Client
from django_redsess.session.record import unpack
from django_redsess.session.state import Visit
from django_redsess.transport.keys import keyspace, sid_of
from django_redsess.transport.steps import drive
from tests.helpers.oracle import disagreements
from tests.helpers.properties import SIGN_IN, Data, exactly, merged, run_machine, values
from tests.helpers.store import make_due
from tests.session.records import BINDING

pytestmark = pytest.mark.both_servers

actors = st.integers(0, 3)
which = st.integers(0, 3)
users = st.sampled_from(["1", "2", "3"])
names = st.sampled_from(["a", "b"])
saves = st.sampled_from([True, True, False])

ADDRESSES = ("192.0.2.1", "2001:db8::7")
"""Where requests come from."""


@dataclass
class Stored:
    """A session as it should be stored; ``items`` are those it viewed, newest first. ``b""`` stands for no binding."""

    data: Data
    items: list[str] = field(default_factory=list)
    created_at: datetime | None = None
    binding: bytes = b""


@dataclass
class Actor:
    """
    A request: its session object, and what should be in it.

    ``key`` is what its session is stored under, None for none. ``base`` is what it has read, None if it has not.
    ``bound_to`` is the binding that it has read, and ``binds`` the one that its next save stores.
    """

    session: SessionStore
    key: str | None = None
    base: Data | None = None
    mine: Data = field(default_factory=dict)
    rotates: bool = False
    signs_in: bool = False
    late: bool = False
    bound_to: bytes | None = None
    binds: bytes | None = None


def user_of(data: Data) -> str:
    return str(data.get(SESSION_KEY, ""))


class Sessions(RuleBasedStateMachine):
    """Several actors at one store, beside a model of it."""

    redis: redis_py.Redis

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.actors: dict[int, Actor] = {}
        self.stored: dict[str, Stored] = {}
        self.keys: list[str] = []
        self.rotated: dict[str, str] = {}
        self.of_guests: set[str] = set()
        self.due: set[str] = set()
        self.views: Counter[str] = Counter()
        self.checked: tuple[Any, ...] = ()

    def teardown(self) -> None:
        conf.clear_cached()
        self.redis.flushall()

    # Opening a session

    @initialize(key=st.sampled_from([0, 1]))
    def begin(self, key: int) -> None:
        """Begin with a member and a guest; the session of one of them all have read."""
        self.actors[0] = Actor(SessionStore())
        self.sign_in(0, "1", then_save=True)
        self.actors[0] = Actor(SessionStore())
        self.change(0, "a", 1, then_save=True)
        self.view(0, "lamp")
        self.open_all(key)

    @rule(number=actors, key=which, what=st.sampled_from(["to read", *ADDRESSES, "unread", "nothing"]))
    def open(self, number: int, key: int, what: str) -> None:
        """
        Come with the cookie of one of the latest sessions, which may be gone, or without any; from an address or none.

        Read it; or replace everything unread, which leaves even an unknown key as it is.
        """
        session_key = self._key(key)
        session = SessionStore(None if what == "nothing" else session_key)
        if what in ADDRESSES:
            session.visit = Visit(lambda: Client(what, "Mozilla"))
        if what == "unread":
            session.clear()
            self.actors[number] = Actor(session, session_key)
        elif what == "nothing":
            self.actors[number] = Actor(session)
        elif session_key in self.stored:
            session.get("a")
            stored = self.stored[session_key]
            base, mine = deepcopy(stored.data), deepcopy(stored.data)
            self.actors[number] = Actor(session, session_key, base, mine, bound_to=stored.binding)
        else:
            session.get("a")
            # Who comes with the cookie that a guest had may go on as a guest.
            self.actors[number] = Actor(session, late=session_key in self.rotated.keys() - self.of_guests)

    @rule(key=which)
    def open_all(self, key: int) -> None:
        """Have all come with the cookie of the same session."""
        for number in range(4):
            self.open(number, key, "to read")

    # Working with it, and saving it at once or later

    @rule(number=actors, name=names, value=values, then_save=saves)
    def change(self, number: int, name: str, value: Any, then_save: bool) -> None:
        """Set a key; or change the list that is there in its place, as a basket does."""
        actor = self.actors[number]
        if isinstance(value, list) and isinstance(actor.mine.get(name), list):
            actor.session[name].append(number)
            actor.session.modified = True
            actor.mine[name].append(number)
        else:
            actor.session[name] = deepcopy(value)
            actor.mine[name] = deepcopy(value)
        if then_save:
            self.save(number)

    @rule(number=actors, then_save=saves)
    def delete(self, number: int, then_save: bool) -> None:
        actor = self.actors[number]
        for name in [name for name in ("b", "a") if name in actor.mine][:1]:
            del actor.session[name]
            del actor.mine[name]
        if then_save:
            self.save(number)

    @rule(number=actors, then_save=saves)
    def rotate(self, number: int, then_save: bool) -> None:
        actor = self.actors[number]
        actor.session.cycle_key()
        actor.rotates = actor.key is not None
        if then_save:
            self.save(number)

    @rule(number=actors, user=users, then_save=saves)
    def sign_in(self, number: int, user: str, then_save: bool) -> None:
        actor = self.actors[number]
        person = User(pk=int(user), password="secret")
        login(self._request(actor), person)
        # Django ends a session of another user, or from before a change of password. Any other gets a new key.
        if user_of(actor.mine) and (user_of(actor.mine), actor.mine[HASH_SESSION_KEY]) != (
            user,
            person.get_session_auth_hash(),
        ):
            self._end(actor)
        actor.rotates = actor.key is not None
        actor.mine |= {name: actor.session[name] for name in SIGN_IN}
        assert user_of(actor.mine) == user
        actor.signs_in = True
        if then_save:
            self.save(number)

    @rule(number=actors, then_save=saves)
    def change_password(self, number: int, then_save: bool) -> None:
        """Change one of the three keys that say who is signed in. They stay together all the same."""
        actor = self.actors[number]
        if user_of(actor.mine):
            actor.session[HASH_SESSION_KEY] = actor.mine[HASH_SESSION_KEY] = f"hash {number}"
        if then_save:
            self.save(number)

    @rule(number=actors, binding_id=st.sampled_from([b"one     ", b"another "]), then_save=saves)
    def bind(self, number: int, binding_id: bytes, then_save: bool) -> None:
        """Bind the session to a device, or note another proof."""
        actor = self.actors[number]
        binding = BINDING._replace(id=binding_id)
        actor.session.bind(binding)
        actor.binds = binding.pack()
        if then_save:
            self.save(number)

    @rule(number=actors, flush=st.booleans())
    def sign_out(self, number: int, flush: bool) -> None:
        """Sign out; or take the user out, and go on as a guest in the same session."""
        actor = self.actors[number]
        if flush:
            logout(self._request(actor))
            self._end(actor)
        else:
            for name in SIGN_IN & actor.mine.keys():
                del actor.session[name]
                del actor.mine[name]
            self.save(number)

    @rule(number=actors, item=st.sampled_from(["", "lamp", "vase", "a:b"]))
    def save(self, number: int, item: str = "") -> None:
        actor = self.actors[number]
        began = self._now()
        actor.session.note_view(item)
        try:
            actor.session.save()
        except UpdateError:
            assert not self._may_save(actor)
            # It is answered 400, and the next request comes.
            self.open(number, number, "to read")
            return
        except BindingChanged:
            assert self._is_bound_meanwhile(actor)
            self.open(number, number, "to read")
            return
        assert self._may_save(actor)
        assert not self._is_bound_meanwhile(actor)
        # As the middleware does at the end.
        drive(viewed.record_noted_view(actor.session))
        saved = self._note_saved(actor)
        if item:
            self._note_viewed(saved, item)
        if user_of(saved.data):
            found = online.get(sid_of(actor.session.session_key))
            if saved.created_at is None or actor.signs_in:
                # It is made by the time that the last read has brought.
                assert found.created_at >= began - timedelta(seconds=1)
            else:
                assert found.created_at == saved.created_at
            saved.created_at = found.created_at
        # It goes on with what is stored now.
        base, mine = deepcopy(saved.data), deepcopy(saved.data)
        key = actor.session.session_key
        self.actors[number] = Actor(actor.session, key, base, mine, bound_to=saved.binding)

    @rule(number=actors, item=st.sampled_from(["lamp", "vase", "a:b"]))
    def view(self, number: int, item: str) -> None:
        actor = self.actors[number]
        is_there = actor.key in self.stored
        assert viewed.record(actor.session, item) == is_there
        if is_there:
            self._note_viewed(self.stored[actor.key], item)

    @rule(key=which, what=st.sampled_from(["expire", "kick", "clean", "list"]))
    def meanwhile(self, key: int, what: str) -> None:
        """Do from elsewhere what ends sessions, or might."""
        session_key = self._key(key)
        if what == "kick":
            ended = [one.user_id for one in online.end(sid_of(session_key))]
            # One that has got another key is ended under that.
            while session_key not in self.stored and session_key in self.rotated:
                session_key = self.rotated[session_key]
            if session_key in self.stored:
                assert ended == [user_of(self.stored.pop(session_key).data)]
            else:
                assert ended == [] or session_key in self.due
        elif what == "expire" and session_key in self.stored:
            make_due(self.redis, sid_of(session_key))
            del self.stored[session_key]
            self.due.add(session_key)
            if any(actor.key == session_key and actor.base is not None for actor in self.actors.values()):
                # Who has read it knows when it is due, unless somebody has moved that, as here.
                assert sum(cleaning.expire_sessions()) <= len(self.due)
                self.due.clear()
        elif what == "clean":
            assert sum(cleaning.expire_sessions()) <= len(self.due)
            self.due.clear()
        elif what == "list":
            signed_in = {sid_of(key): user_of(one.data) for key, one in self.stored.items() if user_of(one.data)}
            assert {session.sid: session.user_id for session in online.sessions()} == signed_in
            assert online.count() == len(signed_in)
            for user in ("1", "2", "3"):
                assert online.count(user_ids=[user]) == list(signed_in.values()).count(user)
            self.due.clear()

    # What must hold after each step

    @invariant()
    def the_store_is_what_it_should_be(self) -> None:
        written = self.redis.info("persistence")["rdb_changes_since_last_save"]
        state = (written, repr(self.stored), len(self.due))
        if state == self.checked:
            # Neither the store nor the model has changed since.
            return
        assert disagreements(self.redis) == []
        self._assert_sessions()
        self._assert_online()
        self._assert_viewed()
        self.checked = state

    @invariant()
    def every_actor_sees_what_it_should(self) -> None:
        for actor in self.actors.values():
            assert exactly(dict(actor.session.items())) == exactly(actor.mine)

    def _assert_sessions(self) -> None:
        for key in self.keys:
            assert exactly(SessionStore(key).load()) == exactly(self.stored[key].data if key in self.stored else {})
        for key, stored in self.stored.items():
            sid = sid_of(key)
            assert unpack(sid, self.redis.hget(keyspace().of_sid(sid).login, sid)).binding == stored.binding
        sids = {sid.decode() for part in keyspace().partitions for sid in self.redis.hkeys(part.login)}
        assert {sid_of(key) for key in self.stored} <= sids
        assert sids <= {sid_of(key) for key in {*self.stored, *self.due}}

    def _assert_online(self) -> None:
        # One by one, since listing them would end what is due, which must be as good as gone where it still is.
        for key, stored in self.stored.items():
            found = online.get(sid_of(key))
            assert (found.user_id, found.created_at) == (user_of(stored.data), stored.created_at)
        assert not online.find([sid_of(key) for key in self.keys if key not in self.stored])

    def _assert_viewed(self) -> None:
        for key in set(self.keys) - self.due:
            items = self.stored[key].items if key in self.stored else []
            assert [item.item for item in viewed.recent(sid_of(key))] == items
        assert dict(viewed.popular()) == dict(self.views)

    # The model

    def _key(self, number: int) -> str:
        # Few sessions, so that several actors have the same one; and now and then one that is gone.
        gone = [key for key in self.keys if key not in self.stored]
        chosen = gone if (number == 3 and gone) or not self.stored else list(self.stored)
        return chosen[-1 - number % min(len(chosen), 2)]

    def _now(self) -> datetime:
        seconds, microseconds = self.redis.time()
        return datetime.fromtimestamp(seconds + microseconds // 1000 / 1000, UTC)

    def _request(self, actor: Actor) -> HttpRequest:
        request = HttpRequest()
        request.session = actor.session
        return request

    def _end(self, actor: Actor) -> None:
        key = actor.key
        # Who has read a user's session ends it under whatever key it has by now.
        while actor.base is not None and user_of(actor.base) and key in self.rotated:
            key = self.rotated[key]
        if key in self.stored:
            del self.stored[key]
        actor.key, actor.base, actor.mine, actor.rotates = None, None, {}, False
        actor.bound_to = actor.binds = None

    def _is_double_click(self, actor: Actor) -> bool:
        """Whether somebody signs in whose session another request has just moved."""
        return bool(
            actor.key in self.rotated
            and actor.base is not None
            and user_of(actor.mine)
            and (actor.signs_in or not user_of(actor.base))
        )

    def _is_bound_meanwhile(self, actor: Actor) -> bool:
        """Whether it binds a session that another request has bound, unbound or proved since it was read."""
        stored = self.stored.get(actor.key)
        return None not in (stored, actor.binds, actor.bound_to) and stored.binding != actor.bound_to

    def _note_viewed(self, stored: Stored, item: str) -> None:
        stored.items[:] = [item, *[other for other in stored.items if other != item]]
        self.views[item] += 1

    def _may_save(self, actor: Actor) -> bool:
        if actor.key is None:
            return not actor.late or bool(user_of(actor.mine))
        return actor.key in self.stored or self._is_double_click(actor)

    def _note_saved(self, actor: Actor) -> Stored:
        new_key = actor.session.session_key
        assert new_key is not None
        before = self.stored.get(actor.key)
        if before is None:
            # One that is new, or takes the place of one that is gone.
            assert new_key not in self.keys
            self.stored[new_key] = Stored(actor.mine, binding=self._binding_of(actor, None, actor.mine))
        else:
            data = actor.mine if actor.base is None else merged(actor.base, actor.mine, before.data)
            keeps_user = user_of(before.data) == user_of(data)
            gets_user = user_of(data) != "" and not keeps_user
            moves = actor.rotates or gets_user or not operations.at_home(sid_of(actor.key), user_of(data))
            assert (new_key != actor.key) == moves
            del self.stored[actor.key]
            binding = self._binding_of(actor, before, data)
            self.stored[new_key] = Stored(data, before.items, before.created_at if keeps_user else None, binding)
            if moves:
                self.rotated[actor.key] = new_key
                if not user_of(before.data):
                    self.of_guests.add(actor.key)
        if new_key not in self.keys:
            self.keys.append(new_key)
        return self.stored[new_key]

    def _binding_of(self, actor: Actor, before: Stored | None, data: Data) -> bytes:
        """What a save leaves of a session's binding: only its user's stays, and no guest has one."""
        if not user_of(data):
            return b""
        if actor.binds is not None:
            return actor.binds
        return before.binding if before is not None and user_of(before.data) == user_of(data) else b""


def test_the_store_holds_what_the_model_holds(redis, partitions: int, users_in_no_table) -> None:
    run_machine(Sessions, redis)
