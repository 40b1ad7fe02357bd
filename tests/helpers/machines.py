"""Run Hypothesis' state machines on a server."""

from __future__ import annotations

import redis as redis_py
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

STEPS = 40
EXAMPLES_A_SEQUENCE = 4
"""A sequence of steps takes as long as so many examples of other properties."""


def run_machine(machine: type[RuleBasedStateMachine], redis: redis_py.Redis) -> None:
    """Run ``machine`` with many sequences of steps. Its ``redis`` is the client of the server."""
    sequences = max(5, settings().max_examples // EXAMPLES_A_SEQUENCE)
    told = type("OfThisServer", (machine,), {"redis": redis})
    run_state_machine_as_test(told, settings=settings(max_examples=sequences, stateful_step_count=STEPS))
