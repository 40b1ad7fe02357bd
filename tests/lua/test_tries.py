"""The script in lua/tries.lua."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store
from tests.lua.given import HOUR

pytestmark = pytest.mark.both_servers


def tried(store: Store, *, counts: bool = True, window: int = HOUR) -> Any:
    key = store.partition.tries_of("7", 1)
    return store.run(scripts.COUNT_TRY, tries=key, window=window, max=3, counts=counts)


def test_tries_are_counted_up_to_the_most_and_those_above_prolong_nothing(store) -> None:
    key = store.partition.tries_of("7", 1)
    assert [tried(store, counts=False), store.content()] == [3, {}]
    assert [tried(store) for _ in range(3)] == [3, 2, 1]
    store.client.pexpire(key, 5000)
    before = store.client.get(key)
    assert [tried(store), tried(store, counts=False)] == [0, 0]
    assert (store.client.get(key), store.client.pttl(key) <= 5000) == (before, True)


def test_only_recent_tries_count_and_the_text_stays_short(store) -> None:
    key = store.partition.tries_of("7", 1)
    times = [store.now - HOUR, store.now - HOUR + 10_000, store.now + 1000, store.now + 2 * HOUR]
    store.client.set(key, " ".join(map(str, times)))
    assert tried(store) == 1
    kept = store.client.get(key).decode().split()
    assert kept[:2] == [str(times[1]), str(times[2])]
    assert (len(kept), abs(int(kept[2]) - store.now) < 1000) == (3, True)
    assert HOUR - 1000 < store.client.pttl(key) <= HOUR


def test_what_another_program_wrote_is_no_try(store) -> None:
    store.client.set(store.partition.tries_of("7", 1), "five and \n")
    assert tried(store) == 3
