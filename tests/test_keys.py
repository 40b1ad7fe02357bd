from collections import Counter

import pytest
from redis.crc import key_slot

from django_redsess.keys import Keyspace, Partition, is_sid, keyspace, sid_of

pytestmark = pytest.mark.no_server


def test_names_of_all_keys() -> None:
    partition = Partition("redsess")
    assert partition.login == "{redsess}:login"
    assert partition.expire == "{redsess}:expire"
    assert partition.recent == "{redsess}:recent"
    assert partition.online_seen == "{redsess}:online:seen"
    assert partition.online_user == "{redsess}:online:user"
    assert partition.online_user_of("7:ä") == "{redsess}:online:user:7:ä"
    assert partition.viewed_by("sid") == "{redsess}:viewed:sid"
    assert partition.ended_of("sid") == "{redsess}:ended:sid"
    assert partition.viewed == "{redsess}:viewed"
    assert Keyspace("redsess", 4).meta == "{redsess}:meta"


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
    assert sid_of("a" * 32) == "O6P19DuSYCaDwZruYqID"


def test_sid_needs_no_escaping() -> None:
    assert [sid for number in range(200) if not is_sid(sid := sid_of(f"key{number}"))] == []


@pytest.mark.parametrize("text", ["", "a" * 19, "a" * 21, "-" * 20, "a b" * 7, "ä" * 20, "a" * 19 + "\n"])
def test_what_is_no_sid(text: str) -> None:
    assert not is_sid(text)


@pytest.mark.parametrize("count", [1, 2, 4, 64])
def test_sessions_spread_over_all_partitions(count: int) -> None:
    space = Keyspace("redsess", count)
    names = set(space.partitions)
    found = Counter(space.of_sid(sid_of(str(number))) for number in range(200 * count))
    assert set(found) == names
    assert max(found.values()) < 300


def test_twice_as_many_partitions_split_each_in_two() -> None:
    for number in range(100):
        sid = sid_of(str(number))
        in_two, in_four = (space.partitions.index(space.of_sid(sid)) for space in (Keyspace("x", 2), Keyspace("x", 4)))
        assert in_four // 2 == in_two


def test_where_a_user_an_item_and_a_session_are_never_changes() -> None:
    """In another place nothing that is stored would be found."""
    space = Keyspace("redsess", 4)
    partitions = space.partitions
    assert [partitions.index(space.of_user(str(number))) for number in range(8)] == [1, 1, 3, 1, 1, 3, 3, 1]
    assert [partitions.index(space.of_item(f"item-{number}")) for number in range(8)] == [1, 1, 1, 1, 3, 3, 0, 3]
    assert [partitions.index(space.of_sid(sid_of(f"key{number}"))) for number in range(8)] == [2, 2, 2, 3, 2, 0, 2, 0]
