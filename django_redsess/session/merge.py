"""Merging the changes of two requests to the same session."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

SIGN_IN = frozenset((SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY))
"""The keys of a sign-in. They are merged together, because a mixture of two sign-ins is invalid."""

MISSING = object()


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal and of one type, at every level. (In Python, ``1 == 1.0 == True``.)"""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def merge(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """
    Return ``theirs`` with the changes from ``base`` to ``mine``.

    All three are session data as the serializer reads them. Each top-level key is merged as a whole. If both sides
    changed the same key, ``mine`` wins.
    """
    own = {key for key in base.keys() | mine.keys() if not same(base.get(key, MISSING), mine.get(key, MISSING))}
    if own & SIGN_IN:
        own |= SIGN_IN
    merged = {key: value for key, value in theirs.items() if key not in own}
    merged.update({key: mine[key] for key in own if key in mine})
    return merged
