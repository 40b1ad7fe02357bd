"""How long state machines tell stories, and how they are run on a server."""

from __future__ import annotations

import os

import redis as redis_py
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

EXAMPLES = int(os.environ.get("REDSESS_EXAMPLES", "25"))
"""How many stories are tried for each kind of server and number of partitions."""

STEPS = 40


def run_machine(machine: type[RuleBasedStateMachine], redis: redis_py.Redis) -> None:
    """Try stories of ``machine``, which finds the client of the server as its ``redis``."""
    run_state_machine_as_test(
        type("OfThisServer", (machine,), {"redis": redis}),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=False,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
