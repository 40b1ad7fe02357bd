"""The scripts in lua/locking.lua."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers

HOLD = 30_000
ALIVE = scripts.CONSTANTS["ALIVE_MS"]


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

    def ask(self, token: str, *, waits: bool = True, anywhere: bool = False, hold: int = HOLD) -> Any:
        args = {"sid": self.sid, "token": token, "hold": hold, "waits": waits, "anywhere": anywhere}
        return self.store.run(scripts.LOCK, **self.keys, **args)

    def give_back(self, token: str) -> Any:
        return self.store.run(scripts.UNLOCK, **self.keys, token=token)

    def line(self) -> list[bytes]:
        found = self.store.client.zrange(self.waiting, 0, -1)
        assert set(found) == set(self.store.client.zrange(self.alive, 0, -1))
        return list(found)


@pytest.fixture
def locked(store) -> Locked:
    store.add("a")
    return Locked(store)


def test_the_first_takes_the_lock_and_the_others_stand_in_line(locked, store) -> None:
    assert [locked.ask(token) for token in ("one", "two", "three", "two")] == [b"locked", 0, 1, 0]
    assert (store.client.get(locked.lock), locked.line()) == (b"one", [b"two", b"three"])
    assert HOLD - 1000 < store.client.pttl(locked.lock) <= HOLD
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
    assert store.client.pttl(locked.lock) <= 5000
    assert (locked.give_back("one"), locked.give_back("one")) == (1, 0)


def test_only_who_has_the_lock_gives_it_back(locked, store) -> None:
    locked.ask("one")
    assert locked.give_back("two") == 0
    assert store.client.get(locked.lock) == b"one"
    # It ran out, and is another's.
    store.client.delete(locked.lock)
    locked.ask("two")
    assert locked.give_back("one") == 0
    assert store.client.get(locked.lock) == b"two"


def test_who_does_not_wait_any_longer_leaves_the_line(locked) -> None:
    for token in ("one", "two", "three"):
        locked.ask(token)
    assert (locked.ask("two", waits=False), locked.line()) == (1, [b"three"])
    assert (locked.ask("four", waits=False), locked.line()) == (1, [b"three"])
    assert (locked.give_back("three"), locked.line()) == (0, [])
    # The last question may still bring the lock.
    locked.give_back("one")
    assert locked.ask("four", waits=False) == b"locked"


@pytest.mark.parametrize("moved", [-1, ALIVE + 1000], ids=["silent for too long", "the clock has stepped back"])
def test_who_is_silent_is_left_out_and_comes_last_when_back(locked, store, moved: int) -> None:
    for token in ("one", "two", "three"):
        locked.ask(token)
    store.client.zadd(locked.alive, {"two": store.now + moved})
    locked.give_back("one")
    assert locked.ask("three") == b"locked"
    assert [locked.ask("four"), locked.ask("two")] == [0, 1]


def test_a_lock_that_ran_out_is_free(locked, store) -> None:
    locked.ask("one", hold=1)
    while store.client.exists(locked.lock):
        pass
    assert locked.ask("two") == b"locked"


def test_a_session_that_is_gone_has_no_lock_unless_it_may_live_elsewhere(store) -> None:
    locked = Locked(store)
    assert (locked.ask("one"), store.content()) == (b"gone", {})
    assert locked.ask("one", anywhere=True) == b"locked"
    # It was ended while others waited.
    assert (locked.ask("two", anywhere=True), locked.ask("two"), locked.line()) == (0, b"gone", [])
