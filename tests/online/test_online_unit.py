"""What the public functions refuse, and what they are called."""

import inspect
from typing import Any

import pytest

from django_redsess import accounts, online, viewed
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import SessionFilter

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"offset": -1}, "offset must be 0 or more, not -1"),
        (
            {"order": "address"},
            "order must be one of created_at, -created_at, last_seen_at, -last_seen_at; not 'address'",
        ),
        ({"order": ""}, "order must be one of"),
        ({"order": "created_at", "guests": True}, "can be listed by last_seen_at only"),
        ({"order": "-created_at", "active_seconds": 60}, "can be listed by last_seen_at only"),
        ({"order": "created_at", "active_seconds": 0}, "can be listed by last_seen_at only"),
        ({"order": "-created_at", "active_seconds": 60, "user_ids": ["a"]}, "can be listed by last_seen_at only"),
    ],
)
def test_a_list_that_is_not_possible_is_a_clear_error(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        online.sessions(**asked)


def test_more_than_a_thousand_users_can_be_neither_listed_nor_counted_nor_ended() -> None:
    users = [str(number) for number in range(1001)]
    for ask in (online.sessions, online.count, lambda **asked: list(online.end_in_batches(**asked))):
        with pytest.raises(ValueError, match="At most 1000 users can be asked for at once, not 1001"):
            ask(user_ids=users)


@pytest.mark.parametrize("seconds", [0, 300])
def test_active_is_five_minutes_and_no_other_time(seconds: int) -> None:
    with pytest.raises(ValueError, match="can't be given together"):
        online.count(active=True, active_seconds=seconds)


def test_those_seen_lately_are_ended_as_of_a_time_only() -> None:
    with pytest.raises(ValueError, match="give latest"):
        BulkEnding(SessionFilter(active_seconds=60))


@pytest.mark.parametrize("module", [accounts, online, viewed], ids=lambda module: module.__name__)
def test_a_function_and_its_async_variant_take_and_return_the_same(module) -> None:
    names = [name for name in module.__all__ if f"a{name}" in module.__all__]
    assert names
    for name in names:
        function, variant = getattr(module, name), getattr(module, f"a{name}")
        assert inspect.signature(function) == inspect.signature(variant)
        assert inspect.iscoroutinefunction(variant)
        assert not inspect.iscoroutinefunction(function)
