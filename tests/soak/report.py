"""What is said at the end."""

from __future__ import annotations

from collections import Counter

from tests.soak import operations, support
from tests.soak.gauges import DESCRIPTORS, MEMORY_MIB, MEMORY_SHARE, Growth
from tests.soak.ledger import Fault, Known
from tests.soak.run import Run, name_of

KINDS = ("lost", "wrongly in", "wrongly out", "unexplained", "failed", "oracle")
SHOWN_MAX = 3
"""So many faults of each kind are shown."""


def passes(run: Run) -> bool:
    return not run.ledger.faults and all(growth.is_flat for growth in run.gauges.growths())


def report(run: Run, *, seed: int, interrupted: bool = False) -> str:
    """Return the table, and each of the first faults with what its visitor had met before."""
    passed = "interrupted: nothing was wrong so far" if interrupted else "passed"
    ledger = run.ledger
    counts, faults = ledger.counts, Counter(fault.kind for fault in ledger.faults)
    lines = [
        ("seed", str(seed)),
        *((name, str(counts[name])) for name in ("requests", *(f"known to be {known.value}" for known in Known))),
        *((name, str(counts[name])) for name in ("sign-ins", "sign-outs", "found out", "interrupted", "blocked")),
        ("refused in outages", str(counts["refused"])),
        ("unanswered by a killed process", str(counts["unanswered"])),
        ("stale reads in failovers", str(counts["stale reads"])),
        *(
            (name, str(counts[name]))
            for name in map(name_of, (*operations.WEEK, *operations.CLOCKS, *support.WEEK))
            if counts[name]
        ),
        *((kind, str(faults[kind])) for kind in KINDS),
        *(row for growth in run.gauges.growths() for row in _rows(growth)),
    ]
    shown = [fault for kind in KINDS for fault in [each for each in ledger.faults if each.kind == kind][:SHOWN_MAX]]
    return "\n".join(
        [
            *(f"{name:32} {value}" for name, value in lines),
            *map(_fault_text, shown),
            passed if passes(run) else f"FAILED (seed {seed})",
        ]
    )


def _rows(growth: Growth) -> list[tuple[str, str]]:
    name = f"{growth.kind}, {growth.compared} of {growth.lives}"
    if not growth.compared:
        return [(name, "did not live long enough to be compared")]
    (first, last), (opened, still) = growth.mib, growth.descriptors
    verdict = "flat" if growth.is_flat else "GROWS"
    return [
        (name, f"{first:.0f} → {last:.0f} MiB (at most + {max(MEMORY_MIB, MEMORY_SHARE * first):.0f}): {verdict}"),
        ("", f"{opened} → {still} descriptors (at most + {DESCRIPTORS})"),
    ]


def _fault_text(fault: Fault) -> str:
    history = "".join(f"\n      {line}" for line in fault.history)
    return f"\n{fault.at:7.1f} s  {fault.kind}: {fault.text}{history}"
