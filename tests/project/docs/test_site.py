"""The documentation as a site: it is built as Read the Docs does, and has whatever links lead to."""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urldefrag

import pytest
from django.core.management import get_commands, load_command_class

from django_redsess.documentation import SITE, page_url
from tests.helpers import readthedocs
from tests.project.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.unit

FOLDERS = (".github", "django_redsess", "docs", "release", "testproject")

KINDS = {".css", ".html", ".js", ".md", ".po", ".py", ".rst", ".toml", ".txt", ".yaml", ".yml"}


def files() -> Iterator[Path]:
    """Return the files that may have a link to the site: those at the root of the repository, and in ``FOLDERS``."""
    for path in (*ROOT.iterdir(), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*"))):
        if path.suffix in KINDS and path.is_file():
            yield path


def written_links() -> set[str]:
    """Return the links to the site that are written in a file, with all problem types: they are public names."""
    links = {
        link.rstrip(".,:;")
        for path in files()
        for link in re.findall(re.escape(SITE) + r"[^\s\"'`<>()\[\]]*", path.read_text(encoding="utf-8"))
    }
    return links - {SITE + "{page}.html"}


def called_links() -> set[str]:
    """Return the links that the package makes of literals, and those of its commands' help."""
    calls = [
        node
        for path in (ROOT / "django_redsess").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == page_url.__name__
    ]
    arguments = [[each.value for each in call.args if isinstance(each, ast.Constant)] for call in calls]
    links = {page_url(*known) for known, call in zip(arguments, calls, strict=True) if len(known) == len(call.args)}
    ours = [name for name, app in get_commands().items() if str(app).startswith("django_redsess")]
    for name in ours:
        parser = load_command_class(get_commands()[name], name).create_parser("manage.py", name)
        links |= set(re.findall(re.escape(SITE) + r"\S+", parser.epilog or ""))
    assert len(links) >= len(ours) > 5
    return links


def test_each_link_to_the_site_leads_to_a_page_of_the_documentation() -> None:
    links = written_links() | called_links()
    assert len(links) > 20
    pages = {page_url(str(path.relative_to(DOCS).with_suffix(""))) for path in DOCS.rglob("*.rst")} | {SITE}
    assert sorted(link for link in links if urldefrag(link).url not in pages) == []


def test_each_link_to_a_file_of_the_repository_leads_to_one() -> None:
    [address] = re.findall(r'^Source = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    pattern = re.escape(address) + r"/(?:blob|tree)/main/([^\s\"'`<>()\[\]#]*)"
    linked = {link for path in files() for link in re.findall(pattern, path.read_text(encoding="utf-8"))}
    assert "CHANGELOG.rst" in linked
    assert sorted(path for path in linked if not (ROOT / path).exists()) == []


def test_read_the_docs_has_the_python_and_the_extras_that_are_named() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = readthedocs.configuration()
    assert f"Programming Language :: Python :: {said['build']['tools']['python']}" in project["classifiers"]
    [package] = said["python"]["install"]
    assert (package["method"], package["path"]) == ("pip", ".")
    assert set(package["extra_requirements"]) <= set(project["optional-dependencies"])
    assert (ROOT / said["sphinx"]["configuration"]).is_file()
    assert project["urls"]["Documentation"] == SITE


@pytest.mark.slow
def test_the_site_is_built_without_a_warning_and_without_the_network(site: Path) -> None:
    for page in DOCS.rglob("*.rst"):
        name = page.relative_to(DOCS).with_suffix(".html")
        # Search engines are to show this address, and no copy.
        assert f'<link rel="canonical" href="{SITE}{name}">' in (site / name).read_text(encoding="utf-8")


@pytest.mark.slow
def test_each_link_to_the_site_leads_to_a_page_and_an_anchor_that_it_has(site: Path) -> None:
    for link in sorted(written_links() | called_links()):
        address, anchor = urldefrag(link)
        page = (site / (address.removeprefix(SITE) or "index.html")).read_text(encoding="utf-8")
        assert not anchor or f'id="{anchor}"' in page, link
