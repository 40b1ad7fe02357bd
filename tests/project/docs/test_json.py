"""The guide to the JSON API: its commands print what it says, and its scripts work in a page."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.demo import running
from tests.project.docs.pages import DOCS, blocks, environment, typed

pytestmark = pytest.mark.slow

GUIDE = DOCS / "howto" / "json.rst"


def test_the_commands_of_the_guide_print_what_it_says(tmp_path: Path) -> None:
    if "REDSESS_SKIP_NOTHING" not in os.environ and not (shutil.which("curl") and shutil.which("jq")):
        pytest.skip("curl and jq are not installed")
    commands = typed(blocks(GUIDE))
    assert len(commands) > 20
    # In one shell, whose variables and functions last. A line stands between the outputs.
    script = "".join(f"{command}\necho; echo -----\n" for command, _ in commands)
    with running(tmp_path) as demo:
        script = script.replace("http://127.0.0.1:8000", demo.url)
        command = ["bash", "-euo", "pipefail", "-c", script]
        ran = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=60)
    printed = [part.split() for part in ran.stdout.split("-----\n")]
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert printed[:-1] == [said.split() for _, said in commands]
