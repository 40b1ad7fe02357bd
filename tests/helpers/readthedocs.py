"""
Build the site of the documentation as Read the Docs does: ``make readthedocs``.

What ``.readthedocs.yaml`` names is installed into a new environment, and nothing else. Variables of the environment are
those that are set there. Only Python may be another version.
"""

import os
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import yaml

from django_redsess.documentation import SITE

ROOT = Path(__file__).parents[2]


def configuration() -> dict[str, Any]:
    """Return what ``.readthedocs.yaml`` says."""
    read: dict[str, Any] = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    return read


def requirements() -> list[str]:
    """Return what pip is to install."""
    packages = configuration()["python"]["install"]
    return [f"{ROOT / each['path']}[{','.join(each['extra_requirements'])}]" for each in packages]


def sphinx_arguments(doctrees: Path, site: Path) -> list[str]:
    """Return the arguments of ``python -m sphinx``. It runs in the folder of ``conf.py``."""
    strict = ["-W", "--keep-going"] if configuration()["sphinx"]["fail_on_warning"] else []
    return ["-T", *strict, "-b", "html", "-d", str(doctrees), "-D", "language=en", ".", str(site)]


def variables() -> dict[str, str]:
    """Return the variables that Sphinx finds in its environment, besides those of the machine."""
    return {
        "READTHEDOCS": "True",
        "READTHEDOCS_PROJECT": "django-redsess",
        "READTHEDOCS_VERSION": "latest",
        "READTHEDOCS_LANGUAGE": "en",
        "READTHEDOCS_CANONICAL_URL": SITE,
    }


def build(site: Path, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    """Build the site into the folder ``site``, with what is installed for ``python``."""
    with TemporaryDirectory() as doctrees:
        command = [python, "-m", "sphinx", "-q", *sphinx_arguments(Path(doctrees), site)]
        folder = (ROOT / configuration()["sphinx"]["configuration"]).parent
        environment = {**os.environ, **variables()}
        environment.pop("PYTHONPATH", None)
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def main(site: Path) -> None:
    with TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = f"{folder}/bin/python"
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements()]
        subprocess.run(install, check=True)
        built = build(site, python)
    sys.exit(built.stderr if built.returncode else 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
