from typing import Any

import pytest
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from django_redsess.transport import replicas
from django_redsess.transport.keys import keyspace
from django_redsess.transport.packing import pack_command, split_commands
from django_redsess.transport.replicas import Confirmation, EndedCount, EndedList, replica_status

pytestmark = pytest.mark.unit

ENDED = [1, b"1000", b"kicked", 1, b"", b"replaced", 2, b""]


@pytest.fixture(autouse=True)
def nothing_noted(monkeypatch) -> None:
    monkeypatch.setattr(replicas, "_short_of_replicas", set())


def after(confirmation: Confirmation, reply: Any) -> Any:
    return confirmation.follow_up(keyspace().partitions[0], [b"what came before", reply])


def test_the_least_counts_and_an_operation_waits_in_vain_only_once() -> None:
    confirmation = Confirmation(2, 300)
    assert (confirmation.confirmed_by, confirmation.is_short) == (None, False)
    for replies, least in (([3], 3), ([0, 2], 2), ([1], 1), ([2], 1), ([0, RedisConnectionError()], 0)):
        behind = after(confirmation, ENDED)
        assert (behind.seconds == 0.001) == confirmation.is_short
        behind.read(replies)
        assert confirmation.confirmed_by == least
    assert confirmation.is_short
    behind = after(confirmation, ENDED)
    assert (split_commands(behind.packed), behind.replies) == ([pack_command("WAIT", 2, 1)], 1)


def test_an_error_in_front_of_the_count_makes_it_worthless() -> None:
    confirmation = Confirmation(1, 300)
    behind = after(confirmation, [1, b"1000"])
    behind.read([ResponseError("OOM"), 1])
    assert confirmation.confirmed_by == 0


def test_results_are_a_list_and_an_integer() -> None:
    confirmation = Confirmation(1, 300)
    assert (EndedList(), EndedCount(3)) == ([], 3)
    assert f"{EndedCount(1_000):,}" == "1,000"
    for status in ({}, replica_status(None), replica_status(confirmation)):
        for result in (EndedList([], **status), EndedCount(3, **status)):
            assert (result.confirmed_by, result.may_return) == (None, False)
    confirmation.confirmed_by = 0
    for result in (EndedList([], **replica_status(confirmation)), EndedCount(3, **replica_status(confirmation))):
        assert (result.confirmed_by, result.may_return) == (0, True)
