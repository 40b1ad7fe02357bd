"""The script in lua/session.lua that touches a session, unless it is bound and the request has no proof."""

import pytest

from django_redsess.transport import scripts
from tests.lua.conftest import Store
from tests.session.records import BINDING

pytestmark = pytest.mark.both_servers

AGO = 50_000


@pytest.mark.parametrize(
    ("user", "binding", "claimed", "touched"),
    {
        "a guest's": ("", b"", b"", 1),
        "a user's": ("7", b"", b"", 1),
        "unbound, with the proof of another": ("7", b"", BINDING.id, 1),
        "bound": ("7", BINDING.pack(), BINDING.id, 1),
        "bound, a long user id": ("7" * 255, BINDING.pack(), BINDING.id, 1),
        "bound, without proof": ("7", BINDING.pack(), b"", 0),
        "bound, with the proof of another": ("7", BINDING.pack(), b"another ", 0),
        "bound, with a part of the id": ("7", BINDING.pack(), BINDING.id[:4], 0),
    }.values(),
)
def test_touch_proven_touches_what_is_unbound_or_proven(
    store: Store, user: str, binding: bytes, claimed: bytes, touched: int
) -> None:
    store.add("a", user, seen=AGO, binding=binding)
    before = store.content()
    arguments = {"sid": store.sid("a"), "binding": claimed}
    assert store.run(scripts.TOUCH_PROVEN, seen=store.now, **arguments) == touched
    name = store.partition.recent if user else store.partition.guests
    seen = float(store.now if touched else store.now - AGO)
    assert store.content() == before | {name: [(store.sid("a").encode(), seen)]}
    # Never back.
    assert store.run(scripts.TOUCH_PROVEN, seen=store.now - 2 * AGO, **arguments) == touched
    assert store.content()[name] == [(store.sid("a").encode(), seen)]


def test_touch_proven_adds_nothing_and_touches_no_record_of_another_format(store: Store) -> None:
    before = store.content()
    for record in (None, b"", b"6", b"5" + bytes(60), b"6" + bytes(16) + b"\xff"):
        if record is not None:
            store.client.hset(store.partition.login, store.sid("a"), record)
            before = store.content()
        assert store.run(scripts.TOUCH_PROVEN, sid=store.sid("a"), seen=store.now, binding=b"") == 0
        assert store.content() == before
    store.client.flushall()
