"""What should become of two changes of the same session, as a model of the merge."""

from __future__ import annotations

import json
from typing import Any

from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from hypothesis import strategies as st

SIGN_IN = {SESSION_KEY, BACKEND_SESSION_KEY, HASH_SESSION_KEY}

Data = dict[str, Any]

values = st.sampled_from([0, False, 1, True, None, "ä", [1], {"x": {"y": 1}}])

some_data = st.dictionaries(st.sampled_from(["a", "b", *sorted(SIGN_IN)]), values)


def exactly(data: Data) -> str:
    """Spell ``data`` out: True and 1 are not the same."""
    return json.dumps(data, sort_keys=True)


def merged(base: Data, mine: Data, theirs: Data) -> Data:
    """What should become of ``theirs`` when somebody who has read ``base`` saves ``mine``."""
    touched = {name for name in {*base, *mine} if exactly_at(base, name) != exactly_at(mine, name)}
    if touched & SIGN_IN:
        touched |= SIGN_IN
    kept = {name: value for name, value in theirs.items() if name not in touched}
    return {**kept, **{name: mine[name] for name in touched if name in mine}}


def exactly_at(data: Data, name: str) -> str | None:
    return json.dumps(data[name], sort_keys=True) if name in data else None
