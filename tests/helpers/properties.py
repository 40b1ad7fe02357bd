"""Properties of all sessions: a model of the merge of two changes, runs of state machines, how many cases are tried."""

import json
from math import ceil
from typing import Any

import redis as redis_py
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

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


CI_EXAMPLES = 30
"""The examples of the hypothesis profile ``ci``."""


def cases(in_ci: int) -> int:
    """Return how many of ``in_ci`` cases to try: as large a share as hypothesis tries of its examples."""
    return ceil(in_ci * min(1, settings().max_examples / CI_EXAMPLES))


STEPS = 40
EXAMPLES_A_SEQUENCE = 4
"""A sequence of steps takes as long as so many examples of other properties."""


def run_machine(machine: type[RuleBasedStateMachine], redis: redis_py.Redis) -> None:
    """Run ``machine`` with many sequences of steps. Its ``redis`` is the client of the server."""
    sequences = max(5, settings().max_examples // EXAMPLES_A_SEQUENCE)
    told = type("OfThisServer", (machine,), {"redis": redis})
    run_state_machine_as_test(told, settings=settings(max_examples=sequences, stateful_step_count=STEPS))
