"""An environment for the tests of one package: its source distribution or repository, and a virtual environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import venv
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from tests.neighbours.packages import NotRunError, Package

ROOT = Path(__file__).parents[2]

RUNNER = ("pytest>=9.0", "pytest-django>=4.9", "pytest-xdist>=3.6")


class Environment:
    """
    The folder of one package, and the time that is left for it.

    ``seconds`` is for all that is done in it, installing included. What takes longer raises NotRunError.
    """

    def __init__(self, folder: Path, *, seconds: float) -> None:
        self.folder = folder
        self.python = folder / "environment" / "bin" / "python"
        self._deadline = time.monotonic() + seconds

    def make(self, package: Package, ours: Path) -> None:
        """
        Get the newest source distribution of a package, and install it and ``ours``, a wheel. Raises NotRunError.

        If the package has a repository, then this is installed: the tag of the same version, or else the newest commit.
        Nothing is installed for a package whose tests are not run.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        # pytest looks for its configuration in the folders above, too: it is not to find ours.
        (self.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        unpack(self._downloaded(package.name), self.folder / "source")
        if package.not_run:
            return
        if package.repository:
            self._clone(package.repository)
        venv.create(self.folder / "environment", with_pip=False)
        extras = f"[{','.join(package.extras)}]" if package.extras else ""
        # In a repository, what a build adds for people may need more tools than Python's.
        editable = ["--editable"] if package.repository else []
        self._pip("install", *editable, f"{self.source}{extras}", str(ours), *RUNNER, *package.needs)

    @property
    def sdist(self) -> Path:
        """The one folder that a source distribution has at its top."""
        [folder] = (self.folder / "source").iterdir()
        return folder

    @property
    def source(self) -> Path:
        """What is installed and tested: the repository, if the package has one, or the source distribution."""
        return next((self.folder / "repository").glob("*"), None) or self.sdist

    @property
    def revision(self) -> str:
        """The tag of the repository that is tested, or the whole name of a commit. ``""`` for a source distribution."""
        return "" if self.source == self.sdist else self.source.name

    @property
    def version(self) -> str:
        """The version that is installed, or else that of the source distribution. ``""`` if there is none."""
        places = [str(place) for place in self.folder.glob("environment/lib/python*/site-packages")]
        for installed in metadata.distributions(name=self.folder.name, path=places):
            return installed.version
        return self._released if self.exists else ""

    @property
    def _released(self) -> str:
        """The version of the source distribution, as the name of its folder has it."""
        return self.sdist.name.rpartition("-")[2]

    @property
    def exists(self) -> bool:
        """Whether there is a source distribution."""
        return (self.folder / "source").exists()

    def run(
        self, command: Sequence[str], *, log: str, folder: Path, environment: Mapping[str, str] | None = None
    ) -> int:
        """
        Run a command, and keep what it prints in the file ``log``. Returns its exit status.

        Raises NotRunError when no time is left.
        """
        with (self.folder / f"{log}.log").open("w") as output:
            run = subprocess.Popen(
                command,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                return run.wait(timeout=max(0, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise NotRunError("they take longer than the time that a package is given") from None
            finally:
                # What tests have started goes with them.
                if run.poll() is None:
                    os.killpg(run.pid, signal.SIGKILL)
                    run.wait()

    def _downloaded(self, name: str) -> Path:
        self._pip("download", "--no-deps", "--no-binary", name, "--dest", str(self.folder), name)
        [sdist] = self.folder.glob("*.tar.gz")
        return sdist

    def _clone(self, repository: str) -> None:
        clone = self.folder / "repository" / "clone"
        if self.run(["git", "clone", "--quiet", repository, str(clone)], log="clone", folder=self.folder):
            raise NotRunError("git could not clone their repository")
        # The folder has the name of what is in it.
        clone.rename(clone.with_name(check_out(clone, self._released)))

    def _pip(self, action: str, *arguments: str) -> None:
        there = ["--python", str(self.python)] if self.python.exists() else []
        command = [sys.executable, "-m", "pip", *there, action, "--quiet", *arguments]
        if self.run(command, log=action, folder=self.folder):
            raise NotRunError(f"pip could not {action} what they need")


def unpack(sdist: Path, folder: Path) -> None:
    """Unpack a source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")


def check_out(clone: Path, version: str) -> str:
    """
    Check the tag of a version out, and return its name.

    If there is none, the newest commit stays: its whole name is returned.
    """

    def git(*arguments: str) -> list[str]:
        command = ["git", "-C", str(clone), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()

    for tag in git("tag", "--list", version, f"v{version}"):
        git("checkout", "--quiet", f"refs/tags/{tag}")
        return tag
    return git("rev-parse", "HEAD")[0]


def built_wheel(folder: Path) -> Path:
    """Build a wheel of this package in ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel
