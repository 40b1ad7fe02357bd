"""What stops a command: an outage, and Ctrl-C."""

import pytest
from django.core.management import CommandError, call_command

from django_redsess.management.terminal import STOPPED, command_errors
from tests.helpers.outages import caches


@pytest.mark.parametrize("command", ["online", "endsessions --all --noinput", "blockuser --list"])
def test_an_outage_is_one_line_with_the_server_and_the_setting_but_no_password(settings, command: str) -> None:
    settings.CACHES = caches("redis://:of-the-server@127.0.0.1:1/0")
    with pytest.raises(CommandError, match=r"127\.0\.0\.1:1.*LOCATION of CACHES.*Start the server") as raised:
        call_command(*command.split())
    assert "of-the-server" not in str(raised.value)
    assert str(raised.value).isprintable()


def test_ctrl_c_is_one_line_and_130() -> None:
    with pytest.raises(CommandError, match="Stopped") as raised, command_errors():
        raise KeyboardInterrupt
    assert raised.value.returncode == STOPPED
