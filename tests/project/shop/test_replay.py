"""The replay, as far as it goes through a shop."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

HEADER = "user_id,event,timestamp\n"


def replay(file: Path, *options: str) -> None:
    call_command("replay", str(file), *options)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://127.0.0.1:99999", "no address"])
def test_command_says_how_to_start_a_shop_that_does_not_answer(tmp_path: Path, url: str) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(HEADER + "7,kite,2019-11-01\n")
    with pytest.raises(CommandError, match=f"No shop at {url}.* Start it with `make demo`"):
        replay(file, "--url", url)
