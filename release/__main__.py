"""``python -m release``: all of a release but push and upload."""

import argparse
import sys

from packaging.version import Version

from release import dist
from release.failure import ReleaseError
from release.repository import (
    CHANGELOG,
    ROOT,
    check_signing,
    commit_of_release,
    git,
    problems_of_clone,
    problems_of_texts,
    tag,
    today,
    top_heading,
    unreleased,
)

HELP = """
Make a release, all but push and upload:

  1. checks that this is a clean main, that pyproject.toml and the top of CHANGELOG.rst have the version, that the
     classifier says how ready it is, that no such tag is there, and that git can sign
  2. makes a commit in which CHANGELOG.rst has the date of today, and no text says any more that nothing was released
  3. builds dist/ from it, as `make dist` does: twice, with SBOM and hashes
  4. adds the commit to main, with a signed tag
  5. prints the commands that are left

It pushes nothing. Until step 4, nothing but dist/ is changed. If it fails, correct what it says, commit, and run it
again.
"""

EPILOG = """
examples:
  python -m release 1.0 --dry-run    change nothing but dist/, and show what would be changed
  python -m release 1.0 --no-sign    rehearse it in a clone that you throw away
  python -m release 1.0
"""

LEFT = """
What is left to do. The first command can't be undone: the workflow uploads what the tag has.

  git push origin {version}

Then approve the environment `pypi` of the workflow "Release", and compare its hashes with those above. Without the
workflow, upload by hand:

  {twine} upload dist/*.tar.gz dist/*.whl
  gh release create {version} --verify-tag {pre}dist/*

Once the files are on the package index, main may say so:

  git push origin main

To undo all of this before the first push:

  git tag --delete {version} && git reset --keep {head}
"""


def release(version: str, *, dry_run: bool, sign: bool) -> None:
    """Make a release of this version. Raises ReleaseError if it can't be made."""
    head = git("rev-parse", "HEAD")
    problems = problems_of_texts(version, head) + problems_of_clone(version)
    date = top_heading(head)["date"]
    if date not in ("unreleased", today()):
        problems.append(f"{CHANGELOG} says {date}, today is {today()} (UTC). Write (unreleased), and commit.")
    if problems:
        raise ReleaseError("\n".join(problems))
    if sign:
        check_signing()
    commit = commit_of_release(version)
    if problems := unreleased(commit):
        raise ReleaseError("\n".join(["A release would still say that nothing was released.", *problems]))
    dist.make(commit, ROOT / "dist")
    if dry_run:
        print(git("diff", head, commit))
        print("Nothing but dist/ was changed. A release would commit this, and tag it.")
        return
    git("merge", "--quiet", "--ff-only", commit)
    tag(version, commit, sign=sign)
    pre = "--prerelease " if Version(version).is_prerelease else ""
    print(LEFT.format(version=version, head=head, pre=pre, twine=f"{sys.executable} -m twine"))
    if not sign:
        print("This tag is not signed: don't push it.")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m release",
        description=HELP,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("version", metavar="VERSION", help="the version to release, such as 1.0")
    parser.add_argument("--dry-run", action="store_true", help="check and build, but commit and tag nothing")
    parser.add_argument("--no-sign", action="store_true", help="make a tag that is not signed, for a rehearsal")
    options = parser.parse_args()
    try:
        release(options.version, dry_run=options.dry_run, sign=not options.no_sign)
    except ReleaseError as error:
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
