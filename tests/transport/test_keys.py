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
    keyspace,
    new_key,
    sid_of,
)

pytestmark = pytest.mark.unit


def test_names_of_all_keys() -> None:
    partition = Partition("redsess")
    assert partition.login == "{redsess}:login"
    assert partition.expire == "{redsess}:expire"
    assert partition.recent == "{redsess}:recent"
    assert partition.guests == "{redsess}:guests"
    assert partition.online_user == "{redsess}:online:user"
    assert partition.online_user_of("7:ä") == "{redsess}:online:user:7:ä"
    assert partition.viewed_by("sid") == "{redsess}:viewed:sid"
    assert partition.ended_of("sid") == "{redsess}:ended:sid"
    assert partition.message_of("7:ä") == "{redsess}:message:7:ä"
    assert partition.addresses == "{redsess}:addresses"
    assert partition.guests_addresses == "{redsess}:addresses:guests"
    assert partition.viewed == "{redsess}:viewed"
    assert Keyspace("redsess", 4).agreement.meta == "{redsess}:meta"


def test_several_partitions_have_a_tag_each() -> None:
    assert [partition.login for partition in Keyspace("shop", 2).partitions] == ["{shop:0}:login", "{shop:2}:login"]


@pytest.mark.parametrize("count", [2, 4, 64, 1024])
def test_the_hash_slots_of_partitions_lie_in_equal_ranges(count: int) -> None:
    names = [partition.login for partition in Keyspace("redsess", count).partitions]
    slots = [key_slot(name.encode()) for name in names]
    assert [slot * count // 16384 for slot in slots] == list(range(count))


def test_prefix_is_read_when_used(settings) -> None:
    settings.REDSESS = {"PREFIX": "other"}
    assert keyspace().partitions == [Partition("other")]


def test_sid_has_a_fixed_form() -> None:
    assert sid_of("a" * 32) == "aaO6P19DuSYCaDwZruYq"


def test_sid_needs_no_escaping() -> None:
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


def test_a_new_key_has_djangos_form() -> None:
    key = new_key()
    assert len(key) == 32
    assert set(key) <= set(VALID_KEY_CHARS)


def test_a_new_key_is_in_the_bucket_that_is_asked_for() -> None:
    assert [bucket_of(new_key(bucket)) for bucket in range(BUCKETS)] == list(range(BUCKETS))


def test_new_keys_of_one_bucket_are_random_behind_it() -> None:
    keys = [new_key(7) for _ in range(3600)]
    assert len(set(keys)) == len(keys)
    assert {key[:2] for key in keys} == {"07"}
    for place in range(2, 32):
        found = Counter(key[place] for key in keys)
        assert len(found) == len(VALID_KEY_CHARS)
        assert max(found.values()) < 200


@pytest.mark.parametrize("count", [1, 2, 4, 64])
def test_sessions_spread_over_all_partitions(count: int) -> None:
    space = Keyspace("redsess", count)
    names = set(space.partitions)
    found = Counter(space.of_sid(sid_of(new_key())) for _ in range(200 * count))
    assert set(found) == names
    assert max(found.values()) < 300


@pytest.mark.parametrize("count", [1, 2, 64, 1024])
def test_a_session_of_a_users_bucket_is_in_the_users_partition(count: int) -> None:
    space = Keyspace("redsess", count)
    users = [f"user {number}" for number in range(200)]
    assert [space.of_sid(sid_of(new_key(bucket_of_user(user)))) for user in users] == list(map(space.of_user, users))


def test_a_partition_has_a_run_of_buckets() -> None:
    space = Keyspace("x", 4)
    assert [space.partitions.index(space.of_bucket(bucket)) for bucket in (0, 255, 256, 767, 768, 1023)] == [
        0, 0, 1, 2, 3, 3,
    ]  # fmt: skip


def test_where_a_user_an_item_and_a_session_are_never_changes() -> None:
    """In another place nothing that is stored would be found."""
    space = Keyspace("redsess", 4)
    partitions = space.partitions
    assert [partitions.index(space.of_user(str(number))) for number in range(8)] == [1, 1, 3, 1, 1, 3, 3, 1]
    assert [partitions.index(space.of_item(f"item-{number}")) for number in range(8)] == [1, 1, 1, 1, 3, 3, 0, 3]
    assert [partitions.index(space.of_sid(sid_of(f"{start}key"))) for start in ("00", "7b", "7w", "ma", "zz")] == [
        0,
        1,
        1,
        3,
        1,
    ]
