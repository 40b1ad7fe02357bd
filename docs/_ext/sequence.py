"""
A picture of who says what to whom, in order.

Its first line names who there is, from the left, with bars between. Each line that follows is one arrow (``Browser ->
Redis: words``), an answer (``Redis --> Browser: words``), or what somebody does alone (``Browser: words``).
"""

from __future__ import annotations

import re

from docs._ext import svg

LINE = re.compile(r"(?P<who>[\w ]+?)(?: (?P<arrow>--?>) (?P<whom>[\w ]+?))?: (?P<words>.+)")

ACROSS, DOWN = 172.0, 34.0
HEAD = 56.0


def draw(text: str, *, alt: str) -> str:
    """Return the picture, as SVG. Raises ValueError for a line that can't be read."""
    first, *lines = [line.strip() for line in text.splitlines() if line.strip()]
    names = [name.strip() for name in first.split("|")]
    at = {name: (place + 0.5) * ACROSS for place, name in enumerate(names)}
    bottom = HEAD + len(lines) * DOWN
    parts = [
        f'<path d="M{x:g} {HEAD - 14:g}V{bottom:g}" style="stroke: {svg.MUTED}; opacity: 0.4"/>' for x in at.values()
    ]
    parts += [svg.box(x, HEAD / 2, ACROSS - 24, 28, name) for name, x in at.items()]
    for row, line in enumerate(lines):
        found = LINE.fullmatch(line)
        if found is None:
            raise ValueError(f"This is no line of a sequence: {line}")
        parts += _row(at, found, HEAD + (row + 0.7) * DOWN)
    return svg.picture(len(names) * ACROSS, bottom + 4, parts, alt=alt)


def _row(at: dict[str, float], line: re.Match[str], y: float) -> list[str]:
    x = at[line["who"]]
    if line["whom"] is None:
        width = sum(10 if letter.isupper() else 6.6 for letter in line["words"]) + 14
        middle = min(max(x, width / 2 + 2), len(at) * ACROSS - width / 2 - 2)
        return [svg.box(middle, y - 4, width, 24, line["words"])]
    to = at[line["whom"]]
    arrow = svg.arrow(x, y, to, y, dashed=line["arrow"] == "-->")
    return [arrow, svg.label((x + to) / 2, y - 5, line["words"], size=12)]
