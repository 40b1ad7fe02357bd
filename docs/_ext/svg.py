"""
Parts of the pictures.

In a page of the site they take its colours, light or dark. Where a picture is shown as a file, as GitHub does, it has
colours and a background of its own.
"""

from __future__ import annotations

from html import escape


def picture(width: float, height: float, parts: list[str], *, alt: str) -> str:
    """Put ``parts`` into a picture of that size, which is called ``alt``. It never gets so small as not to be read."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="img" aria-label="{escape(alt)}" style="display: block; margin: auto; width: 100%; '
        f'height: auto; min-width: {width * 0.8:g}px; max-width: {width:g}px">'
        f"<style>{OF_ITS_OWN}</style>"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" '
        f'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0 8 4 0 8z" style="fill: {MUTED}"/></marker></defs>'
        f"{''.join(parts)}</svg>"
    )


MUTED = "var(--color-foreground-secondary, #667)"


# The picture is the root where it is a file.
OF_ITS_OWN = (
    "svg:root{background:#fff;font-family:sans-serif;width:auto!important}"
    "@media (prefers-color-scheme:dark){svg:root{background:#131416;--color-foreground-primary:#ddd;"
    "--color-foreground-secondary:#9ca0a5;--color-background-secondary:#1f2124;--color-brand-content:#7fd1ac}}"
)


def box(x: float, y: float, width: float, height: float, text: str) -> str:
    """Draw a box around the middle ``x``, ``y``, with one line of text."""
    return (
        f'<rect x="{x - width / 2:g}" y="{y - height / 2:g}" width="{width:g}" height="{height:g}" rx="5" '
        'style="fill: var(--color-background-secondary, #eef); stroke: var(--color-brand-content, #0a6847); '
        'stroke-width: 2"/>' + label(x, y + 4.5, text, weight=600)
    )


def label(x: float, y: float, text: str, *, anchor: str = "middle", weight: int = 400, size: int = 13) -> str:
    """Write ``text`` at ``x``, on the line ``y``."""
    style = f"fill: var(--color-foreground-primary, #222); font-size: {size}px; font-weight: {weight}"
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" style="{style}">{escape(text)}</text>'


def arrow(x1: float, y1: float, x2: float, y2: float, *, dashed: bool = False) -> str:
    """Draw an arrow to ``x2``, ``y2``."""
    dashes = "; stroke-dasharray: 5 4" if dashed else ""
    return (
        f'<path d="M{x1:g} {y1:g} {x2:g} {y2:g}" marker-end="url(#head)" '
        f'style="stroke: {MUTED}; stroke-width: 1.3; fill: none{dashes}"/>'
    )
