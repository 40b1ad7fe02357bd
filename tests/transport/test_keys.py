from collections import Counter

import pytest
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from redis.crc import key_slot

from django_redsess.transport.keys import (
    BUCKETS,
    Keyspace,
    Partition,
    bucket_of,
    bucket_of_user,
    is_sid,
    new_key,
    sid_of,
)

pytestmark = pytest.mark.unit


def test_names_of_all_keys() -> None:
    partition = Partition("redsess")
    assert partition.login == "{redsess}:login"
    assert (partition.expire, partition.recent) == ("{redsess}:expire", "{redsess}:recent")
    assert partition.online_user_of("7:ä") == f"{partition.online_user}:7:ä" == "{redsess}:online:user:7:ä"
    assert partition.viewed_by("sid") == f"{partition.viewed}:sid" == "{redsess}:viewed:sid"
    assert (partition.ended_of("sid"), partition.message_of("7:ä")) == ("{redsess}:ended:sid", "{redsess}:message:7:ä")
    assert partition.tries_of("7:ä", 1700) == "{redsess}:tries:1700:7:ä"
    assert partition.lock_of("sid") == "{redsess}:lock:sid"
    assert partition.waiting_of("sid") == "{redsess}:lock:waiting:sid"
    assert partition.alive_of("sid") == "{redsess}:lock:alive:sid"
    assert partition.block_of("7:ä") == f"{partition.blocked}:7:ä" == "{redsess}:blocked:7:ä"
    assert partition.guests == "{redsess}:guests"
    assert Keyspace("redsess", 4).deciding_partition.meta == "{redsess}:meta"
    assert [partition.login for partition in Keyspace("shop", 2).partitions] == ["{shop:0}:login", "{shop:2}:login"]


@pytest.mark.parametrize("count", [1, 2, 4, 64, 1024])
def test_partitions_lie_in_equal_ranges_of_hash_slots_and_have_their_users_sessions(count: int) -> None:
    space = Keyspace("redsess", count)
    slots = [key_slot(partition.login.encode()) for partition in space.partitions]
    assert count == 1 or [slot * count // 16384 for slot in slots] == list(range(count))
    users = [f"user {number}" for number in range(200)]
    assert [space.of_sid(sid_of(new_key(bucket_of_user(user)))) for user in users] == list(map(space.of_user, users))


def test_sid_has_a_fixed_form_and_needs_no_escaping() -> None:
    assert sid_of("a" * 32) == "aaO6P19DuSYCaDwZruYq"
    assert [sid for number in range(200) if not is_sid(sid := sid_of(f"key{number}"))] == []


@pytest.mark.parametrize("key", ["a" * 8, "0" * 40, "z9" * 64])
def test_keys_from_elsewhere_have_sids_too(key: str) -> None:
    assert is_sid(sid_of(key))
    assert bucket_of(sid_of(key)) == bucket_of(key)


@pytest.mark.parametrize(
    "text",
    ["", "a" * 19, "a" * 21, "-" * 20, "a b" * 7, "ä" * 20, "a" * 19 + "\n", "a" * 20 + "\n", "A" * 20, "a." * 10],
)
def test_what_is_no_sid(text: str) -> None:
    assert not is_sid(text)


@pytest.mark.parametrize(("start", "bucket"), [("00", 0), ("0z", 35), ("10", 36), ("sf", 1023), ("sg", 0), ("zz", 271)])
def test_the_first_two_characters_tell_the_bucket(start: str, bucket: int) -> None:
    assert bucket_of(start + "a" * 30) == bucket


def test_a_new_key_is_in_the_bucket_that_is_asked_for() -> None:
    assert [bucket_of(new_key(bucket)) for bucket in range(BUCKETS)] == list(range(BUCKETS))


def test_new_keys_have_djangos_form_and_are_random_behind_their_bucket() -> None:
    keys = [new_key(7) for _ in range(3600)]
    assert len(set(keys)) == len(keys)
    assert {key[:2] for key in keys} == {"07"}
    assert {len(key) for key in [*keys, new_key()]} == {32}
    for place in range(2, 32):
        found = Counter(key[place] for key in keys)
        assert set(found) == set(VALID_KEY_CHARS)
        assert max(found.values()) < 200


@pytest.mark.parametrize("count", [1, 2, 4, 64])
def test_sessions_spread_over_all_partitions(count: int) -> None:
    space = Keyspace("redsess", count)
    names = set(space.partitions)
    found = Counter(space.of_sid(sid_of(new_key())) for _ in range(200 * count))
    assert set(found) == names
    assert max(found.values()) < 300


def test_where_a_user_an_item_and_a_session_are_never_changes() -> None:
    """In another place nothing that is stored would be found."""
    space = Keyspace("redsess", 4)
    numbers = {partition: number for number, partition in enumerate(space.partitions)}
    assert [numbers[space.of_user(str(number))] for number in range(8)] == [1, 1, 3, 1, 1, 3, 3, 1]
    assert [numbers[space.of_item(f"item-{number}")] for number in range(8)] == [1, 1, 1, 1, 3, 3, 0, 3]
    sids = [sid_of(f"{start}key") for start in ("00", "7b", "7w", "ma", "zz")]
    assert [numbers[space.of_sid(sid)] for sid in sids] == [0, 1, 1, 3, 1]
    edges = (0, 255, 256, 767, 768, 1023)
    assert [numbers[space.of_bucket(bucket)] for bucket in edges] == [0, 0, 1, 2, 3, 3]
