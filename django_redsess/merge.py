"""Two requests changed the same session: whose change of what is kept."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

SIGN_IN = frozenset((SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY))
"""The keys that say who is signed in. A mixture of two sign-ins would be neither: they move together."""

MISSING = object()


def changed(base: dict[str, Any], mine: dict[str, Any]) -> frozenset[str]:
    """Return the top-level keys that were added, changed or deleted on the way from ``base`` to ``mine``."""
    keys = frozenset(key for key in base.keys() | mine.keys() if base.get(key, MISSING) != mine.get(key, MISSING))
    return keys | SIGN_IN if keys & SIGN_IN else keys


def merge(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """
    Carry the changes from ``base`` to ``mine`` over to ``theirs``, and return the result.

    All three are session data as the serializer reads it. Only whole top-level keys are told apart: where both
    changed the same key, ``mine`` holds.
    """
    own = changed(base, mine)
    merged = {key: value for key, value in theirs.items() if key not in own}
    merged.update({key: mine[key] for key in own if key in mine})
    return merged
