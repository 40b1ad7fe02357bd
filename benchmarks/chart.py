"""The bar chart of a report, as SVG: how long each engine takes for an operation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

OPERATIONS = {
    "load": "Load a session",
    "change": "Load, change and save it",
    "create": "Create one",
    "sign-in": "Sign in",
}
"""The operations in the chart, and their headings."""

WIDTH, MARGIN, ROW, BAR, HEADING = 860, 24, 22, 16, 44
BARS_AT, VALUES_AT = 330, 760
LONGEST = 4.0
"""Longer bars are cut here and end in a point: beside a database, the others would be too short to compare."""

OURS_COLOR, OTHERS_COLOR, TEXT_COLOR, LINE_COLOR = "#0f766e", "#94a3b8", "#1e293b", "#475569"

SVG = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" \
aria-labelledby="title desc" font-family="system-ui, -apple-system, 'Segoe UI', sans-serif" font-size="14">
<title id="title">{title}</title>
<desc id="desc">{description}</desc>
<rect width="{width}" height="{height}" rx="8" fill="#ffffff" stroke="#cbd5e1"/>
<g fill="{color}">
<text x="{margin}" y="34" font-size="18" font-weight="600">{title}</text>
<text x="{margin}" y="56">{about}</text>
{body}
</g>
</svg>
"""


def chart(rows: Sequence[Mapping[str, Any]], *, base: str, ours: str) -> str:
    """
    Draw the ratios of ``rows``, the operations on one server, in their order.

    ``base`` is the engine that ratios compare with. The bars of the engine ``ours`` have a colour of their own.
    """
    title, about = "Time for one operation", f"as a multiple of {base}: shorter is faster"
    body, sentences, y = [], [], 76
    for operation, heading in OPERATIONS.items():
        of_operation = [row for row in rows if row["operation"] == operation]
        if not of_operation:
            continue
        body.append(_text(MARGIN, y + HEADING - 16, heading, weight=600))
        y += HEADING
        sentences.append(
            f"{heading}: " + ", ".join(f"{row['engine']} {row['ratio']:.2f}" for row in of_operation) + "."
        )
        end, line_at = y + len(of_operation) * ROW, BARS_AT + _length(1)
        # Drawn first, so that bars and values cover it.
        body.append(f'<path d="M{line_at:.1f} {y - 2}V{end - 2}" stroke="{LINE_COLOR}" stroke-dasharray="3 3"/>')
        for number, row in enumerate(of_operation):
            body += _bar(y + number * ROW, row["engine"], row["ratio"], is_ours=row["engine"] == ours)
        y = end
    if not body:
        sentences.append("No operations were measured.")
        body.append(_text(MARGIN, y + HEADING - 16, sentences[0]))
        y += HEADING
    return SVG.format(
        width=WIDTH,
        height=y + MARGIN,
        margin=MARGIN,
        color=TEXT_COLOR,
        title=escape(title),
        about=escape(about),
        description=escape(f"{title}, {about}. {' '.join(sentences)}"),
        body="\n".join(body),
    )


def _bar(y: int, engine: str, ratio: float, *, is_ours: bool) -> list[str]:
    end, middle, bottom = BARS_AT + _length(min(ratio, LONGEST)), y + BAR // 2, y + BAR
    side = end - 10 if ratio > LONGEST else end
    outline = f"M{BARS_AT} {y}H{side:.1f}L{end:.1f} {middle}L{side:.1f} {bottom}H{BARS_AT}z"
    weight = 600 if is_ours else 400
    return [
        _text(BARS_AT - 10, y + 13, engine, weight=weight, anchor="end"),
        f'<path d="{outline}" fill="{OURS_COLOR if is_ours else OTHERS_COLOR}"/>',
        _text(end + 8, y + 13, f"{ratio:.2f}", weight=weight),
    ]


def _length(ratio: float) -> float:
    return (VALUES_AT - BARS_AT) * ratio / LONGEST


def _text(x: float, y: int, text: str, *, weight: int = 400, anchor: str = "start") -> str:
    return (
        f'<text x="{x:.1f}" y="{y}" font-weight="{weight}" text-anchor="{anchor}" '
        f'paint-order="stroke" stroke="#ffffff" stroke-width="4">{escape(text)}</text>'
    )
