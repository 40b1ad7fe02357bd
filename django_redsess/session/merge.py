"""Merging the changes of two requests to the same session."""

from __future__ import annotations

import pickle
from contextlib import suppress
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY

SIGN_IN = frozenset((SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY))
"""The keys of a sign-in. They are merged together, because a mixture of two sign-ins is invalid."""

PLAIN = frozenset((str, bytes, int, bool, type(None)))
"""Types whose ``==`` can be trusted, between two values of one type."""


def same(one: Any, other: Any, *serializers: Any) -> bool:
    """
    Return whether two values have the same content: whether one of ``serializers`` writes the same bytes for both.

    The ``==`` of an object may say anything, or raise. So only plain values are compared by it, and only within one
    type. (In Python, ``1 == 1.0 == True``.) Lists, tuples, dicts and sets are compared item by item, since pickle is no
    help: its bytes depend on whether equal texts are one object, and on a set's history. The order of a dict or set
    does not count.
    """
    kind = type(one)
    if kind is not type(other):
        return False
    if one is other:
        return True
    if kind in PLAIN:
        return bool(one == other)
    if kind is float:
        return float.hex(one) == float.hex(other)
    if kind is dict and PLAIN.issuperset(map(type, (*one, *other))):
        # 1 and True are one key.
        keys = {key: type(key) for key in one} == {key: type(key) for key in other}
        return keys and all(same(value, other[key], *serializers) for key, value in one.items())
    if kind is list or kind is tuple:
        return len(one) == len(other) and all(same(*pair, *serializers) for pair in zip(one, other, strict=True))
    if (kind is set or kind is frozenset) and PLAIN.issuperset(map(type, (*one, *other))):
        return {(each, type(each)) for each in one} == {(each, type(each)) for each in other}
    return not _written(one, serializers).isdisjoint(_written(other, serializers))


def _written(value: Any, serializers: tuple[Any, ...]) -> set[bytes]:
    """Return what ``serializers`` write for ``value``, and for what they then read. If none can: what pickle writes."""
    found = set[bytes]()
    for serializer in serializers:
        with suppress(Exception):  # A serializer may raise anything.
            once = serializer.dumps({"": value})
            # One that encrypts writes other bytes each time.
            if serializer.dumps({"": value}) == once:
                found |= {once, serializer.dumps(serializer.loads(once))}
    if not found:
        with suppress(Exception):
            found.add(pickle.dumps(value))
    return found


def merge(base: dict[str, Any], mine: dict[str, Any], theirs: dict[str, Any], *serializers: Any) -> dict[str, Any]:
    """
    Return ``theirs`` with the changes from ``base`` to ``mine``.

    All three are session data as the serializer reads them. Each top-level key is merged as a whole. If both sides
    changed the same key, ``mine`` wins. ``serializers`` are as in :func:`same`.
    """
    kept = {key for key in base.keys() & mine.keys() if same(base[key], mine[key], *serializers)}
    own = (base.keys() | mine.keys()) - kept
    if own & SIGN_IN:
        own |= SIGN_IN
    merged = {key: value for key, value in theirs.items() if key not in own}
    merged.update({key: mine[key] for key in own if key in mine})
    return merged
