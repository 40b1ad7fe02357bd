"""Plans on paper, measured with few sessions."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.planning import touch_share

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "scale.rst"


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.capacity", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def heads(text: str) -> list[list[str]]:
    """Return the cells of each table's head: the line between two equal rules."""
    lines = text.splitlines()
    around = zip(lines, lines[1:], lines[2:], strict=False)
    # A title is between rules of one piece.
    found = [(rule, head) for rule, head, below in around if rule == below and head.strip() and "= =" in rule]
    return [[head[cell.start() : cell.end()].strip() for cell in re.finditer("=+", rule)] for rule, head in found]


def test_a_plan_is_made_from_what_is_measured(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    printed = run("--quick", "--json", str(file))
    assert run("--figures", str(file)) == printed
    figures = json.loads(file.read_text())
    for partitions, of in figures["requests"].items():
        # A process that was held up asks for the time once more.
        assert [round(of[name]["round_trips"]) for name in ("load", "change")] == [1, 2]
        # Only the first load in an interval is written.
        assert of["load"]["replicated"] > of["reload"]["replicated"] == 0
        # Lists ask every partition.
        assert min(of["page"]["commands"], of["count"]["commands"]) >= int(partitions)
    assert figures["touched"] == pytest.approx(touch_share(10), abs=0.15)
    assert [(move["how"], move["sessions"]) for move in figures["moves"]] == [("classic", 1000), ("atomic", 1000)]
    assert min(move["seconds"] for move in figures["moves"]) > 0
    assert figures["fork"]["saves"] > 0
    assert figures["resync"]["bytes_per_session"] > 100
    assert len(heads(printed)) == 9
    assert heads(printed) == heads(PAGE.read_text())
