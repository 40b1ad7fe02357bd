"""
What the texts of the repository say until the first release, and no longer: that nothing is on the package index.

Such a passage stands between the comments ``until the first release`` and ``end of that``. It must be possible to leave
it out. An address that pip is given stands behind the name of the package. A release takes out both, in the commit that
has its date.
"""

import re
from collections.abc import Mapping

ADDRESS = " @ git+https://github.com/django-redsess/django-redsess"
"""From where pip installs the package until it is on the package index."""

PASSAGE = re.compile(
    r"^ *(?:\.\. until the first release|<!-- until the first release -->)\n.*?"
    r"^ *(?:\.\. end of that|<!-- end of that -->)(?:\n\n?|\Z)",
    re.DOTALL | re.MULTILINE,
)

UNRELEASED = re.compile(
    r"until the first release|not on PyPI|(?:released|uploaded)\s+(?:so\s+far|yet)|yet\s+(?:released|uploaded)|"
    rf"{re.escape(ADDRESS.split()[-1])}"
)
"""Words that no text of a release has."""


def is_text(path: str) -> bool:
    """Tell whether people read this file: a page, or one of the texts beside the README."""
    return path.endswith((".rst", ".md"))


def of_a_release(text: str) -> str:
    """Return a text without what holds until the first release only."""
    return PASSAGE.sub("", text).replace(ADDRESS, "")


def unreleased(texts: Mapping[str, str]) -> list[str]:
    """Return where texts say that nothing was released. ``texts`` has the text of each path."""
    return [
        f"{path}, line {text.count(chr(10), 0, found.start()) + 1}, says: {' '.join(found[0].split())}"
        for path, text in sorted(texts.items())
        for found in UNRELEASED.finditer(text)
    ]
