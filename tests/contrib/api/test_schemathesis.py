"""The running demo answers as its OpenAPI file says, whatever it is asked: schemathesis makes up the requests."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testproject.people import PASSWORD
from tests.helpers.demo import ROOT, Demo, running

pytestmark = pytest.mark.slow

SECONDS = 8
"""How long each visitor asks in each of the two ways."""


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running(tmp_path_factory.mktemp("demo")) as running_demo:
        yield running_demo


@pytest.mark.parametrize("visitor", ["admin admin", f"grace {PASSWORD}", ""], ids=["administrator", "user", "nobody"])
def test_the_api_answers_as_its_file_says(demo: Demo, visitor: str, tmp_path: Path) -> None:
    def asked(phases: str) -> str:
        command = [
            *(str(Path(sys.executable).with_name("schemathesis")), "run", f"{demo.url}/api/v1/openapi.json"),
            *("--phases", phases, "--max-time", str(SECONDS), "--no-color", "--continue-on-failure"),
            # No schema says what is a cursor, a network, or a time to come; and the list of a user whose sessions have
            # all been ended is still a list.
            *("--exclude-checks", "positive_data_acceptance,use_after_free"),
        ]
        env = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.helpers.schemathesis_visitor", "PYTHONPATH": str(ROOT)}
        ran = subprocess.run(
            command, cwd=tmp_path, env={**env, "VISITOR": visitor}, capture_output=True, text=True, timeout=120
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    asked("examples,coverage,fuzzing")
    # Links lead from lists to single sessions and users.
    [followed] = re.findall(r"API Links: +(\d+) covered", asked("stateful"))
    assert bool(int(followed)) == bool(visitor)
