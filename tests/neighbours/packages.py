"""Which packages there are, and how their tests are run: what ``packages.toml`` says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages.toml"


class NotRunError(Exception):
    """The tests of a package could not be run. The message says why, for the page of the docs."""


@dataclass(frozen=True, kw_only=True)
class Package:
    """One table of ``packages.toml``. Tests are named as pytest names them, from ``folder``."""

    name: str
    extras: Sequence[str] = ()
    repository: str = ""
    """Where git finds the package with its tests, if the source distribution is without them."""
    needs: Sequence[str] = ()
    """What pip installs besides."""
    folder: str = "."
    """Where in the source distribution, or in the repository, pytest is started."""
    paths: Sequence[str] = ()
    """Folders in this one that Python imports from, too."""
    settings: str = ""
    """The settings module, unless a conftest has the settings. One in tests/neighbours/settings is ours."""
    tests: Sequence[str] = ()
    """Files or folders to run (default: all that pytest finds)."""
    options: Sequence[str] = ()
    """More options of pytest. Those of the package's own configuration are not used."""
    environment: Mapping[str, str] = field(default_factory=dict)
    processes: int = 0
    """How many processes run tests at once (0: none but pytest itself)."""
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Tests that no run has, or the beginning of their names, each with the reason."""
    explained: Mapping[str, str] = field(default_factory=dict)
    """Tests that are known to differ, or the beginning of their names, each with the reason."""
    part: str = ""
    """Which part of the tests this is, in a sentence without its full stop, if it is not all."""
    not_run: str = ""
    """Why the tests are not run."""
    missing: str = ""
    """A pattern of the file that the source distribution would have if its tests could be run."""

    def explanation(self, test: str) -> str:
        """Return why the outcome of a test is known to differ, or an empty string."""
        return next((reason for start, reason in self.explained.items() if test.startswith(start)), "")


def packages(path: Path = PACKAGES) -> list[Package]:
    """Read the packages. Raises TypeError if one has a key that there is not."""
    tables = tomllib.loads(path.read_text(encoding="utf-8"))
    return [Package(name=name, **table) for name, table in tables.items()]
