"""A function says how many sessions each user may have; what makes no sense is an error that names the setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.behind import have_agreed, stored
from tests.helpers.sign_ins import SetLimit, sign_in, sign_in_before

pytestmark = pytest.mark.usefixtures("partitions", "users_in_no_table")


@pytest.fixture
def guest(new_session: Callable[..., SessionStore]) -> SessionStore:
    """A guest with a basket."""
    return new_session(basket="lamp")


def by_user(user: User) -> int | None:
    return {7: 1, 8: 2}.get(user.pk)


def fails(user: User) -> int:
    raise LookupError("no such plan")


def nothing(user: User) -> int:
    return 0


def negative(user: User) -> int:
    return -1


def true(user: User) -> int:
    return True


def text(user: User) -> Any:
    return "3"


def fraction(user: User) -> Any:
    return 2.5


def test_a_function_says_for_each_user_how_many(redis, set_limit: SetLimit) -> None:
    set_limit(f"{__name__}.by_user")
    for user_id in ("7", "8", "9"):
        sign_in_before(redis, user_id, 400, 300, 200, 100)
    assert [online.count(user_ids=[user_id]) for user_id in ("7", "8", "9")] == [1, 2, 4]


WRONG: list[Any] = [f"{__name__}.{name}" for name in ("fails", "nothing", "negative", "true", "text", "fraction")]
WRONG += [f"{__name__}.missing", "no.such.function", "function", "", 0, -1, True, 2.5, [3]]


@pytest.mark.parametrize("maximum", WRONG)
def test_a_number_that_is_none_is_an_error_that_names_the_setting(
    redis, set_limit: SetLimit, guest: SessionStore, maximum: Any
) -> None:
    set_limit(maximum)
    have_agreed()
    before = redis.dbsize()
    with pytest.raises(ImproperlyConfigured, match=r"REDSESS\['MAX_SESSIONS_PER_USER'\]"):
        sign_in("7", guest)
    assert redis.dbsize() == before
    assert (online.count(), stored(redis)) == (0, 1)


@pytest.mark.parametrize("maximum", [1, f"{__name__}.by_user"])
def test_an_unknown_policy_is_an_error_that_names_the_setting(
    redis, set_limit: SetLimit, guest: SessionStore, maximum: Any
) -> None:
    set_limit(maximum, "end_newest")
    with pytest.raises(ImproperlyConfigured, match=r"REDSESS\['SESSION_LIMIT_POLICY'\]"):
        sign_in("7", guest)
    assert (online.count(), stored(redis)) == (0, 1)
