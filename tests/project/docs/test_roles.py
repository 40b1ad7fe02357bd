"""From the front page, everybody reaches what they need in two clicks: by the page of their role."""

import re
from typing import NamedTuple

import pytest

from tests.project.docs.pages import DOCS

pytestmark = pytest.mark.unit

ROLES = {path.stem: path.read_text(encoding="utf-8") for path in (DOCS / "roles").glob("*.rst")}


class Link(NamedTuple):
    page: str
    section: str


def links(text: str) -> list[Link]:
    """Return where the links of a page lead. Sphinx knows where labels without a page are."""
    targets = re.findall(r":(?:doc|ref):`(?:[^`<]*<)?/?([^`<>]+)>?`", text)
    return [Link(page, section) for page, _, section in (" ".join(each.split()).partition(":") for each in targets)]


def titles(page: str) -> list[str]:
    text = (DOCS / f"{page}.rst").read_text(encoding="utf-8")
    return [title.lower() for title in re.findall(r"^(\S.*)\n[=-]{3,}$", text, re.MULTILINE)]


def test_the_front_page_leads_to_each_role_before_all_else() -> None:
    front = links((DOCS / "index.rst").read_text(encoding="utf-8"))
    assert [link.page for link in front[: len(ROLES)]] == [
        f"roles/{name}" for name in ("developer", "operator", "security", "reliability")
    ]
    assert {link.page for link in front if link.page.startswith("roles/")} == {f"roles/{name}" for name in ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_each_question_of_a_role_leads_to_an_answer(role: str) -> None:
    entries = re.findall(r"^- .+\n(?:  .+\n)*", ROLES[role], re.MULTILINE)
    assert len(entries) > 15
    assert [entry for entry in entries if not links(entry) and "<https://" not in entry] == []


@pytest.mark.parametrize("role", ROLES)
def test_the_sections_that_a_role_is_led_to_exist(role: str) -> None:
    named = [link for link in links(ROLES[role]) if link.section]
    assert len(named) > 1
    assert [link for link in named if link.section.lower() not in titles(link.page)] == []


def test_each_guide_and_each_explanation_is_for_somebody() -> None:
    front = {link.page for text in ROLES.values() for link in links(text)}
    there = {f"{folder}/{path.stem}" for folder in ("howto", "explanation") for path in (DOCS / folder).glob("*.rst")}
    assert len(there) > 60
    assert sorted(there - front - {"howto/index", "explanation/index"}) == []
