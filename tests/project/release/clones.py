"""Clones of this repository in which releases are rehearsed, by a maintainer who has a key."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from release.repository import ROOT, SIGNERS, TOP_HEADING


def skip_without_repository() -> None:
    """Skip the test in an sdist: it has no commits."""
    if not (ROOT / ".git").exists():
        if "REDSESS_SKIP_NOTHING" in os.environ:
            raise pytest.UsageError("releases are tested in a clone of the repository")
        pytest.skip("an sdist has no repository to clone")


class Maintainer:
    """Somebody with a home of their own, a key of SSH that signs, and a clone on the branch main."""

    def __init__(self, folder: Path) -> None:
        skip_without_repository()
        self.home, self.clone = folder / "home", folder / "origin" / "django-redsess"
        self.home.mkdir(parents=True)
        # In a container, the repository may belong to another user.
        (self.home / ".gitconfig").write_text("[safe]\n\tdirectory = *\n")
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home), "LC_ALL": "C.UTF-8"}
        # Where pip is told which index to use.
        self.environment |= {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
        self.run("git", "clone", "--quiet", str(ROOT), str(self.clone), cwd=folder)
        for setting in ("user.name=Ada", "user.email=ada@example.org", "commit.gpgsign=false"):
            self.git("config", *setting.split("="))
        self.git("switch", "--quiet", "--force-create", "main")
        self.version = tomllib.loads(self.read("pyproject.toml"))["project"]["version"]
        self.write(
            "CHANGELOG.rst", TOP_HEADING.sub(f"{self.version} (unreleased)\n====", self.read("CHANGELOG.rst"), 1)
        )
        self.commit("Begin the version")

    def make_key(self) -> None:
        """Make a key that git signs with."""
        key = self.home / "key"
        self.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        self.git("config", "gpg.format", "ssh")
        self.git("config", "user.signingkey", str(key))

    def publish_key(self) -> None:
        """Commit the key to those that sign releases."""
        self.write(SIGNERS, f'{self.read(SIGNERS)}ada namespaces="git" {(self.home / "key.pub").read_text()}')
        self.commit("Ada signs releases")

    def read(self, name: str) -> str:
        return (self.clone / name).read_text(encoding="utf-8")

    def write(self, name: str, text: str) -> None:
        (self.clone / name).write_text(text, encoding="utf-8")

    def replace(self, name: str, pattern: str, new: str) -> None:
        """Replace the first match of a pattern in a file of the clone."""
        text, count = re.subn(pattern, new, self.read(name), count=1)
        assert count == 1
        self.write(name, text)

    def commit(self, message: str) -> None:
        self.git("commit", "--quiet", "--all", "--allow-empty", "--message", message)

    def git(self, *arguments: str) -> str:
        return self.run("git", *arguments).stdout.strip()

    def release(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``python -m release``, with the code of the clone."""
        return self.run(sys.executable, "-m", "release", *arguments, check=False)

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        options = {"check": True, "cwd": self.clone, "env": self.environment, **options}
        return subprocess.run(command, capture_output=True, text=True, **options)
