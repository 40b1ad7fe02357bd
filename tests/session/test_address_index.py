"""The index of addresses: each session's entry is written, moved and removed with the session, and is never wrong."""

from collections.abc import Callable
from ipaddress import ip_address
from typing import Any

import pytest
import redis as redis_py
from asgiref.sync import async_to_sync
from django.contrib.auth import SESSION_KEY

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.cleaning import index_check
from django_redsess.session.address_index import address_of, address_score
from django_redsess.session.record import Client, client_packed
from django_redsess.session.state import Visit
from django_redsess.transport import scripts
from django_redsess.transport.keys import keyspace
from tests.helpers.outages import caches, full
from tests.helpers.store import make_due

pytestmark = pytest.mark.both_servers

HOME, AWAY, V6 = "192.0.2.1", "198.51.100.7", "2001:db8::7"

Switch = Callable[[bool], None]
Save = Callable[[SessionStore], None]


@pytest.fixture
def index(settings) -> Switch:
    """Return a function that turns the index on or off, as in another process. It is on."""

    def switch(on: bool) -> None:
        settings.REDSESS = {**settings.REDSESS, "INDEX_ADDRESSES": on}

    switch(True)
    return switch


@pytest.fixture(params=["sync", "async"])
def save(request) -> Save:
    """Return a function that saves a session, in one of the two ways."""
    if request.param == "sync":
        return lambda session: session.save()
    return lambda session: async_to_sync(session.asave)()


def visited(address: str, session_key: str | None = None, **data: Any) -> SessionStore:
    """Open a session as a request from ``address`` does, and change its data."""
    session = SessionStore(session_key)
    session.visit = Visit(lambda: Client(address, "Mozilla"))
    session.update(data)
    return session


def begun(address: str, **data: Any) -> SessionStore:
    session = visited(address, colour="blue", **data)
    session.save()
    return session


def user(user_id: str = "7") -> dict[str, Any]:
    return {SESSION_KEY: user_id}


def entries(redis: redis_py.Redis) -> dict[str, tuple[str, int]]:
    """Read the index: the list and the place of each sid."""
    return {
        sid.decode(): (kind, int(place))
        for partition in keyspace().partitions
        for kind, name in (("users", partition.addresses), ("guests", partition.guests_addresses))
        for sid, place in redis.zrange(name, 0, -1, withscores=True)
    }


def entry(kind: str, address: str) -> tuple[str, int]:
    return kind, address_score(ip_address(address).packed)


@pytest.mark.parametrize("data", [{}, user()], ids=["guest", "user"])
@pytest.mark.parametrize("address", [HOME, V6])
def test_a_new_session_is_entered(redis, partitions, index, save, address: str, data: Any) -> None:
    short, general = visited(address, **data, colour="blue"), visited(address, **data)
    general.viewed("lamp")
    for session in (short, general):
        save(session)
    expected = entry("users" if data else "guests", address)
    assert entries(redis) == {short.sid: expected, general.sid: expected}


def test_without_the_setting_or_an_address_nothing_is_entered(redis, partitions, index) -> None:
    index(False)
    session = begun(HOME, **user())
    visited(AWAY, session.session_key, colour="red").save()
    guest = begun(HOME)
    assert entries(redis) == {}
    assert [online.get(str(each.sid)).address for each in (session, guest)] == [AWAY, ""]
    index(True)
    begun("")
    session = begun(HOME, **user())
    assert entries(redis).keys() == {session.sid}
    visited("", session.session_key, colour="red").save()
    assert entries(redis) == {}


@pytest.mark.parametrize("data", [{}, user()], ids=["guest", "user"])
def test_a_save_from_the_same_address_sends_nothing_more(redis, index, save, commands, data: Any) -> None:
    def counted(on: bool) -> dict[str, int]:
        index(on)
        session = begun(HOME, **data)
        visited(HOME, session.session_key, colour="green").save()
        commands()
        save(visited(HOME, session.session_key, colour="red"))
        return {name: count for name, count in commands().items() if not name.startswith("config")}

    # Where a second begins between two saves, the later one moves the deadline.
    counts = next(pair for pair in ((counted(False), counted(True)) for _ in range(5)) if pair[0] == pair[1])
    assert counts[0]["evalsha"] == 1


@pytest.mark.parametrize("data", [{}, user()], ids=["guest", "user"])
def test_a_save_from_another_address_moves_the_entry(redis, partitions, index, save, sent, data: Any) -> None:
    kind, session = "users" if data else "guests", begun(HOME, **data)
    for address, item, way in ((AWAY, "", "save_fast"), (HOME, "lamp", "save"), (V6, "", "save_fast")):
        sent.clear()
        again = visited(address, session.session_key, colour=address)
        again.viewed(item)
        save(again)
        assert sent[:2] == ["read", way]
        assert entries(redis) == {session.sid: entry(kind, address)}
    # Of two saves that are merged, the later one has the place of its own address.
    first, second = (visited(address, session.session_key, **{address: 1}) for address in (AWAY, HOME))
    save(first)
    save(second)
    assert entries(redis) == {session.sid: entry(kind, HOME)}
    assert SessionStore(session.session_key)[AWAY] == 1


@pytest.mark.parametrize("way", ["short way", "general way", "unread"])
@pytest.mark.parametrize("data", [{}, user()], ids=["guest", "user"])
def test_a_process_without_the_setting_leaves_no_place_of_an_earlier_address(
    redis, partitions, index, save, sent, data: Any, way: str
) -> None:
    kind, session = "users" if data else "guests", begun(HOME, **data)
    index(False)
    same = visited(HOME, session.session_key, colour="green")
    other = SessionStore(session.session_key)
    other.visit = Visit(lambda: Client(AWAY, "Mozilla"))
    if way != "unread":
        other["colour"] = "red"
    save(same)
    # A guest's record has an address only with the setting.
    assert entries(redis) == ({session.sid: entry(kind, HOME)} if data else {})
    if way == "general way":
        other.viewed("lamp")
    elif way == "unread":
        other.clear()
        other.update({"colour": "red", **data})
    sent.clear()
    save(other)
    assert entries(redis) == {}
    assert ("save" in sent) == (way != "short way")
    index(True)
    save(visited(V6, session.session_key, colour="red"))
    assert entries(redis) == {session.sid: entry(kind, V6)}


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_a_sign_in_moves_a_guest_s_entry(redis, partitions, index, save, on: bool) -> None:
    guests = [begun(HOME) for _ in range(4)]
    index(on)
    sessions = [visited(AWAY, guest.session_key) for guest in guests]
    for number, session in enumerate(sessions):
        session.cycle_key()
        session[SESSION_KEY] = str(number)
        session.signed_in()
        save(session)
    assert entries(redis) == ({session.sid: entry("users", AWAY) for session in sessions} if on else {})


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_a_rotation_takes_the_place_along_and_a_user_who_is_taken_out_leaves_the_list(
    redis, partitions, index, save, on: bool
) -> None:
    rotated = SessionStore(begun(HOME, **user()).session_key)
    rotated.load()
    left = visited(HOME, begun(HOME, **user()).session_key)
    del left[SESSION_KEY]
    index(on)
    rotated.cycle_key()
    for session in (rotated, left):
        save(session)
    # Without the setting, it is as with a new session.
    expected = {rotated.sid: entry("users", HOME), left.sid: entry("guests", HOME)}
    assert entries(redis) == (expected if on else {})


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_whatever_ends_a_session_takes_it_out(redis, partitions, index, on: bool) -> None:
    sessions = [begun(HOME, **data) for data in (user(), user(), {}, {}, user("8"), {})]
    assert len(entries(redis)) == 6
    index(on)
    kicked, out, guest, due, *_ = sessions
    online.end(str(kicked.sid), str(guest.sid))
    SessionStore(out.session_key).flush()
    assert entries(redis).keys() == {str(session.sid) for session in sessions[3:]}
    make_due(redis, str(due.sid))
    assert sum(cleaning.expired()) == 1
    assert entries(redis).keys() == {str(session.sid) for session in sessions[4:]}
    sum(cleaning.evicted(maximum=1, guests=0))
    assert entries(redis).keys() == {str(sessions[4].sid)}
    online.end_all()
    assert entries(redis) == {}


def faults(*, mend: bool = False) -> list[tuple[str, str, str]]:
    return [(each.kind, each.sid, each.key) for step in index_check.check(mend=mend) for each in step.faults]


def test_a_repair_fills_the_index(redis, partitions, index) -> None:
    index(False)
    sessions = [begun(HOME, **user(str(number))) for number in range(5)]
    guest = begun(HOME)
    assert faults() == []
    index(True)
    missing = {("missing", str(each.sid), keyspace().of_sid(str(each.sid)).addresses) for each in sessions}
    assert set(faults()) == missing
    assert entries(redis) == {}
    assert set(faults(mend=True)) == missing
    assert entries(redis) == {str(each.sid): entry("users", HOME) for each in sessions}
    assert faults() == []
    # Its record has no address yet.
    assert str(guest.sid) not in entries(redis)


@pytest.mark.parametrize("on", [True, False], ids=["on", "off"])
def test_a_repair_takes_out_what_does_not_belong_there_and_corrects_a_place(redis, partitions, index, on: bool) -> None:
    member, guest, moved, nowhere = begun(HOME, **user()), begun(V6), begun(V6, **user()), begun("")
    right, ghost = entries(redis), f"{str(member.sid)[:2]}GhostGhostGhostGho"

    def put(name: str, sid: str) -> tuple[str, str]:
        redis.zadd(name, {sid: 5})
        return sid, name

    def of(session: SessionStore) -> Any:
        return keyspace().of_sid(str(session.sid))

    strays = [
        put(of(member).addresses, ghost),
        put(of(guest).addresses, str(guest.sid)),
        put(of(member).guests_addresses, str(member.sid)),
    ]
    expected = {("stray", *each) for each in strays}
    if on:
        expected.add(("stray", *put(of(nowhere).guests_addresses, str(nowhere.sid))))
        expected.add(("misplaced", *put(of(moved).addresses, str(moved.sid))))
    index(on)
    assert set(faults()) == expected
    assert set(faults(mend=True)) == expected
    assert entries(redis) == right
    assert faults() == []


@pytest.mark.usefixtures("known_scripts")
def test_what_is_repeated_because_its_reply_was_lost_is_written_once(redis, proxy, settings, index, save) -> None:
    settings.CACHES = caches(proxy.url)
    proxy.lose_reply(scripts.CREATE_FAST.digest)
    session = visited(HOME, **user())
    save(session)
    assert entries(redis) == {session.sid: entry("users", HOME)}
    proxy.lose_reply(scripts.SAVE_FAST.digest)
    save(visited(AWAY, session.session_key, colour="red"))
    assert entries(redis) == {session.sid: entry("users", AWAY)}
    again = visited(V6, session.session_key)
    again.cycle_key()
    proxy.lose_reply(scripts.ROTATE.digest)
    save(again)
    assert entries(redis) == {again.sid: entry("users", V6)}
    assert proxy.lost == 3


def test_on_a_full_server_the_general_script_makes_room_among_guests_and_moves_the_entry(redis, index, sent) -> None:
    session, guests = begun(HOME, **user()), [begun(HOME) for _ in range(20)]
    again = visited(AWAY, session.session_key, colour="red")
    sent.clear()
    with full(redis):
        again.save()
    assert set(sent) == {"save_fast", "save"}
    assert SessionStore(session.session_key)["colour"] == "red"
    there = entries(redis)
    assert there.pop(str(session.sid)) == entry("users", AWAY)
    assert 0 < len(there) < 20
    assert there.keys() == {str(guest.sid) for guest in guests if guest.exists(guest.session_key)}


def test_a_session_that_changes_while_it_is_compared_is_left_out(redis, index, monkeypatch) -> None:
    session = begun(HOME, **user())
    partition = keyspace().of_sid(str(session.sid))
    check_places = index_check._check_scores

    def check_later(*args: Any, **named: Any) -> Any:
        visited(AWAY, session.session_key, colour="red").save()
        redis.zrem(partition.addresses, str(session.sid))
        return check_places(*args, **named)

    monkeypatch.setattr(index_check, "_check_scores", check_later)
    assert faults(mend=True) == []
    assert entries(redis) == {}


PLACES = {
    "0.0.0.0": 0,
    "198.51.100.7": 3_325_256_711,
    "255.255.255.255": 2**32 - 1,
    "::": 2**52,
    "2001:db8::7": 2**52 + (0x2001_0DB8 << 20),
    "ffff::1": 2**52 + (0xFFFF << 36),
}


@pytest.mark.unit
def test_the_address_in_a_record_has_its_place() -> None:
    places = {address: address_score(address_of(client_packed(Client(address, "Mozilla")))) for address in PLACES}
    assert places == PLACES
    assert address_of(client_packed(Client("", "Mozilla"))) == b""
