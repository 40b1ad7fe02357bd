"""``python -m release.dist``: sdist, wheel, SBOM and hashes of the commit that is checked out, in ``dist/``."""

import argparse
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from release import builds, content, sbom
from release.environments import run
from release.failure import ReleaseError
from release.repository import ROOT, commit_time, files, git, problems_of_texts, unreleased

HELP = """
Build the commit that is checked out into dist/, which is emptied before:

  *.tar.gz, *.whl   sdist and wheel, built with the tools of release/build-requirements.txt
  *.cdx.json        the SBOM (CycloneDX 1.6) of what an installation of the wheel brings
  SHA256SUMS        the hashes of these three: sha256sum --check SHA256SUMS

Sdist and wheel are built twice: in folders with other names, with another time zone, umask, language and home, with
files of another age, the wheel once from the sdist and once from the commit. The two builds must be the same, bit for
bit. Then the names of all files in sdist and wheel, and the metadata, are checked.

Uncommitted changes are left out. pip must reach a package index. It takes a minute or more.
"""


def make(commit: str, folder: Path) -> None:
    """Build a commit into ``folder``, and check what was built. Raises ReleaseError if anything is wrong."""
    seconds = commit_time(commit)
    say(f"Building {commit[:12]} of {datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC, twice")
    with TemporaryDirectory(prefix="redsess-release-") as name:
        built = builds.build_twice(commit, Path(name) / "builds")
        [sdist], [wheel] = built.glob("*.tar.gz"), built.glob("*.whl")
        say("Both builds are the same. Checking names of files, and metadata")
        content.check_wheel(wheel, files(commit))
        content.check_sdist(sdist, files(commit))
        run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel)
        say("Installing the wheel with its extras, to list what they bring")
        sbom_file = built / f"{sdist.name.removesuffix('.tar.gz')}.cdx.json"
        sbom_file.write_text(sbom.make(wheel, commit, seconds), encoding="utf-8")
        sums = [f"{digest}  {file}" for file, digest in builds.hashes(built)]
        (built / "SHA256SUMS").write_text("\n".join(sums) + "\n", encoding="ascii")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(built, folder)
    print("\n".join([f"In {folder}:", *sums]))


def say(text: str) -> None:
    print(f"{text} …", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m release.dist", description=HELP, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", metavar="VERSION", help="stop unless the commit is a release of this version")
    parser.add_argument("--folder", type=Path, default=ROOT / "dist", help="another folder than dist/")
    options = parser.parse_args()
    try:
        commit = git("rev-parse", "HEAD")
        if options.version:
            check_version(options.version, commit)
        if changed := git("status", "--porcelain"):
            print(f"These changes are not committed, and left out:\n{changed}")
        make(commit, options.folder.resolve())
    except ReleaseError as error:
        sys.exit(f"Error: {error}")


def check_version(version: str, commit: str) -> None:
    """Raise ReleaseError unless all texts of the commit say that it is a release of this version."""
    if problems := problems_of_texts(version, commit) or unreleased(commit):
        raise ReleaseError("\n".join(problems))


if __name__ == "__main__":
    main()
