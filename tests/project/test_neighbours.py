"""``make test-neighbours`` with a made-up package, which has tests of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.neighbours import __main__ as neighbours
from tests.neighbours.environments import Environment, check_out

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
    assert "has test_made_up.py now" in capsys.readouterr().out


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository with a commit that has the tags 1.5 and v1.6, and a newer commit."""
    git(tmp_path, "init", "--quiet")
    for number in ("1", "2"):
        (tmp_path / "module.py").write_text(f"NUMBER = {number}\n")
        git(tmp_path, "add", ".")
        git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "--quiet", "-m", number)
        if number == "1":
            git(tmp_path, "tag", "1.5")
            git(tmp_path, "tag", "v1.6")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("tag", ["1.5", "v1.6"])
def test_a_repository_is_at_the_tag_of_the_newest_release(clone: Path, tag: str) -> None:
    assert check_out(clone, tag.removeprefix("v")) == tag
    assert (clone / "module.py").read_text() == "NUMBER = 1\n"


def test_a_repository_without_that_tag_is_at_its_newest_commit(clone: Path) -> None:
    # A tag of another release, that begins alike, is none.
    newest = git(clone, "rev-parse", "HEAD")
    assert (check_out(clone, "1"), check_out(clone, "1.5.1")) == (newest, newest)
    assert (clone / "module.py").read_text() == "NUMBER = 2\n"


def test_the_version_is_that_which_is_installed(tmp_path: Path) -> None:
    # A repository without the tag of the newest release may have another one.
    environment = Environment(tmp_path / "made-up", seconds=0)
    assert environment.version == ""
    (environment.folder / "source" / "made_up-1.5").mkdir(parents=True)
    assert environment.version == "1.5"
    installed = environment.folder / "environment/lib/python3.13/site-packages/made_up-1.6.dev3.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: made-up\nVersion: 1.6.dev3\n")
    assert environment.version == "1.6.dev3"


def test_the_tests_of_a_repository_are_run_and_the_result_says_which(folder: Path, capsys: Any) -> None:
    source = folder / "made-up" / "source" / "made_up-1.5"
    repository = folder / "made-up" / "repository" / "v1.5"
    repository.mkdir(parents=True)
    for name in ("tests", "made_up_settings.py"):
        (source / name).rename(repository / name)
    package = PACKAGE.replace("[made-up]", '[made-up]\nrepository = "https://example.com/made-up"\nmissing = "tests"')
    _, result = run(folder, package)
    assert (result["passed"], result["repository"], result["revision"]) == (1, "https://example.com/made-up", "v1.5")
    # A source distribution with tests is preferred.
    assert "has tests now" not in capsys.readouterr().out
    (source / "tests").mkdir()
    run(folder, package)
    assert "has tests now" in capsys.readouterr().out
