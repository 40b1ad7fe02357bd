"""The workflows of GitHub: what they call exists, and each job may do no more than it needs."""

import re
import tomllib
from typing import Any

import pytest
import yaml

from tests.project.docs.pages import ROOT

pytestmark = pytest.mark.unit

WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github" / "workflows").glob("*.yml")}

RELEASE = WORKFLOWS["release"]["jobs"]


def steps(jobs: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in jobs.values() for step in job["steps"]]


def made(name: str) -> set[str]:
    """Return the targets of the Makefile that a workflow makes."""
    commands = "\n".join(step.get("run", "") for step in steps(WORKFLOWS[name]["jobs"]))
    return set(re.findall(r"^make ([\w-]+)", commands, re.MULTILINE))


def test_workflows_make_targets_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (made("release"), made("ci")) == ({"dist"}, {"audit"})
    assert made("release") | made("ci") | {"release", "build-requirements"} <= targets


def test_jobs_run_all_stages_once() -> None:
    found = re.findall(r"^(?:BESIDE|TESTS)=\((.*)\)$", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    jobs = WORKFLOWS["ci"]["jobs"]["everything"]["strategy"]["matrix"]["stages"]
    assert sorted(" ".join(jobs).split()) == sorted(" ".join(found).split())


def test_each_python_with_a_classifier_must_pass() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    claimed = re.findall(r"Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE)
    job = WORKFLOWS["ci"]["jobs"]["everything"]
    assert job["strategy"]["matrix"]["python"] == claimed
    assert "continue-on-error" not in str(job)


def test_a_release_is_built_twice_before_anything_is_uploaded() -> None:
    order = {name: job.get("needs") for name, job in RELEASE.items()}
    assert order == {"build": None, "rebuild": "build", "attest": "rebuild", "upload": "attest", "page": "upload"}
    machines = {RELEASE[name]["runs-on"] for name in ("build", "rebuild")}
    assert len(machines) == 2
    # YAML 1.1 reads the key `on` as true.
    assert WORKFLOWS["release"][True] == {"push": {"tags": ["[0-9]*"]}}


def test_each_job_has_the_least_permissions() -> None:
    assert WORKFLOWS["release"]["permissions"] == {}
    assert {name: job["permissions"] for name, job in RELEASE.items()} == {
        "build": {"contents": "read"},
        "rebuild": {"contents": "read"},
        "attest": {"attestations": "write", "id-token": "write"},
        "upload": {"id-token": "write"},
        "page": {"contents": "write"},
    }
    # The code of the project and of its tools runs in no job that may write.
    assert {name for name, job in RELEASE.items() if "make" in str(job["steps"])} == {"build", "rebuild"}


def test_only_sdist_and_wheel_are_uploaded_by_a_job_that_is_approved() -> None:
    assert RELEASE["upload"]["environment"] == "pypi"
    [download, publish] = RELEASE["upload"]["steps"]
    [packages] = [step for step in RELEASE["build"]["steps"] if step.get("with", {}).get("name") == "packages"]
    assert download["with"]["name"] == "packages"
    assert packages["with"]["path"].split() == ["dist/*.tar.gz", "dist/*.whl"]
    assert publish["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert "with" not in publish


def test_each_action_has_a_version() -> None:
    used = [step["uses"] for workflow in WORKFLOWS.values() for step in steps(workflow["jobs"]) if "uses" in step]
    assert len(used) > 5
    assert [name for name in used if not re.fullmatch(r"[\w/-]+@(v\d+|release/v\d+|[0-9a-f]{40})", name)] == []
