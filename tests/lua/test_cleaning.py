"""Each script in lua/cleaning.lua by itself."""

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store

pytestmark = pytest.mark.both_servers


@pytest.fixture
def due(store) -> Store:
    """Three sessions that are due, and two that are not."""
    for number, user in enumerate(("7", "8", "")):
        store.add(f"due{number}", user, due=number - 10)
    store.add("a", "7")
    store.add("b")
    return store


@pytest.mark.parametrize(("limit", "more", "ended"), [(2, 1, 2), (3, 0, 3), (9, 0, 3)])
def test_expire_ends_what_is_due(due, limit: int, more: int, ended: int) -> None:
    assert due.run_ending(scripts.EXPIRE, limit=limit, named=False) == (more, {"expired": ended})
    assert due.names(due.partition.expire) == ["due0", "due1", "due2", "a", "b"][ended:]
    assert due.note("due0").startswith("expired ")


@pytest.mark.parametrize(
    ("allowed", "limit", "left", "guests", "users"),
    {
        "guests first": ((4, 0, 100), 9, 0, 2, 2),
        "a reserve for guests": ((2, 2, 100), 9, 0, 2, 2),
        "few guests": ((100, 0, 1), 9, 0, 1, 2),
        "then users": ((1, 0, 100), 9, 0, 0, 1),
        "a limit": ((1, 0, 100), 3, 2, 1, 2),
        "nobody": ((100, 0, 100), 9, 0, 4, 2),
    }.values(),
)
def test_evict_ends_what_is_too_much(
    store, allowed: tuple[int, int, int], limit: int, left: int, guests: int, users: int
) -> None:
    for number in range(4):
        store.add(f"guest{number}", seen=100 - number)
    for number in range(2):
        store.add(f"user{number}", "7", seen=200 - number)
    may = dict(zip(("maximum", "reserve", "guests_maximum"), allowed, strict=True))
    result, ended = store.run_ending(scripts.EVICT, **may, limit=limit, named=False)
    assert (result, ended.get("evicted", 0)) == (left, 6 - guests - users)
    # The longest unseen go.
    assert store.names(store.partition.guests) == [f"guest{number}" for number in range(4 - guests, 4)]
    assert store.names(store.partition.recent) == [f"user{number}" for number in range(2 - users, 2)]
