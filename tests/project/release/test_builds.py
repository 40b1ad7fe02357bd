"""Builds of a commit: the same bytes wherever and whenever, from pinned tools, with all files and no others."""

import gzip
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from packaging.requirements import Requirement

from release import builds, content
from release.failure import ReleaseError
from release.repository import ROOT, commit_time, files, git
from tests.helpers.clocks import stepped
from tests.project.release.clones import Maintainer, skip_without_repository

BUILD = """
import json, sys
from pathlib import Path
from release.builds import ELSEWHERE, build
commit, tools, folder, more = sys.argv[1:]
environment = {**ELSEWHERE.environment, **json.loads(more)}
build(commit, Path(tools), Path(folder), ELSEWHERE._replace(environment=environment))
"""

TWICE = """
import sys
from pathlib import Path
from release.builds import build_twice
build_twice("HEAD", Path(sys.argv[1]))
"""

NOBODY = "65534"

YEAR_SECONDS = 31_536_000


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python with the pinned tools."""
    return builds.install_tools(tmp_path_factory.mktemp("tools") / "environment")


@pytest.fixture(scope="module")
def commit() -> str:
    """The commit that is built. Somebody may commit while tests run."""
    skip_without_repository()
    return git("rev-parse", "HEAD")


@pytest.fixture(scope="module")
def built(commit: str, tools: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with sdist and wheel of the commit."""
    return builds.build(commit, tools, tmp_path_factory.mktemp("built") / "here", builds.HERE)


def as_another_user() -> list[str]:
    """Return what runs a command as another user, who may read all that root may; nothing if this is not root."""
    if os.geteuid() != 0:
        return []
    rights = "+dac_override,+dac_read_search"
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *user, f"--inh-caps={rights}", f"--ambient-caps={rights}"]


@pytest.mark.slow
def test_another_user_builds_the_same_bytes_in_another_folder_three_years_later(
    built: Path, tools: Path, commit: str
) -> None:
    # Not tmp_path: other users may not look into it.
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o777)
        clone = Maintainer(folder).clone
        more = json.dumps(stepped(folder / "clock", 3 * YEAR_SECONDS))
        command = [sys.executable, "-c", BUILD, commit, tools, folder / "there", more]
        # The other user reads a repository of this one.
        trust = {"GIT_CONFIG_GLOBAL": str(folder / "home" / ".gitconfig")}
        environment = {**os.environ, **trust, "PYTHONDONTWRITEBYTECODE": "1"}
        ran = subprocess.run([*as_another_user(), *command], cwd=clone, env=environment, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        other = folder / "there" / "dist"
        assert other.stat().st_uid == (int(NOBODY) if os.geteuid() == 0 else os.geteuid())
        assert builds.hashes(other) == builds.hashes(built)


@pytest.mark.slow
def test_files_in_sdist_and_wheel_have_the_time_of_the_commit(built: Path, commit: str) -> None:
    [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    seconds = commit_time(commit)
    # RFC 1952: the time is in bytes 4 to 7 of the header.
    assert struct.unpack("<I", sdist.read_bytes()[4:8]) == (seconds,)
    assert gzip.decompress(sdist.read_bytes())
    with zipfile.ZipFile(wheel) as packed:
        assert len({each.date_time for each in packed.infolist()}) == 1


@pytest.mark.slow
def test_builds_that_differ_are_refused_and_kept(tmp_path: Path) -> None:
    maintainer = Maintainer(tmp_path)
    # Without it, git writes other line endings in one of the two clones.
    maintainer.git("rm", "--quiet", ".gitattributes")
    maintainer.commit("Let git choose line endings")
    maintainer.environment["TMPDIR"] = str(tmp_path)
    refused = maintainer.run(sys.executable, "-c", TWICE, str(tmp_path / "builds"), check=False)
    assert "Two builds differ in django_redsess-" in refused.stderr
    [compared] = re.findall(r"^  diffoscope (.+)$", refused.stderr, re.MULTILINE)
    assert all(Path(name).is_file() for name in compared.split())


@pytest.mark.slow
def test_sdist_and_wheel_have_the_files_of_the_commit_and_no_others(built: Path, commit: str, tmp_path: Path) -> None:
    [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
    content.check_wheel(wheel, files(commit))
    content.check_sdist(sdist, files(commit))
    with pytest.raises(ReleaseError, match=r"django_redsess/more\.py: in the commit, and not in the wheel"):
        content.check_wheel(wheel, {*files(commit), "django_redsess/more.py"})
    with pytest.raises(ReleaseError, match=r"docs/index\.rst: too much"):
        content.check_sdist(sdist, files(commit) - {"docs/index.rst"})
    # The other tests have the wheel as it was built.
    wheel = Path(shutil.copy(wheel, tmp_path))
    with zipfile.ZipFile(wheel, "a") as packed:
        packed.writestr("django_redsess/lua/notes.txt", "")
        packed.writestr("tests/__init__.py", "")
    with pytest.raises(ReleaseError) as raised:
        content.check_wheel(wheel, files(commit))
    assert str(raised.value).splitlines()[1:] == [
        "  django_redsess/lua/notes.txt: no pattern in wheel-content.txt allows it",
        "  tests/__init__.py: no pattern in wheel-content.txt allows it",
        "  django_redsess/lua/notes.txt: in the wheel, and not in the commit",
    ]


@pytest.mark.unit
def test_the_list_of_a_wheels_files_is_sorted_and_names_each_language() -> None:
    patterns = list(content.read_patterns())
    assert patterns == sorted(patterns)
    named = set(re.findall(r"locale/(\w+)/LC_MESSAGES/django\.mo", "\n".join(patterns)))
    assert named == {folder.name for folder in (ROOT / "django_redsess" / "locale").iterdir()}


@pytest.mark.unit
def test_the_tools_of_a_build_are_pinned_by_hashes() -> None:
    lines = [line for line in builds.REQUIREMENTS.read_text().splitlines() if not line.startswith("#")]
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", line)] == []
    pinned = {
        re.sub(r"[-_.]+", "-", name).lower(): version
        for name, _, version in (each.split()[0].partition("==") for each in lines)
    }
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    for requirement in map(Requirement, [*wanted, "build"]):
        assert requirement.specifier.contains(pinned[requirement.name]), requirement
