"""Drawn pictures are parts of the pages on the site: there they take its colours, light or dark, and its fonts."""

from __future__ import annotations

from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.transforms import SphinxTransform


class DrawnPictures(SphinxTransform):
    """Put drawn pictures into the page, as wide as there is room. Where there is less than one needs, it scrolls."""

    # Before Sphinx collects images.
    default_priority = 5

    def apply(self, **kwargs: object) -> None:
        for image in list(self.document.findall(nodes.image)):
            if image["uri"].endswith(".svg"):
                path, _ = self.env.relfn2path(image["uri"], self.env.docname)
                self.env.note_dependency(path)
                # Without a tab stop, no keyboard could scroll it.
                head = '<div tabindex="0" role="group" aria-label="Picture" style="overflow-x: auto">'
                picture = (Path(self.env.srcdir) / path).read_text(encoding="utf-8")
                image.replace_self(nodes.raw("", f"{head}{picture}</div>", format="html"))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_transform(DrawnPictures)
    return {"parallel_read_safe": True}
