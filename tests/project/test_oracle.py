"""The oracle finds each kind of disagreement, in any partition, and fails the test that left it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
import redis as redis_py

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import Partition, keyspace
from tests.helpers import oracle

ROOT = Path(__file__).parents[2]

USER = "7"

NewSession = Callable[..., SessionStore]


@dataclass
class Sids:
    """Some sessions: two of a user, one of a guest, and one that was ended and has a note."""

    first: str
    second: str
    guest: str
    ended: str


@pytest.fixture
def sids(partitions: int, left_alone: None, new_session: NewSession) -> Sids:
    first, second, ended = (new_session(USER) for _ in range(3))
    guest = new_session(colour="blue")
    for session in (first, guest):
        viewed.record(session, "lamp")
    online.end(ended.sid)
    return Sids(str(first.sid), str(second.sid), str(guest.sid), str(ended.sid))


def of(sid: str) -> Partition:
    return keyspace().of_sid(sid)


Damage = Callable[[redis_py.Redis, Sids], str]
"""Make two keys disagree; return a part of what the oracle is to say."""


def taken_out(redis: redis_py.Redis, sids: Sids, *, key: str, of_guest: bool = False) -> str:
    """A session is missing in one of the keys that list sessions."""
    sid = sids.guest if of_guest else sids.first
    name = getattr(of(sid), key)
    assert redis.zrem(name, sid) == 1
    return f"{name} has "


def put_in(redis: redis_py.Redis, sids: Sids, *, key: str, sid: str = "") -> str:
    """A key lists a session that is not there, or that is of the other kind."""
    sid = getattr(sids, sid) if sid else sids.ended
    name = getattr(of(sid), key)
    assert redis.zadd(name, {sid: 1}, nx=True) == 1
    return f"{name} has "


def record_taken_out(redis: redis_py.Redis, sids: Sids) -> str:
    assert redis.hdel(of(sids.guest).login, sids.guest) == 1
    return f"{of(sids.guest).guests} has "


def record_taken_out_and_its_items_left(redis: redis_py.Redis, sids: Sids) -> str:
    partition = of(sids.guest)
    redis.hdel(partition.login, sids.guest)
    for name in (partition.guests, partition.expire):
        redis.zrem(name, sids.guest)
    return f"{partition.viewed_by(sids.guest).encode()!r} belongs to no session"


def taken_out_of_users_list(redis: redis_py.Redis, sids: Sids) -> str:
    assert redis.zrem(of(sids.first).online_user_of(USER), sids.first) == 1
    return f"the list of user {USER!r} differs"


def put_into_users_list(redis: redis_py.Redis, sids: Sids) -> str:
    assert redis.zadd(of(sids.first).online_user_of(USER), {sids.ended: 1}) == 1
    return f"the list of user {USER!r} differs"


def other_time_in_users_list(redis: redis_py.Redis, sids: Sids) -> str:
    redis.zincrby(of(sids.first).online_user_of(USER), 1, sids.first)
    return f"the list of user {USER!r} differs"


def other_time_in_both_lists(redis: redis_py.Redis, sids: Sids) -> str:
    partition = of(sids.first)
    for name in (partition.online_user, partition.online_user_of(USER)):
        redis.zincrby(name, 1, sids.first)
    return f"{partition.online_user} has other login times than the records"


def list_of_a_user_without_sessions(redis: redis_py.Redis, sids: Sids) -> str:
    name = of(sids.first).online_user_of("8")
    redis.zadd(name, {sids.first: 1})
    return f"{name.encode()!r} belongs to no session"


def items_of_an_ended_session(redis: redis_py.Redis, sids: Sids) -> str:
    name = of(sids.ended).viewed_by(sids.ended)
    redis.zadd(name, {"lamp": 1})
    return f"{name.encode()!r} belongs to no session"


def note_of_a_live_session(redis: redis_py.Redis, sids: Sids) -> str:
    name = of(sids.first).ended_of(sids.first)
    redis.set(name, "kicked", ex=60)
    return f"{name.encode()!r} belongs to no session"


def note_without_an_end(redis: redis_py.Redis, sids: Sids) -> str:
    name = of(sids.ended).ended_of(sids.ended)
    assert redis.persist(name)
    return f"{name.encode()!r} belongs to no session"


def note_for_too_long(redis: redis_py.Redis, sids: Sids) -> str:
    name = of(sids.ended).ended_of(sids.ended)
    assert redis.expire(name, oracle.NOTE_SECONDS + 60)
    return f"{name.encode()!r} belongs to no session"


def view_that_the_total_lacks(redis: redis_py.Redis, sids: Sids) -> str:
    partition = keyspace().of_item("lamp")
    redis.zincrby(partition.viewed, -1, "lamp")
    return f"{partition.totals} does not have the 3 views"


def total_without_views(redis: redis_py.Redis, sids: Sids) -> str:
    partition = keyspace().of_item("lamp")
    redis.hincrby(partition.totals, "views", 1)
    return f"{partition.totals} does not have the 2 views"


def other_address(redis: redis_py.Redis, sids: Sids) -> str:
    redis.zadd(of(sids.first).addresses, {sids.first: 5})
    return f"{of(sids.first).addresses} has another address of"


def key_that_nothing_explains(redis: redis_py.Redis, sids: Sids) -> str:
    redis.set("something", "else")
    return "b'something' belongs to no session"


DAMAGES: dict[str, Damage] = {
    **{f"missing in {key}": partial(taken_out, key=key) for key in ("expire", "recent", "online_user")},
    "missing in guests": partial(taken_out, key="guests", of_guest=True),
    **{f"an ended one in {key}": partial(put_in, key=key) for key in ("expire", "recent", "guests", "online_user")},
    **{f"a guest in {key}": partial(put_in, key=key, sid="guest") for key in ("recent", "online_user")},
    "an ended one in addresses": partial(put_in, key="addresses"),
    "a guest in addresses": partial(put_in, key="addresses", sid="guest"),
    "a signed-in one in addresses of guests": partial(put_in, key="guests_addresses", sid="first"),
    "a signed-in one in guests": partial(put_in, key="guests", sid="first"),
    **{
        each.__name__.replace("_", " "): each
        for each in (
            record_taken_out,
            record_taken_out_and_its_items_left,
            taken_out_of_users_list,
            put_into_users_list,
            other_time_in_users_list,
            other_time_in_both_lists,
            list_of_a_user_without_sessions,
            items_of_an_ended_session,
            note_of_a_live_session,
            note_without_an_end,
            note_for_too_long,
            view_that_the_total_lacks,
            total_without_views,
            other_address,
            key_that_nothing_explains,
        )
    },
}


def test_keys_that_agree_are_no_disagreement(redis: redis_py.Redis, sids: Sids) -> None:
    assert oracle.disagreements(redis) == []


@pytest.mark.parametrize("name", DAMAGES)
def test_each_kind_of_disagreement_is_found(redis: redis_py.Redis, sids: Sids, name: str) -> None:
    told = DAMAGES[name](redis, sids)
    assert [each for each in oracle.disagreements(redis) if told in each]


def test_a_session_in_another_partition_is_found(
    redis: redis_py.Redis, settings, new_session: NewSession, left_alone: None
) -> None:
    settings.REDSESS = {"PARTITIONS": 4}
    sid = new_session(colour="blue").sid
    here = of(sid)
    there = next(each for each in keyspace().partitions if each != here)
    for name in ("login", "expire", "guests"):
        redis.rename(getattr(here, name), getattr(there, name))
    assert oracle.disagreements(redis) == [f"{there.login} has {sid.encode()!r} of another partition"]


def test_who_leaves_a_disagreement_is_told_which_and_the_server_is_empty_afterwards(redis: redis_py.Redis) -> None:
    with pytest.raises(AssertionError, match="b'something' belongs to no session"), oracle.emptied(redis):
        redis.set("something", "else")
    assert redis.keys() == []


@pytest.mark.slow
def test_a_test_that_leaves_a_disagreement_fails_at_its_end(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "pytest_plugins = ['tests.helpers.fixtures.' + name for name in ('clock', 'servers', 'store')]"
    )
    file = tmp_path / "test_of_somebody.py"
    file.write_text(
        "def test_sets(redis): redis.set('something', 'else')\ndef test_finds(redis): assert not redis.keys()"
    )
    run = subprocess.run(
        [sys.executable, "-m", "pytest", f"-c{ROOT / 'pyproject.toml'}", "-rA", str(file)],
        cwd=ROOT,
        # Else the summary is cut off at the width of a terminal.
        env={**os.environ, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    assert "2 passed, 1 error in " in run.stdout
    assert "test_sets - AssertionError: disagreements: b'something' belongs to no session" in run.stdout
