"""Sections of the benchmark, measured with few sessions, and the files that it writes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import memory
from benchmarks.engines import BASE, OURS
from testproject.servers import available
from tests.helpers.markup import lines_of

ROOT = Path(__file__).parents[3]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    mine = {name: value for name, value in os.environ.items() if name not in ("QUICK", "FULL")}
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        env={**mine, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.slow
def test_viewed_items_and_a_user_take_bytes() -> None:
    [(kind, binary), *_] = available().items()
    # Of a size that is told, and of several that are not.
    cases = [
        memory.Case(OURS, "guest", at=256),
        memory.Case(OURS, "guest"),
        *(memory.Case(OURS, "signed in", viewed) for viewed in (0, 5, 25)),
    ]
    entries = list(memory.measured({kind: binary}, sessions=150, cases=cases))
    assert [(entry["server"], entry["kind"], entry["viewed"]) for entry in entries] == [
        (kind, "guest", 0),
        (kind, "guest", 0),
        *((kind, "signed in", viewed) for viewed in (0, 5, 25)),
    ]
    at_256, guest, without, with_5, with_25 = (entry["bytes"] for entry in entries)
    assert 100 < guest < without < with_5 < with_25
    # So few share what is there once.
    assert guest / 2 < at_256 < guest * 2


@pytest.mark.slow
def test_one_section_alone_writes_three_files_where_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "results"
    kind = next(iter(available()))
    done = run("--quick", "--only", "bytes", "--server", kind, "--output", str(folder))
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0)
    assert done.stdout.endswith(f"Written: results.json, results.md and results.svg in {folder}\n")
    assert sorted(file.name for file in folder.iterdir()) == ["results.json", "results.md", "results.svg"]
    told = json.loads((folder / "results.json").read_text())
    assert {(entry["engine"], entry["server"]) for entry in told["bytes"]} == {(OURS, kind), (BASE, kind)}
    assert told["operations"] == []
    how = told["options"]["bytes"]
    assert (list(told["options"]), how["how"], how["rounds"]) == (["bytes"], "quick", None)
    text = (folder / "results.md").read_text()
    assert text in done.stdout
    assert len(lines_of(text, OURS)) == 1
    ElementTree.fromstring((folder / "results.svg").read_text())


@pytest.mark.slow
def test_a_section_that_fails_is_reported_and_the_others_are_kept(tmp_path: Path) -> None:
    """The server here can't have as many databases as one section wants."""
    binary = next(iter(available().values()))
    poor = tmp_path / "poor-server"
    poor.write_text(f'#!/bin/sh\ncase "$*" in *--databases*) exit 1;; esac\nexec {binary} "$@"\n')
    poor.chmod(0o755)
    where = {"REDIS_SERVER": str(poor), "TMPDIR": str(tmp_path)}
    done = run("--only", "bytes", "views", "--server", "redis", "--rounds", "1", QUICK="1", **where)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"bytes failed: RuntimeError: {poor} did not start"
    folder = Path(done.stdout.rpartition(" in ")[2].strip())
    assert folder.parent == tmp_path  # Not where the results of a whole run are.
    told = json.loads((folder / "results.json").read_text())
    assert (list(told["failed"]), told["bytes"]) == (["bytes"], [])
    how = told["options"]["views"]
    assert (how["how"], how["rounds"]) == ("quick", 1)
    assert {run["way"] for run in told["views"]} >= {"listing", "engine, defaults"}
    assert "**bytes failed**: RuntimeError" in (folder / "results.md").read_text()
