"""An environment for the tests of one package: its source distribution, and a virtual environment."""

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

        Nothing is installed for a package whose tests are not run.
        """
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        # pytest looks for its configuration in the folders above, too: it is not to find ours.
        (self.folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        unpack(self._downloaded(package.name), self.folder / "source")
        if package.not_run:
            return
        venv.create(self.folder / "environment", with_pip=False)
        extras = f"[{','.join(package.extras)}]" if package.extras else ""
        self._pip("install", f"{self.source}{extras}", str(ours), *RUNNER, *package.needs)

    @property
    def source(self) -> Path:
        """The one folder that a source distribution has at its top."""
        [folder] = (self.folder / "source").iterdir()
        return folder

    @property
    def version(self) -> str:
        """The version of the source distribution, as the name of its folder has it. ``""`` if there is none."""
        return self.source.name.rpartition("-")[2] if self.exists else ""

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

    def _pip(self, action: str, *arguments: str) -> None:
        there = ["--python", str(self.python)] if self.python.exists() else []
        command = [sys.executable, "-m", "pip", *there, action, "--quiet", *arguments]
        if self.run(command, log=action, folder=self.folder):
            raise NotRunError(f"pip could not {action} what they need")


def unpack(sdist: Path, folder: Path) -> None:
    """Unpack a source distribution."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")


def built_wheel(folder: Path) -> Path:
    """Build a wheel of this package in ``folder``."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel
