"""What is in a wheel and in an sdist: each file that must be there, and nothing else."""

import re
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

from release.failure import ReleaseError

PATTERNS = Path(__file__).parent / "wheel-content.txt"

PACKAGE = "django_redsess/"

NOT_IN_SDIST = re.compile(
    r"benchmarks/results/|\.github/(?!workflows/)|\.(?!gitignore$|readthedocs\.yaml$|github/)[^/]*$"
)
"""Files of the repository that the sdist leaves out."""


def check_wheel(wheel: Path, files: Iterable[str]) -> None:
    """
    Compare the names of a wheel's files with the patterns of ``wheel-content.txt``, and with ``files``.

    ``files`` are the paths of all files of the commit. Raises ReleaseError with what is missing or too much.
    """
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    patterns = read_patterns()
    of_package = {name for name in names if name.startswith(PACKAGE)}
    in_commit = {name for name in files if name.startswith(PACKAGE)}
    _complain(
        wheel,
        {
            f"no pattern in {PATTERNS.name} allows it": {
                name for name in names if not any(pattern.fullmatch(name) for pattern in patterns.values())
            },
            f"a pattern in {PATTERNS.name} without a file": {
                text for text, pattern in patterns.items() if not any(map(pattern.fullmatch, names))
            },
            "in the commit, and not in the wheel": in_commit - of_package,
            "in the wheel, and not in the commit": of_package - in_commit,
        },
    )


def check_sdist(sdist: Path, files: Iterable[str]) -> None:
    """Compare the names of an sdist's files with those of the commit. Raises ReleaseError if they differ."""
    with tarfile.open(sdist) as packed:
        names = {member.name.partition("/")[2] for member in packed if member.isfile()} - {"PKG-INFO"}
    expected = {name for name in files if not NOT_IN_SDIST.match(name)}
    _complain(sdist, {"missing": expected - names, "too much": names - expected})


def read_patterns() -> dict[str, re.Pattern[str]]:
    """Return the patterns of ``wheel-content.txt``, each with a regular expression for it."""
    lines = [line for line in PATTERNS.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {
        line: re.compile(re.escape(line).replace(r"\*\*/", "(?:[^/]+/)*").replace(r"\*", "[^/]+")) for line in lines
    }


def _complain(archive: Path, found: dict[str, set[str]]) -> None:
    lines = [f"  {name}: {what}" for what, names in found.items() for name in sorted(names)]
    if lines:
        raise ReleaseError("\n".join([f"{archive.name} does not have what it should:", *lines]))
