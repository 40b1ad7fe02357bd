"""What ``online`` refuses before it asks the server."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

pytestmark = pytest.mark.unit

WRONG = {
    "none at most": (["--limit", "0"], "--limit must be 1 or more, not 0."),
    "less than none": (["--offset", "-1"], "--offset must be 0 or more, not -1."),
    "an unknown order": (["--order", "size"], "--order must be login_at, -login_at, seen_at or -seen_at, not size."),
    "everyone by sign-in": (
        ["--everyone", "--order", "login_at"],
        "--order must be seen_at or -seen_at with --everyone, not login_at.",
    ),
    "the active by sign-in": (
        ["--active", "5m", "--order=-login_at"],
        "--order must be seen_at or -seen_at with --active, not -login_at.",
    ),
    "a time in no unit": (["--active", "5x"], "--active must be a time such as 90s, 5m, 1h or 1d, not 5x."),
    "a time without a unit": (["--active", "5"], "--active must be a time such as 90s, 5m, 1h or 1d, not 5."),
    "no time": (["--active", "0m"], "--active must be a time such as 90s, 5m, 1h or 1d, not 0m."),
    "an empty time": (["--active", ""], "--active must be a time such as 90s, 5m, 1h or 1d, not ."),
    "a time that ends a line": (
        ["--active", "5m\n"],
        r"--active must be a time such as 90s, 5m, 1h or 1d, not '5m\n'.",
    ),
    "an endless time": (["--active", "9" * 400 + "d"], "--active must be a time such as"),
    "guests who are users": (
        ["--everyone", "--staff"],
        "--everyone and --staff can't be given together: guests are not users.",
    ),
    "one session of many": (["--sid", "x" * 20, "--active", "5m"], "--sid and --active can't be given together."),
    "no sid": (["--sid", "short"], "--sid: short is not a sid. A sid has 20 characters."),
    "an empty sid": (["--sid", ""], "--sid:  is not a sid. A sid has 20 characters."),
    "unknown users": (["--user", "nobody", "--user", "none"], "--user: there is no user nobody or none."),
    "a user who writes in red": (["--user", "\x1b[31m"], r"--user: there is no user '\x1b[31m'."),
}


def run(*arguments: str, out: StringIO | None = None, **options: Any) -> list[str]:
    """Return the lines that the command prints."""
    out = out or StringIO()
    call_command("online", *arguments, stdout=out, **options)
    return out.getvalue().splitlines()


@pytest.mark.django_db
@pytest.mark.parametrize(("arguments", "error"), WRONG.values(), ids=WRONG)
def test_a_wrong_argument_is_one_clear_line(arguments: list[str], error: str) -> None:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    assert str(raised.value).startswith(error)
    assert str(raised.value).isprintable()


def test_settings_without_a_server_are_one_clear_line(settings) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
    with pytest.raises(CommandError, match="sessions"):
        run()
