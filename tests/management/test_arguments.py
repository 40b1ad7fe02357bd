"""The arguments of the commands: those in their help work, and what is wrong is told before the server is asked."""

import shlex

import pytest
from django.core.management import CommandError, call_command, load_command_class

pytestmark = pytest.mark.unit

WRONG = [
    *("cleansessions --batch-size 0", "cleansessions --batch-size 1001", "cleansessions --max-sessions 0"),
    *(
        "cleansessions --max-guests -1",
        "cleansessions --max-guests 0 --only expired",
        "cleansessions --max-guests 0 --forever",
    ),
    *("cleansessions --only nonsense", "cleansessions --heartbeat /nowhere/heart"),
    *("cleansessions --check --forever", "cleansessions --dry-run --forever", "cleansessions --check --dry-run"),
    "cleansessions --check --repair",
    *(f"cleansessions --max-sessions 1{'0' * 25}", f"cleansessions --max-guests 1{'0' * 25}"),
    *(f"cleanviewed --max-items 1{'0' * 25}", f"online --offset 1{'0' * 25}", f"online --limit 1{'0' * 25}"),
    *("cleanviewed --max-items 0", "cleanviewed --dry-run --forever", "cleanviewed --batch-size 0"),
    *("online --limit 0", "online --offset -1", "online --order size", "online --guests --order created_at"),
    *("online --active 5m --order=-created_at", "online --active 5x", "online --active 5", "online --active 0m"),
    *("online --active ''", "online --active '5m\n'", f"online --active {'9' * 400}d"),
    *("online --guests --staff", "online --guests all"),
    *("online --id 00aaaaaaaaaaaaaaaaaa --active 5m", "online --id short", "online --id ''"),
    *("online --id 00aaaaaaaaaaaaaaaaaa --browser Edge", "online --id 00aaaaaaaaaaaaaaaaaa --system macOS"),
    *("online --user nobody --user none", "online --user '\x1b[31m'", "online --network 198"),
    *("online --browser ' '", "online --system ''", "online --search ''", "online --json --csv"),
    *("online --network @/nowhere/list", "endsessions --network @/nowhere/list", "endsessions --network nonsense"),
    *("endsessions --network 198.51.100.7 --all", "endsessions --browser ''"),
]


@pytest.mark.parametrize("name", ["online", "endsessions", "blockuser", "supportgroup", "cleansessions", "cleanviewed"])
def test_each_example_is_a_line_that_can_be_copied(name: str) -> None:
    parser = load_command_class("django_redsess", name).create_parser("manage.py", name)
    lines = parser.format_help().partition("\nExamples:\n")[2].splitlines()
    assert len(lines) >= 3
    assert "\nExit status: 0 " in parser.format_help()
    for line in lines:
        program, subcommand, *arguments = shlex.split(line.partition(" | ")[0], comments=True)
        assert (program, subcommand) == ("manage.py", name)
        # An order that begins with a minus is joined to its option before the parser sees it.
        parser.parse_args([argument for argument in arguments if argument not in ("--order", "-last_seen_at")])


@pytest.mark.django_db
def test_a_wrong_argument_is_one_line_that_names_it() -> None:
    for line in WRONG:
        command, *arguments = shlex.split(line)
        with pytest.raises(CommandError) as raised:
            call_command(command, *arguments)
        error = str(raised.value)
        assert error.isprintable(), line
        assert all(argument.partition("=")[0] in error for argument in arguments if argument[0:2] == "--"), line


@pytest.mark.parametrize(
    "command", ["online", "endsessions --all --noinput", "blockuser --list", "cleansessions", "cleanviewed"]
)
def test_settings_without_a_server_are_an_error_of_the_command(settings, command: str) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    with pytest.raises(CommandError, match="sessions"):
        call_command(*command.split())
