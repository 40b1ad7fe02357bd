"""The limit in words."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from django_redsess.session import user_limit
from tests.helpers.sign_ins import SetLimit

pytestmark = pytest.mark.unit

ALICE = User(pk=7, username="alice")

ENDS_FIRST = "At most 3 sessions are allowed. Another sign-in ends the oldest one."


@pytest.mark.parametrize(
    ("maximum", "policy", "text"),
    [
        (1, "end_oldest", "At most 1 session is allowed. Another sign-in ends it."),
        (1, "end_least_recent", "At most 1 session is allowed. Another sign-in ends it."),
        (1, "refuse", "At most 1 session is allowed. Another sign-in is refused until a session ends."),
        (3, "end_oldest", ENDS_FIRST),
        (
            3,
            "end_least_recent",
            "At most 3 sessions are allowed. Another sign-in ends the one that was unused for longest.",
        ),
        (3, "refuse", "At most 3 sessions are allowed. Another sign-in is refused until a session ends."),
    ],
)
def test_the_limit_is_said_in_words(set_limit: SetLimit, maximum: int, policy: str, text: str) -> None:
    set_limit(maximum, policy)
    assert user_limit.describe(ALICE) == text


def test_the_limit_is_said_in_german(set_limit: SetLimit) -> None:
    set_limit(2, "refuse")
    with translation.override("de"):
        told = user_limit.describe(ALICE)
    assert told == "Höchstens 2 Sitzungen sind erlaubt. Eine weitere Anmeldung wird abgelehnt, bis eine Sitzung endet."
