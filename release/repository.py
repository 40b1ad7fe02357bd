"""What git, ``pyproject.toml`` and ``CHANGELOG.rst`` say about a version."""

import re
import tomllib
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from packaging.version import InvalidVersion, Version

from release import texts
from release.environments import run
from release.failure import ReleaseError

ROOT = Path(__file__).parents[1]

CHANGELOG = "CHANGELOG.rst"

SIGNERS = "release/allowed_signers"

TOP_HEADING = re.compile(r"^(?P<version>\d\S*) \((?P<date>unreleased|\d{4}-\d\d-\d\d)\)\n=+$", re.MULTILINE)


def git(*arguments: str) -> str:
    """Return what git prints. Raises ReleaseError if it fails."""
    return run("git", "-C", ROOT, *arguments)


def commit_time(commit: str) -> int:
    """Return when a commit was made, in seconds since 1970."""
    return int(git("log", "-1", "--format=%ct", commit))


def files(commit: str) -> set[str]:
    """Return the paths of all files of a commit."""
    return set(git("ls-tree", "-r", "-z", "--name-only", commit).strip("\0").split("\0"))


def project(commit: str) -> dict[str, Any]:
    """Return ``pyproject.toml`` of a commit."""
    return tomllib.loads(git("show", f"{commit}:pyproject.toml"))


def top_heading(commit: str) -> re.Match[str]:
    """Return the first heading of the changelog of a commit that is one of a version: ``version`` and ``date``."""
    heading = TOP_HEADING.search(git("show", f"{commit}:{CHANGELOG}"))
    if heading is None:
        raise ReleaseError(f"{CHANGELOG} has no heading of a version. Add one, such as: 1.0 (unreleased)")
    return heading


def problems_of_texts(version: str, commit: str) -> list[str]:
    """
    Return what in ``pyproject.toml`` and ``CHANGELOG.rst`` of a commit does not agree with a version.

    Raises ReleaseError if it is no version at all.
    """
    try:
        Version(version)
    except InvalidVersion as error:
        raise ReleaseError(f"{error}. Versions look like 1.0rc1, 1.0 or 1.0.1.") from error
    said = project(commit)["project"]
    found = []
    if version != str(Version(version)):
        found.append(f"{version} is written as {Version(version)}. Use that.")
    if said["version"] != version:
        found.append(f"pyproject.toml has version {said['version']}. Set it to {version}, and commit.")
    statuses = [each for each in said["classifiers"] if each.startswith("Development Status")]
    if statuses != [status(version)]:
        found.append(f"pyproject.toml says {', '.join(statuses)}. For {version}, it is: {status(version)}")
    if top_heading(commit)["version"] != version:
        found.append(f"The top of {CHANGELOG} is {top_heading(commit)['version']}. It must be {version}.")
    return found


def status(version: str) -> str:
    """Return the classifier of how ready a version is."""
    pre = Version(version).pre
    if Version(version).is_devrelease or (pre and pre[0] == "a"):
        return "Development Status :: 3 - Alpha"
    return "Development Status :: 4 - Beta" if pre else "Development Status :: 5 - Production/Stable"


def problems_of_clone(version: str) -> list[str]:
    """Return what in this clone is in the way of a release of its commit."""
    found = []
    if changed := git("status", "--porcelain"):
        found.append(f"There are uncommitted changes. Commit or remove them:\n{changed}")
    if (branch := git("branch", "--show-current")) != "main":
        found.append(f"This is {branch or 'no branch'}. Releases are made on main: git switch main")
    if git("tag", "--list", version):
        found.append(f"The tag {version} is there already. Release the next version.")
    return found


def today() -> str:
    """Return the date of a release, in UTC."""
    return datetime.now(UTC).date().isoformat()


def commit_of_release(version: str) -> str:
    """
    Commit what a release changes in the texts of HEAD: the changelog's date, and what holds until the first release.

    No branch has the commit: merge it, or leave it to git. Returns HEAD if nothing is to be changed.
    """
    title = f"{version} ({today()})"
    with TemporaryDirectory(prefix="redsess-release-") as name:
        tree = Path(name) / "tree"
        git("worktree", "add", "--quiet", "--detach", str(tree), "HEAD")
        try:
            for path in filter(texts.is_text, files("HEAD")):
                text = (tree / path).read_text(encoding="utf-8")
                if path == CHANGELOG:
                    text = TOP_HEADING.sub(f"{title}\n{'=' * len(title)}", text, count=1)
                (tree / path).write_text(texts.of_a_release(text), encoding="utf-8")
            if run("git", "-C", tree, "status", "--porcelain"):
                run("git", "-C", tree, "commit", "--quiet", "--all", "--message", f"Release {version}")
            return run("git", "-C", tree, "rev-parse", "HEAD")
        finally:
            git("worktree", "remove", "--force", str(tree))


def unreleased(commit: str) -> list[str]:
    """Return where a commit says that its version is unreleased."""
    found = texts.unreleased({path: git("show", f"{commit}:{path}") for path in files(commit) if texts.is_text(path)})
    if top_heading(commit)["date"] == "unreleased":
        found.append(f"The changelog of {commit[:12]} says that {top_heading(commit)['version']} is unreleased.")
    return found


def check_signing() -> None:
    """Raise ReleaseError unless git can sign here, and the signature is one that others can check."""
    try:
        # An object that nothing refers to.
        signed = git("commit-tree", "-S", "-m", "Can this be signed?", "HEAD^{tree}")
    except ReleaseError as error:
        raise ReleaseError(
            f"{error}\ngit can't sign. Set user.signingkey (and gpg.format to ssh, for a key of SSH), or rehearse with "
            "--no-sign."
        ) from error
    try:
        verify("verify-commit", signed)
    except ReleaseError as error:
        raise ReleaseError(f"{error}\nNobody could check your signature. Add your public key to {SIGNERS}.") from error


def verify(command: str, name: str) -> None:
    """Have git verify a signature: ``command`` is ``verify-commit`` or ``verify-tag``."""
    git("-c", f"gpg.ssh.allowedSignersFile={ROOT / SIGNERS}", command, name)


def tag(version: str, commit: str, *, sign: bool) -> None:
    """Tag a commit. The tag has an author and a message; it is signed unless ``sign`` is False."""
    kind = "--sign" if sign else "--no-sign"
    git("tag", "--annotate", kind, "--message", f"django-redsess {version}", version, commit)
    if sign:
        verify("verify-tag", version)
