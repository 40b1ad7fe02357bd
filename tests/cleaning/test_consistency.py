"""Whether the check finds every kind of damage, and the repair mends it and nothing else."""

import json
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import SESSION_KEY
from django.core.management import CommandError, call_command

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.cleaning import index_check
from django_redsess.signals import EndedSession, sessions_ended
from tests.helpers.oracle import disagreements
from tests.helpers.store import Keyspace, Partition, have_agreed, keyspace, text_of

pytestmark = pytest.mark.both_servers

Redis = redis_py.Redis
FaultAsText = tuple[str, str, str]

GHOST = "GhostGhostGhostGhost"
"""A sid that no session has."""


@dataclass
class Filled:
    """The user of each session in the store, or "" for a guest; and a session of each kind. All are sids."""

    users: dict[str, str]
    guest: str
    """A guest who has viewed something."""
    member: str
    """A session of a user with few, that has viewed something."""
    only_one: str
    one_of_many: str
    """A session of a user with so many that the list is walked through bit by bit."""
    rotated: str
    """The sid that a session has left."""


@pytest.fixture
def fill(new_session) -> Callable[[], Filled]:
    def create() -> Filled:
        users: dict[str, str] = {}
        first: dict[str, str] = {}
        for user_id in [*[""] * 5, *["7"] * 3, "a:b", *["jürgen"] * 2, *["many"] * 14]:
            session = new_session(user_id, colour="blue")
            users[session.sid] = user_id
            if first.setdefault(user_id, session.sid) == session.sid:
                viewed.record(session, "lamp")
                viewed.record(session, "vase")
        session = new_session(colour="blue")
        rotated = session.sid
        session.cycle_key()
        session[SESSION_KEY] = "8"
        session.save()
        users[session.sid] = "8"
        have_agreed()
        return Filled(users, first[""], first["7"], first["a:b"], first["many"], rotated)

    return create


@pytest.fixture
def filled(partitions, fill) -> Filled:
    return fill()


@pytest.fixture
def told() -> Iterator[list[EndedSession]]:
    heard: list[EndedSession] = []

    def receive(sessions, **named) -> None:
        heard.extend(sessions)

    sessions_ended.connect(receive)
    yield heard
    sessions_ended.disconnect(receive)


def partition_of(sid: str) -> Partition:
    return keyspace().of_sid(sid)


def faults(*, mend: bool = False) -> list[FaultAsText]:
    return [(each.kind, each.sid, each.key) for step in index_check.check_store(mend=mend) for each in step.faults]


def everything(client: Redis) -> dict[bytes, Any]:
    # Not what DUMP gives: in that, the order of a hash changes while the server rearranges it.
    readers: dict[bytes, Callable[[bytes], Any]] = {
        b"hash": client.hgetall,
        b"zset": lambda name: client.zrange(name, 0, -1, withscores=True),
        b"list": lambda name: client.lrange(name, 0, -1),
        b"string": client.get,
    }
    return {name: (readers[client.type(name)](name), client.pexpiretime(name)) for name in client.keys()}


def sessions(client: Redis) -> dict[str, tuple[Any, ...]]:
    found = {}
    for partition in keyspace().partitions:
        for packed_sid, record in client.hgetall(partition.login).items():
            sid = packed_sid.decode()
            user_id = record[18 : 18 + record[17]].decode()
            names = [partition.expire, partition.recent, partition.guests, partition.online_user]
            names += [partition.online_user_of(user_id)] if user_id else []
            scores = [client.zscore(name, sid) for name in names]
            found[sid] = (record, *scores, client.zrange(partition.viewed_by(sid), 0, -1, withscores=True))
    return found


def test_an_empty_or_healthy_store_has_no_fault_and_stays_as_it_is(partitions, redis, fill) -> None:
    assert faults() == faults(mend=True) == []
    assert [name for name in redis.keys() if not name.endswith(b":meta")] == []
    fill()
    before = everything(redis)
    assert faults() == faults(mend=True) == []
    assert everything(redis) == before


def come_and_go(number: int) -> None:
    """Come, change, sign in, view and leave, again and again."""
    chance = random.Random(number)
    for _ in range(40):
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
    with ThreadPoolExecutor(2) as threads:
        visits = [threads.submit(come_and_go, number) for number in range(2)]
        while not all(visit.done() for visit in visits):
            assert faults(mend=mend) == []
    for visit in visits:
        visit.result()
    # Nor has the repair ended anything, or touched those that nobody used.
    assert {each.reason for each in told} <= {"kicked", "invalidated"}
    after = sessions(redis)
    assert {sid: after.get(sid) for sid in before} == before


@dataclass
class Damage:
    """
    What the check has to find, and what the repair can't bring back.

    That is sessions that have ``ended``, of which those with a record are ``told``, and those with another time.
    """

    faults: Iterable[FaultAsText]
    ended: Iterable[str] = ()
    told: Iterable[str] = ()
    changed: Iterable[str] = ()


def list_of(sid: str, of: str) -> str:
    """Name a list of the partition of this sid, or (``user:7``) the list of a user, in the partition of the user's."""
    if of.startswith("user:"):
        user = of.removeprefix("user:")
        return (keyspace().of_user(user) if user else partition_of(sid)).online_user_of(user)
    return str(getattr(partition_of(sid), of))


def listed_in(sid: str, user_id: str = "") -> list[str]:
    lists = ["expire", "recent", "online_user", f"user:{user_id}"] if user_id else ["expire", "guests"]
    return [list_of(sid, of) for of in lists]


def without(client: Redis, filled: Filled, kind: str, *lists: str, ended=False, changed=False) -> Damage:
    sid = getattr(filled, kind)
    names = [list_of(sid, of) for of in lists]
    for name in names:
        assert client.zrem(name, sid)
    sids = [sid]
    return Damage([("missing", sid, name) for name in names], sids * ended, sids * ended, sids * changed)


def stray(client: Redis, filled: Filled, kind: str, of: str, number: int = 1) -> Damage:
    """Put a session, or so many that do not exist, into a list that they should not be in."""
    sids = [getattr(filled, kind)] if kind else [f"{GHOST[:17]}{number:03}" for number in range(number)]
    name = list_of(filled.member if not kind else sids[0], of)
    client.zadd(name, dict.fromkeys(sids, 5))
    return Damage([("stray", sid, name) for sid in sids])


def in_the_wrong_one(client: Redis, filled: Filled, kind: str, right: str, wrong: str) -> Damage:
    sid = getattr(filled, kind)
    right, wrong = list_of(sid, right), list_of(sid, wrong)
    client.zadd(wrong, {sid: client.zscore(right, sid)})
    client.zrem(right, sid)
    # When it was seen is known.
    return Damage([("missing", sid, right), ("stray", sid, wrong)])


def without_record(client: Redis, filled: Filled, kind: str, user_id: str) -> Damage:
    sid, partition = getattr(filled, kind), partition_of(getattr(filled, kind))
    assert client.hdel(partition.login, sid)
    names = [*listed_in(sid, user_id), partition.viewed_by(sid)]
    return Damage([("stray", sid, name) for name in names], ended=[sid])


def other_login_time(client: Redis, filled: Filled, kind: str, of: str) -> Damage:
    sid = getattr(filled, kind)
    name = list_of(sid, of)
    client.zadd(name, {sid: 5})
    return Damage([("differs", sid, name)])


def viewed_by_nobody(client: Redis, filled: Filled) -> Damage:
    key = partition_of(filled.member).viewed_by(GHOST)
    client.zadd(key, {"lamp": 5})
    return Damage([("stray", GHOST, key)])


def note(client: Redis, filled: Filled, kind: str, seconds: int) -> Damage:
    """Leave a note of an end that stays for so long, or (0) forever."""
    sid = getattr(filled, kind)
    key = partition_of(sid).ended_of(sid)
    client.set(key, "kicked", ex=seconds or None)
    return Damage([("stray", sid, key)])


def no_records(client: Redis, filled: Filled) -> Damage:
    partition = partition_of(filled.member)
    sids = [sid.decode() for sid in client.hkeys(partition.login)]
    found = [("stray", sid, name) for sid in sids for name in listed_in(sid, filled.users[sid])]
    found += [("stray", sid, name) for sid in sids if client.exists(name := partition.viewed_by(sid))]
    client.delete(partition.login)
    return Damage(found, ended=sids)


def no_list(client: Redis, filled: Filled, of: str) -> Damage:
    name = list_of(filled.guest if of == "guests" else filled.member, of)
    sids = [sid.decode() for sid in client.zrange(name, 0, -1)]
    assert client.delete(name)
    over = sids if of == "expire" else []
    return Damage([("missing", sid, name) for sid in sids], over, over, sids if of in ("recent", "guests") else [])


def several_at_once(client: Redis, filled: Filled) -> Damage:
    parts = [
        without(client, filled, "guest", "expire", ended=True),
        without(client, filled, "one_of_many", "online_user"),
        other_login_time(client, filled, "member", "user:7"),
        viewed_by_nobody(client, filled),
        stray(client, filled, "", "expire"),
    ]
    found = [each for part in parts for each in part.faults]
    return Damage(found, ended=[filled.guest], told=[filled.guest])


DAMAGES: dict[str, Callable[[Redis, Filled], Damage]] = {
    "a guest without deadline": lambda *there: without(*there, "guest", "expire", ended=True),
    "one of many without deadline": lambda *there: without(*there, "one_of_many", "expire", ended=True),
    # When these were last seen is said nowhere else.
    "a guest not in guests": lambda *there: without(*there, "guest", "guests", changed=True),
    "a member not in recent": lambda *there: without(*there, "member", "recent", changed=True),
    "a guest in recent too": lambda *there: stray(*there, "guest", "recent"),
    "a member in guests too": lambda *there: stray(*there, "member", "guests"),
    "a member in guests alone": lambda *there: in_the_wrong_one(*there, "member", "recent", "guests"),
    "a member not in online:user": lambda *there: without(*there, "member", "online_user"),
    "a member not in the user's list": lambda *there: without(*there, "member", "user:7"),
    "a user's only session not in the user's list": lambda *there: without(*there, "only_one", "user:a:b"),
    "one of many not in the user's list": lambda *there: without(*there, "one_of_many", "user:many"),
    "a member without login time": lambda *there: without(*there, "member", "online_user", "user:7", changed=True),
    "a guest without record": lambda *there: without_record(*there, "guest", ""),
    "a member without record": lambda *there: without_record(*there, "member", "7"),
    "nobody in expire": lambda *there: stray(*there, "", "expire"),
    "nobody in online:user": lambda *there: stray(*there, "", "online_user"),
    "nobody in a user's list": lambda *there: stray(*there, "", "user:7"),
    "nobody in a long list": lambda *there: stray(*there, "", "user:many"),
    "very many in nobody's list": lambda *there: stray(*there, "", "user:nobody", 300),
    "a guest in online:user": lambda *there: stray(*there, "guest", "online_user"),
    "a guest in a user's list": lambda *there: stray(*there, "guest", "user:7"),
    "a guest in the list of no user": lambda *there: stray(*there, "guest", "user:"),
    "a member in another user's list": lambda *there: stray(*there, "member", "user:a:b"),
    "a member in another user's long list": lambda *there: stray(*there, "member", "user:many"),
    "another login time in the user's list": lambda *there: other_login_time(*there, "member", "user:7"),
    "another login time in a long list": lambda *there: other_login_time(*there, "one_of_many", "user:many"),
    "another login time in online:user": lambda *there: other_login_time(*there, "member", "online_user"),
    "viewed by nobody": viewed_by_nobody,
    "a note of a live session": lambda *there: note(*there, "member", 100),
    "a note forever": lambda *there: note(*there, "rotated", 0),
    "a note for too long": lambda *there: note(*there, "rotated", 10**6),
    "no login": no_records,
    "no expire": lambda *there: no_list(*there, "expire"),
    "no guests": lambda *there: no_list(*there, "guests"),
    "no online:user": lambda *there: no_list(*there, "online_user"),
    "no long list of a user": lambda *there: no_list(*there, "user:many"),
    "several at once": several_at_once,
}


@pytest.mark.parametrize("group", range(4))
def test_damage_is_found_then_mended_and_nothing_else_touched(filled, fill, redis, told, group: int) -> None:
    for name in list(DAMAGES)[group::4]:
        told.clear()
        damage = see_damage_mended(filled, redis, told, name)
        # All else was put back as it was, as good for the next damage.
        if damage.ended or damage.changed:
            redis.flushall()
            filled = fill()


def see_damage_mended(filled: Filled, redis: Redis, told: list[EndedSession], name: str) -> Damage:
    before = sessions(redis)
    damage = DAMAGES[name](redis, filled)
    assert disagreements(redis) != [], name

    damaged = everything(redis)
    assert (name, sorted(faults())) == (name, sorted(damage.faults))
    assert everything(redis) == damaged
    assert told == []

    # What is put right first may have put other faults right too.
    mended = set(faults(mend=True))
    assert set() < mended <= set(damage.faults)
    assert disagreements(redis) == []
    assert faults() == []
    assert sorted((each.sid, each.user_id, each.reason) for each in told) == sorted(
        (sid, filled.users[sid], "invalidated") for sid in damage.told
    )
    after = sessions(redis)
    assert set(after) == set(before) - set(damage.ended)
    # Of those that were changed, what they hold is as it was.
    assert [after[sid][0] for sid in after] == [before[sid][0] for sid in after]
    assert {sid for sid in after if after[sid] != before[sid]} <= set(damage.changed)
    return damage


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("record", [b"1...", b"1" + bytes(100), b""], ids=["short", "long", "empty"])
def test_records_of_another_release_are_reported_and_left_alone(filled, redis, told, record: bytes) -> None:
    sids = [filled.guest, filled.member, filled.one_of_many]
    for sid in sids:
        redis.hset(partition_of(sid).login, sid, record)
    before = everything(redis)
    for mend in (False, True, False):
        assert sorted(faults(mend=mend)) == sorted(("unreadable", sid, partition_of(sid).login) for sid in sids)
        assert everything(redis) == before
    assert told == []


@pytest.mark.usefixtures("left_alone")
def test_unknown_keys_under_our_prefix_are_reported_and_left_alone(filled, redis) -> None:
    # The last has the name of a user's list, and is none.
    rests = [":surprise", ":logins", ":online", ":online:users", ":viewed2", ":login:", ":", ":online:user:x"]
    names = [f"{{{partition_of(filled.member).tag}}}{rest}" for rest in rests]
    for name in names:
        redis.set(name, "what somebody put there")
    before = everything(redis)
    for mend in (False, True, False):
        assert sorted(faults(mend=mend)) == sorted(("unknown", "", name) for name in names)
        assert everything(redis) == before


@pytest.mark.usefixtures("left_alone")
@pytest.mark.parametrize("prefix", ["a*b[c]?", "ü^-\\b"])
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
    ours = f"{{{keyspace().partitions[0].tag}}}:surprise"
    redis.set(ours, "ours")
    before = everything(redis)
    assert len(before) > len(own) + 4 * len(similar)
    for mend in (False, True):
        assert faults(mend=mend) == [("unknown", "", ours)]
        assert everything(redis) == before


def test_check_with_json_keeps_stdout_for_the_counts(filled, redis, capsys) -> None:
    without(redis, filled, "member", "recent")
    with pytest.raises(CommandError):
        call_command("cleansessions", check=True, json=True)
    written = capsys.readouterr()
    counts = json.loads(written.out)
    assert (counts["faults"], counts["mended"], counts["compared"] > 50) == (1, 0, True)
    assert filled.member in written.err
    call_command("cleansessions", repair=True, json=True)
    counts = json.loads(capsys.readouterr().out)
    assert (counts["faults"], counts["mended"]) == (1, 1)
    call_command("cleansessions", check=True, verbosity=0)


def test_a_hundred_faults_are_listed_or_all_where_they_are_asked_for(redis, capsys) -> None:
    (partition,) = keyspace().partitions
    redis.zadd(partition.recent, {f"{GHOST[:17]}{number:03}": 5 for number in range(150)})
    for verbosity, listed in ((1, 100), (2, 150)):
        with pytest.raises(CommandError, match=r"^150 "):
            call_command("cleansessions", check=True, verbosity=verbosity)
        assert capsys.readouterr().out.count(GHOST[:17]) == listed
    call_command("cleansessions", repair=True, verbosity=0)
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
        redis.zadd(partition.viewed_by("").encode() + text, {"lamp": 5})
        redis.set(partition.ended_of("").encode() + text, "kicked")
        redis.zadd(partition.online_user_of("").encode() + text, {text: 5})
        redis.zadd(partition.online_user_of("many").encode() + text, {f"{number}": 5 for number in range(20)})
    assert len(faults(mend=True)) == len(NASTY) * (len(lists) + 1 + 1 + 1 + 20)
    assert disagreements(redis) == []
    assert faults() == []


@pytest.fixture
def replies(monkeypatch) -> list[index_check.CheckStep]:
    seen: list[index_check.CheckStep] = []
    check = index_check._check_entries

    def noted(*args: Any, **options: Any):
        call = check(*args, **options)

        def read(*reply: Any) -> index_check.CheckStep:
            seen.append(call.read(*reply))
            return seen[-1]

        return replace(call, read=read)

    monkeypatch.setattr(index_check, "_check_entries", noted)
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
            # A machine that is busy stalls now and then, at any step; what takes too long does so each time.
            slow = None
            for _ in range(10):
                redis.slowlog_reset()
                assert faults(mend=mend) == []
                found = {entry["command"] for entry in redis.slowlog_get(128)}
                slow = found if slow is None else slow & found
                if not slow:
                    break
            assert slow == set()
    finally:
        redis.config_set("slowlog-log-slower-than", slower_than)
        redis.slowlog_reset()
    assert not {"hgetall", "keys", "smembers", "hkeys", "hvals"} & set(commands())
    assert max(checked.entries for checked in replies) <= 2 * index_check.ENTRIES_MAX


@pytest.mark.parametrize("users", [0, 8, *(pytest.param(number, marks=pytest.mark.slow) for number in (1, 60))])
def test_a_check_of_large_records_reads_a_few_megabytes_at_once(redis, new_session, replies, users: int) -> None:
    # All lists are short, and would be compared in one call, were it not for what is in the records.
    text = text_of(300_000)
    for number in range(40):
        new_session(f"user {number % users}" if users else "", text=text)
    assert faults() == []
    # Those of users are read for the lists of users, too.
    assert sum(checked.record_bytes for checked in replies) >= 40 * 300_000 * (1.5 if users > 1 else 1)
    # The first step does not know how large they are, and a server gives more than it is asked for.
    assert max(checked.record_bytes for checked in replies) <= 8_000_000
    # A session that is damaged is mended all the same.
    sid = redis.hkeys(keyspace().partitions[0].login)[0].decode()
    redis.zrem(partition_of(sid).recent if users else partition_of(sid).guests, sid)
    assert len(faults(mend=True)) == 1


def test_every_entry_of_every_key_is_compared(filled, redis) -> None:
    entries = 0
    for each in keyspace().partitions:
        entries += redis.hlen(each.login)
        entries += sum(map(redis.zcard, (each.expire, each.recent, each.guests, each.online_user)))
    many = partition_of(filled.one_of_many).online_user_of("many")
    # And each key that belongs to one session or user; of a long list, each entry.
    own = [name for name in redis.keys() if any(part in name for part in (b":online:user:", b"}:viewed:", b":ended:"))]
    assert sum(step.entries for step in index_check.check_store()) == entries + len(own) + redis.zcard(many)
