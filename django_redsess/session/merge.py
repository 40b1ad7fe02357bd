"""Merging what two requests changed in the same session."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

SIGN_IN = frozenset((SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY))
"""The keys that say who is signed in. They are merged as one: a mixture of two sign-ins would be neither."""

MISSING = object()


def same(one: Any, other: Any) -> bool:
    """Tell whether two values are equal, in type too, at every level. (To Python, ``1``, ``1.0`` and ``True`` are.)"""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


def merge(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """
    Return ``theirs`` with the changes that were made from ``base`` to ``mine``.

    All three are session data as the serializer reads it. Whole top-level keys are merged: where both changed the same
    key, ``mine`` wins.
    """
    own = {key for key in base.keys() | mine.keys() if not same(base.get(key, MISSING), mine.get(key, MISSING))}
    if own & SIGN_IN:
        own |= SIGN_IN
    merged = {key: value for key, value in theirs.items() if key not in own}
    merged.update({key: mine[key] for key in own if key in mine})
    return merged
