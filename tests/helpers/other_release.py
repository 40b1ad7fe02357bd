"""
Another release of this package, built as users get it, to run beside the tree.

It is the newest that is tagged with a version of the same major. Where none is, as in a source distribution, the tree
itself is built: the release candidate runs beside the tree.
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
    """``name`` is its tag, or the version of the tree. In ``folder`` are its wheel, unpacked, and its own test site."""

    name: str
    folder: Path


def other_release(folder: Path) -> Release:
    """Build the release in ``folder``. A site that is started there imports it, and not the tree."""
    major = re.match(r"\d+\.", tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"])
    assert major is not None
    tags = _git("tag", "--list", f"{major[0]}*", "--sort=-version:refname").split()
    sources, built = folder / "sources", folder / "release"
    sources.mkdir()
    if tags:
        archive = folder / "sources.tar"
        _git("archive", f"--output={archive}", tags[0])
        shutil.unpack_archive(archive, sources, filter="data")
    else:
        copy_tree(sources)
    build = [sys.executable, "-m", "build", "--wheel", "--outdir", str(folder), str(sources)]
    subprocess.run(build, check=True, capture_output=True)
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(built)
    for name in ("testproject", "tests"):
        shutil.copytree(sources / name, built / name)
    # Else each process that is started there would begin by that.
    compileall.compile_dir(built, quiet=2)
    return Release(tags[0] if tags else wheel.name.split("-")[1], built)


def _git(*arguments: str) -> str:
    if not (ROOT / ".git").exists():
        return ""
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout
