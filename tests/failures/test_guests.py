"""Visitors without an account who fill the store, to its maximum and until the server is full: nobody else notices."""

import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.core.management import call_command

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from testproject import servers
from tests.helpers import every_operation
from tests.helpers.oracle import disagreements
from tests.helpers.outages import caches, close_connections, full
from tests.helpers.running import wait_until
from tests.helpers.serving import Site, serving
from tests.helpers.store import dump, faults, keyspace, make_seen, text_of

pytestmark = pytest.mark.both_servers

THREADS = 40


def guest(**data: Any) -> SessionStore:
    session = SessionStore()
    session.update(data or {"colour": "blue"})
    session.save()
    return session


def flood(visitors: int, **data: Any) -> None:
    """Have so many guests come, several at a time."""
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda _: guest(**data), range(visitors)))


def there() -> tuple[int, int]:
    """How many sessions have a user, and how many have none."""
    signed_in = online.count()
    return signed_in, online.count(guests=True) - signed_in


def make_idle(client: Any) -> None:
    """Have everybody who is here seen long ago."""
    for partition in keyspace().partitions:
        for name in (partition.recent, partition.guests):
            for sid in client.zrange(name, 0, -1):
                make_seen(client, sid.decode(), 1000)


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("times", [1, pytest.param(10, marks=pytest.mark.slow)])
def test_a_flood_of_guests_takes_nobody_out_who_is_signed_in(redis, new_session, settings, times: int) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 200}
    members = [new_session(str(number), colour="blue") for number in range(100)]
    make_idle(redis)
    flood(400 * times)
    signed_in, guests = there()
    assert signed_in == 100
    assert all(SessionStore(member.session_key)["colour"] == "blue" for member in members)
    # Others have as much as these leave; a partition cleans when a twentieth of its share is too many.
    assert 50 < guests <= 130
    assert disagreements(redis) == []


def test_no_guest_takes_a_users_place(redis, new_session, settings) -> None:
    maximum = 100
    settings.REDSESS = {"MAX_SESSIONS": maximum}
    for number in range(maximum):
        new_session(str(number))
    for number in range(maximum):
        if number % 10:
            guest()
        else:
            new_session(str(maximum + number))
        signed_in, guests = there()
        # Only others who sign in take these out. Some are kept for guests, without whom nobody could sign in.
        assert signed_in == maximum or 0 <= signed_in - maximum < 50
        assert guests <= 100 + 50
    evicted = redis.hgetall(keyspace().partitions[0].totals)
    in_all = int(evicted.get(b"evicted", 0)) - int(evicted.get(b"guests:evicted", 0))
    assert in_all == maximum + maximum // 10 - there()[0]


@pytest.mark.parametrize(
    ("members", "limits", "come", "least"),
    [(5, {"MAX_GUESTS": 60}, 300, 60), pytest.param(500, {}, 2000, 500, marks=pytest.mark.slow)],
)
def test_there_are_as_many_guests_as_may_be(new_session, settings, members: int, limits, come: int, least: int) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 1000, **limits}
    for number in range(members):
        new_session(str(number))
    flood(come)
    signed_in, guests = there()
    assert signed_in == members
    assert least <= guests <= least + 54


@pytest.fixture
def small_server(own_server, settings) -> Iterator[servers.Server]:
    """A server of this test's own, which has room for so much and throws nothing away. The sessions are on it."""
    settings.CACHES = caches(own_server.url)
    yield own_server
    own_server.client.config_set("maxmemory", 0)
    close_connections()


def fill(client: Any) -> int:
    """Have guests come until the server is full, and beyond; return how many came."""
    for came in count(50, 50):
        for _ in range(50):
            guest(colour=text_of(200))
        memory = client.info("memory")
        if memory["used_memory"] > memory["maxmemory"]:
            return came
    raise AssertionError("it never got full")


def evicted_guests(client: Any) -> list[int]:
    return [int(client.hget(partition.totals, "guests:evicted") or 0) for partition in keyspace().partitions]


@pytest.fixture
def served(sign_ins_site, small_server) -> Iterator[Site]:
    with serving(THREADS) as site:
        yield site
        close_connections()


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_on_a_server_that_guests_filled_everybody_can_sign_in(partitions, small_server, served) -> None:
    members = [served.ask(f"/held/sign-in/{number}/") for number in range(1, 21)]
    make_idle(small_server.client)
    small_server.client.config_set("maxmemory", small_server.client.info("memory")["used_memory"] + 1_000_000)
    came = fill(small_server.client)
    # With a guest's session, and without.
    cookies = [served.ask("/held/write/colour/blue/").cookie for _ in range(THREADS // 2)] + [None] * (THREADS // 2)
    answers = served.ask_together(*((f"/held/sign-in/{user}/", cookie) for user, cookie in enumerate(cookies, 100)))
    assert [answer.status for answer in answers] == [200] * THREADS
    flood(came // 4, colour=text_of(200))
    new = served.ask_together(*((f"/held/sign-in/{200 + number}/", None) for number in range(THREADS)))
    assert [answer.status for answer in new] == [200] * THREADS
    # It was full all the time, and has not grown.
    assert all(evicted_guests(small_server.client))
    memory = small_server.client.info("memory")
    assert memory["used_memory"] - memory["mem_clients_normal"] < memory["maxmemory"] * 1.05 + 300_000
    users = [*range(1, 21), *range(100, 140), *range(200, 240)]
    for answer, user in zip([*members, *answers, *new], users, strict=True):
        assert served.ask("/held/who/", str(answer.cookie)).text == str(user)
    assert there()[0] == 20 + 2 * THREADS
    assert disagreements(small_server.client) == []


def test_what_a_full_server_is_relieved_of_is_told(small_server, settings) -> None:
    guests = [guest(colour=text_of(200)) for _ in range(50)]
    partition = keyspace().partitions[0]
    for number, session in enumerate(guests):
        make_seen(small_server.client, str(session.sid), 1000 + number)
    with full(small_server.client):
        # Not the session at hand, be it the one longest unseen.
        guests[0]["colour"] = "red"
        guests[0].save()
    assert SessionStore(guests[0].session_key)["colour"] == "red"
    left = [session for session in guests[1:] if session.exists(session.session_key)]
    assert left == guests[50 - len(left) :]
    gone = 49 - len(left)
    # It takes no more room than that.
    assert 1 <= gone <= 3
    assert int(small_server.client.hget(partition.totals, "guests:evicted")) == gone


def test_a_large_session_takes_a_thousand_guests_at_most(small_server) -> None:
    for _ in range(1200):
        guest()
    with full(small_server.client):
        guest(text=text_of(600_000))
    assert there()[1] == 201


def test_with_no_guests_left_a_full_server_refuses(small_server, new_session) -> None:
    session = new_session("7", colour="blue")
    record = partial(small_server.client.hget, keyspace().partitions[0].login, session.sid)
    stored = record()
    guest()
    with full(small_server.client):
        new_session("8")
        assert there() == (2, 0)
        for _ in range(2):
            session["colour"] = "red"
            with pytest.raises(SessionStoreUnavailable):
                SessionStore(session.session_key).cycle_key() or session.save()
            with pytest.raises(SessionStoreUnavailable):
                new_session("9")
        assert record() == stored
        assert len(online.end(str(session.sid))) == 1
    assert there() == (1, 0)
    assert disagreements(small_server.client) == []


WRITES: dict[str, Callable[[str], object]] = {
    "a change": lambda key: every_operation.change(key, {"colour": "red"}),
    "another user": lambda key: every_operation.change(key, {"_auth_user_id": "8"}),
    "no user": every_operation.take_user_out,
    "a sign-in": lambda key: every_operation.sign_in(key, "8"),
    "a sign-in again": every_operation.sign_in_again,
    "another key": every_operation.rotate,
    "a view": lambda key: viewed.record(SessionStore(key), "vase"),
    "a new session": lambda key: every_operation.create({"_auth_user_id": "8"}),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_what_a_full_server_refused_has_changed_nothing(redis, new_session, write) -> None:
    # Whatever a script had written before would have lifted the server's refusal, and have stayed.
    key = new_session("7", colour="blue").session_key
    viewed.record(SessionStore(key), "lamp")
    before = dump(redis)
    with full(redis), pytest.raises(SessionStoreUnavailable):
        write(key)
    assert dump(redis) == before
    guest()
    with full(redis):
        write(key)
    assert there()[1] == (1 if write is every_operation.take_user_out else 0)


def test_a_full_server_records_views_while_there_are_guests(redis, new_session, partitions) -> None:
    session = new_session("7")
    guests = [guest() for _ in range(200)]
    items = [f"vase-{number}" for number in range(6)]
    with full(redis):
        for item in items:
            assert viewed.record(session, item)
    assert {each.item for each in viewed.recent(session)} == set(items)
    # Those that are counted in another partition may be missing there.
    assert {each.item for each in viewed.popular()} <= set(items)
    signed_in, left = there()
    assert signed_in == 1
    assert left < len(guests)
    assert faults() == []


@pytest.mark.usefixtures("partitions")
def test_one_command_takes_guests_out(redis, new_session, capsys) -> None:
    for number in range(8):
        new_session(str(number))
    guests = [guest() for _ in range(40)]
    for number, session in enumerate(guests):
        make_seen(redis, str(session.sid), 1000 + number)
    call_command("cleansessions", max_guests=16, dry_run=True)
    counted = capsys.readouterr().out
    assert there() == (8, 40)
    call_command("cleansessions", max_guests=16, json=True)
    evicted = json.loads(capsys.readouterr().out)["evicted"]
    # Each partition keeps its share.
    signed_in, left = there()
    assert (signed_in, left) == (8, 40 - evicted)
    assert 0 < left <= 16
    assert counted.startswith(f"There are {evicted:,} guests' sessions above ")
    assert guests[-1].exists(guests[-1].session_key)
    call_command("cleansessions", max_guests=0)
    assert there() == (8, 0)
    assert capsys.readouterr().out.startswith(f"Removed {left:,} guests' sessions above 0.")
    assert faults() == []


@pytest.mark.slow
def test_cleaners_of_guests_killed_in_a_flood_have_taken_whole_sessions(redis, new_session, start) -> None:
    count = 1500
    members = [new_session(str(number), colour="blue") for number in range(20)]
    make_idle(redis)
    flood(count)
    before = there()[1]
    come = threading.Thread(target=flood, args=(count // 3,))
    come.start()
    killed = [start("cleansessions", "--max-guests", "0", "--batch-size", "1") for _ in range(2)]
    wait_until(lambda: evicted_guests(redis)[0] > before // 10)
    for each in killed:
        each.kill()
    come.join()
    assert (disagreements(redis), faults()) == ([], [])
    in_all = count + count // 3
    left = there()[1]
    assert evicted_guests(redis)[0] + left == in_all
    last = [start("cleansessions", "--max-guests", "7", "--json") for _ in range(2)]
    assert [each.ended() for each in last] == [(0, "")] * 2
    # On a busy machine, those that were to be killed may have been faster.
    kept = min(7, left)
    assert there() == (20, kept)
    assert evicted_guests(redis)[0] == in_all - kept
    assert all(SessionStore(member.session_key)["colour"] == "blue" for member in members)
    assert (disagreements(redis), faults()) == ([], [])
