"""The help of the commands."""

from __future__ import annotations

import shlex

import pytest
from django.core.management import load_command_class

pytestmark = pytest.mark.unit

COMMANDS = ("online", "endsessions", "cleansessions", "cleanviewed")


@pytest.mark.parametrize("name", COMMANDS)
def test_each_example_is_a_line_that_can_be_copied(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    command = load_command_class("django_redsess", name)
    parser = command.create_parser("manage.py", name)
    printed = parser.format_help()
    _, _, examples = printed.partition("\nExamples:\n")
    lines = examples.splitlines()
    assert len(lines) >= 3
    for line in lines:
        program, subcommand, *arguments = shlex.split(line.partition(" | ")[0], comments=True)
        assert (program, subcommand) == ("manage.py", name)
        # An order that begins with a minus is joined to its option before the parser sees it.
        parser.parse_args([argument for argument in arguments if argument not in ("--order", "-seen_at")])
    assert all(len(line) <= 80 for line in printed.partition("\nExamples:")[0].splitlines())
    # Django's own options come last.
    assert printed.index("--json") < printed.index("--verbosity")
