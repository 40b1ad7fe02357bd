"""Programs that are run, and environments that pip installs into."""

import subprocess
import sys
import venv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.failure import ReleaseError

FOR_DEVELOPERS = {"bench", "demo", "dev", "docs", "mariadb", "matrix", "peers", "release", "test"}
"""Extras that no site installs."""


def run(*command: str | Path, **options: Any) -> str:
    """
    Run a command, and return what it prints, without the white space around it.

    ``options`` are those of ``subprocess.run``. Raises ReleaseError with all that it printed if it fails.
    """
    ran = subprocess.run(command, capture_output=True, text=True, **options)
    if ran.returncode:
        said = "\n".join(text.strip() for text in (ran.stdout, ran.stderr) if text.strip())
        raise ReleaseError(f"This failed: {' '.join(map(str, command))}\n{said}")
    return str(ran.stdout.strip())


def install(environment: Path, *arguments: str | Path) -> Path:
    """
    Have pip install into an environment, which is made if it is not there. pip itself is not in it.

    ``arguments`` are those of ``pip install``. Returns the Python of the environment.
    """
    if not environment.exists():
        venv.create(environment, with_pip=False)
    python = environment / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", *arguments)
    return python


def requirements_of_sites(project: Mapping[str, Any]) -> set[str]:
    """Return the names of what the package needs, and its extras that a site may install; of pyproject.toml."""
    extras = project["project"]["optional-dependencies"]
    texts = [text for name in set(extras) - FOR_DEVELOPERS for text in extras[name]]
    return {canonicalize_name(Requirement(text).name) for text in [*project["project"]["dependencies"], *texts]}


def extras_of_sites(project: Mapping[str, Any]) -> str:
    """Return all extras that a site may install, with commas between them; ``project`` is pyproject.toml."""
    return ",".join(sorted(set(project["project"]["optional-dependencies"]) - FOR_DEVELOPERS))
