"""A function says how many sessions each user may have; what makes no sense is an error that names the setting."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured

from django_redsess import online
from tests.helpers.behind import have_agreed, stored
from tests.helpers.sign_ins import SetLimit, sign_in, sign_in_before

pytestmark = pytest.mark.usefixtures("partitions", "users_in_no_table")


def by_user(user: User) -> int | None:
    return {7: 1, 8: 2}.get(user.pk)


def test_a_function_says_for_each_user_how_many(redis, set_limit: SetLimit) -> None:
    set_limit(f"{__name__}.by_user")
    for user_id in ("7", "8", "9"):
        sign_in_before(redis, user_id, 400, 300, 200, 100)
    assert [online.count(user_ids=[user_id]) for user_id in ("7", "8", "9")] == [1, 2, 4]


def answer(user: User) -> Any:
    """What the function of a site returns: the tests put something wrong here."""


WRONG: list[Any] = [f"{__name__}.missing", "no.such.function", "function", "", 0, -1, True, 2.5, [3]]
WRONG_ANSWERS: list[Any] = [LookupError("no such plan"), 0, -1, True, "3", 2.5]
WRONG += [f"{__name__}.missing", "no.such.function", "function", "", 0, -1, True, 2.5, [3]]


@pytest.mark.parametrize(
    ("maximum", "answered", "policy"),
    [
        *((maximum, None, "end_oldest") for maximum in WRONG),
        *((f"{__name__}.answer", answered, "end_oldest") for answered in WRONG_ANSWERS),
        (1, None, "end_newest"),
        (f"{__name__}.by_user", None, "end_newest"),
    ],
)
def test_what_makes_no_sense_is_an_error_that_names_the_setting(
    redis, set_limit: SetLimit, new_session, monkeypatch, maximum: Any, answered: Any, policy: str
) -> None:
    def answer_so(user: User) -> Any:
        if isinstance(answered, Exception):
            raise answered
        return answered

    monkeypatch.setattr(f"{__name__}.answer", answer_so)
    guest = new_session(basket="lamp")
    set_limit(maximum, policy)
    have_agreed()
    before = redis.dbsize()
    setting = "SESSION_LIMIT_POLICY" if policy == "end_newest" else "MAX_SESSIONS_PER_USER"
    with pytest.raises(ImproperlyConfigured, match=rf"REDSESS\['{setting}'\]"):
        sign_in("7", guest)
    assert redis.dbsize() == before
    assert (online.count(), stored(redis)) == (0, 1)
