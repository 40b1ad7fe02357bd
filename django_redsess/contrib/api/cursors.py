"""Cursors: where the next page of a list begins, as a text that programs send back unread."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from typing import Any

from django_redsess.contrib.api.parameters import Parameters
from django_redsess.contrib.api.problems import Problem

DIGEST_LENGTH = 12

Part = int | str


def cursor_of(asked: Parameters, place: Sequence[Part] | None) -> str | None:
    """Return the cursor of ``place`` in the list that ``asked`` is about. None if there is no other page."""
    if place is None:
        return None
    text = json.dumps([_digest(asked), *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def place_of(asked: Parameters, *types: type) -> list[Part] | None:
    """
    Return the place that ``asked`` has in its cursor, None without one: its parts, which have these ``types``.

    Raises Problem (422) for a text that is no cursor, or one of another list: with other filters, or another order.
    """
    text = asked.text("cursor", longest=500)
    if not text:
        return None
    try:
        found: list[Any] = json.loads(base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True))
        digest, parts = found[0], found[1:]
        fits = [type(part) for part in parts] == list(types)
    except (ValueError, TypeError, LookupError, RecursionError):
        fits, digest, parts = False, "", []
    if not fits or not all(_is_usable(part) for part in parts):
        raise Problem(422, "cursor must be the text that the page before has as next.")
    if digest != _digest(asked):
        raise Problem(422, "cursor is of a list with other filters or another order. Begin without it.")
    return parts


def _is_usable(part: Part) -> bool:
    # Beyond these, numbers are no times and no offsets.
    return part.isascii() if isinstance(part, str) else 0 <= part < 2**53


def _digest(asked: Parameters) -> str:
    return hashlib.sha256(json.dumps([asked.about, asked.filters]).encode()).hexdigest()[:DIGEST_LENGTH]
