"""The scripts in lua/growing.lua, each by itself: whatever two processes do to one session that moves."""

from __future__ import annotations

from typing import Any

import pytest

from django_redsess.session.record import revision_of, with_revision
from django_redsess.transport import scripts
from tests.lua.conftest import Store

LIFE = 100_000
COPIED = b"copied"


def name_of(record: bytes, copy: bytes = b"first.") -> bytes:
    return revision_of(record) + copy


def receive(
    store: Store, record: bytes, copy: bytes = b"first.", *, outdated: bytes = b"", due: int | None = None
) -> bytes:
    sid = store.sid("a")
    given: dict[str, Any] = {
        "sid": sid,
        "record": with_revision(record, COPIED),
        "user_id": "7",
        "login_time": store.now - 1,
        "seen": store.now - 1,
        "due": due or store.now + LIFE,
        "copy": name_of(record, copy),
        "outdated": outdated,
        "mark_lifetime": LIFE,
        "viewed": ("lamp", store.now),
        "moved": store.partition.moved_of(sid),
    }
    [outcome], *_ = store.run(scripts.RECEIVE, **given)
    return bytes(outcome)


def depart(store: Store, copy: bytes) -> list[bytes]:
    sid = store.sid("a")
    given = {"sid": sid, "copy": copy, "mark_lifetime": LIFE, "moved": store.partition.moved_of(sid)}
    outcome, *_ = store.run(scripts.DEPART, **given)
    return list(outcome)


def arrive(store: Store, departed: bytes, *, stays: bool = False) -> bytes:
    sid = store.sid("a")
    moved = store.partition.moved_of(sid)
    given = {"sid": sid, "departed": departed, "mark_lifetime": LIFE, "stays": stays, "moved": moved}
    [outcome], *_ = store.run(scripts.ARRIVE, **given)
    return bytes(outcome)


def stored(store: Store) -> bytes | None:
    found: bytes | None = store.client.hget(store.partition.login, store.sid("a"))
    return found


@pytest.fixture
def record(store: Store) -> bytes:
    return store.record("a", "7", login=1)


def test_a_session_is_copied_and_arrives_with_its_own_revision(store: Store, record: bytes) -> None:
    assert receive(store, record) == name_of(record)
    assert stored(store) == with_revision(record, COPIED)
    # The reply was lost.
    assert receive(store, record) == name_of(record)
    assert arrive(store, name_of(record)) == b"arrived"
    assert stored(store) == record
    assert arrive(store, name_of(record)) == b"gone"
    assert store.client.zscore(store.partition.viewed_by(store.sid("a")), "lamp") is not None
    # Who was slow does not copy it once more, whether it lives or not.
    assert receive(store, record) == b"here"
    store.client.hdel(store.partition.login, store.sid("a"))
    assert receive(store, record) == b"here"
    assert 0 < store.client.pttl(store.partition.moved_of(store.sid("a"))) <= LIFE
    store.client.flushall()


def test_a_copy_is_replaced_only_by_who_knows_that_it_is_outdated(store: Store, record: bytes) -> None:
    later = store.record("a", "7", login=1)
    assert receive(store, record) == name_of(record)
    assert receive(store, later, b"second") == name_of(record)
    assert stored(store) == with_revision(record, COPIED)
    outdated, due = name_of(record), store.now + 2 * LIFE
    assert receive(store, later, b"second", outdated=outdated, due=due) == name_of(later, b"second")
    assert stored(store) == with_revision(later, COPIED)
    assert store.client.zscore(store.partition.expire, store.sid("a")) == due
    assert arrive(store, name_of(later, b"second")) == b"arrived"
    assert stored(store) == later


def test_only_what_was_copied_departs(store: Store) -> None:
    assert depart(store, b"copied......") == [b"gone"]
    record = store.add("a", "7")
    assert depart(store, b"others......") == [b"changed"]
    assert stored(store) == record
    assert depart(store, name_of(record)) == [b"departed", name_of(record)]
    assert stored(store) is None
    # Another process, which has copied it too, learns which copy lives.
    assert depart(store, name_of(record, b"second")) == [b"departed", name_of(record)]


def test_what_is_due_does_not_depart(store: Store) -> None:
    record = store.add("a", "7")
    store.client.zadd(store.partition.expire, {store.sid("a"): 1})
    assert depart(store, name_of(record)) == [b"gone"]
    assert stored(store) == record


def test_what_was_ended_where_it_came_from_does_not_arrive(store: Store, record: bytes) -> None:
    receive(store, record)
    assert arrive(store, b"") == b"ended"
    assert stored(store) is None
    assert receive(store, record) == b"here"


def test_a_copy_that_was_made_after_the_departure_does_not_arrive(store: Store, record: bytes) -> None:
    receive(store, record)
    # The session departs for that copy, and is ended here.
    store.client.hdel(store.partition.login, store.sid("a"))
    assert receive(store, record, b"second") == name_of(record, b"second")
    assert arrive(store, name_of(record)) == b"ended"
    assert stored(store) is None


def test_the_session_of_a_user_who_is_blocked_does_not_arrive(store: Store, record: bytes) -> None:
    receive(store, record)
    store.client.zadd(store.partition.blocked, {"7": store.now + LIFE})
    assert arrive(store, name_of(record)) == b"ended"
    assert stored(store) is None
    assert store.client.get(store.partition.ended_of(store.sid("a"))).startswith(b"kicked ")
    store.client.delete(store.partition.blocked)


def test_the_copy_of_what_stays_goes_and_may_be_made_again(store: Store, record: bytes) -> None:
    receive(store, record)
    assert arrive(store, b"", stays=True) == b"ended"
    assert stored(store) is None
    assert receive(store, record, b"second") == name_of(record, b"second")
    assert arrive(store, name_of(record, b"second")) == b"arrived"


def test_copies_are_told_from_sessions(store: Store, record: bytes) -> None:
    sids = [store.sid("a"), store.sid("b"), store.sid("c")]
    receive(store, record)
    store.add("b", "7")
    assert store.run(scripts.COPIES, sids=sids) == [3, sids[0].encode()]


def test_a_session_whose_mark_was_lost_arrives(store: Store, record: bytes) -> None:
    receive(store, record)
    store.client.delete(store.partition.moved_of(store.sid("a")))
    assert arrive(store, name_of(record)) == b"arrived"
    assert stored(store) == record
    assert receive(store, record) == b"here"


def test_what_another_program_has_stored_as_the_mark_is_none(store: Store, record: bytes, left_alone: None) -> None:
    store.client.hset(store.partition.moved_of(store.sid("a")), "a", "b")
    assert receive(store, record) == name_of(record)
    assert arrive(store, name_of(record)) == b"arrived"
