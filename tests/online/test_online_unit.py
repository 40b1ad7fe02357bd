"""What the public functions refuse, and what they are called."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from django_redsess import online
from django_redsess.transport.replicas import EndedList

pytestmark = pytest.mark.unit

TWINS = ("sessions", "of_user", "find", "get", "count", "census", "details", "end", "end_user", "end_all", "history")


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"offset": -1}, "offset must be 0 or more, not -1"),
        ({"order": "address"}, "order must be one of login_at, -login_at, seen_at, -seen_at; not 'address'"),
        ({"order": ""}, "order must be one of"),
        ({"order": "login_at", "guests": True}, "can be listed by seen_at only"),
        ({"order": "-login_at", "active_seconds": 60}, "can be listed by seen_at only"),
        ({"order": "login_at", "active_seconds": 0}, "can be listed by seen_at only"),
        ({"order": "-login_at", "active_seconds": 60, "user_ids": ["a"]}, "can be listed by seen_at only"),
        ({"user_ids": [str(number) for number in range(1001)]}, "At most 1000 users .* at once, not 1001"),
    ],
)
def test_a_list_that_is_not_possible_is_a_clear_error(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        online.sessions(**asked)


def test_more_than_a_thousand_users_can_be_neither_counted_nor_ended() -> None:
    users = [str(number) for number in range(1001)]
    with pytest.raises(ValueError, match="At most 1000 users can be asked for at once, not 1001"):
        online.count(user_ids=users)
    with pytest.raises(ValueError, match="At most 1000 users can be asked for at once, not 1001"):
        list(online.end_in_batches(user_ids=users))


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_names_and_texts_of_their_own(name: str) -> None:
    one, twin = getattr(online, name), getattr(online, f"a{name}")
    assert (one.__name__, one.__qualname__) == (name, name)
    assert (twin.__name__, twin.__qualname__) == (f"a{name}", f"a{name}")
    assert one.__doc__ == twin.__doc__ != ""
    assert inspect.signature(one) == inspect.signature(twin)
    assert "Steps" not in str(inspect.signature(one))
    assert inspect.iscoroutinefunction(twin)
    assert not inspect.iscoroutinefunction(one)


@pytest.mark.parametrize(
    ("name", "returned"),
    [("sessions", list[online.Session]), ("get", online.Session | None), ("count", int), ("end", EndedList)],
)
def test_signatures_tell_what_is_returned(name: str, returned: object) -> None:
    assert inspect.signature(getattr(online, name)).return_annotation == returned
    assert inspect.signature(getattr(online, f"a{name}")).return_annotation == returned
