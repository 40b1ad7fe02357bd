"""``python -m release.audit``: ask whether what sites install has known vulnerabilities."""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from release.environments import extras_of_sites, install, run
from release.failure import ReleaseError
from release.repository import ROOT, project

HELP = """
Install this package with all extras that a site may use, in their newest versions, and have pip-audit ask for known
vulnerabilities of each. It asks the package index, so it needs the network, and sends it the names and versions.

exit status:
  0  each package was asked about, and none has a known vulnerability
  1  some have: they are listed
  2  the question could not be asked, for one package or for all
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m release.audit", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.parse_args()
    try:
        with TemporaryDirectory() as name:
            print("Installing what sites install …", flush=True)
            requirements = Path(name) / "requirements.txt"
            requirements.write_text("\n".join(installed(Path(name) / "environment")), encoding="utf-8")
            print("Asking about each package …", flush=True)
            answers = ask(requirements)
    except ReleaseError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
    sys.exit(report(answers))


def installed(environment: Path) -> list[str]:
    """Install the package with its extras; return what that brought, as requirements."""
    python = install(environment, f"{ROOT}[{extras_of_sites(project('HEAD'))}]")
    listed = json.loads(run(sys.executable, "-m", "pip", "--python", python, "list", "--format=json"))
    return [f"{each['name']}=={each['version']}" for each in listed if each["name"] != "django-redsess"]


def ask(requirements: Path) -> list[dict[str, Any]]:
    """Return what pip-audit says of each requirement. Raises ReleaseError if it could ask nothing."""
    command = [sys.executable, "-m", "pip_audit", "--format=json", "--progress-spinner=off", "--no-deps"]
    command += ["--disable-pip", "--requirement", str(requirements)]
    ran = subprocess.run(command, capture_output=True, text=True)
    try:
        return list(json.loads(ran.stdout)["dependencies"])
    except ValueError as error:
        last = ran.stderr.strip().rpartition("\n")[2]
        raise ReleaseError(f"The vulnerabilities could not be asked for: {last}") from error


def report(answers: list[dict[str, Any]]) -> int:
    """Print what was found; return the exit status."""
    not_asked = [each["name"] for each in answers if "skip_reason" in each]
    vulnerable = [each for each in answers if each.get("vulns")]
    for each in vulnerable:
        for found in each["vulns"]:
            fixed = ", ".join(found["fix_versions"]) or "no version"
            print(f"{each['name']} {each['version']}: {found['id']}, fixed in {fixed}")
    if not_asked:
        print(
            f"Error: {len(not_asked)} of {len(answers)} packages could not be asked about: {', '.join(not_asked)}. "
            "Does this machine reach the package index itself, and not a mirror without vulnerabilities?",
            file=sys.stderr,
        )
        return 2
    print(f"{len(answers)} packages were asked about, {len(vulnerable)} have known vulnerabilities.")
    return 1 if vulnerable else 0


if __name__ == "__main__":
    main()
