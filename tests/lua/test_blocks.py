"""The scripts in lua/blocks.lua, and those that refuse a session of a blocked user."""

from typing import Any

import pytest

from django_redsess.transport import scripts
from django_redsess.transport.scripts import Script
from tests.lua.conftest import Store
from tests.lua.given import HOUR, adding, creating, rotating, saving

pytestmark = pytest.mark.both_servers


def blocking(store: Store, user: str = "7", text: str = "Call us.\n1", left: int = HOUR) -> dict[str, Any]:
    key = store.partition.block_of(user)
    return {"block_of_user": key, "user_id": user, "over_at": store.now + left, "text": text}


def test_block_replaces_time_and_text_and_takes_out_what_is_over(store) -> None:
    keys = store.partition
    store.client.zadd(keys.blocked, {f"over {number}": store.now - number for number in range(150)})
    assert store.run(scripts.BLOCK, **blocking(store)) == 1
    assert store.client.zcard(keys.blocked) == 51
    assert store.client.get(keys.block_of("7")) == b"Call us.\n1"
    assert store.client.pexpiretime(keys.block_of("7")) == store.now + HOUR + 30 * 24 * HOUR
    assert store.run(scripts.BLOCK, **blocking(store, text="\n1", left=2 * HOUR)) == 1
    assert store.client.get(keys.block_of("7")) == b"\n1"
    assert store.client.zrange(keys.blocked, 0, -1, withscores=True) == [(b"7", store.now + 2 * HOUR)]


def test_a_time_that_is_over_blocks_nobody(store) -> None:
    assert store.run(scripts.BLOCK, **blocking(store, left=-1)) == 0
    assert store.content() == {}


def test_unblock_lifts_once_and_a_repetition_can_not_tell(store) -> None:
    store.run(scripts.BLOCK, **blocking(store))
    given = {"block_of_user": store.partition.block_of("7"), "user_id": "7"}
    assert [store.run(scripts.UNBLOCK, {"first": 1}, **given) for _ in range(2)] == [1, 0]
    assert store.run(scripts.UNBLOCK, **given) == 1
    # Nothing but the mark that keeps the block from being restored.
    assert store.client.exists(store.partition.blocked) == 0
    assert store.client.pexpiretime(store.partition.block_of("7")) == store.now + HOUR


def test_a_block_is_restored_if_it_was_lost_and_not_if_it_was_lifted(store) -> None:
    given = {"block_of_user": store.partition.block_of("7"), "user_id": "7"}

    def restored(*, first: bool = True, **how: Any) -> str:
        once = {"first": 1} if first else None
        return str(store.run(scripts.RESTORE_BLOCK, once, **blocking(store, **how)), "ascii")

    assert restored(left=-1) == "over"
    assert store.content() == {}
    assert restored() == "restored"
    assert store.client.get(store.partition.block_of("7")) == b"Call us.\n1"
    assert store.client.zscore(store.partition.blocked, "7") == store.now + HOUR
    # One that is there stays as it is. If the reply was lost, it may be the one that was just restored.
    assert restored(left=2 * HOUR) == "there"
    assert restored(left=2 * HOUR, first=False) == "restored"
    assert store.client.zscore(store.partition.blocked, "7") == store.now + HOUR
    store.run(scripts.UNBLOCK, {"first": 1}, **given)
    assert restored() == restored(first=False) == "lifted"
    assert store.client.exists(store.partition.blocked) == 0
    # A new block is one, whatever was lifted before.
    store.run(scripts.BLOCK, **blocking(store, text=""))
    assert restored() == "there"


def test_a_block_that_is_lifted_after_it_was_lost_is_not_restored_either(store) -> None:
    given = {"block_of_user": store.partition.block_of("7"), "user_id": "7"}
    assert store.run(scripts.UNBLOCK, {"first": 1}, **given) == 0
    assert store.run(scripts.RESTORE_BLOCK, {"first": 1}, **blocking(store)) == b"lifted"


@pytest.mark.parametrize(
    ("script", "given"),
    {
        "create": (scripts.CREATE, lambda store: creating(store, "b", "7")),
        "save of another user": (scripts.SAVE, lambda store: saving(store, "a", "7")),
        "save of a guest": (scripts.SAVE, lambda store: saving(store, "guest", "7")),
        "rotate": (scripts.ROTATE, lambda store: rotating(store, "guest", "b", "7")),
        "rotate of the same user": (scripts.ROTATE, lambda store: rotating(store, "own", "b", "7")),
    }.values(),
)
def test_no_script_makes_a_session_of_a_blocked_user(store, script: Script, given: Any) -> None:
    store.add("a", "8")
    store.add("guest")
    store.add("own", "7")
    store.run(scripts.BLOCK, **blocking(store))
    once = {"is_new": True} if script is scripts.CREATE else None
    assert store.refused(script, once, **given(store)) == [b"blocked"]


def test_what_is_no_sign_in_of_a_blocked_user_is_saved(store) -> None:
    store.add("own", "7")
    store.add("a", "8")
    store.run(scripts.BLOCK, **blocking(store))
    store.run(scripts.BLOCK, **blocking(store, "9", left=1))
    for name, user in (("own", "7"), ("a", "8"), ("a", "")):
        assert store.run_ending(scripts.SAVE, **saving(store, name, user))[0] == [b"saved"]


def test_add_leaves_a_blocked_user_to_create(store) -> None:
    store.run(scripts.BLOCK, **blocking(store))
    before = store.content()
    assert store.run(scripts.CREATE_FAST, {"first": 1}, **adding(store, "b", "7")) == 0
    assert store.content() == before
    for user in ("8", ""):
        assert store.run(scripts.CREATE_FAST, {"first": 1}, **adding(store, f"b{user}", user)) == 1
