"""The limit in words."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.utils import translation

from django_redsess.session import user_limit
from tests.helpers.sign_ins import POLICIES, SetLimit

pytestmark = pytest.mark.unit

ALICE = User(pk=7, username="alice")


def test_each_limit_is_said_in_words_of_its_own(set_limit: SetLimit) -> None:
    said = set()
    for maximum in (1, 3):
        for policy in POLICIES:
            set_limit(maximum, policy)
            said.add(user_limit.describe(ALICE))
            assert f" {maximum} " in user_limit.describe(ALICE)
    # Of one session, the oldest is the one that was unused for longest.
    assert len(said) == 5


def test_the_limit_is_said_in_german(set_limit: SetLimit) -> None:
    set_limit(2, "refuse")
    with translation.override("de"):
        told = user_limit.describe(ALICE)
    assert told == "Höchstens 2 Sitzungen sind erlaubt. Eine weitere Anmeldung wird abgelehnt, bis eine Sitzung endet."
