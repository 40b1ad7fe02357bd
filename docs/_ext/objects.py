"""
The names that the reference describes, as Sphinx knows them.

They are in the index of the site, and in its inventory, by which other projects link to them. ``links`` makes links of
the literals that say them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from functools import cache

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform

from docs._ext import names

OF_DJANGO = {"setting": "confval", "check": "check", "command": "command"}
"""What the inventory calls them."""


@cache
def _on_pages() -> Mapping[str, list[names.Place]]:
    found = defaultdict[str, list[names.Place]](list)
    for place in names.places():
        found[place.page].append(place)
    return found


class NotedNames(SphinxTransform):
    """Note the names whose sections a page has."""

    # Before Sphinx collects the entries of the index.
    default_priority = 800

    def apply(self, **kwargs: object) -> None:
        sections = {id_: section for section in self.document.findall(nodes.section) for id_ in section["ids"]}
        for place in _on_pages().get(self.env.docname, ()):
            self._note(place, sections[place.anchor])

    def _note(self, place: names.Place, section: nodes.section) -> None:
        python, standard = self.env.domains.python_domain, self.env.domains.standard_domain
        if place.kind == "module":
            python.note_module(place.name, place.anchor, "", "", False)
            entry = f"{place.name}; module"
        elif place.kind in OF_DJANGO:
            standard.note_object(OF_DJANGO[place.kind], place.name, place.anchor, location=section)
            entry = f"{place.name}; {place.kind}"
        else:
            python.note_object(place.name, place.kind, place.anchor, location=section)
            home, _, last = place.name.rpartition(".")
            entry = f"{last}; in {home}"
        index = addnodes.index(entries=[("single", entry, place.anchor, "", None)])
        section.insert(1, index)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(NotedNames)
    for kind in ("check", "command"):
        app.add_object_type(kind, kind)
    return {"parallel_read_safe": True}
