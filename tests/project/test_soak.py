"""
The soak finds what is wrong: faults are planted into a site, behind the back of those who visit it.

What it does with a whole shop is in test_soaking.py.
"""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from testproject.servers import free_port
from tests.helpers.balancing import Balancer
from tests.helpers.outages import without_replicas
from tests.helpers.serving import serving
from tests.helpers.site import MIDDLEWARE
from tests.helpers.site.people import InMemory, person
from tests.helpers.store import keyspace
from tests.soak.gauges import LIFE_SECONDS, WARM_UP_SECONDS, Gauges, Growth
from tests.soak.ledger import Account, Blocked, Held, Known, Ledger, Session, Span
from tests.soak.traffic import LEAVES, made, recorded
from tests.soak.visitor import Visitor

NAME = "user 7"
CHANGE, LOOK = "cart", "main"


@dataclass(eq=False)
class Address:
    """What the balancer chooses among, in place of a site in processes of its own."""

    address: str


class Everybody(InMemory):
    """Signs in by name."""

    def authenticate(self, request: Any, username: str, password: str) -> Any:
        return person(username.removeprefix("user "))


@pytest.fixture
def soaked(server, settings, users_in_no_table) -> Iterator[Balancer]:
    """A site as the soak has it."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = [*MIDDLEWARE, "tests.soak.settings.says_who"]
    settings.AUTHENTICATION_BACKENDS = [f"{__name__}.Everybody"]
    with serving() as site:
        yield Balancer([Address(f"http://127.0.0.1:{site.port}")])


class Soaked:
    """A visitor of the site, with all that is known."""

    def __init__(self, balancer: Balancer, *, guest: bool = False) -> None:
        self.ledger, self.account = Ledger(), None if guest else Account(NAME)
        self.visitor = Visitor(1, self.account, balancer, self.ledger)
        self.click()

    def click(self, page: str = CHANGE) -> None:
        self.visitor.click(page, Random(1))

    @property
    def faults(self) -> list[str]:
        return [fault.kind for fault in self.ledger.faults]

    @property
    def key(self) -> str:
        return self.visitor._browser.cookies["sessionid"]


@pytest.fixture
def soak(soaked) -> Soaked:
    return Soaked(soaked)


@pytest.fixture
def records(redis) -> Callable[[], Callable[[], None]]:
    """Return a function that copies all records, and returns one that puts them back."""

    def copy() -> Callable[[], None]:
        at = keyspace().partitions[0].login
        held = redis.hgetall(at)
        return lambda: redis.hset(at, mapping=held)

    return copy


def test_a_visitor_who_comes_changes_and_leaves_finds_nothing_wrong(soak) -> None:
    for page in (LOOK, CHANGE, "catalog", CHANGE):
        soak.click(page)
    assert soak.visitor.session.account is soak.account
    with soak.ledger.ending(soak.account):
        online.end_user(person(7))
    for _ in range(4):
        soak.click()
    soak.visitor.last_visit()
    assert soak.faults == []
    assert soak.ledger.counts["found out"] == 1
    assert soak.ledger.counts["sign-ins"] == 2


def test_a_session_that_is_gone_is_found(soak) -> None:
    SessionStore().delete(soak.key)
    soak.click(LOOK)
    assert soak.faults == ["wrongly out"]


@pytest.mark.parametrize("page", [LOOK, CHANGE])
def test_a_session_of_a_guest_that_is_gone_is_found(soaked, page: str) -> None:
    soak = Soaked(soaked, guest=True)
    soak.click(LOOK)
    SessionStore().delete(soak.key)
    soak.click(page)
    assert soak.faults == ["wrongly out"]
    # Another one begins.
    soak.click()
    soak.click(LOOK)
    soak.click()
    assert soak.faults == ["wrongly out"]


def test_a_change_that_was_lost_is_found(soak, records) -> None:
    put_back = records()
    soak.click()
    put_back()
    soak.click()
    assert soak.faults == ["lost"]


def test_a_session_that_is_there_without_what_it_held_is_found(soak) -> None:
    session = SessionStore(soak.key)
    del session["number"]
    session.save()
    soak.click()
    assert soak.faults == ["lost"]


def test_an_end_that_did_nothing_is_found(soak) -> None:
    with soak.ledger.ending(soak.account):
        pass
    soak.click(LOOK)
    assert soak.faults == ["wrongly in"]


@pytest.mark.parametrize("leave", ["ended", "signed out"])
def test_a_session_that_is_back_is_found_by_the_copy_of_its_cookie(soak, redis, left_alone, leave) -> None:
    before = {name: redis.dump(name) for name in redis.keys()}
    with soak.ledger.ending(soak.account) if leave == "ended" else nullcontext():
        if leave == "ended":
            online.end_user(person(7))
            soak.click()
        else:
            soak.visitor._sign_out()
    soak.click()
    for name, dumped in before.items():
        redis.restore(name, 0, dumped, replace=True)
    soak.visitor.last_visit()
    assert soak.faults.count("wrongly in") == 1


def test_a_session_that_outlives_nights_without_a_visit_is_found(soak) -> None:
    session = soak.visitor.session
    session.begun = session.proved = session.keyed = session.asked = Span(0, 1)
    session.seen.clear()
    session.seen.append(Span(0, 1))
    soak.ledger.windows["night"] = [Span(2, 3), Span(5, 6)]
    soak.click()
    assert soak.faults == ["wrongly in"]


def test_a_block_that_keeps_nobody_out_is_found(soak) -> None:
    soak.visitor._sign_out()
    soak.account.blocks.append(Blocked(Span(0, 1)))
    soak.click()
    assert soak.faults == ["wrongly in"]


def test_a_refusal_is_a_fault_unless_it_was_announced(soak, server) -> None:
    with without_replicas(server):
        with soak.ledger.announced("outage"):
            soak.click()
        assert soak.faults == []
        soak.ledger.windows.clear()
        soak.click()
    assert soak.faults == ["unexplained"]
    # Nobody knows whether it was done.
    soak.click()
    assert soak.faults == ["unexplained"]


def test_no_answer_is_a_fault_unless_a_web_process_was_killed(soak) -> None:
    [site] = soak.visitor._balancer.sites
    site.address = f"http://127.0.0.1:{free_port()}"
    with soak.ledger.announced("web"):
        soak.click()
    assert soak.faults == []
    soak.ledger.windows.clear()
    soak.click()
    assert soak.faults == ["unexplained"]


def test_a_fault_shows_what_its_visitor_met_and_no_session_key(soak) -> None:
    key = soak.key
    SessionStore().delete(key)
    soak.click(LOOK)
    [fault] = soak.ledger.faults
    assert "POST /sign-in-by-form/: 200 user 7" in "\n".join(fault.history)
    assert key not in repr(fault)


# What the ledger knows, without a site.


def session(ledger: Ledger, **more: Any) -> Session:
    return Session(Span(10, 11), Account(NAME), **more)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("ended", "asked", "known"),
    [
        (Span(1, 2), Span(20, 21), Known.IN),
        (Span(9, 10.5), Span(20, 21), Known.EITHER),
        (Span(12, 13), Span(20, 21), Known.OUT),
        (Span(12, 20.5), Span(20, 21), Known.EITHER),
        (Span(12), Span(20, 21), Known.EITHER),
        (Span(22, 23), Span(20, 21), Known.IN),
    ],
)
def test_an_end_counts_from_when_it_is_done(ended: Span, asked: Span, known: Known) -> None:
    ledger = Ledger()
    ends = session(ledger)
    ends.account.ends.append(ended)
    assert ledger.known(ends, asked) is known
    assert ledger.known(session(ledger, ended=ended), asked) is known


@pytest.mark.unit
@pytest.mark.parametrize("known", [Known.OUT, Known.EITHER])
def test_an_end_may_be_lost_in_a_failover_and_only_there(known: Known) -> None:
    ledger = Ledger()
    ledger.windows["loss"] = [Span(12.5, 14) if known is Known.EITHER else Span(14, 15)]
    assert ledger.known(session(ledger, ended=Span(12, 13)), Span(20, 21)) is known


@pytest.mark.unit
def test_a_session_that_was_seen_after_an_end_or_a_failover_must_be_there() -> None:
    ledger = Ledger()
    ledger.windows["loss"] = [Span(9, 14)]
    seen = session(ledger, ended=Span(10, 12))
    assert ledger.known(seen, Span(16, 17)) is Known.EITHER
    ledger.prove(seen, Span(16, 17))
    assert ledger.known(seen, Span(20, 21)) is Known.IN


@pytest.mark.unit
@pytest.mark.parametrize(("seen", "asked", "known"), [(20, 20, Known.IN), (11, 20, Known.EITHER), (11, 11, Known.OUT)])
def test_a_session_outlives_one_night_without_a_visit_and_not_two(seen: int, asked: int, known: Known) -> None:
    ledger = Ledger()
    ledger.windows["night"] = [Span(13, 14), Span(25, 26)]
    idle = session(ledger)
    idle.seen.append(Span(seen, seen + 1))
    idle.asked = Span(asked, asked + 1)
    assert ledger.known(idle, Span(30, 31)) is known
    # Nothing is noted in an outage.
    ledger.windows["outage"] = [Span(20, 21)]
    assert ledger.known(idle, Span(30, 31)) is (Known.EITHER if known is Known.IN else known)


@pytest.mark.unit
def test_a_change_may_be_lost_in_a_failover_and_none_before_it() -> None:
    ledger = Ledger()
    numbers = [Held(Span(at, at + 0.5), at, acknowledged) for at, acknowledged in ((20, True), (21, True), (22, False))]
    held = session(ledger, numbers=numbers)
    assert [ledger.may_hold(held, number) for number in (20, 21, 22)] == [False, True, True]
    ledger.windows["loss"] = [Span(21.2, 25)]
    assert [ledger.may_hold(held, number) for number in (19, 20, 21, 22)] == [False, True, True, True]


@pytest.mark.unit
@pytest.mark.parametrize(
    ("lifted", "nights", "known"),
    [
        (Span(float("inf")), [], Known.OUT),
        (Span(15, 16), [], Known.IN),
        (Span(15, 20.5), [], Known.EITHER),
        (Span(float("inf")), [Span(14, 15)], Known.IN),
        (Span(float("inf")), [Span(1, 2)], Known.OUT),
        (Span(float("inf")), [Span(9, 12)], Known.EITHER),
    ],
)
def test_a_block_holds_until_it_is_lifted_or_a_night_is_over(lifted: Span, nights: list[Span], known: Known) -> None:
    ledger = Ledger()
    ledger.windows["night"] = nights
    account = Account(NAME, blocks=[Blocked(Span(10, 11), lifted)])
    assert ledger.may_sign_in(account, Span(20, 21)) is known
    assert ledger.may_sign_in(account, Span(1, 2)) is Known.IN


# Processes that grow, and traffic.


@pytest.mark.unit
@pytest.mark.parametrize(("mib", "descriptors", "flat"), [(0.1, 0, True), (1, 0, False), (0, 1, False), (-1, 0, True)])
def test_a_process_that_grows_is_found(monkeypatch, mib: float, descriptors: int, flat: bool) -> None:
    gauges, now = Gauges(), 0.0

    class Process:
        def __init__(self, pid: int) -> None:
            self.memory_info = lambda: SimpleNamespace(rss=(100 + mib * now) * 2**20)
            self.num_fds = lambda: int(10 + descriptors * now)
            self.create_time = lambda: 0.0

    monkeypatch.setattr("tests.soak.gauges.psutil.Process", Process)
    for now in range(0, WARM_UP_SECONDS + LIFE_SECONDS + 30, 5):
        gauges.measure("web process", [1], now)
    [growth] = gauges.growths()
    assert (growth.compared, growth.is_flat) == (1, flat)


@pytest.mark.unit
def test_a_process_that_was_started_again_is_another_one() -> None:
    assert Growth("server", 2, 0).is_flat


@pytest.mark.unit
def test_traffic_is_as_recorded_or_made_alike(tmp_path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("user_id,event,timestamp\n2,cart,2026-01-01 10:00:01\n1,main,2026-01-01 10:00:00\n")
    clicks = recorded(file)
    assert [next(clicks) for _ in range(3)] == [("1", "main"), ("2", "cart"), ("1", "main")]
    clicks = made(Random(1))
    users = [next(clicks).user for _ in range(5000)]
    assert 0.8 < len(set(users)) / (5000 * LEAVES) < 1.2
