"""Until the first release, texts say that nothing is on the package index. A release has no such text."""

import re

import pytest

from release import texts
from release.repository import CHANGELOG
from tests.project.docs.pages import ROOT, pages

pytestmark = pytest.mark.unit

TEXTS = {
    str(path.relative_to(ROOT)): path.read_text(encoding="utf-8")
    for path in [*pages(), *ROOT.glob("*.rst"), *ROOT.glob("*.md"), *ROOT.glob(".github/**/*.md")]
}

IS_RELEASED = texts.ADDRESS not in TEXTS["README.rst"]

INSTALLED = re.compile(r'pip install\b[^`\n]*"django-redsess(?:\[[\w,-]+\])?(?P<address>[^"]*)"')


def test_no_text_of_a_release_says_that_nothing_was_released() -> None:
    assert texts.unreleased({path: texts.of_a_release(text) for path, text in TEXTS.items()}) == []
    assert (not texts.unreleased(TEXTS)) is IS_RELEASED


def test_until_the_first_release_nobody_is_led_to_a_package_of_that_name_on_the_index() -> None:
    found = [(path, command["address"]) for path, text in TEXTS.items() for command in INSTALLED.finditer(text)]
    assert {"README.rst", "docs/tutorial.rst", "docs/howto/install.rst"} <= {path for path, _ in found}
    assert {address for _, address in found} == {"" if IS_RELEASED else texts.ADDRESS}, found


def test_a_passage_is_taken_out_with_its_comments_and_the_rest_stays() -> None:
    before = """\
One.

.. until the first release

Two.

.. end of that

#. Three: ``pip install "django-redsess[api] @ git+https://github.com/django-redsess/django-redsess"``

   .. until the first release

   Four.

   .. end of that

   Five.

<!-- until the first release -->

Six.

<!-- end of that -->
"""
    after = 'One.\n\n#. Three: ``pip install "django-redsess[api]"``\n\n   Five.\n\n'
    assert texts.of_a_release(before) == after
    assert texts.of_a_release(after) == after


@pytest.mark.parametrize(
    "said",
    [
        "It is not on PyPI yet.",
        "Nothing has been released so\nfar.",
        "No version was uploaded yet.",
        ".. until the first release",
        "pip install git+https://github.com/django-redsess/django-redsess",
    ],
)
def test_a_release_names_what_still_says_so(said: str) -> None:
    [found] = texts.unreleased({"docs/page.rst": f"One.\n\n{said}\n"})
    assert found.startswith("docs/page.rst, line 3, says: ")
    assert texts.unreleased({CHANGELOG: "A release candidate, which was never uploaded."}) == []
