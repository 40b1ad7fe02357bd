"""System check of a master behind Sentinel: it should stop writing when it has lost its replicas."""

from __future__ import annotations

import re
from typing import Any

from django.core import checks
from django.utils.encoding import force_str

from django_redsess.backend import is_in_use
from django_redsess.checks.server import ASKS_SERVER, check_repeats, check_timeouts
from django_redsess.checks.settings import warning
from django_redsess.transport import connections, exchange


@checks.register(ASKS_SERVER)
def check_replicas(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if a master behind Sentinel goes on writing after its replicas have left it."""
    # Without time-outs, a server that does not answer would hold up manage.py.
    if not is_in_use() or check_timeouts() or check_repeats():
        return []
    try:
        pool = connections.pool()
        if not pool.any_node().is_behind_sentinel:
            return []
        told = force_str(exchange.ask(pool, "INFO", "replication"))
    except Exception:  # Not known: the server may not run now, or refuse INFO. A wrong entry of CACHES is E004.
        return []
    # The server counts good replicas only if it minds how many there are.
    if not re.search(r"connected_slaves:[1-9]", told) or "min_slaves_good_slaves:" in told:
        return []
    message = "The master of the sessions has replicas, and goes on writing without them (min-replicas-to-write 0)."
    hint = (
        "In a failover the old master takes sign-ins, changes and ends for some seconds more, and they are lost. Set "
        "min-replicas-to-write 1 and min-replicas-max-lag 2 on the master and on its replicas. Then it refuses, and "
        "requests get a 503 until they find the new master. That needs two replicas: with one, nothing is written "
        "while it is down."
    )
    return [warning("W025", message, hint)]
