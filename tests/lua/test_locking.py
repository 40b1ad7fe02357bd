"""The scripts in lua/locking.lua."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers

HOLD = 30_000
ALIVE = scripts.CONSTANTS["ALIVE_MS"]


def token_of(who: str, hold: int = HOLD) -> str:
    return f"{who}:{hold}"


class Locked:
    """The lock of one session in the store."""

    def __init__(self, store: Store) -> None:
        self.store, self.sid = store, store.sid("a")
        names = store.partition
        self.lock, self.waiting, self.alive = (
            names.lock_of(self.sid),
            names.waiting_of(self.sid),
            names.alive_of(self.sid),
        )
        self.keys = {"lock": self.lock, "waiting": self.waiting, "alive": self.alive}

    def ask(self, who: str, *, waits: bool = True, anywhere: bool = False, hold: int = HOLD) -> Any:
        args = {"sid": self.sid, "token": token_of(who, hold), "waits": waits, "anywhere": anywhere}
        return self.store.run(scripts.LOCK, **self.keys, **args)

    def give_back(self, who: str) -> Any:
        return self.store.run(scripts.UNLOCK, **self.keys, token=token_of(who))

    def holder(self) -> str:
        return str(self.store.client.get(self.lock).decode().partition(":")[0])

    def left(self) -> int:
        """Return how long the lock lasts, in milliseconds; -1 for ever."""
        return int(self.store.client.pttl(self.lock))

    def line(self) -> list[str]:
        found = self.store.client.zrange(self.waiting, 0, -1)
        assert set(found) == set(self.store.client.zrange(self.alive, 0, -1))
        return [member.decode().partition(":")[0] for member in found]


@pytest.fixture
def locked(store) -> Locked:
    store.add("a")
    return Locked(store)


def test_the_first_takes_the_lock_and_the_others_stand_in_line(locked, store) -> None:
    assert [locked.ask(token) for token in ("one", "two", "three", "two")] == [b"locked", 0, 1, 0]
    assert (locked.holder(), locked.line()) == ("one", ["two", "three"])
    assert HOLD - 1000 < locked.left() <= HOLD
    for name in (locked.waiting, locked.alive):
        assert 0 < store.client.pttl(name) <= ALIVE


def test_the_lock_goes_to_the_first_in_line_and_to_nobody_before(locked, store) -> None:
    for token in ("one", "two", "three"):
        locked.ask(token)
    assert locked.give_back("one") == 1
    assert [locked.ask(token) for token in ("three", "four", "two")] == [1, 2, b"locked"]
    assert (locked.give_back("two"), locked.ask("three"), locked.give_back("three")) == (1, b"locked", 1)
    assert (locked.ask("four"), locked.give_back("four")) == (b"locked", 1)
    assert [name for name in store.content() if ":lock:" in name] == []


def test_a_repetition_changes_nothing(locked, store) -> None:
    locked.ask("one")
    store.client.pexpire(locked.lock, 5000)
    assert (locked.ask("one"), locked.line()) == (b"locked", [])
    assert locked.left() <= 5000
    assert (locked.give_back("one"), locked.give_back("one")) == (1, 0)


def test_only_who_has_the_lock_gives_it_back(locked, store) -> None:
    locked.ask("one")
    assert locked.give_back("two") == 0
    assert locked.holder() == "one"
    # It ran out, and is another's.
    store.client.delete(locked.lock)
    locked.ask("two")
    assert locked.give_back("one") == 0
    assert locked.holder() == "two"


def test_who_does_not_wait_any_longer_leaves_the_line(locked) -> None:
    for token in ("one", "two", "three"):
        locked.ask(token)
    assert (locked.ask("two", waits=False), locked.line()) == (1, ["three"])
    assert (locked.ask("four", waits=False), locked.line()) == (1, ["three"])
    assert (locked.give_back("three"), locked.line()) == (0, [])
    # The last question may still bring the lock.
    locked.give_back("one")
    assert locked.ask("four", waits=False) == b"locked"


@pytest.mark.parametrize("moved", [-1, ALIVE + 1000], ids=["silent for too long", "the clock has stepped back"])
def test_who_is_silent_is_left_out_and_comes_last_when_back(locked, store, moved: int) -> None:
    for token in ("one", "two", "three"):
        locked.ask(token)
    store.client.zadd(locked.alive, {token_of("two"): store.now + moved})
    locked.give_back("one")
    assert locked.ask("three") == b"locked"
    assert [locked.ask("four"), locked.ask("two")] == [0, 1]


def test_a_lock_that_ran_out_is_free(locked, store) -> None:
    locked.ask("one", hold=1)
    while store.client.exists(locked.lock):
        pass
    assert locked.ask("two") == b"locked"


@pytest.mark.parametrize("seconds", [None, 3600, 400 * 24 * 3600], ids=["no end", "an hour", "a year"])
@pytest.mark.parametrize("waits", [True, False])
def test_a_lock_that_lasts_too_long_gets_the_life_that_its_holder_asked_for(locked, store, seconds, waits) -> None:
    locked.ask("one", hold=5000)
    store.client.set(locked.lock, token_of("one", 5000), ex=seconds)
    # Another view may have it for longer, and that does not matter here.
    assert locked.ask("two", waits=waits, hold=60_000) == 0
    assert 0 < locked.left() <= 5000
    # It is not begun anew with each question, nor shortened by one who would hold it for less.
    left = locked.left()
    assert locked.ask("two", waits=waits, hold=60_000) == 0
    assert locked.ask("three", waits=False, hold=1) in (0, 1)
    assert 1 < locked.left() <= left


@pytest.mark.parametrize("foreign", ["", "not ours", "1:", ":-5", "one:x", f"one:{'9' * 400}", b"\xff\x00"])
@pytest.mark.parametrize("seconds", [None, 3600])
def test_the_lock_of_another_program_lasts_as_long_as_ones_own_would(locked, store, foreign, seconds) -> None:
    store.client.set(locked.lock, foreign, ex=seconds)
    assert locked.ask("two") == 0
    if not str(foreign).endswith("9"):
        assert 0 < locked.left() <= HOLD
    assert locked.left() != -1
    store.client.delete(locked.lock)
    assert locked.ask("two") == b"locked"


@pytest.mark.parametrize("place", ["-inf", "0", "1e308", "inf"])
def test_what_another_program_has_put_into_the_line_is_not_waited_for(locked, store, place: str) -> None:
    strangers = dict.fromkeys(["stranger", "", "two"], place)
    store.client.zadd(locked.waiting, strangers)
    assert [locked.ask("one"), locked.ask("two"), locked.give_back("one")] == [b"locked", 0, 1]
    store.client.zadd(locked.waiting, strangers)
    store.client.zadd(locked.alive, {"stranger": place})
    assert (locked.ask("three"), locked.ask("two")) == (1, b"locked")
    assert [locked.give_back("two"), locked.ask("three")] == [1, b"locked"]


def test_a_session_that_is_gone_has_no_lock_unless_it_may_live_elsewhere(store) -> None:
    locked = Locked(store)
    assert (locked.ask("one"), store.content()) == (b"gone", {})
    assert locked.ask("one", anywhere=True) == b"locked"
    # It was ended while others waited.
    assert (locked.ask("two", anywhere=True), locked.ask("two"), locked.line()) == (0, b"gone", [])
