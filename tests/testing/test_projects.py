"""Real projects whose tests run in several processes, in each way that the guide has."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from testproject.servers import Server

pytestmark = pytest.mark.slow

SETTINGS = """
from testproject.settings import *

CACHES["sessions"]["LOCATION"] = {url!r}
DATABASES = {{"default": {{"ENGINE": "django.db.backends.sqlite3"}}}}
ROOT_URLCONF = "testproject.urls"
SECRET_KEY = "of tests"
REDSESS = {{}}
ALLOWED_HOSTS = ["*"]
TEST_RUNNER = "runner.Runner"
"""

RUNNER = """
from django.test.runner import DiscoverRunner
from django_redsess.testing import SessionStoreRunnerMixin

class Runner(SessionStoreRunnerMixin, DiscoverRunner):
    pass
"""

SPAWNING = """
import multiprocessing

multiprocessing.set_start_method("spawn", force=True)
"""

MIXIN = """
from django_redsess.testing import SessionStoreMixin

for name in ("OneTest", "OtherTest", "OfClassTest", "LiveTest"):
    globals()[name] = type(name, (SessionStoreMixin, globals()[name]), {"__module__": __name__})
TEST_RUNNER = "django.test.runner.DiscoverRunner"
"""


@pytest.fixture
def project(tmp_path: Path, server: Server) -> Path:
    (tmp_path / "own_settings.py").write_text(SETTINGS.format(url=server.url))
    (tmp_path / "runner.py").write_text(RUNNER)
    (tmp_path / "test_cases.py").write_text((Path(__file__).parent / "cases.py").read_text())
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    meeting = project / "meeting"
    meeting.mkdir()
    root = Path(__file__).parents[2]
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"DJANGO_SETTINGS_MODULE": "own_settings", "MEETING": str(meeting), "PYTHONPATH": f"{project}:{root}"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("way", ["fork", "spawn", "mixin"])
def test_parallel_test_cases_share_nothing_and_leave_nothing(project: Path, server: Server, way: str) -> None:
    if way == "spawn":
        with (project / "own_settings.py").open("a") as file:
            file.write(SPAWNING)
    if way == "mixin":
        (project / "runner.py").write_text("from django.test.runner import DiscoverRunner as Runner")
        with (project / "test_cases.py").open("a") as file:
            file.write(MIXIN)
    ran = run(project, "django", "test", "--parallel", "2")
    assert re.search(r"Ran 6 tests.*\n\nOK \(expected failures=1\)", ran.stderr), ran.stderr
    assert server.client.keys() == []


@pytest.mark.parametrize(
    ("workers", "tests", "passed"),
    [("2", "another_worker", "2 passed in"), ("0", "not another_worker", "5 passed, 2 deselected, 1 xfailed in")],
)
def test_the_plugin_keeps_tests_apart_and_leaves_nothing(project, server, workers, tests, passed) -> None:
    ran = run(project, "pytest", "-n", workers, "-k", tests, "-p", "no:cacheprovider")
    assert passed in ran.stdout, ran.stdout + ran.stderr
    assert server.client.keys() == []
