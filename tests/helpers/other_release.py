"""
Another release of this package, built as users get it, to run beside the tree.

It is the newest that is tagged with a version of the same major. Where none is, as in a source distribution, the tree
itself is built. The release candidate of 1.0 is built from the commit that the changelog names.
"""

import compileall
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import NamedTuple

from tests.helpers.running import ROOT
from tests.helpers.tree import copy_tree


class Release(NamedTuple):
    """``name`` is its version. In ``folder`` are its wheel, unpacked, and its own test site."""

    name: str
    folder: Path


def other_release(folder: Path) -> Release:
    """Build the release in ``folder``. A site that is started there imports it, and not the tree."""
    major = re.match(r"\d+\.", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    assert major is not None
    tags = _git("tag", "--list", f"{major[0]}*", "--sort=-version:refname").split()
    if tags:
        return _built(tags[0], folder)
    (folder / "sources").mkdir()
    copy_tree(folder / "sources")
    return _built("", folder)


def release_candidate(folder: Path) -> Release | None:
    """Build the release candidate of 1.0 in ``folder``. None if its commit is not here, as in a shallow clone."""
    named = re.search(r"commit ``([0-9a-f]{40})``", (ROOT / "CHANGELOG.rst").read_text())
    assert named is not None, "the changelog names no commit of the release candidate"
    return _built(named[1], folder) if _git("rev-parse", "--quiet", "--verify", f"{named[1]}^{{commit}}") else None


def _built(revision: str, folder: Path) -> Release:
    """Build a revision of the repository. ``""`` stands for what is in ``folder/sources``."""
    sources, built = folder / "sources", folder / "release"
    if revision:
        archive = folder / "sources.tar"
        _git("archive", f"--output={archive}", revision)
        shutil.unpack_archive(archive, sources, filter="data")
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(sources)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(built)
    for name in ("testproject", "tests"):
        shutil.copytree(sources / name, built / name)
    # Else each process that is started there would begin by that.
    compileall.compile_dir(built, quiet=2)
    return Release(wheel.name.split("-")[1], built)


def _git(*arguments: str) -> str:
    if not (ROOT / ".git").exists():
        return ""
    found = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0 or "--quiet" in arguments, found.stderr
    return found.stdout
