"""A process that is killed at any step of what it does to a session: before, while and after it sends each command."""

import itertools
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import redis as redis_py

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers import every_operation
from tests.helpers.child import MOMENTS, Moment
from tests.helpers.oracle import disagreements
from tests.helpers.store import faults, have_partitions, keyspace, operations, unpack

pytestmark = pytest.mark.both_servers


class Story(NamedTuple):
    """A stored session, as far as one can tell it again: without keys, sids and times."""

    user_id: str
    data: str
    items: list[str]
    is_online: bool
    has_new_login_time: bool


class State(NamedTuple):
    """All there is in the store. ``notes`` counts the notes about sessions that are gone."""

    sessions: list[Story]
    notes: int
    popular: list[tuple[str, int]]


class Store:
    """The store of a test; ``begin`` fills it with one session, which has viewed a lamp."""

    def __init__(self, redis: redis_py.Redis) -> None:
        self.redis = redis

    def begin(self, user_id: str) -> None:
        self.redis.flushall()
        self.session = SessionStore()
        self.session.update({"colour": "blue", **({"_auth_user_id": user_id} if user_id else {})})
        self.session.save()
        self.here = keyspace().of_sid(self.session.sid)
        self.created_at = online.get(self.session.sid).created_at
        # Items that are counted in the partition of the session, and in another one.
        items = [f"item {number}" for number in range(100)]
        self.item = next(item for item in items if keyspace().of_item(item) == self.here)
        self.item_elsewhere = next((item for item in items if keyspace().of_item(item) != self.here), "")
        viewed.record(self.session, self.item)

    @property
    def user_at_home(self) -> str:
        return next(user for user in map(str, itertools.count(1000)) if operations.at_home(self.session.sid, user))

    @property
    def user_elsewhere(self) -> str:
        return next(user for user in map(str, itertools.count(1000)) if keyspace().of_user(user) != self.here)

    def state(self) -> State:
        sessions = []
        listed = [session.sid for session in online.sessions()]
        for partition in keyspace().partitions:
            for name, packed in self.redis.hgetall(partition.login).items():
                sid = name.decode()
                record = unpack(sid, packed)
                found = online.get(sid)
                data = json.loads(record.data)
                # One of several users, see user_at_home.
                user = data.pop("_auth_user_id", "")
                assert (user, user) == (record.user_id, found.user_id)
                text, items = json.dumps(data, sort_keys=True), [self.name(item) for item, _ in viewed.recent(sid)]
                is_new = found.created_at != self.created_at
                sessions.append(Story(user and "somebody", text, items, sid in listed, is_new))
        notes = [name for name in self.redis.keys() if b":ended:" in name]
        popular = [(self.name(item), views) for item, views in viewed.popular()]
        return State(sorted(sessions), len(notes), sorted(popular))

    def name(self, item: str) -> str:
        return "lamp" if item == self.item else "vase"


class Operation(NamedTuple):
    """What is done to the session of ``user_id`` ("": a guest's), and what that makes of the one that is there."""

    user_id: str
    function: Callable[..., Any]
    given: str
    result: str


@pytest.fixture
def states(child, redis, known_scripts) -> Callable[[Operation, Moment], tuple[State, list[State]]]:
    """Return a function that has an operation killed at every step: the state before, and those that it left."""

    def kill_at_every_step(operation: Operation, moment: Moment) -> tuple[State, list[State]]:
        of_test = Store(redis)
        settings = {"REDSESS": {"PARTITIONS": keyspace().count}}
        left = []
        for number in itertools.count(1):
            of_test.begin(operation.user_id)
            before = of_test.state()
            given = GIVEN[operation.given](of_test)
            ran = child.run(operation.function, *given, settings=settings, die=(number, moment))
            assert (disagreements(redis), faults()) == ([], [])
            left.append(of_test.state())
            if not ran.killed:
                # Whether partitions are the same, and that there is something to be killed at.
                assert number > 2
                return before, left
        raise AssertionError

    return kill_at_every_step


# What an operation is given.
GIVEN: dict[str, Callable[[Store], tuple[Any, ...]]] = {
    "key": lambda store: (str(store.session.session_key),),
    "key, item": lambda store: (str(store.session.session_key), store.item),
    "key, item elsewhere": lambda store: (str(store.session.session_key), store.item_elsewhere),
    "key, user": lambda store: (str(store.session.session_key), store.user_at_home),
    "key, user elsewhere": lambda store: (str(store.session.session_key), store.user_elsewhere),
    "key, red": lambda store: (str(store.session.session_key), {"colour": "red"}),
    "user": lambda store: ({"_auth_user_id": store.user_at_home, "colour": "red"},),
    "sid": lambda store: (store.session.sid,),
}

# What it makes of the session that is there.
RESULTS: dict[str, Callable[[Story], list[Story]]] = {
    "joined": lambda story: sorted([story, Story("somebody", '{"colour": "red"}', [], True, True)]),
    "changed": lambda story: [story._replace(data='{"colour": "red"}')],
    "kept": lambda story: [story],
    "signed in": lambda story: [story._replace(user_id="somebody", is_online=True, has_new_login_time=True)],
    "signed out": lambda story: [story._replace(user_id="", is_online=False, has_new_login_time=True)],
    "ended": lambda story: [],
}

OPERATIONS = {
    "create": Operation("", every_operation.create, "user", "joined"),
    "save": Operation("7", every_operation.change, "key, red", "changed"),
    "save, async": Operation("7", every_operation.achange, "key, red", "changed"),
    "rotate a guest's": Operation("", every_operation.rotate, "key", "kept"),
    "rotate": Operation("7", every_operation.rotate, "key", "kept"),
    "sign in": Operation("", every_operation.sign_in, "key, user", "signed in"),
    "sign in again": Operation("7", every_operation.sign_in_again, "key", "signed in"),
    "take the user out": Operation("7", every_operation.take_user_out, "key", "signed out"),
    "sign out": Operation("7", every_operation.flush, "key", "ended"),
    "kick": Operation("7", every_operation.end, "sid", "ended"),
    "view": Operation("7", every_operation.view, "key, item", "kept"),
}

# Before a command is after the one before it, and half a command is none: seen for some of them.
CASES = [
    (name, moment)
    for name, moment in itertools.product(OPERATIONS, MOMENTS)
    if moment == "after" or name in ("create", "save, async", "rotate", "kick")
]


@pytest.mark.parametrize(("name", "moment"), CASES)
def test_a_process_killed_at_any_step_leaves_the_old_state_or_the_new(partitions, states, name, moment) -> None:
    operation = OPERATIONS[name]
    before, left = states(operation, moment)
    after = left[-1]
    assert before != after
    [story] = before.sessions
    assert after.sessions == RESULTS[operation.result](story)
    assert [state for state in left if state not in (before, after)] == []
    # At the first command it had not begun; killed after the last one, it had finished.
    assert left[0] == before
    assert left[-2] == (after if moment == "after" else before)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("function", [every_operation.sign_in, every_operation.asign_in], ids=["sync", "async"])
def test_a_kill_while_a_session_changes_partition_leaves_whole_sessions(monkeypatch, states, function, moment) -> None:
    have_partitions(monkeypatch, 4)
    sign_in = Operation("", function, "key, user elsewhere", "signed in")
    before, left = states(sign_in, moment)
    after = left[-1]
    assert (len(before.sessions), len(after.sessions), before.notes, after.notes) == (1, 1, 0, 1)
    assert after.sessions == RESULTS["signed in"](before.sessions[0])
    # No script reaches over two partitions: killed between the two, it leaves the old session as it was, and beside it
    # the new one, whole, whose cookie nobody got.
    both = before._replace(sessions=sorted(before.sessions + after.sessions))
    assert [state for state in left if state not in (before, both, after)] == []
    assert (before in left, both in left) == (True, True)


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_process_killed_while_it_counts_a_view_elsewhere_has_noted_it_or_not(monkeypatch, states, moment) -> None:
    have_partitions(monkeypatch, 4)
    view = Operation("7", every_operation.view, "key, item elsewhere", "kept")
    before, left = states(view, moment)
    after = left[-1]
    assert after.popular == [("lamp", 1), ("vase", 1)]
    not_counted = after._replace(popular=before.popular)
    assert [state for state in left if state not in (before, not_counted, after)] == []
