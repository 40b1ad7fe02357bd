"""Plans on paper: their arithmetic, and that the page shows what the program prints."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.capacity import parsed
from benchmarks.capacity_tables import KINDS, rounded, tables
from benchmarks.planning import GIB, MILLION, Assumptions, planned, touch_share

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "explanation" / "scale.rst"
FIGURES = ROOT / "benchmarks" / "capacity.json"

LOADS = Assumptions(signed_in=0, viewed=0, saves=0, views=0, begun=0, sign_ins=0, pause=1e9)
"""Guests who load their sessions. All loads note them as seen."""


def figures(**of_load: float) -> dict[str, Any]:
    nothing = {"round_trips": 1, "commands": 5, "received": 300, "sent": 200, "replicated": 100, "cpu": 20}
    requests = {kind: {**nothing, **(of_load if kind == "load" else {})} for kind in KINDS}
    of_bytes = {"guest": 1000, "signed in": 3000, "signed in, 5 viewed": 3400}
    return {
        "bytes": {"1": of_bytes, "64": of_bytes},
        "requests": {"1": requests, "64": requests},
        "fork": {"ms_per_gib": 10, "seconds_per_gib": 5, "copied_per_save": 4096},
        "resync": {"seconds_per_gib": 20, "bytes_per_session": 500},
        "moves": [
            {"how": "classic", "sessions": 1000, "blocked_ms": 1, "seconds": 1},
            {"how": "classic", "sessions": 100_000, "blocked_ms": 200, "seconds": 2},
            {"how": "atomic", "sessions": 100_000, "blocked_ms": 5, "seconds": 3},
        ],
    }


def test_a_small_store_is_one_server_and_its_replica() -> None:
    plan = planned(MILLION, figures(), LOADS)
    assert (plan.primaries, plan.servers, plan.partitions, plan.sessions_of_partition) == (1, 2, 64, MILLION / 64)
    assert (plan.memory_bytes, plan.memory_of_node) == (1e9, 1e9)
    assert (plan.requests, plan.commands, plan.received, plan.sent) == pytest.approx((600, 3000, 180_000, 120_000))
    assert (plan.cores, plan.replicated) == pytest.approx((0.012, 60_000))
    gib = 1e9 / GIB
    assert (plan.fork_ms, plan.resync_seconds) == pytest.approx((10 * gib, 20 * gib))
    assert (plan.resync_bytes, plan.kept_bytes) == pytest.approx((500 * MILLION, 60_000 * 20 * gib))
    assert plan.copied == pytest.approx(600 * 5 * gib * 4096)
    # In proportion to the next larger partition that was moved.
    assert (plan.classic_ms, plan.atomic_seconds) == pytest.approx((15_625 * 0.002, 15_625 * 3e-5))


def test_what_a_session_takes_depends_on_who_has_one() -> None:
    assumed = replace(LOADS, signed_in=0.25, viewed=0.5)
    assert planned(MILLION, figures(), assumed).memory_bytes == MILLION * (750 + 750 + 200)


@pytest.mark.parametrize(
    ("of_load", "changes", "primaries"),
    [
        ({}, {}, 1),
        # Two would do: a cluster has three.
        ({}, {"memory_used": 0.2}, 3),
        ({}, {"node_memory": 4}, 5),
        # 6 000 requests a second, each 100 µs, where a node may use a tenth of a core.
        ({"cpu": 100}, {"cpu_used": 0.1}, 6),
    ],
)
def test_primaries_have_memory_and_cpu(of_load: dict[str, float], changes: dict[str, Any], primaries: int) -> None:
    plan = planned(10 * MILLION, figures(**of_load), replace(LOADS, **changes))
    assert (plan.primaries, plan.servers) == (primaries, 2 * primaries)
    # The primary with the most of the 128 partitions.
    assert plan.memory_of_node == pytest.approx(1e10 * -(-128 // primaries) / 128)


@pytest.mark.parametrize(
    ("sessions", "partitions"), [(1000, 64), (6_400_000, 64), (6_400_001, 128), (10**8, 1024), (10**9, 1024)]
)
def test_partitions_are_small_enough_for_a_classic_move_where_that_is_possible(sessions: int, partitions: int) -> None:
    assert planned(sessions, figures(), LOADS).partitions == partitions


def test_a_snapshot_copies_no_more_than_there_is() -> None:
    plan = planned(MILLION, figures(), replace(LOADS, requests_per_second=MILLION, cpu_used=1000))
    assert plan.copied == plan.memory_of_node


def test_fewer_loads_are_noted_the_faster_they_follow() -> None:
    assert touch_share(1e9) == pytest.approx(1)
    assert touch_share(10) == pytest.approx(0.632, abs=0.001)
    assert touch_share(0.1) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("value", "text"), [(1024, "1,024"), (976_562.5, "980,000"), (12.4, "12"), (1.04, "1"), (0.0123, "0.012"), (0, "0")]
)
def test_what_is_computed_has_two_digits(value: float, text: str) -> None:
    assert rounded(value) == text


def test_the_page_has_the_tables_that_the_program_prints() -> None:
    page = PAGE.read_text()
    _, *each = tables(json.loads(FIGURES.read_text()), Assumptions(), [10**6, 10**7, 10**8, 10**9]).split("\n\n")
    assert [table.splitlines()[1] for table in each if table not in page] == []
    assert len(each) == 9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--node-memory", "0"], "node_memory must not be 0"),
        (["--saves", "-1"], "saves must not be -1"),
        (
            ["--saves", "0.9", "--sign-ins", "0.2"],
            "shares must not be above 1: signed_in, viewed, and saves, begun and sign_ins together",
        ),
        (["--only", "moves"], "--only needs the others' --figures"),
        (["--least-partitions", "48"], "least_partitions must be a power of two up to 1024"),
        (["--figures", "nowhere.json"], "--figures: there is no file nowhere.json"),
        (["--json", "nowhere/figures.json"], "--json: there is no folder nowhere"),
    ],
)
def test_what_can_not_be_planned_is_refused_at_once(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        parsed(arguments)
    assert capsys.readouterr().err.endswith(f"error: {message}\n")
