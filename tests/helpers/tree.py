"""A copy of this tree, of which a test may change files, or build a release."""

import shutil
from pathlib import Path

from tests.helpers.running import ROOT

PARTS = (
    ".readthedocs.yaml",
    "CHANGELOG.rst",
    "CONTRIBUTING.rst",
    "LICENSE",
    "README.rst",
    "SECURITY.md",
    "benchmarks",
    "django_redsess",
    "docs",
    "pyproject.toml",
    "release",
    "testproject",
    "tests",
)


def copy_tree(folder: Path) -> None:
    """Copy into this folder what the package, its tests and its documentation are made of."""
    for name in PARTS:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "results"))
        else:
            shutil.copy(ROOT / name, folder)
