"""``python -m release.pin``: pin the newest tools of a build, with their hashes."""

import argparse
import json
import sys
import tomllib

from release.builds import REQUIREMENTS
from release.environments import run
from release.failure import ReleaseError
from release.repository import ROOT

HELP = """
Write release/build-requirements.txt: the newest `build` and [build-system] of pyproject.toml, and all that they need.
A release of another commit then has other tools. `make dist` shows that they build it.
"""


def main() -> None:
    argparse.ArgumentParser(prog="python -m release.pin", description=HELP).parse_args()
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["build-system"]["requires"]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    try:
        report = json.loads(run(*command, "build", *wanted))
    except ReleaseError as error:
        sys.exit(f"Error: {error}")
    lines = sorted(map(pinned, report["install"]), key=str.lower)
    comments = [line for line in REQUIREMENTS.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    REQUIREMENTS.write_text("\n".join([*comments, *lines, ""]), encoding="utf-8")
    print(f"{len(lines)} packages are pinned. Look at: git diff release")


def pinned(package: dict[str, dict[str, dict[str, dict[str, str]]]]) -> str:
    """Return the requirement of one package of a report of pip."""
    [[kind, digest]] = package["download_info"]["archive_info"]["hashes"].items()
    said = package["metadata"]
    return f"{said['name']}=={said['version']} --hash={kind}:{digest}"


if __name__ == "__main__":
    main()
