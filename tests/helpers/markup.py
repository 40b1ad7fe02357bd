"""What a page says, and what its form sends."""

from __future__ import annotations

import html
import re

from django.http import HttpResponse


def text_of(response: HttpResponse) -> str:
    """Return what a page says, without its markup."""
    assert response.status_code == 200, response.status_code
    without = re.sub(r"<(script|style)\b.*?</\1>|<[^>]*>", " ", response.content.decode(), flags=re.DOTALL)
    return " ".join(html.unescape(without).split())


def hidden(response: HttpResponse) -> dict[str, str]:
    """Return what the form of a confirmation page sends."""
    fields = {}
    for tag in re.findall(r'<input type="hidden"[^>]*>', response.content.decode()):
        found = dict(re.findall(r'(name|value)="([^"]*)"', tag))
        fields[found["name"]] = html.unescape(found.get("value", ""))
    return fields


def lines_of(text: str, first_cell: str) -> list[list[str]]:
    """Return the cells of the lines of Markdown tables that begin with this cell."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line[:1] == "|"]
    return [row for row in rows if row[0] == first_cell]
