"""Build sdist and wheel of a commit in two surroundings that differ in all that may not matter."""

import hashlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

from release.environments import install, run
from release.failure import ReleaseError
from release.repository import ROOT, commit_time

REQUIREMENTS = ROOT / "release" / "build-requirements.txt"


class Surroundings(NamedTuple):
    """What differs between the machines of two builders."""

    folder: str
    """The name of the folder that the commit is cloned to."""
    umask: int
    line_endings: str
    """What git's ``core.autocrlf`` is."""
    modified: int | None
    """When all files were modified, in seconds since 1970; ``None`` for the time of the build."""
    options: tuple[str, ...]
    """Options of the build: without any, the wheel is built from the sdist."""
    environment: Mapping[str, str]


HERE = Surroundings(
    folder="source",
    umask=0o022,
    line_endings="false",
    modified=None,
    options=(),
    environment={"LC_ALL": "C.UTF-8", "TZ": "UTC", "PYTHONHASHSEED": "1"},
)
ELSEWHERE = Surroundings(
    folder="another path/сборка",
    umask=0o077,
    line_endings="true",
    modified=987_654_321,
    # The wheel is built from the files of the commit.
    options=("--sdist", "--wheel"),
    environment={"LC_ALL": "C", "TZ": "Pacific/Kiritimati", "PYTHONHASHSEED": "2"},
)


def install_tools(environment: Path) -> Path:
    """Install the pinned tools of a build; return their Python."""
    return install(environment, "--require-hashes", "--requirement", REQUIREMENTS)


def build(commit: str, tools: Path, folder: Path, surroundings: Surroundings) -> Path:
    """
    Clone a commit, and build it.

    ``tools`` is the Python of :func:`install_tools`; ``folder`` is made. Returns the folder with sdist and wheel.
    Raises ReleaseError if either can't be built.
    """
    home, source, built = folder / "home", folder / surroundings.folder, folder / "dist"
    home.mkdir(parents=True)
    # Whoever builds has chosen to trust this repository, which may belong to another user.
    (home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n", encoding="ascii")
    # Not the environment of whoever builds, nor the configuration of git in the home directory.
    environment = {**surroundings.environment, "HOME": str(home), "PATH": os.environ["PATH"]}
    options: dict[str, Any] = {"env": environment, "umask": surroundings.umask}
    line_endings = f"core.autocrlf={surroundings.line_endings}"
    run("git", "clone", "--quiet", "--no-checkout", "--config", line_endings, ROOT, source, **options)
    run("git", "-C", source, "checkout", "--quiet", "--detach", commit, **options)
    if surroundings.modified is not None:
        # Not what is in .git: git shares files of the repository with its clones.
        for path in run("git", "-C", source, "ls-files", "-z").strip("\0").split("\0"):
            os.utime(source / path, (surroundings.modified, surroundings.modified))
    environment["SOURCE_DATE_EPOCH"] = str(commit_time(commit))
    run(tools, "-m", "build", "--no-isolation", *surroundings.options, "--outdir", built, source, **options)
    return built


def build_twice(commit: str, folder: Path) -> Path:
    """
    Build a commit in both surroundings; return the folder with sdist and wheel.

    Raises ReleaseError if the two builds differ. They are kept then, to be compared.
    """
    tools = install_tools(folder / "tools")
    first = build(commit, tools, folder / "here", HERE)
    second = build(commit, tools, folder / "elsewhere", ELSEWHERE)
    differing = sorted(name for name, _ in set(hashes(first)) ^ set(hashes(second)))
    if differing:
        kept = Path(mkdtemp(prefix="redsess-differing-"))
        for each in (first, second):
            shutil.copytree(each, kept / each.parent.name)
        places = " ".join(str(kept / each.parent.name / differing[0]) for each in (first, second))
        raise ReleaseError(f"Two builds differ in {differing[0]}. See how:\n  diffoscope {places}")
    return first


def hashes(folder: Path) -> list[tuple[str, str]]:
    """Return the name and the SHA-256 of each file of a folder, by name."""
    return [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in sorted(folder.iterdir())]
