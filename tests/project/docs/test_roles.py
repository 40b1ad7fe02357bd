"""From the front page, everybody reaches what they need in two clicks: by the page of their role."""

import re
from posixpath import normpath

import pytest

from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

ROLES = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "roles").glob("*.rst")}


def links(folder: str, text: str) -> list[str]:
    """Return the pages that the links of a page in ``folder`` lead to."""
    files = re.findall(r"<([^<>`#]+)\.rst(?:#[^<>`]+)?>`__", text)
    return [normpath(f"{folder}/{file}") for file in files]


def test_the_front_page_leads_to_each_role_before_all_else() -> None:
    front = links(".", (DOCS / "index.rst").read_text(encoding="utf-8"))
    assert front[: len(ROLES)] == [f"roles/{name}" for name in ("developer", "operator", "security", "reliability")]
    assert {page for page in front if page.startswith("roles/")} == {f"roles/{name}" for name in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_each_question_of_a_role_leads_to_an_answer(role: str) -> None:
    entries = re.findall(r"^- .+\n(?:  .+\n)*", ROLES[role], re.MULTILINE)
    assert len(entries) > 15
    assert [entry for entry in entries if not links("roles", entry) and "<https://" not in entry] == []


def test_each_guide_and_each_explanation_is_for_somebody() -> None:
    front = {page for text in ROLES.values() for page in links("roles", text)}
    there = {f"{folder}/{path.stem}" for folder in ("howto", "explanation") for path in (DOCS / folder).glob("*.rst")}
    assert len(there) > 60
    assert sorted(there - front - {"howto/index", "explanation/index"}) == []
