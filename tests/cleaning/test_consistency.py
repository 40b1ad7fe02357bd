"""Whether the check finds every kind of damage, and the repair mends it and nothing else."""

import json
import os
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import SESSION_KEY
from django.core.management import CommandError, call_command

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.cleaning import index_check
from django_redsess.signals import EndedSession, session_ended
from django_redsess.transport.keys import Keyspace, Partition, keyspace
from tests.helpers.behind import have_agreed, text_of
from tests.helpers.oracle import disagreements

pytestmark = pytest.mark.both_servers

Redis = redis_py.Redis
FaultAsText = tuple[str, str, str]

GHOST = "GhostGhostGhostGhost"
"""A sid that no session has."""


@dataclass
class Filled:
    """What is in the store: sids."""

    guests: list[str] = field(default_factory=list)
    members: dict[str, list[str]] = field(default_factory=dict)
    rotated: str = ""
    """The sid that a session has left."""

    @property
    def guest(self) -> str:
        """A guest who has viewed something."""
        return self.guests[0]

    @property
    def member(self) -> str:
        """A session of a user with few, that has viewed something."""
        return self.members["7"][0]

    @property
    def one_of_many(self) -> str:
        """A session of a user with so many that the list is walked through bit by bit."""
        return self.members["many"][0]


@pytest.fixture
def fill(new_session) -> Callable[[], Filled]:
    """Return a function that fills the store with sessions of each kind."""

    def create() -> Filled:
        filled = Filled()
        for _ in range(5):
            session = new_session(colour="blue")
            viewed.record(session, "lamp")
            filled.guests.append(session.sid)
        for user_id, count in {"7": 3, "a:b": 1, "jürgen": 2, "many": 14}.items():
            for number in range(count):
                session = new_session(user_id, colour="blue")
                if number == 0:
                    viewed.record(session, "lamp")
                    viewed.record(session, "vase")
                filled.members.setdefault(user_id, []).append(session.sid)
        session = SessionStore(new_session(colour="blue").session_key)
        filled.rotated = session.sid
        session.cycle_key()
        session[SESSION_KEY] = "8"
        session.save()
        filled.members["8"] = [session.sid]
        return filled

    return create


@pytest.fixture
def filled(partitions, fill) -> Filled:
    return fill()


@pytest.fixture
def told() -> Iterator[list[EndedSession]]:
    """The ends that were told."""
    heard: list[EndedSession] = []

    def receive(signal, sender, **named) -> None:
        heard.append(EndedSession(**named))

    session_ended.connect(receive)
    yield heard
    session_ended.disconnect(receive)


def partition_of(sid: str) -> Partition:
    return keyspace().of_sid(sid)


def faults(*, mend: bool = False) -> list[FaultAsText]:
    """Kind, sid and key of what the check finds."""
    return [(each.kind, each.sid, each.key) for step in index_check.check(mend=mend) for each in step.faults]


def everything(client: Redis) -> dict[bytes, Any]:
    """Each key, all that is in it, and when it ends."""
    # Not what DUMP gives: in that, the order of a hash changes while the server rearranges it.
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda name: client.zrange(name, 0, -1, withscores=True),
        b"list": lambda name: client.lrange(name, 0, -1),
        b"string": client.get,
    }
    return {name: (readers[client.type(name)](name), client.pexpiretime(name)) for name in client.keys()}


def sessions(client: Redis) -> dict[str, tuple[Any, ...]]:
    """All that belongs to each session, by sid."""
    found = {}
    for partition in keyspace().partitions:
        for packed_sid, record in client.hgetall(partition.login).items():
            sid = packed_sid.decode()
            user_id = record[29 : 29 + record[28]].decode()
            names = [partition.expire, partition.recent, partition.guests, partition.online_user]
            names += [partition.online_user_of(user_id)] if user_id else []
            scores = [client.zscore(name, sid) for name in names]
            found[sid] = (record, *scores, client.zrange(partition.viewed_by(sid), 0, -1, withscores=True))
    return found


# A store that is as it should be.


def test_an_empty_store_has_no_fault(partitions, redis) -> None:
    assert faults() == faults(mend=True) == []
    assert [name for name in redis.keys() if not name.endswith(b":meta")] == []


def test_a_healthy_store_has_no_fault_and_stays_as_it_is(filled, redis) -> None:
    have_agreed()
    before = everything(redis)
    assert faults() == []
    assert faults(mend=True) == []
    assert everything(redis) == before


def test_every_entry_of_every_key_is_compared(filled, redis) -> None:
    entries = 0
    for partition in keyspace().partitions:
        entries += redis.hlen(partition.login)
        for name in (partition.expire, partition.recent, partition.guests, partition.online_user):
            entries += redis.zcard(name)
    many = partition_of(filled.one_of_many).online_user_of("many")
    # And each key that belongs to one session or user; of a long list, each entry.
    own = [name for name in redis.keys() if any(part in name for part in (b":online:user:", b"}:viewed:", b":ended:"))]
    assert sum(step.entries for step in index_check.check()) == entries + len(own) + redis.zcard(many)


class Traffic:
    """Visitors who come, change, sign in, view and leave, for as long as the block lasts."""

    def __init__(self) -> None:
        self.stop = threading.Event()
        self.rounds = 0
        self.errors: list[BaseException] = []
        self.threads = [threading.Thread(target=self.visit, args=(number,)) for number in range(2)]

    def __enter__(self) -> "Traffic":
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def visit(self, number: int) -> None:
        chance = random.Random(number)
        try:
            while not self.stop.is_set():
                self.one_visit(chance)
                self.rounds += 1
        except BaseException as error:
            self.errors.append(error)

    def one_visit(self, chance: random.Random) -> None:
        session = SessionStore()
        session["colour"] = "blue"
        session.save()
        session = SessionStore(session.session_key)
        viewed.record(session, f"item {chance.randrange(9)}")
        session.cycle_key()
        session[SESSION_KEY] = str(chance.randrange(5))
        session.save()
        viewed.record(session, f"item {chance.randrange(9)}")
        session["size"] = 1
        session.save()
        if chance.random() < 0.3:
            online.end(session.sid)
        elif chance.random() < 0.5:
            session.flush()
        elif chance.random() < 0.3:
            del session[SESSION_KEY]
            session.save()


@pytest.mark.parametrize("mend", [False, True], ids=["check", "repair"])
def test_what_visitors_do_meanwhile_is_no_fault(filled, redis, told, mend: bool) -> None:
    before = sessions(redis)
    with Traffic() as traffic:
        while traffic.rounds < 200 and not traffic.errors:
            assert faults(mend=mend) == []
    assert traffic.errors == []
    # Nor has the repair ended anything, or touched those that nobody used.
    assert {each.reason for each in told} <= {"kicked", "invalidated"}
    after = sessions(redis)
    assert {sid: after.get(sid) for sid in before} == before


def test_damage_is_mended_while_visitors_come_and_go(filled, redis) -> None:
    partition = partition_of(filled.member)
    with Traffic() as traffic:
        for _ in range(10):
            redis.zrem(partition.online_user, filled.member)
            redis.zadd(partition.recent, {GHOST: 5})
            assert set(faults(mend=True)) == {
                ("missing", filled.member, partition.online_user),
                ("stray", GHOST, partition.recent),
            }
    assert traffic.errors == []
    assert disagreements(redis) == []


# Each kind of damage.


@dataclass
class Damage:
    """What the check has to find, and what the repair can't bring back."""

    faults: Iterable[FaultAsText]
    ended: Iterable[str] = ()
    """Sessions that are over afterwards."""
    told: Iterable[str] = ()
    """Those of them that had a record, so that receivers hear of their end."""
    changed: Iterable[str] = ()
    """Sessions of which a time is not known any more."""


def listed_in(partition: Partition, sid: str, user_id: str = "") -> list[str]:
    """The lists that a session is in."""
    if not user_id:
        return [partition.expire, partition.guests]
    return [partition.expire, partition.recent, partition.online_user, partition.online_user_of(user_id)]


def without_deadline(client: Redis, filled: Filled, kind: str) -> Damage:
    sid = getattr(filled, kind)
    key = partition_of(sid).expire
    assert client.zrem(key, sid)
    return Damage([("missing", sid, key)], ended=[sid], told=[sid])


def without_last_seen(client: Redis, filled: Filled, kind: str) -> Damage:
    sid = getattr(filled, kind)
    key = partition_of(sid).guests if kind == "guest" else partition_of(sid).recent
    assert client.zrem(key, sid)
    # When it was last seen is said nowhere else.
    return Damage([("missing", sid, key)], changed=[sid])


def in_both(client: Redis, filled: Filled, kind: str) -> Damage:
    sid, partition = getattr(filled, kind), partition_of(getattr(filled, kind))
    wrong = partition.recent if kind == "guest" else partition.guests
    client.zadd(wrong, {sid: 5})
    return Damage([("stray", sid, wrong)])


def in_the_wrong_one(client: Redis, filled: Filled, kind: str) -> Damage:
    sid, partition = getattr(filled, kind), partition_of(getattr(filled, kind))
    right, wrong = partition.recent, partition.guests
    if kind == "guest":
        right, wrong = wrong, right
    client.zadd(wrong, {sid: client.zscore(right, sid)})
    client.zrem(right, sid)
    # When it was seen is known.
    return Damage([("missing", sid, right), ("stray", sid, wrong)])


def without_entry(client: Redis, filled: Filled, of: str, kind: str) -> Damage:
    sid = getattr(filled, kind)
    key = getattr(partition_of(sid), of)
    assert client.zrem(key, sid)
    return Damage([("missing", sid, key)])


def without_entry_of_user(client: Redis, filled: Filled, user_id: str) -> Damage:
    sid = filled.members[user_id][0]
    key = partition_of(sid).online_user_of(user_id)
    assert client.zrem(key, sid)
    return Damage([("missing", sid, key)])


def without_login_time_at_all(client: Redis, filled: Filled) -> Damage:
    sid, partition = filled.member, partition_of(filled.member)
    client.zrem(partition.online_user, sid)
    client.zrem(partition.online_user_of("7"), sid)
    found = [("missing", sid, partition.online_user), ("missing", sid, partition.online_user_of("7"))]
    return Damage(found, changed=[sid])


def without_record(client: Redis, filled: Filled, kind: str, user_id: str) -> Damage:
    sid, partition = getattr(filled, kind), partition_of(getattr(filled, kind))
    assert client.hdel(partition.login, sid)
    names = [*listed_in(partition, sid, user_id), partition.viewed_by(sid)]
    return Damage([("stray", sid, name) for name in names], ended=[sid])


def ghost_in(client: Redis, filled: Filled, of: str) -> Damage:
    key = getattr(partition_of(filled.member), of)
    client.zadd(key, {GHOST: 5})
    return Damage([("stray", GHOST, key)])


def ghost_of_user(client: Redis, filled: Filled, user_id: str) -> Damage:
    key = partition_of(filled.members.get(user_id, [filled.member])[0]).online_user_of(user_id)
    client.zadd(key, {GHOST: 5})
    return Damage([("stray", GHOST, key)])


def many_ghosts_of_user(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.member).online_user_of("nobody")
    ghosts = [f"{GHOST[:17]}{number:03}" for number in range(300)]
    client.zadd(key, dict.fromkeys(ghosts, 5))
    return Damage([("stray", ghost, key) for ghost in ghosts])


def guest_among_members(client: Redis, filled: Filled, of: str) -> Damage:
    key = getattr(partition_of(filled.guest), of)
    client.zadd(key, {filled.guest: 5})
    return Damage([("stray", filled.guest, key)])


def sid_of_another(client: Redis, filled: Filled, kind: str, user_id: str) -> Damage:
    sid = getattr(filled, kind)
    key = partition_of(filled.members[user_id][0]).online_user_of(user_id)
    client.zadd(key, {sid: 5})
    return Damage([("stray", sid, key)])


def other_login_time(client: Redis, filled: Filled, kind: str, user_id: str) -> Damage:
    sid = getattr(filled, kind)
    key = partition_of(sid).online_user_of(user_id)
    client.zadd(key, {sid: 5})
    return Damage([("differs", sid, key)])


def other_login_time_in_the_list_of_all(client: Redis, filled: Filled) -> Damage:
    sid, partition = filled.member, partition_of(filled.member)
    client.zadd(partition.online_user, {sid: 5})
    return Damage([("differs", sid, partition.online_user)])


def viewed_by_nobody(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.member).viewed_by(GHOST)
    client.zadd(key, {"lamp": 5})
    return Damage([("stray", GHOST, key)])


def note_of_the_living(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.member).ended_of(filled.member)
    client.set(key, "kicked", ex=100)
    return Damage([("stray", filled.member, key)])


def note_forever(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.rotated).ended_of(filled.rotated)
    assert client.persist(key)
    return Damage([("stray", filled.rotated, key)])


def no_records(client: Redis, filled: Filled) -> Damage:
    partition = partition_of(filled.member)
    sids = [sid.decode() for sid in client.hkeys(partition.login)]
    users = {sid: user_id for user_id, his in filled.members.items() for sid in his}
    found = [("stray", sid, name) for sid in sids for name in listed_in(partition, sid, users.get(sid, ""))]
    found += [("stray", sid, name) for sid in sids if client.exists(name := partition.viewed_by(sid))]
    client.delete(partition.login)
    return Damage(found, ended=sids)


def no_deadlines(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.member).expire
    sids = [sid.decode() for sid in client.zrange(key, 0, -1)]
    client.delete(key)
    return Damage([("missing", sid, key) for sid in sids], ended=sids, told=sids)


def no_list(client: Redis, filled: Filled, of: str) -> Damage:
    key = getattr(partition_of(filled.guest if of == "guests" else filled.member), of)
    sids = [sid.decode() for sid in client.zrange(key, 0, -1)]
    client.delete(key)
    return Damage([("missing", sid, key) for sid in sids], changed=sids if of in ("recent", "guests") else [])


def no_list_of_user(client: Redis, filled: Filled, user_id: str) -> Damage:
    sids = filled.members[user_id]
    key = partition_of(sids[0]).online_user_of(user_id)
    client.delete(key)
    return Damage([("missing", sid, key) for sid in sids])


def several_at_once(client: Redis, filled: Filled) -> Damage:
    parts = [
        without_deadline(client, filled, "guest"),
        without_entry(client, filled, "online_user", "one_of_many"),
        other_login_time(client, filled, "member", "7"),
        viewed_by_nobody(client, filled),
        ghost_in(client, filled, "expire"),
    ]
    found = [each for part in parts for each in part.faults]
    return Damage(found, ended=[filled.guest], told=[filled.guest])


DAMAGES: dict[str, Callable[[Redis, Filled], Damage]] = {
    "a guest without deadline": partial(without_deadline, kind="guest"),
    "a member without deadline": partial(without_deadline, kind="member"),
    "one of many without deadline": partial(without_deadline, kind="one_of_many"),
    "a guest not in guests": partial(without_last_seen, kind="guest"),
    "a member not in recent": partial(without_last_seen, kind="member"),
    "a guest in recent too": partial(in_both, kind="guest"),
    "a member in guests too": partial(in_both, kind="member"),
    "a guest in recent alone": partial(in_the_wrong_one, kind="guest"),
    "a member in guests alone": partial(in_the_wrong_one, kind="member"),
    "a member not in online:user": partial(without_entry, of="online_user", kind="member"),
    "one of many not in online:user": partial(without_entry, of="online_user", kind="one_of_many"),
    "a member not in the user's list": partial(without_entry_of_user, user_id="7"),
    "a user's only session not in the user's list": partial(without_entry_of_user, user_id="a:b"),
    "one of many not in the user's list": partial(without_entry_of_user, user_id="many"),
    "a member without login time": without_login_time_at_all,
    "a guest without record": partial(without_record, kind="guest", user_id=""),
    "a member without record": partial(without_record, kind="member", user_id="7"),
    "one of many without record": partial(without_record, kind="one_of_many", user_id="many"),
    "nobody in expire": partial(ghost_in, of="expire"),
    "nobody in recent": partial(ghost_in, of="recent"),
    "nobody in guests": partial(ghost_in, of="guests"),
    "nobody in online:user": partial(ghost_in, of="online_user"),
    "nobody in a user's list": partial(ghost_of_user, user_id="7"),
    "nobody in a long list": partial(ghost_of_user, user_id="many"),
    "nobody in nobody's list": partial(ghost_of_user, user_id="nobody"),
    "very many in nobody's list": many_ghosts_of_user,
    "a guest in online:user": partial(guest_among_members, of="online_user"),
    "a guest in a user's list": partial(sid_of_another, kind="guest", user_id="7"),
    "a member in another user's list": partial(sid_of_another, kind="member", user_id="a:b"),
    "a member in another user's long list": partial(sid_of_another, kind="member", user_id="many"),
    "another login time in the user's list": partial(other_login_time, kind="member", user_id="7"),
    "another login time in a long list": partial(other_login_time, kind="one_of_many", user_id="many"),
    "another login time in online:user": other_login_time_in_the_list_of_all,
    "viewed by nobody": viewed_by_nobody,
    "a note of a live session": note_of_the_living,
    "a note forever": note_forever,
    "no login": no_records,
    "no expire": no_deadlines,
    "no recent": partial(no_list, of="recent"),
    "no guests": partial(no_list, of="guests"),
    "no online:user": partial(no_list, of="online_user"),
    "no list of a user": partial(no_list_of_user, user_id="7"),
    "no long list of a user": partial(no_list_of_user, user_id="many"),
    "several at once": several_at_once,
}


@pytest.mark.parametrize("name", DAMAGES)
def test_damage_is_found_then_mended_and_nothing_else_touched(filled, redis, told, name: str) -> None:
    before = sessions(redis)
    damage = DAMAGES[name](redis, filled)
    assert disagreements(redis) != []

    damaged = everything(redis)
    assert sorted(faults()) == sorted(damage.faults)
    assert everything(redis) == damaged
    assert told == []

    # What is put right first may have put other faults right too.
    mended = set(faults(mend=True))
    assert mended
    assert mended <= set(damage.faults)
    assert disagreements(redis) == []
    assert faults() == []
    assert sorted((each.sid, each.reason) for each in told) == sorted((sid, "invalidated") for sid in damage.told)
    after = sessions(redis)
    assert set(after) == set(before) - set(damage.ended)
    assert {sid: after[sid] for sid in after if sid not in damage.changed} == {
        sid: before[sid] for sid in after if sid not in damage.changed
    }
    # Of those that were changed, what they hold is as it was.
    assert all(after[sid][0] == before[sid][0] for sid in damage.changed)


def test_a_fault_is_told_with_key_and_sid_in_words(filled, redis) -> None:
    partition = partition_of(filled.member)
    redis.zrem(partition.recent, filled.member)
    redis.zadd(partition.expire, {GHOST: 5})
    other_login_time(redis, filled, "member", "7")
    lines = [str(fault) for step in index_check.check() for fault in step.faults]
    assert sorted(lines) == sorted(
        [
            f"{partition.recent}: session {filled.member} is missing",
            f"{partition.expire}: {GHOST} does not belong there",
            f"{partition.online_user_of('7')}: session {filled.member} has another login time than elsewhere",
        ]
    )
    list(index_check.check(mend=True))


def test_what_lost_its_deadline_is_told_with_its_user(filled, redis, told) -> None:
    without_deadline(redis, filled, "member")
    list(index_check.check(mend=True))
    assert [(each.sid, each.user_id, each.reason) for each in told] == [(filled.member, "7", "invalidated")]


def test_what_lost_an_entry_is_listed_again(filled, redis) -> None:
    expected = {session.sid for session in online.sessions()}
    for name in ("online_user", "recent"):
        no_list(redis, filled, name)
    assert {session.sid for session in online.sessions()} != expected
    list(index_check.check(mend=True))
    assert {session.sid for session in online.sessions()} == expected
    assert online.count(user_ids=["many"]) == 14


def test_damage_under_a_name_that_is_no_text_is_mended(redis) -> None:
    (partition,) = keyspace().partitions
    for text in NASTY:
        redis.zadd(partition.viewed_by("").encode() + text, {"lamp": 5})
        redis.set(partition.ended_of("").encode() + text, "kicked")
        redis.zadd(partition.online_user_of("").encode() + text, {text: 5})
        redis.zadd(partition.online_user_of("many").encode() + text, {f"{number}": 5 for number in range(20)})
    assert len(faults(mend=True)) == len(NASTY) * (1 + 1 + 1 + 20)
    assert disagreements(redis) == []
    assert faults() == []


def test_a_guest_in_the_list_of_nobody_is_taken_out(filled, redis) -> None:
    nobody = partition_of(filled.guest).online_user_of("")
    redis.zadd(nobody, {filled.guest: 5})
    assert faults(mend=True) == [("stray", filled.guest, nobody)]
    assert (disagreements(redis), faults()) == ([], [])


def test_a_note_that_stays_for_too_long_is_taken_out(filled, redis) -> None:
    note = partition_of(filled.rotated).ended_of(filled.rotated)
    redis.expire(note, 10**6)
    assert faults(mend=True) == [("stray", filled.rotated, note)]
    assert (disagreements(redis), faults()) == ([], [])


# What is left alone.


@pytest.mark.usefixtures("left_alone")
def test_a_record_cut_short_is_left_alone(filled, redis) -> None:
    for sid in (filled.member, filled.one_of_many):
        redis.hset(partition_of(sid).login, sid, b"1short")
    expected = {("unreadable", sid, partition_of(sid).login) for sid in (filled.member, filled.one_of_many)}
    for mend in (False, True):
        assert set(faults(mend=mend)) == expected


@pytest.mark.usefixtures("left_alone")
def test_a_list_of_a_user_that_is_none_is_left_alone(filled, redis) -> None:
    name = partition_of(filled.guest).online_user_of("x")
    redis.set(name, "hello")
    for mend in (False, True):
        assert faults(mend=mend) == [("unknown", "", name)]


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("kind", ["guest", "member", "one_of_many"])
@pytest.mark.parametrize("record", [b"1...", b"1" + bytes(100), b""], ids=["short", "long", "empty"])
def test_a_record_of_another_release_is_reported_and_left_alone(filled, redis, told, kind: str, record: bytes) -> None:
    sid = getattr(filled, kind)
    redis.hset(partition_of(sid).login, sid, record)
    before = everything(redis)
    for mend in (False, True, False):
        assert faults(mend=mend) == [("unreadable", sid, partition_of(sid).login)]
        assert everything(redis) == before
    assert told == []


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("rest", [":surprise", ":logins", ":online", ":online:users", ":viewed2", ":login:", ":"])
def test_an_unknown_key_under_our_prefix_is_reported_and_left_alone(filled, redis, rest: str) -> None:
    name = f"{{{partition_of(filled.member).tag}}}{rest}"
    redis.set(name, "what somebody put there")
    before = everything(redis)
    for mend in (False, True, False):
        assert faults(mend=mend) == [("unknown", "", name)]
        assert everything(redis) == before


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("prefix", ["redsess", "a*b[c]?", "a^-\\b", "ü:*"])
def test_keys_of_other_stores_are_neither_reported_nor_touched(partitions, settings, redis, fill, prefix: str) -> None:
    settings.REDSESS = {"PREFIX": prefix}
    fill()
    own = everything(redis)
    similar = [f"{prefix}2", f"{prefix}:x", f"{prefix}:0:x", f"{prefix}:", f"x{prefix}", prefix[:-1] or "x", "axxbcx"]
    others = [partition for other in similar for count in (1, 2) for partition in Keyspace(other, count).partitions]
    for other in others:
        redis.zadd(other.expire, {GHOST: 5})
        redis.zadd(other.viewed_by(GHOST), {"lamp": 5})
        redis.zadd(other.online_user_of("7"), {GHOST: 5})
        redis.set(f"{{{other.tag}}}:surprise", "theirs")
    for name in (f"{prefix}:login", f"{{{prefix}:login", f"{prefix}}}:login", f"x{{{prefix}}}:login"):
        redis.set(name, "theirs")
    have_agreed()
    before = everything(redis)
    assert len(before) > len(own) + 4 * len(similar)
    for mend in (False, True):
        assert faults(mend=mend) == []
        assert everything(redis) == before


def test_damage_is_mended_under_a_prefix_of_special_characters(partitions, settings, redis, fill) -> None:
    settings.REDSESS = {"PREFIX": "a*b[c]?"}
    filled = fill()
    damage = several_at_once(redis, filled)
    assert sorted(faults()) == sorted(damage.faults)
    list(index_check.check(mend=True))
    assert disagreements(redis) == []


# The command.


def test_check_of_a_healthy_store_says_so(filled, redis, capsys) -> None:
    have_agreed()
    before = everything(redis)
    call_command("cleansessions", check=True)
    assert capsys.readouterr().out.count("\n") == 1
    call_command("cleansessions", repair=True)
    line = capsys.readouterr().out
    assert line.startswith("Compared ")
    assert "0 disagree" in line
    assert everything(redis) == before


def test_check_lists_what_disagrees_and_says_what_to_do(filled, redis, capsys) -> None:
    partition = partition_of(filled.member)
    redis.zrem(partition.recent, filled.member)
    before = everything(redis)
    with pytest.raises(CommandError) as error:
        call_command("cleansessions", check=True)
    assert error.value.returncode == 1
    assert re.fullmatch(r"1 [^\n]*--repair[^\n]*", str(error.value))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{partition.recent}: session {filled.member} is missing"
    assert len(lines) == 2
    assert everything(redis) == before
    call_command("cleansessions", repair=True)
    assert "1 disagree, 1 are mended" in capsys.readouterr().out


@pytest.mark.usefixtures("left_alone")
def test_repair_says_what_it_left_alone(filled, redis) -> None:
    redis.hset(partition_of(filled.member).login, filled.member, b"2...")
    with pytest.raises(CommandError, match=r"^1 [^\n]*they can't be mended\.$"):
        call_command("cleansessions", repair=True, verbosity=0)


def test_check_with_json_keeps_stdout_for_the_counts(filled, redis, capsys) -> None:
    without_last_seen(redis, filled, "member")
    with pytest.raises(CommandError):
        call_command("cleansessions", check=True, json=True)
    written = capsys.readouterr()
    counts = json.loads(written.out)
    assert (counts["faults"], counts["mended"]) == (1, 0)
    assert counts["compared"] > 50
    assert filled.member in written.err
    call_command("cleansessions", repair=True, json=True)
    counts = json.loads(capsys.readouterr().out)
    assert (counts["faults"], counts["mended"]) == (1, 1)


def test_a_hundred_faults_are_listed_and_how_to_see_the_others(redis, capsys) -> None:
    (partition,) = keyspace().partitions
    redis.zadd(partition.recent, {f"{GHOST[:17]}{number:03}": 5 for number in range(150)})
    with pytest.raises(CommandError, match=r"^150 [^\n]*--repair"):
        call_command("cleansessions", check=True)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines[:100] if line.endswith("does not belong there")]) == 100
    assert "--verbosity 2 shows them all" in lines[100]
    assert len(lines) == 102
    with pytest.raises(CommandError):
        call_command("cleansessions", check=True, verbosity=2)
    lines = capsys.readouterr().out.splitlines()
    assert len([line for line in lines if line.endswith("does not belong there")]) == 150
    call_command("cleansessions", repair=True, verbosity=0)
    assert disagreements(redis) == []


@pytest.mark.parametrize("option", ["--check", "--repair"])
def test_the_exit_status_says_whether_anything_is_left(server, redis, new_session, option: str) -> None:
    environment = {**os.environ, "REDIS_URL": server.url, "DJANGO_SETTINGS_MODULE": "testproject.settings"}

    def clean(option: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "django", "cleansessions", option]
        return subprocess.run(
            command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, timeout=60
        )

    session = new_session("7")
    redis.zrem(partition_of(session.sid).recent, session.sid)
    done = clean(option)
    if option == "--check":
        assert done.returncode == 1
        assert re.fullmatch(r"CommandError: 1 [^\n]*--repair[^\n]*\n", done.stderr)
        list(index_check.check(mend=True))
    else:
        assert (done.returncode, done.stderr) == (0, "")
    assert clean("--check").returncode == 0
    assert disagreements(redis) == []


NASTY = [b"\x1b[2J\x1b[31mred", b"a\nfake: line", b"\r\x07\x00", b"\xff\xfe\x80", "‮txet".encode(), b"\xc2\x9b31m"]
"""Texts that would act on a terminal, or that are none."""


@pytest.mark.usefixtures("left_alone")
def test_no_name_of_somebody_else_acts_on_the_terminal(redis, capsys) -> None:
    (partition,) = keyspace().partitions
    redis.zadd(partition.expire, dict.fromkeys(NASTY, 5))
    redis.hset(partition.login, NASTY[0], b"2...")
    for text in NASTY:
        redis.set(f"{{{partition.tag}}}:unknown ".encode() + text, "somebody's")
    with pytest.raises(CommandError):
        call_command("cleansessions", check=True)
    written = capsys.readouterr()
    lines = written.out.splitlines()
    assert [line for line in lines if not line.isprintable()] == []
    assert len(lines) == 1 + 5 + 1 + 6


def test_damage_under_such_names_is_mended(redis) -> None:
    (partition,) = keyspace().partitions
    lists = (partition.expire, partition.recent, partition.guests, partition.online_user)
    for text in NASTY:
        for name in lists:
            redis.zadd(name, {text: 5})
    names = [text.decode() for text in NASTY if b"\xff" not in text]
    for text in names:
        redis.zadd(partition.viewed_by(text), {"lamp": 5})
        redis.set(partition.ended_of(text), "kicked")
        redis.zadd(partition.online_user_of(text), {text: 5})
        redis.zadd(partition.online_user_of(f"many {text}"), {f"{number}": 5 for number in range(20)})
    assert len(faults(mend=True)) == len(NASTY) * len(lists) + len(names) * (1 + 1 + 1 + 20)
    assert disagreements(redis) == []
    assert faults() == []


# How much at once.

MEGABYTES_MAX = 8
"""Of records in one step. The first does not know how large they are, and a server gives more than it is asked for."""


@pytest.fixture
def replies(monkeypatch) -> list[index_check.Checked]:
    """What the steps of a check have replied."""
    seen: list[index_check.Checked] = []
    check = index_check._check

    def noted(*args: Any, **options: Any):
        call = check(*args, **options)

        def read(*reply: Any) -> index_check.Checked:
            seen.append(call.read(*reply))
            return seen[-1]

        return replace(call, read=read)

    monkeypatch.setattr(index_check, "_check", noted)
    return seen


@pytest.mark.slow
def test_no_step_of_a_check_holds_the_server_up(redis, new_session, commands, replies) -> None:
    for number in range(3000):
        session = new_session(["", "many", f"user {number}"][number % 3])
        if number % 10 == 0:
            viewed.record(session, "lamp")
    slower_than = redis.config_get("slowlog-log-slower-than")["slowlog-log-slower-than"]
    redis.config_set("slowlog-log-slower-than", 10_000)
    commands()
    try:
        for mend in (False, True):
            passes = []
            for _ in range(3):
                redis.slowlog_reset()
                assert faults(mend=mend) == []
                passes.append({entry["command"] for entry in redis.slowlog_get(128)})
            # A machine that is busy stalls now and then, at any step; what takes too long does so each time.
            assert set.intersection(*passes) == set()
    finally:
        redis.config_set("slowlog-log-slower-than", slower_than)
        redis.slowlog_reset()
    assert not {"hgetall", "keys", "smembers", "hkeys", "hvals"} & set(commands())
    assert max(checked.entries for checked in replies) <= 2 * index_check.ENTRIES_MAX


@pytest.mark.parametrize("user", ["", "user {}", "7"], ids=["of guests", "of many users", "of one user"])
def test_a_check_of_large_records_reads_a_few_megabytes_at_once(redis, new_session, replies, user: str) -> None:
    text = text_of(300_000)
    for number in range(60):
        new_session(user.format(number), text=text)
    assert faults() == []
    assert sum(checked.record_bytes for checked in replies) >= 60 * 300_000
    assert max(checked.record_bytes for checked in replies) <= MEGABYTES_MAX * 1_000_000
    # A session that is damaged is mended all the same.
    sid = redis.hkeys(keyspace().partitions[0].login)[0].decode()
    redis.zrem(partition_of(sid).recent if user else partition_of(sid).guests, sid)
    assert len(faults(mend=True)) == 1


def test_lists_of_large_records_are_read_a_few_at_once(redis, new_session, replies) -> None:
    # All of them are short, and would be compared in one call, were it not for what is in the records.
    text = text_of(300_000)
    for number in range(40):
        new_session(f"user {number % 8}", text=text)
    assert faults() == []
    of_records = 40 * 300_000
    assert sum(checked.record_bytes for checked in replies) >= 1.5 * of_records
    assert max(checked.record_bytes for checked in replies) <= MEGABYTES_MAX * 1_000_000
