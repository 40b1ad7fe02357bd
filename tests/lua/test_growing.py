"""The scripts in lua/growing.lua, each by itself: whatever two processes do to one session that moves."""

from __future__ import annotations

from typing import Any

import pytest

from django_redsess.session.record import revision_of, with_revision
from django_redsess.transport import scripts
from tests.lua.conftest import Store

LIFE = 100_000
COPIED = b"copied"


def receive(store: Store, record: bytes, *, outdated: bytes = b"", due: int | None = None) -> bytes:
    sid = store.sid("a")
    given: dict[str, Any] = {
        "sid": sid,
        "record": with_revision(record, COPIED),
        "user_id": "7",
        "login_time": store.now - 1,
        "seen": store.now - 1,
        "due": due or store.now + LIFE,
        "place": "",
        "revision": revision_of(record),
        "outdated": outdated,
        "mark_lifetime": LIFE,
        "viewed": ("lamp", store.now),
        "moved": store.partition.moved_of(sid),
    }
    [outcome], *_ = store.run(scripts.RECEIVE, **given)
    return bytes(outcome)


def depart(store: Store, revision: bytes) -> bytes:
    sid = store.sid("a")
    given = {"sid": sid, "revision": revision, "mark_lifetime": LIFE, "moved": store.partition.moved_of(sid)}
    [outcome], *_ = store.run(scripts.DEPART, **given)
    return bytes(outcome)


def arrive(store: Store, *, lives: bool = True) -> bytes:
    sid = store.sid("a")
    given = {"sid": sid, "lives": lives, "mark_lifetime": LIFE, "moved": store.partition.moved_of(sid)}
    [outcome], *_ = store.run(scripts.ARRIVE, **given)
    return bytes(outcome)


def stored(store: Store) -> bytes | None:
    found: bytes | None = store.client.hget(store.partition.login, store.sid("a"))
    return found


@pytest.fixture
def record(store: Store) -> bytes:
    return store.record("a", "7", login=1)


def test_a_session_is_copied_and_arrives_with_its_own_revision(store: Store, record: bytes) -> None:
    assert receive(store, record) == b"copied"
    assert stored(store) == with_revision(record, COPIED)
    # The reply was lost.
    assert receive(store, record) == b"copied"
    assert arrive(store) == b"arrived"
    assert stored(store) == record
    assert arrive(store) == b"gone"
    assert store.client.zscore(store.partition.viewed_by(store.sid("a")), "lamp") is not None
    # Who was slow does not copy it once more, whether it lives or not.
    assert receive(store, record) == b"here"
    store.client.hdel(store.partition.login, store.sid("a"))
    assert receive(store, record) == b"here"
    assert 0 < store.client.pttl(store.partition.moved_of(store.sid("a"))) <= LIFE
    store.client.flushall()


def test_a_copy_is_replaced_only_by_who_knows_that_it_is_outdated(store: Store, record: bytes) -> None:
    later = store.record("a", "7", login=1)
    assert receive(store, record) == b"copied"
    assert receive(store, later) == revision_of(record)
    assert stored(store) == with_revision(record, COPIED)
    assert receive(store, later, outdated=revision_of(record), due=store.now + 2 * LIFE) == b"copied"
    assert stored(store) == with_revision(later, COPIED)
    assert store.client.zscore(store.partition.expire, store.sid("a")) == store.now + 2 * LIFE
    assert arrive(store) == b"arrived"
    assert stored(store) == later


def test_only_what_was_copied_departs(store: Store) -> None:
    assert depart(store, b"copied") == b"gone"
    record = store.add("a", "7")
    assert depart(store, b"others") == b"changed"
    assert stored(store) == record
    assert depart(store, revision_of(record)) == b"departed"
    assert stored(store) is None
    # Another process, which had copied it too.
    assert depart(store, b"others") == b"departed"


def test_what_was_ended_where_it_came_from_does_not_arrive(store: Store, record: bytes) -> None:
    receive(store, record)
    assert arrive(store, lives=False) == b"arrived"
    assert stored(store) is None
    assert receive(store, record) == b"here"


def test_a_session_whose_mark_was_lost_arrives(store: Store, record: bytes) -> None:
    receive(store, record)
    store.client.delete(store.partition.moved_of(store.sid("a")))
    assert arrive(store) == b"arrived"
    found = stored(store)
    assert found is not None
    assert revision_of(found) != COPIED
    assert with_revision(found, COPIED) == with_revision(record, COPIED)
    assert receive(store, record) == b"here"


def test_what_another_program_has_stored_as_the_mark_is_none(store: Store, record: bytes, left_alone: None) -> None:
    store.client.hset(store.partition.moved_of(store.sid("a")), "a", "b")
    assert receive(store, record) == b"copied"
    assert arrive(store) == b"arrived"
