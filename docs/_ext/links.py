"""
Links to files, names as literals, and search words: GitHub shows the pages as they are, and here they work as well.

A page links to another by its file and the id of a section, as in ``<server.rst#persistence>``. GitHub follows that,
and here it leads to the page that was built. A file that is no page can be downloaded. A literal that is the name of
something with a place in the reference is a link to it. The keywords of a page are entries of the index, and lead
searches to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import PurePosixPath
from posixpath import normpath
from typing import NamedTuple

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.transforms import SphinxTransform
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging

logger = logging.getLogger(__name__)

DJANGO_HAS_THEM = {"SessionMiddleware", "SessionStore"}
"""Names of classes that mean Django's, unless what stands before says otherwise."""


class Place(NamedTuple):
    page: str
    anchor: str


class Keywords(SphinxTransform):
    """Make entries of the index of a page's keywords. A search finds pages that have all of its words: single words."""

    default_priority = 500

    def apply(self) -> None:
        for meta in self.document.findall(nodes.meta):
            if meta.get("name") != "keywords":
                continue
            phrases = [" ".join(phrase.split()) for phrase in meta["content"].split(",")]
            meta["content"] = ", ".join(sorted({word for phrase in phrases for word in re.findall(r"\w+", phrase)}))
            anchor = nodes.target("", "", ids=["found-by"])
            entries = [("single", phrase, "found-by", "main", None) for phrase in phrases]
            self.document[0].insert(1, [addnodes.index(entries=entries), anchor])
            return


class Downloads(SphinxTransform):
    """Make a download of each link to a file beside the pages that is no page."""

    default_priority = 5

    def apply(self) -> None:
        for link in list(self.document.findall(nodes.reference)):
            address = link.get("refuri", "")
            if is_file(address) and not address.partition("#")[0].endswith(".rst"):
                download = addnodes.download_reference("", "", reftarget=address, refdoc=self.env.docname, refwarn=True)
                download += nodes.literal("", link.astext(), classes=["download"])
                link.replace_self(download)


class Pages(SphinxPostTransform):
    """Lead links to files of pages to the pages, and say where there is none."""

    default_priority = 5

    def run(self) -> None:
        here = self.env.docname
        for link in self.document.findall(nodes.reference):
            address = link.get("refuri", "")
            if not is_file(address) and not address.startswith("#"):
                continue
            path, _, anchor = address.partition("#")
            page = normpath(PurePosixPath(here).parent / path).removesuffix(".rst") if path else here
            if page not in self.env.all_docs:
                logger.warning("no page %s", address, location=link, type="link")
            elif anchor and anchor not in anchors(self.env, page):
                logger.warning("no section %s", address, location=link, type="link")
            else:
                lead(link, self.app, here, Place(page, anchor))


class Names(SphinxPostTransform):
    """Make a link of each literal that is a name of the reference, but not where that very name is explained."""

    default_priority = 6

    def run(self) -> None:
        here = self.env.docname
        for literal in list(self.document.findall(nodes.literal)):
            place = places(self.env).get(literal.astext())
            if place is None or not isinstance(literal.parent, nodes.paragraph | nodes.term | nodes.entry):
                continue
            if place.page == here and any(place.anchor in above["ids"] for above in parents(literal)):
                continue
            link = nodes.reference("", "", internal=True, classes=["name"])
            lead(link, self.app, here, place)
            literal.replace_self(link)
            link += literal


def is_file(address: str) -> bool:
    """Tell whether an address is that of a file, relative to the page."""
    return bool(address) and not re.match(r"[a-z]+:|/|#", address)


def parents(node: nodes.Node) -> Iterator[nodes.Element]:
    while node.parent is not None:
        node = node.parent
        yield node


def lead(link: nodes.reference, app: Sphinx, here: str, place: Place) -> None:
    anchor = f"#{place.anchor}" if place.anchor else ""
    to_page = "" if place.page == here else app.builder.get_relative_uri(here, place.page)
    link["refuri"] = (to_page + anchor) or app.builder.get_relative_uri(here, here)
    link["internal"] = True


@cache
def anchors(env: BuildEnvironment, page: str) -> frozenset[str]:
    """Return the ids of a page."""
    return frozenset(id_ for node in env.get_doctree(page).findall(nodes.Element) for id_ in node["ids"])


@cache
def places(env: BuildEnvironment) -> dict[str, Place]:
    """
    Return where the reference explains each name, as pages write it.

    A setting is ``PREFIX``, a check ``E001`` or ``redsess.E001``, a command ``manage.py online``. A name of Python may
    leave out what stands before: ``online.count()`` is enough. A class needs only its own name, if no other of the core
    has that.
    """
    found: dict[str, set[Place]] = {}
    of_the_core: dict[str, set[Place]] = {}
    for name, place, kind in described(env):
        for written in spellings(name, kind):
            found.setdefault(written, set()).add(place)
            if not name.startswith("django_redsess.contrib."):
                of_the_core.setdefault(written, set()).add(place)
    return {written: min(there) for written, there in {**found, **of_the_core}.items() if len(there) == 1}


def described(env: BuildEnvironment) -> Iterator[tuple[str, Place, str]]:
    for domain in ("std", "py"):
        for name, _, kind, page, anchor, _ in env.domains[domain].get_objects():
            yield name, Place(page, anchor), kind


def spellings(name: str, kind: str) -> Iterator[str]:
    if kind == "confval":
        yield name
    elif kind == "check":
        yield from (name, f"redsess.{name}", f"django_redsess.{name}")
    elif kind == "command":
        yield f"manage.py {name}"
    elif name.startswith("django_redsess"):
        call = "()" if kind in {"function", "method", "decorator"} else ""
        parts = name.split(".")
        for first in range(len(parts)):
            is_plain = first == len(parts) - 1
            if not is_plain or len(parts) == 1 or (kind in {"class", "exception"} and parts[-1] not in DJANGO_HAS_THEM):
                yield ".".join(parts[first:]) + call


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(Keywords)
    app.add_transform(Downloads)
    app.add_post_transform(Pages)
    app.add_post_transform(Names)
    return {"parallel_read_safe": True}
