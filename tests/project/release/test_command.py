"""`make release`: what it refuses, and a release with all but the push."""

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import Path

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.environments import FOR_DEVELOPERS, extras_of_sites
from release.repository import status, today
from release.texts import UNRELEASED
from tests.project.docs.pages import DOCS, ROOT, blocks, typed
from tests.project.release.clones import Maintainer


@pytest.fixture
def maintainer(tmp_path: Path) -> Maintainer:
    return Maintainer(tmp_path)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.0a1", "3 - Alpha"), ("1.0.dev2", "3 - Alpha"), ("1.0rc1", "4 - Beta"), ("1.0", "5 - Production/Stable")],
)
def test_a_version_says_how_ready_it_is(version: str, expected: str) -> None:
    assert status(version) == f"Development Status :: {expected}"


@pytest.mark.unit
def test_extras_are_those_of_sites_or_of_developers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["project"]["optional-dependencies"]) >= FOR_DEVELOPERS
    assert {"api", "browsers", "encryption"} <= set(extras_of_sites(project).split(","))


@pytest.mark.slow
@pytest.mark.unit
def test_all_that_is_wrong_is_said_at_once_and_nothing_is_changed(maintainer: Maintainer) -> None:
    maintainer.git("switch", "--quiet", "--create", "topic")
    maintainer.replace("pyproject.toml", r"Development Status :: \d.*\"", 'Development Status :: 1 - Planning"')
    maintainer.commit("Plan")
    maintainer.git("tag", "9.9rc1")
    maintainer.write("README.rst", "")
    before = maintainer.git("show-ref"), maintainer.git("status", "--porcelain")
    refused = maintainer.release("9.9rc1", "--no-sign")
    assert refused.returncode == 1
    for said in (
        f"pyproject.toml has version {maintainer.version}. Set it to 9.9rc1",
        "1 - Planning. For 9.9rc1, it is: Development Status :: 4 - Beta",
        f"The top of CHANGELOG.rst is {maintainer.version}. It must be 9.9rc1.",
        "There are uncommitted changes.",
        "This is topic. Releases are made on main",
        "The tag 9.9rc1 is there already.",
    ):
        assert said in refused.stderr
    assert (maintainer.git("show-ref"), maintainer.git("status", "--porcelain")) == before


@pytest.mark.slow
@pytest.mark.unit
def test_a_date_that_is_over_and_what_is_no_version_are_refused(maintainer: Maintainer) -> None:
    maintainer.replace("CHANGELOG.rst", r"\(unreleased\)", "(2020-01-31)")
    maintainer.commit("Write an old date")
    assert "CHANGELOG.rst says 2020-01-31, today is" in maintainer.release(maintainer.version, "--no-sign").stderr
    assert "Invalid version: 'one'" in maintainer.release("one").stderr


@pytest.mark.slow
@pytest.mark.unit
def test_a_text_that_would_still_say_that_nothing_was_released_is_refused(maintainer: Maintainer) -> None:
    maintainer.write("docs/howto/late.rst", "====\nLate\n====\n\nIt is not on PyPI.\n")
    maintainer.git("add", "--all")
    maintainer.commit("Say so on one more page")
    before = maintainer.git("show-ref"), maintainer.git("status", "--porcelain")
    refused = maintainer.release(maintainer.version, "--no-sign", "--dry-run")
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[1:] == ["docs/howto/late.rst, line 5, says: not on PyPI"]
    assert "Building" not in refused.stdout
    assert (maintainer.git("show-ref"), maintainer.git("status", "--porcelain")) == before
    assert len(maintainer.git("worktree", "list").splitlines()) == 1


@pytest.mark.slow
@pytest.mark.unit
def test_who_can_not_sign_or_is_not_known_as_a_signer_is_told_before_anything_is_built(maintainer: Maintainer) -> None:
    maintainer.git("config", "gpg.format", "ssh")
    refused = maintainer.release(maintainer.version)
    assert (refused.returncode, "git can't sign. Set user.signingkey" in refused.stderr) == (1, True)
    maintainer.make_key()
    refused = maintainer.release(maintainer.version)
    assert (refused.returncode, "Add your public key to release/allowed_signers." in refused.stderr) == (1, True)
    assert "Building" not in refused.stdout
    assert maintainer.git("tag", "--list") == ""


@pytest.mark.slow
def test_a_release_is_tagged_and_anybody_can_verify_it_as_the_guide_says(tmp_path: Path) -> None:
    ada = Maintainer(tmp_path)
    ada.make_key()
    ada.publish_key()
    released = ada.release(ada.version)
    assert released.returncode == 0, released.stderr
    # Until the upload, main does not lead anybody to the package index.
    pushes = re.findall("^  git push .+$", released.stdout, re.MULTILINE)
    assert pushes == [f"  git push origin {ada.version}", "  git push origin main"]
    assert ada.git("log", "-1", "--format=%s") == f"Release {ada.version}"
    assert f"{ada.version} ({today()})\n=" in ada.read("CHANGELOG.rst")
    assert ada.git("rev-parse", f"{ada.version}^{{commit}}") == ada.git("rev-parse", "main")
    assert ada.git("status", "--porcelain") == ""
    assert ada.git("log", "--format=%H", "-1", "main^") in released.stdout
    check_texts(ada)
    check_sbom(next(ada.clone.glob("dist/*.cdx.json")))
    follow_the_guide(ada, tmp_path)
    # The same version is not released twice.
    assert "is there already" in ada.release(ada.version).stderr


def asked_by(wheel: Path) -> set[str]:
    """Return the names of what a wheel asks for, with the extras of sites."""
    extras = extras_of_sites(tomllib.loads((ROOT / "pyproject.toml").read_text())).split(",")
    requirements = [Requirement(text) for text in metadata_of(wheel).get_all("Requires-Dist")]
    return {
        canonicalize_name(each.name)
        for each in requirements
        if each.marker is None or any(each.marker.evaluate({"extra": extra}) for extra in extras)
    }


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as packed:
        [text] = [packed.read(name) for name in packed.namelist() if name.endswith("/METADATA")]
    return message_from_bytes(text)


def check_texts(ada: Maintainer) -> None:
    """Check that neither the release's commit nor the README of its wheel says that nothing was released."""
    [wheel] = ada.clone.glob("dist/*.whl")
    for text in (
        metadata_of(wheel).get_payload(),
        ada.read("README.rst"),
        ada.read("docs/howto/install.rst"),
        ada.read("docs/tutorial.rst"),
    ):
        assert 'python -m pip install "django-redsess[browsers]" hiredis\n' in text
        assert not UNRELEASED.search(text)


def check_sbom(path: Path) -> None:
    """Check what the SBOM says, and that the schema of CycloneDX allows it."""
    text = path.read_text()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    said = json.loads(text)
    scopes = {component["name"].lower(): component["scope"] for component in said["components"]}
    runtime = {name.lower() for name in ("Django", "django-redis", "redis")}
    assert {name for name in scopes if scopes[name] == "required"} >= runtime
    assert {scopes[name] for name in ("cryptography", "django-ninja", "ua-parser")} == {"optional"}
    # Neither the environment's own programs, nor the package itself, nor a path of this machine.
    assert not {"pip", "setuptools", "django-redsess", "pytest"} & set(scopes)
    assert str(ROOT) not in text
    assert "file:" not in text
    root = said["metadata"]["component"]
    [direct] = [each["dependsOn"] for each in said["dependencies"] if each["ref"] == root["bom-ref"]]
    assert {canonicalize_name(ref.partition("==")[0]) for ref in direct} == asked_by(next(path.parent.glob("*.whl")))
    [digest] = root["hashes"]
    assert f"{digest['content']}  {next(path.parent.glob('*.whl')).name}\n" in (path.parent / "SHA256SUMS").read_text()


def follow_the_guide(ada: Maintainer, folder: Path) -> None:
    """Run the commands of the guide as somebody else, but for what asks the place of the repository for files."""
    commands = [command for command, _ in typed(blocks(DOCS / "howto" / "verify.rst"))]
    assert len(commands) > 8
    commands = [command for command in commands if not command.startswith(("gh ", "make "))]
    script = "\n".join(["set -eux", *commands])
    script = re.sub(r"^version=\S+", f"version={ada.version}", script, flags=re.MULTILINE)
    script = script.replace("https://github.com/django-redsess/django-redsess", str(ada.clone))
    reader = folder / "reader"
    shutil.copytree(ada.clone / "dist", reader / "published")
    environment = {
        **ada.environment,
        "HOME": str(reader),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    ran = subprocess.run(["bash", "-c", script], cwd=reader, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    checked = re.findall(r"^(\S+): OK$", ran.stdout, re.MULTILINE)
    archives = {path.name for path in (ada.clone / "dist").iterdir() if path.suffix in (".gz", ".whl")}
    # What was published, and what was built again.
    assert {name: checked.count(name) for name in archives} == dict.fromkeys(archives, 2)
    assert 'Good "git" signature for ada' in ran.stderr
