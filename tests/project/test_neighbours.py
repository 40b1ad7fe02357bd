"""``make test-neighbours`` with a made-up package, which has tests of its own."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.neighbours import __main__ as neighbours

pytestmark = pytest.mark.slow

SETTINGS = """
SECRET_KEY = "not secret"
DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions"]
MIDDLEWARE = ["django.contrib.sessions.middleware.SessionMiddleware"]
"""

TESTS = """
from django.conf import settings
from django.contrib.sessions.models import Session
from django.test import TestCase

class Tests(TestCase):
    def test_a_session_keeps_its_data(self):
        session = self.client.session
        session["basket"] = [7]
        session.save()
        self.assertEqual(self.client.session["basket"], [7])

    def test_there_is_a_row(self):
        self.client.session.save()
        self.assertEqual(Session.objects.count(), 1)

    def test_the_middleware_is_django_s(self):
        self.assertTrue(settings.MIDDLEWARE[0].startswith("django."))

    def test_of_what_is_broken(self):
        self.fail()
"""


# Without the other plugins of our environment, which take seconds to import.
PACKAGE = """
[made-up]
settings = "made_up_settings"
tests = ["tests"]
environment = { PYTEST_DISABLE_PLUGIN_AUTOLOAD = "1" }
options = ["-p", "pytest_django.plugin", "-p", "xdist.plugin", "-p", "django_redsess.pytest_plugin"]
"""

ROW, MIDDLEWARE = (f"tests/test_made_up.py::Tests::{name}" for name in ("test_there_is_a_row", "test_the_middleware"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the environment of the package, as the first of two runs would leave it there."""
    source = tmp_path / "made-up" / "source" / "made_up-1.5"
    (source / "tests").mkdir(parents=True)
    (source / "tests" / "test_made_up.py").write_text(TESTS)
    (source / "made_up_settings.py").write_text(SETTINGS)
    (tmp_path / "made-up" / "pytest.ini").write_text("[pytest]\n")
    # What is installed here is enough for it.
    (tmp_path / "made-up" / "environment").symlink_to(sys.prefix)
    return tmp_path


def run(folder: Path, package: str) -> tuple[int, Any]:
    (folder / "packages.toml").write_text(package)
    files = ["--packages", f"{folder}/packages.toml", "--results", f"{folder}/results.json", "--folder", str(folder)]
    status = neighbours.main(["--again", *files])
    return status, json.loads((folder / "results.json").read_text())["made-up"]


def test_tests_that_fail_with_ours_alone_are_reported_unless_they_are_explained(folder: Path, capsys: Any) -> None:
    status, result = run(folder, PACKAGE)
    # Of those that differ. The test that fails in each run is not among them.
    row, middleware = sorted(result["differences"], key=lambda each: each["test"], reverse=True)
    assert (row["test"], row["passes_with"], row["fails_with"]) == (ROW, ["theirs"], ["engine", "middleware"])
    assert middleware["test"].startswith(MIDDLEWARE)
    assert (middleware["passes_with"], middleware["fails_with"]) == (["theirs", "engine"], ["middleware"])
    assert (status, result["passed"], result["failed"], result["version"]) == (1, 1, 1, "1.5")
    assert f"{ROW}: passes with theirs, not with engine and middleware" in capsys.readouterr().out

    explained = f'{PACKAGE}explained = {{ "{ROW}" = "It counts rows", "{MIDDLEWARE}" = "It names it" }}\n'
    status, result = run(folder, explained)
    assert (status, sorted(each["reason"] for each in result["differences"])) == (0, ["It counts rows", "It names it"])


def test_what_could_not_be_run_does_not_work(folder: Path, capsys: Any) -> None:
    status, result = run(folder, PACKAGE.replace("made_up_settings", "no_settings"))
    assert (status, result["not_run"], "passed" in result) == (1, "pytest could not run them (theirs.log)", False)
    # All are left out.
    status, result = run(folder, f'{PACKAGE}left_out = {{ "tests/test_made_up.py::Tests" = "For a test" }}\n')
    assert (status, "none of them passes" in result["not_run"]) == (1, True)
    # What is known not to be there is missed by nobody, until it is there.
    not_run = '[made-up]\nnot_run = "it has no tests"\nmissing = "%s"\n'
    assert run(folder, not_run % "**/tests_*.py")[0] == 0
    assert run(folder, not_run % "**/test_*.py")[0] == 1
    assert "It has test_made_up.py now" in capsys.readouterr().out
