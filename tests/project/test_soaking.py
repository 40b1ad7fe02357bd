"""The soak runs as a command: a few events of each kind, and Ctrl-C."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.running import ROOT, run_python, wait_until

pytestmark = pytest.mark.slow

EVENTS = (
    *("deploy", "night", "kill-web-process", "kill-cleaner", "kill-server", "freeze-server"),
    *("end-user-on-a-page", "change-password", "block", "check"),
)


def arguments(*events: str) -> list[str]:
    only = [part for event in events for part in ("--only", event)]
    return ["-m", "tests.soak", "--minutes=0.2", "--visitors=40", "--rate=30", "--seed=1", *only]


def test_a_short_run_finds_nothing_wrong_and_leaves_nothing_behind(tmp_path) -> None:
    said = run_python(*arguments(*EVENTS), TMPDIR=str(tmp_path))
    lines = dict(line.rsplit(maxsplit=1) for line in said.splitlines() if line and line[0].isalpha() and " " in line)
    for name in EVENTS:
        assert lines[name] == "1"
    for fault in ("lost", "wrongly in", "wrongly out", "unexplained", "failed", "oracle"):
        assert lines[fault] == "0"
    assert int(lines["requests"]) > 300
    assert said.splitlines()[-1] == "passed"
    assert_nothing_left(tmp_path)


def test_ctrl_c_ends_it_with_a_report(tmp_path) -> None:
    said = tmp_path / "said"
    with said.open("wb") as file:
        soak = subprocess.Popen(
            [sys.executable, *arguments("freeze-web-process", "check")],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(tmp_path)},
            stdout=file,
            stderr=subprocess.STDOUT,
            # What a terminal sends, all processes of the group get.
            start_new_session=True,
        )
    wait_until(lambda: "…" in said.read_text() or soak.poll() is not None)
    os.killpg(soak.pid, signal.SIGINT)
    assert soak.wait(60) == 130, said.read_text()
    text = said.read_text()
    assert "Traceback" not in text
    assert text.splitlines()[-1] == "interrupted: nothing was wrong so far"
    said.unlink()
    assert_nothing_left(tmp_path)


def assert_nothing_left(folder: Path) -> None:
    assert [path.name for path in folder.iterdir() if not path.name.startswith("redsess-ports-")] == []
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(folder) not in running
