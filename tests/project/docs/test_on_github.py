"""Each page can be read on GitHub as on the site: the same headings, blocks of code, pictures, and links that work."""

import re
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

from tests.project.docs.on_github import on_github, on_the_site, raw_roles, unknown
from tests.project.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.unit

PAGES = sorted(DOCS.rglob("*.rst"))

ALL = [*ROOT.glob("*.rst"), *PAGES]


def test_docutils_knows_all_that_a_page_has() -> None:
    """A directive, an option or a role of Sphinx alone would vanish, or stand there as it is written."""
    of_the_site = 'Unknown directive type "toctree"'
    assert [line for page in ALL for line in unknown(page) if of_the_site not in line] == []
    assert [page for page in ALL if raw_roles(page)] == []
    assert [page for page in ALL if on_github(page).has_problems] == []


def test_a_toctree_is_not_shown() -> None:
    with_one = [page for page in ALL if ".. toctree::" in page.read_text(encoding="utf-8")]
    assert len(with_one) > 3
    for page in with_one:
        before, _, _ = page.read_text(encoding="utf-8").partition(".. toctree::")
        assert ".. github display off\n\n" in before, page


def test_each_link_leads_to_a_file_and_to_an_anchor_that_it_has() -> None:
    links = [(page, link.address) for page in ALL for link in on_github(page).links]
    relative = [(page, address) for page, address in links if not re.match(r"[a-z]+:", address)]
    assert len(relative) > 500
    assert [(str(page), address) for page, address in relative if not leads(page, address)] == []


def leads(page: Path, address: str) -> bool:
    path, anchor = urldefrag(address)
    target = (page.parent / unquote(path)).resolve() if path else page
    if not anchor:
        return target.exists()
    return target.suffix == ".rst" and target.is_file() and anchor in on_github(target).ids


def test_no_two_places_of_a_page_have_the_same_anchor() -> None:
    """docutils names the second one "id1": a link to it would break with the next section above."""
    for page in PAGES:
        numbered = [id_ for id_ in on_github(page).ids if re.fullmatch(r"id\d+", id_)]
        assert numbered == [] or all(not is_linked(page, id_) for id_ in numbered), page


def is_linked(page: Path, anchor: str) -> bool:
    return any(link.address.endswith(f"{page.name}#{anchor}") for each in ALL for link in on_github(each).links)


def test_what_vanishes_and_what_stands_there_raw_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.rst"
    page.write_text(
        "Title\n=====\n\nSee :doc:`install`.\n\n"
        ".. code-block:: python\n   :caption: settings.py\n\n   1\n\n"
        ".. setting:: PREFIX\n\n   A text.\n\n"
        ".. code-block:: python\n\n   2\n"
    )
    assert on_github(page).blocks == ["2"]
    assert raw_roles(page) == 1
    assert [line.partition(") ")[2] for line in unknown(page)] == [
        'Unknown interpreted text role "doc".',
        'Error in "code-block" directive:',
        'Unknown directive type "setting".',
    ]


@pytest.mark.slow
def test_each_page_has_on_github_what_it_has_on_the_site(site: Path) -> None:
    for path in PAGES:
        here, there = on_github(path), on_the_site(path, site)
        assert here.headings == there.headings, path
        assert here.blocks == there.blocks, path
        assert [link.words for link in here.links] == [link.words for link in there.links], path
        assert here.pictures == there.pictures, path
