"""
The pages of the documentation as GitHub shows them, and what is on them, there and on the site.

GitHub gives a page to docutils, with the settings below. docutils knows no directive and no role of Sphinx. A directive
that it does not know vanishes here. So does one with an option that it does not know. A role stands in the text.

``python -m tests.project.docs.on_github SITE`` counts, page by page, what both have. ``SITE`` is the folder of the
built site. ``--docs`` names another folder of pages than that of this checkout.
"""

import argparse
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

from docutils.core import publish_parts
from docutils.writers import html4css1, null

from tests.project.docs.pages import DOCS

SETTINGS = {
    "auto_id_prefix": "id",
    "cloak_email_addresses": False,
    "doctitle_xform": True,
    "embed_stylesheet": False,
    "field_name_limit": 50,
    "file_insertion_enabled": False,
    "initial_header_level": 2,
    "math_output": "latex",
    "raw_enabled": True,
    "report_level": 5,
    "strip_comments": True,
    "syntax_highlight": "none",
}
"""What GitHub sets, in ``lib/github/commands/rest2html`` of https://github.com/github/markup."""

ROLE = re.compile(r"(?<![\w:]):[a-z]+(?::[a-z]+)?:`")

TYPOGRAPHIC = str.maketrans("\u2018\u2019\u201c\u201d\u2013\u2014", "''\"\"--")
"""Signs that the site makes of quotation marks and hyphens."""

WHAT = ("blocks", "headings", "links", "pictures")

VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}


class Link(NamedTuple):
    words: str
    address: str


class Page(HTMLParser):
    """What a reader sees of a page. It is the same for both, but for typographic signs, which are made plain."""

    def __init__(self, html: str, *, inside: str = "") -> None:
        """Read ``html``, or of it the first element of the name ``inside``."""
        super().__init__()
        self.headings: list[str] = []
        self.blocks: list[str] = []
        self.links: list[Link] = []
        self.pictures: list[str] = []
        self.ids: list[str] = []
        self.has_problems = False
        """Whether docutils has marked something that it could not read."""
        self.text = ""
        """All but blocks and literals."""
        self._inside = inside
        self._is_inside = not inside
        self._open: list[tuple[str, str, list[str]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if tag == self._inside:
            self._is_inside = True
        if not self._is_inside:
            return
        self.ids += [value for name, value in found.items() if name == "id" or (name, tag) == ("name", "a")]
        self.has_problems |= "problematic" in found.get("class", "")
        if tag in ("img", "svg"):
            self.pictures.append(plain(found.get("alt") or found.get("aria-label", "")))
        if tag not in VOID:
            kind = found.get("class", "") if tag != "a" else f"{found.get('class', '')}\n{found.get('href', '')}"
            self._open.append((tag, kind, []))

    def handle_data(self, data: str) -> None:
        if self._open and self._is_inside:
            self._open[-1][2].append(data)

    def handle_endtag(self, tag: str) -> None:
        if not self._is_inside or tag in VOID:
            return
        while self._open:
            name, kind, parts = self._open.pop()
            text = "".join(parts)
            self._close(name, kind, text)
            if self._open and "headerlink" not in kind:
                self._open[-1][2].append(text)
            if name == tag:
                break
        if tag == self._inside:
            self._is_inside = False

    def _close(self, tag: str, kind: str, text: str) -> None:
        if tag == "pre":
            self.blocks.append("\n".join(line.rstrip() for line in text.strip("\n").splitlines()))
        elif re.fullmatch(r"h[1-6]", tag):
            self.headings.append(plain(text))
        elif tag == "object":  # GitHub makes an image of it.
            self.pictures.append(plain(text))
        elif tag == "a":
            classes, _, address = kind.partition("\n")
            # The site makes links of names, and of pictures that are shown small.
            if address and not {"headerlink", "name", "image-reference"} & set(classes.split()):
                self.links.append(Link(plain(text), address))
        if tag in ("p", "dt", "dd", "li", "td", "th"):
            self.text += f"{text}\n"


def plain(text: str) -> str:
    """Return ``text`` with plain quotation marks and hyphens, and single blanks."""
    text = text.translate(TYPOGRAPHIC)
    return " ".join(re.sub("-+", "-", text).split())


@cache
def on_github(path: Path) -> Page:
    """Return a page as GitHub shows it."""
    text = path.read_text(encoding="utf-8")
    parts = publish_parts(text, source_path=str(path), writer=html4css1.Writer(), settings_overrides=SETTINGS)
    return Page(parts["html_body"])


def on_the_site(path: Path, site: Path, docs: Path = DOCS) -> Page:
    """Return a page as the site shows it, which was built into the folder ``site``."""
    html = (site / path.relative_to(docs)).with_suffix(".html").read_text(encoding="utf-8")
    return Page(html, inside="article")


def unknown(path: Path) -> list[str]:
    """Return what docutils says about a page. A toctree is for the site only."""
    said: list[str] = []

    class Stream:
        def write(self, text: str) -> None:
            said.append(text)

    settings = {**SETTINGS, "report_level": 2, "warning_stream": Stream()}
    text = path.read_text(encoding="utf-8")
    publish_parts(text, source_path=str(path), writer=null.Writer(), settings_overrides=settings)
    return [line for line in "".join(said).splitlines() if re.search(r"\((?:WARNING|ERROR|SEVERE)/\d\)", line)]


def raw_roles(path: Path) -> int:
    """Return how many roles stand in the text of a page as they are written."""
    return len(ROLE.findall(on_github(path).text))


def main() -> None:
    parser = argparse.ArgumentParser("python -m tests.project.docs.on_github", description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args()
    print(f"{'page':40} {'blocks':>12} {'headings':>12} {'links':>12} {'pictures':>12} {'roles':>6}")
    counts = []
    for path in sorted(arguments.docs.rglob("*.rst")):
        here, there = on_github(path), on_the_site(path, arguments.site, arguments.docs)
        pairs = [
            (len(getattr(here, what)), len(getattr(there, what)))
            for what in ("blocks", "headings", "links", "pictures")
        ]
        counts.append([number for pair in pairs for number in pair] + [raw_roles(path)])
        print(_line(str(path.relative_to(arguments.docs)), counts[-1]))
    print(_line("all pages: on GitHub / on the site", [sum(column) for column in zip(*counts, strict=True)]))


def _line(name: str, counts: list[int]) -> str:
    pairs = [f"{here}/{there}" for here, there in zip(counts[:-1:2], counts[1::2], strict=True)]
    return f"{name:40} {' '.join(f'{pair:>12}' for pair in pairs)} {counts[-1]:6}"


if __name__ == "__main__":
    main()
