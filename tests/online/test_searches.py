"""Searching by network, browser, operating system and binding to a device, and ending what is found."""

from collections.abc import Callable
from os import mkfifo, urandom
from typing import Any

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.models import OnlineSession
from django_redsess.online import searching
from django_redsess.online.searching import LookedThrough
from tests.helpers.store import (
    YET_TO_BE_BOUND,
    Binding,
    Client,
    Record,
    Visit,
    bucket_of_user,
    keyspace,
    new_key,
    pack,
    pack_client,
    reading,
    sid_of,
)

pytestmark = [pytest.mark.usefixtures("partitions"), pytest.mark.both_servers, pytest.mark.on_cluster]

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36"
)
FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
WEEK = 7 * 24 * 3600
BOUND = Binding(b"12345678", 1, 1, bytes(33)).pack()


@pytest.fixture
def arrive(redis) -> Callable[..., str]:
    """Return a function that stores a session, a second later than the one before, and returns its sid."""
    reading.read_time().run()  # Agrees on the number of partitions.
    start, arrived = int(redis.time()[0]) - 10_000, 0

    def arrive(address: str = "", user_agent: str = "", user: str = "", binding: bytes = b"") -> str:
        nonlocal arrived
        arrived += 1
        sid = sid_of(new_key(bucket_of_user(user) if user else None))
        partition, at = keyspace().of_sid(sid), (start + arrived) * 1000
        client = pack_client(Client(address, user_agent))
        record = Record(user, at if user else 0, start + WEEK, WEEK, client, b"{}", binding=binding)
        redis.hset(partition.login, sid, pack(sid, record))
        redis.zadd(partition.expire, {sid: (start + WEEK) * 1000})
        redis.zadd(partition.recent if user else partition.guests, {sid: at})
        for name in (partition.online_user, partition.online_user_of(user)) if user else ():
            redis.zadd(name, {sid: at})
        return sid

    return arrive


def found(**asked: Any) -> list[str]:
    sids = [session.sid for session in online.sessions(**asked)]
    asked.pop("order", None)
    assert online.count(**asked) == len(sids)
    return sids


def test_a_search_by_network_finds_those_in_it(arrive) -> None:
    one = arrive("198.51.100.7", CHROME, "1")
    other = arrive("198.51.101.7", CHROME, "2")
    v6 = arrive("2001:db8::7", CHROME, "3")
    arrive("", CHROME, "4")
    arrive("", "", "5")
    assert found(network="198.51.100.0/24") == found(network="198.51.100.7") == [one]
    assert found(network="198.51.100.0/23", order="created_at") == [one, other]
    assert found(network="2001:db8::/32") == found(network="2001:DB8::7") == [v6]
    assert found(network="2001:db8::/64") == [v6]
    assert found(network="2001:db8::8") == []
    assert found(network="::/0") == [v6]
    assert found(network="0.0.0.0/0") == [other, one]
    assert found(network="198.51.100.8") == []


@pytest.mark.django_db
def test_a_search_by_several_networks_finds_those_in_any(arrive) -> None:
    one, other = arrive("198.51.100.7", CHROME, "1"), arrive("203.0.113.7", FIREFOX, "2")
    v6 = arrive("2001:db8::7", CHROME, "3")
    arrive("192.0.2.7", CHROME, "4")
    assert found(network=["198.51.100.0/24", "203.0.113.7"]) == [other, one]
    assert found(network=["2001:db8::/32", "198.51.100"], browser="chrome") == [v6, one]
    assert found(network=[]) == []
    rows = OnlineSession.online.of_network(["198.51.100.0/24", "2001:db8::/32"])
    assert [row.sid for row in rows.of_network(["0.0.0.0/0", "203.0.113.7"])] == [one]
    batches = online.end_in_batches(network=["2001:db8::7", "203.0.113.0/24"])
    assert {each.sid for batch in batches for each in batch} == {other, v6}


def test_a_list_of_the_settings_is_a_network_with_a_name(arrive, settings, tmp_path) -> None:
    one, other = arrive("198.51.100.7", CHROME, "1"), arrive("203.0.113.7", FIREFOX, "2")
    path = tmp_path / "exits.txt"
    path.write_text("# made today\n198.51.100.7  # one\n\n2001:db8::/32\n")
    settings.REDSESS = {**settings.REDSESS, "NETWORKS": {"exits": path, "gone": tmp_path / "gone.txt"}}
    assert found(network="exits") == [one]
    # A changed file is read anew.
    path.write_text("203.0.113.0/24")
    assert found(network=["exits"]) == [other]
    with pytest.raises(ValueError, match=r"gone\.txt can't be read: No such file"):
        online.count(network="gone")
    path.write_text("203.0.113.0/24\nnonsense\n")
    with pytest.raises(ValueError, match=r"exits\.txt, line 2: 'nonsense' is neither an address nor a network"):
        online.count(network="exits")


def test_a_list_that_is_a_pipe_is_refused_and_not_waited_for(settings, tmp_path) -> None:
    mkfifo(tmp_path / "pipe")
    settings.REDSESS = {**settings.REDSESS, "NETWORKS": {"exits": tmp_path / "pipe"}}
    with pytest.raises(ValueError, match="pipe is not a regular file"):
        online.sessions(network="exits")


def test_a_search_by_browser_or_system_finds_those_with_it(arrive) -> None:
    one = arrive("198.51.100.7", CHROME, "1")
    other = arrive("198.51.100.7", FIREFOX, "2")
    arrive("198.51.100.7", "", "3")
    assert found(browser="chrome") == found(browser="Chrome 120") == found(system="Windows") == [one]
    assert found(browser="FIREFOX") == found(system="linux") == [other]
    assert found(browser="Chrome", system="Linux") == found(browser="Chrome 12") == []
    assert found(browser="Firefox", system="Linux", network="198.51.100.0/24") == [other]
    assert found(browser="Firefox", user_ids=["1", "2"]) == [other]


def test_a_search_tells_bound_sessions_from_the_others(arrive) -> None:
    bound, long = arrive("198.51.100.7", CHROME, "1", BOUND), arrive("", "", "9" * 255, BOUND)
    required = arrive("198.51.100.7", CHROME, "1", YET_TO_BE_BOUND)
    plain, guest = arrive("198.51.100.9", FIREFOX, "2"), arrive("198.51.100.7", CHROME)
    assert found(device_bound=True) == found(device_bound=True, guests=True) == [long, bound]
    assert found(device_bound=False, order="created_at") == [required, plain]
    assert found(device_bound=False, guests=True) == [guest, plain, required]
    assert found(device_bound=True, browser="chrome") == found(device_bound=True, user_ids=["1"]) == [bound]
    assert found(device_bound=False, network="198.51.100.7") == [required]
    assert found(device_bound=True, guests="only") == found(device_bound=True, network="198.51.100.9") == []
    assert {each.sid for each in online.sessions() if each.device_bound} == {bound, long}
    assert [each.device_bound for each in online.find([bound, plain, required, guest])] == [True, False, False, False]
    ended = online.end_in_batches(device_bound=False, guests=True)
    assert {each.sid for batch in ended for each in batch} == {plain, required, guest}
    assert found() == [long, bound]


def test_guests_are_searched_when_they_are_asked_for(arrive) -> None:
    user, guest = arrive("198.51.100.7", CHROME, "1"), arrive("198.51.100.7", CHROME)
    assert found(network="198.51.100.7") == [user]
    assert found(network="198.51.100.7", guests=True) == found(guests=True) == [guest, user]
    assert found(network="198.51.100.7", guests="only") == found(guests="only") == [guest]
    with pytest.raises(ValueError, match="guests are not users"):
        online.count(user_ids=["1"], guests="only")


def test_what_is_no_network_is_refused() -> None:
    for ask in (online.sessions, online.count):
        with pytest.raises(ValueError, match="neither an address nor a network"):
            ask(network="198.51.100.7.1")


def test_a_search_ends_what_it_finds(arrive) -> None:
    arrive("198.51.100.7", CHROME, "1")
    kept, guest = arrive("198.51.100.7", CHROME, "2"), arrive("198.51.100.7", CHROME)
    other = arrive("198.51.101.7", FIREFOX, "3")
    batches = list(online.end_in_batches(network="198.51.100.0/24", keep_sids=[kept]))
    assert [session.user_id for batch in batches for session in batch] == ["1"]
    assert found(guests=True) == [other, guest, kept]
    assert sum(map(len, online.end_in_batches(browser="chrome", guests="only"))) == 1
    assert found(guests=True) == [other, kept]


@pytest.mark.django_db
def test_a_queryset_searches_and_tells_how_far(arrive, sent) -> None:
    one, other = arrive("198.51.100.7", CHROME, "1"), arrive("198.51.100.9", FIREFOX, "2")
    rows = OnlineSession.online.all().counting_once().of_network("198.51.100.0/24")
    assert rows.looked_through is None
    assert rows.count() == 2
    looks = sent.count("newest")
    assert ([row.sid for row in rows[:1]], [row.sid for row in rows[1:]]) == ([other], [one])
    assert sent.count("newest") == looks > 0
    assert rows.looked_through == LookedThrough(2, is_all=True)
    assert [row.sid for row in rows.reverse()] == [one, other]
    assert [row.sid for row in rows.of_browser("firefox")] == [row.sid for row in rows.of_system("linux")] == [other]
    assert [row.sid for row in rows.of_browser("firefox").filter(sid__in=[one, other])] == [other]
    assert rows.of_users(["1"]).get().sid == one
    assert list(rows.only_guests()) == list(rows.of_users(["1"]).only_guests()) == []


@pytest.mark.django_db
def test_a_queryset_keeps_bound_sessions_or_the_others(arrive) -> None:
    bound, plain = arrive("198.51.100.7", CHROME, "1", BOUND), arrive("198.51.100.7", CHROME, "1")
    rows = OnlineSession.online.of_users(["1"])
    assert [row.sid for row in rows.device_bound()] == [bound]
    assert [row.sid for row in rows.device_bound(is_bound=False)] == [plain]
    assert [row.sid for row in rows.device_bound().filter(sid__in=[bound, plain])] == [bound]
    assert [row.sid for row in rows.device_bound().of_browser("chrome").device_bound()] == [bound]
    # A site's list may have one of them. A filter of the page can only narrow it.
    assert list(rows.device_bound().device_bound(is_bound=False)) == []


@pytest.mark.django_db
def test_of_two_filters_of_a_kind_the_narrower_holds(arrive) -> None:
    one, other = arrive("198.51.100.7", CHROME, "1"), arrive("198.51.100.9", FIREFOX, "2")
    rows = OnlineSession.online.of_network("198.51.100.0/24")
    for network in ("198.51.100.7", "198.51.100.0/29", "198.51.0.0/16"):
        assert [row.sid for row in rows.of_network(network)] == ([other, one] if "/16" in network else [one]), network
    # None of them has a session from both.
    for network in ("203.0.113.7", "2001:db8::/32"):
        assert (list(rows.of_network(network)), rows.of_network(network).count()) == ([], 0), network
    chrome = OnlineSession.online.of_browser("chrome").of_system("Windows")
    assert [row.sid for row in chrome.of_browser("Chrome 1").of_browser("c").of_system("windows")] == []
    assert [row.sid for row in chrome.of_browser("Chrome").of_browser("c")] == [one]
    assert list(chrome.of_browser("Firefox")) == list(chrome.of_system("Linux")) == []
    # "Chrome 12" is no beginning of "Chrome 120".
    rows = OnlineSession.online.all()
    for first, second in (("Chrome 12", "Chrome 120"), ("Chrome 120", "Chrome 12"), ("Chrome  12", "chrome 120")):
        assert list(rows.of_browser(first).of_browser(second)) == [], (first, second)
    assert [row.sid for row in rows.of_browser("Chrome  120").of_browser("chrome 120")] == [one]


def test_a_search_says_how_far_it_looked(monkeypatch, arrive) -> None:
    monkeypatch.setattr(searching, "SCAN_LIMIT", 3)
    monkeypatch.setattr(searching, "LISTED_AT_ONCE", 2)
    sids = [arrive("198.51.100.7", CHROME, str(user)) for user in range(1, 6)]
    rows = OnlineSession.online.all().of_browser("chrome")
    assert (rows.count(), rows.looked_through) == (3, LookedThrough(3, is_all=False))
    assert found(browser="chrome") == sids[:1:-1]
    assert found(browser="chrome", order="created_at") == sids[2:]
    monkeypatch.setattr(searching, "LOOKED_SECONDS", -1)
    monkeypatch.setattr(searching, "TIMED_AT_ONCE", 2)
    assert (rows.count(), rows.looked_through) == (2, LookedThrough(2, is_all=False))
    monkeypatch.setattr(searching, "LOOKED_AT_ONCE", 1)
    assert rows.count() == 1


def test_long_records_are_searched_too(redis, arrive) -> None:
    sid = arrive("198.51.100.7", CHROME, "1")
    session = SessionStore()
    session.visit = Visit(lambda: Client("198.51.100.7", FIREFOX))
    session.update({"_auth_user_id": "1", "basket": urandom(1000).hex()})
    session.save()
    assert redis.hstrlen(keyspace().of_sid(str(session.sid)).login, str(session.sid)) > searching.HEAD_BYTES
    assert found(network="198.51.100.7") == [session.sid, sid]
    assert found(browser="firefox", user_ids=["1"]) == [session.sid]


@pytest.mark.usefixtures("left_alone")
def test_a_forged_record_and_entries_of_another_program_are_not_found(redis, arrive) -> None:
    genuine, forged = arrive("198.51.100.7", CHROME, "1"), arrive("192.0.2.1", CHROME, "1")
    partition = keyspace().of_user("1")
    redis.hset(partition.login, forged, redis.hget(partition.login, genuine))
    for name in (partition.online_user, partition.recent):
        redis.zadd(name, {"x": 9e12, " " * 20: 9e12, "1" * 20: 9e12})
    redis.hset(partition.login, "1" * 20, b"6" + bytes(40))
    assert found(browser="chrome") == found(browser="chrome", guests=True) == [genuine]
    assert found(network="198.51.100.7") == found(network="0.0.0.0/0") == [genuine]
