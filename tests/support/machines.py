"""How state machines tell stories on a server."""

from __future__ import annotations

import redis as redis_py
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

STEPS = 40
EXAMPLES_A_STORY = 4
"""A story takes as long as some examples of other properties."""


def run_machine(machine: type[RuleBasedStateMachine], redis: redis_py.Redis) -> None:
    """Try stories of ``machine``, which finds the client of the server as its ``redis``."""
    stories = max(5, settings().max_examples // EXAMPLES_A_STORY)
    told = type("OfThisServer", (machine,), {"redis": redis})
    run_state_machine_as_test(told, settings=settings(max_examples=stories, stateful_step_count=STEPS))
