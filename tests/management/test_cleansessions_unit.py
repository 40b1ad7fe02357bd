"""Arguments that ``cleansessions`` refuses."""

from __future__ import annotations

import re

import pytest
from django.core.management import CommandError, call_command

from tests.helpers.arguments import wrong

pytestmark = pytest.mark.unit


@wrong
def test_a_wrong_argument_is_an_error_of_the_command(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError, match=re.escape(error)) as raised:
        call_command(*arguments)
    assert "\n" not in str(raised.value)


def test_check_and_repair_are_not_given_together() -> None:
    with pytest.raises(CommandError, match="--check and --repair can't be given together"):
        call_command("cleansessions", check=True, repair=True)
