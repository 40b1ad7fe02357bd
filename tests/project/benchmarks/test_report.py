"""The report of all benchmarks: its chart, tables and targets; bytes a session; what the program does with options."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from benchmarks.__main__ import kept, parsed, write
from benchmarks.bare import SCRIPTS
from benchmarks.chart import BARS_AT, LONGEST, VALUES_AT, chart
from benchmarks.engines import AGAIN, BASE, FLOOR, OURS
from benchmarks.report import machine, markdown
from benchmarks.sections import SECTIONS, Options
from benchmarks.targets import TARGETS, judged
from testproject.servers import available
from tests.helpers.markup import lines_of

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[3]
SVG = "{http://www.w3.org/2000/svg}"
HARD = """<engine> & "its" 'cache'"""


def an_operation(engine: str, operation: str, ratio: float, **more: Any) -> dict[str, Any]:
    return {
        "server": "valkey",
        "sessions": 1000,
        "operation": operation,
        "engine": engine,
        "ratio": ratio,
        "low": ratio - 0.01,
        "high": ratio + 0.01,
        "microseconds": ratio * 100,
        "client_cpu": ratio * 60,
        "server_cpu": ratio * 30,
        "server_cpu_ratio": {"ratio": ratio, "low": ratio - 0.01, "high": ratio + 0.01},
        "round_trips": 1.0,
        "commands": 4.0,
        **more,
    }


def results(**sections: list[dict[str, Any]]) -> dict[str, Any]:
    return {"machine": {"cores": 2}, "date": "2026-01-31", "left_out": {}, "failed": {}, **sections}


def verdicts(found: dict[str, Any]) -> dict[str, list[tuple[float, bool]]]:
    """Return what was measured for each target that something was measured for, and whether it is reached."""
    return {target.name: [(each.value, each.reached) for each in of_it] for target, of_it in judged(found) if of_it}


def test_a_chart_is_xml_with_every_label_and_value() -> None:
    rows = [
        an_operation(engine, name, ratio)
        for name in ("load", "sign-in")
        for engine, ratio in ((HARD, 1.25), (OURS, 0.5))
    ]
    root = ElementTree.fromstring(chart(rows, base=HARD, ours=OURS))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    assert texts == [
        "Time for one operation",
        f"as a multiple of {HARD}: shorter is faster",
        *("Load a session", HARD, "1.25", OURS, "0.50"),
        *("Sign in", HARD, "1.25", OURS, "0.50"),
    ]
    described = root.findtext(f"{SVG}desc") or ""
    assert f"Load a session: {HARD} 1.25, {OURS} 0.50." in described
    named = [root.find(f"{SVG}*[@id='{name}']") for name in root.attrib["aria-labelledby"].split()]
    assert [element.tag for element in named if element is not None] == [f"{SVG}title", f"{SVG}desc"]


def test_bars_are_as_long_as_the_ratios_up_to_a_limit() -> None:
    ratios = [0.5, 1, LONGEST, 2 * LONGEST]
    rows = [an_operation(f"engine {ratio}", "load", ratio) for ratio in ratios]
    root = ElementTree.fromstring(chart(rows, base=BASE, ours=OURS))
    bars = [element.attrib["d"] for element in root.iter(f"{SVG}path") if "fill" in element.attrib]
    ends = [float(bar.partition("L")[2].split()[0]) - BARS_AT for bar in bars]
    longest = VALUES_AT - BARS_AT
    assert ends == pytest.approx([longest / LONGEST / 2, longest / LONGEST, longest, longest], abs=0.1)


def test_a_chart_of_nothing_says_so() -> None:
    root = ElementTree.fromstring(chart([], base=BASE, ours=OURS))
    assert "No operations were measured." in [element.text for element in root.iter(f"{SVG}text")]


def test_what_a_site_might_have_is_drawn_and_all_else_only_in_the_tables(tmp_path: Path) -> None:
    names = [OURS, BASE, AGAIN, FLOOR, SCRIPTS]
    rows = [an_operation(name, "load", 1, server=server) for server in ("valkey", "redis") for name in names]
    write(results(operations=rows), tmp_path)
    root = ElementTree.parse(tmp_path / "results.svg").getroot()
    assert [name for element in root.iter(f"{SVG}text") if (name := element.text) in names] == [OURS, BASE]
    text = (tmp_path / "results.md").read_text()
    assert all(lines_of(text, name) for name in names)


@pytest.mark.parametrize(
    ("again", "verdict"),
    [
        (1.0, "reached, 10 % to spare"),
        (1.05, "reached, 10 % to spare"),
        (1.2, "about there: two of the same differ by 20 %"),
        (0.8, "about there: two of the same differ by 20 %"),
    ],
)
def test_no_difference_is_claimed_below_that_of_two_of_the_same(again: float, verdict: str) -> None:
    rows = [an_operation(BASE, "load", 1), an_operation(AGAIN, "load", again), an_operation(OURS, "load", 0.855)]
    # What another operation differed by says nothing of this one.
    rows.append(an_operation(AGAIN, "change", 3))
    assert [row[-1] for row in lines_of(markdown(results(operations=rows)), "load")] == [verdict]


def test_runs_are_compared_with_those_of_as_many_sessions() -> None:
    runs = [
        {"server": "valkey", "sessions": sessions, "round": 1, "way": way, "sessions_per_second": speed}
        for sessions, speeds in ((100_000, (10, 30)), (1_000_000, (40, 20)))
        for way, speed in zip(("listing", "cleansessions, excess"), speeds, strict=True)
    ]
    found = results(cleaning=runs)
    assert verdicts(found) == {
        "cleaned a second, of 100,000": [(3.0, True)],
        "cleaned a second, of 1,000,000": [(0.5, False)],
    }
    assert "valkey, 1,000,000 sessions:" in markdown(found)


def test_what_a_folder_has_is_kept_if_it_is_of_the_same_machine(tmp_path: Path) -> None:
    here = {"cores": 2}
    assert not any(kept(tmp_path, here, []).values())
    before = results(**{name: [{"name": name}] for name in (*SECTIONS, "bare")}) | {"left_out": {"a": "why"}}
    before["options"] = {"bytes": {"rounds": 3}, "scale": {"rounds": 4}}
    (tmp_path / "results.json").write_text(json.dumps(before))
    found = kept(tmp_path, here, ["operations", "scale"])
    anew = [name for name, rows in found.items() if not rows]
    assert (sorted(anew), found["left_out"]) == (["bare", "operations", "scale"], {"a": "why"})
    assert found["bytes"] == [{"name": "bytes"}]
    assert found["options"] == {"bytes": {"rounds": 3}}
    assert not any(kept(tmp_path, {"cores": 4}, ["operations"]).values())


def test_a_report_has_ratios_first_and_times_second() -> None:
    rows = [an_operation(BASE, "load", 1), an_operation(OURS, "load", 0.9), an_operation(OURS, "view", 0.25)]
    text = markdown(results(operations=rows))
    assert lines_of(text, OURS) == [
        [OURS, "0.90 (0.89 to 0.91)", "0.25 (0.24 to 0.26)"],
        [OURS, "90 (54 + 27)", "25 (15 + 8)"],
        [OURS, "1.00 (4.00)", "1.00 (4.00)"],
    ]
    assert lines_of(text, BASE)[0] == [BASE, "1.00 (0.99 to 1.01)", ""]
    assert "- cores: 2\n" in text
    assert "## Requests" not in text


def test_a_report_has_every_section_and_what_is_missing() -> None:
    speed = {"server": "valkey", "sessions": 1000, "round": 1}
    interval = {"low": 0.9, "high": 1.1}
    text = markdown(
        results(
            requests=[
                {
                    "server": "valkey",
                    "server_program": "gunicorn",
                    "view": "read",
                    "save_every_request": True,
                    "engine": OURS,
                }
                | {"ratio": 1.5, "requests_per_second": 1234.5, **interval}
            ],
            bytes=[{"server": "valkey", "kind": "guest", "viewed": 5, "at": 0, "engine": OURS, "bytes": 456.7}],
            scale=[
                {"server": "valkey", "sessions": sessions, "operation": "end", "engine": OURS}
                | {"ratio_to_smallest": sessions / 1000, "microseconds": 55.5, **interval}
                for sessions in (1000, 2000)
            ],
            cleaning=[
                {**speed, "way": "listing", "sessions_per_second": 1000},
                {**speed, "way": "cleansessions, excess", "sessions_per_second": 2000},
            ],
            pages=[
                {"server": "valkey", "page": "staff", "few": 10, "many": 2000, "ratio": 2.5, **interval}
                | {"few_ms": 4, "many_ms": 10}
            ],
            views=[{**speed, "way": "listing", "views_per_second": 3000}],
        )
        | {"left_out": {"db (PostgreSQL)": "no PostgreSQL"}, "failed": {"scale": "ValueError: too few"}}
    )
    assert "gunicorn, valkey, SESSION_SAVE_EVERY_REQUEST on" in text
    assert lines_of(text, OURS) == [[OURS, "1.50 (0.90 to 1.10)"], [OURS, "1,234"], [OURS, "457"]]
    assert lines_of(text, "")[:4] == [
        ["", "read"],
        ["", "read"],
        ["", "guest, 5 viewed"],
        ["", "1,000 sessions", "2,000 sessions"],
    ]
    assert lines_of(text, "end") == [["end", "1.00 (0.90 to 1.10)", "2.00 (0.90 to 1.10)"], ["end", "56", "56"]]
    assert lines_of(text, "cleansessions, excess") == [["cleansessions, excess", "2.00 (2.00 to 2.00)", "2,000"]]
    assert lines_of(text, "staff") == [["staff", "2.50 (0.90 to 1.10)", "4.0", "10.0"]]
    assert "- db (PostgreSQL): no PostgreSQL" in text
    assert "**scale failed**: ValueError: too few" in text


@pytest.mark.parametrize(
    ("ratio", "verdict"),
    [(0.6, "reached, 20 % to spare"), (0.75, "reached, 0 % to spare"), (0.9, "**not reached**, by 20 %")],
)
def test_a_target_says_by_how_much_it_is_reached_or_not(ratio: float, verdict: str) -> None:
    text = markdown(results(operations=[an_operation(OURS, "change", ratio), an_operation(BASE, "change", 1)]))
    measured = f"{ratio:.2f} ({ratio - 0.01:.2f} to {ratio + 0.01:.2f})"
    limit = f"≤ 0.75 times {BASE}"
    assert ["change", limit, "valkey, 1,000 sessions", measured, verdict] in lines_of(text, "change")
    assert lines_of(text, "create") == [["create", f"≤ 0.75 times {BASE}", "", "", "not measured"]]


@pytest.mark.parametrize(("speed", "reached"), [(3499, False), (3500, True), (4000, True)])
def test_of_some_targets_more_is_better(speed: int, reached: bool) -> None:
    runs = [
        {"server": "valkey", "sessions": 1000, "round": number, "way": way, "views_per_second": per_second}
        for number in (2, 1)
        for way, per_second in (("engine, defaults", speed * number), ("listing", 1000 * number))
    ]
    assert verdicts(results(views=runs)) == {"page views a second": [(speed / 1000, reached)]}


def test_each_server_is_judged() -> None:
    rows = [an_operation(OURS, "load", 0.9), an_operation(OURS, "load", 1.5, server="redis")]
    both = [(0.9, True), (1.5, False)]
    assert verdicts(results(operations=rows)) == {"load": both, "server's CPU, load": both}


def test_of_sizes_the_largest_is_judged_and_of_pages_the_slowest() -> None:
    sizes = [
        {"sessions": sessions, "operation": "load", "engine": engine, "ratio_to_smallest": ratio, "low": 1, "high": 2}
        for engine in (OURS, BASE)
        for sessions, ratio in ((10_000, 1), (100_000, 5), (1_000_000, 1.1))
    ]
    pages = [{"page": f"page {ratio}", "ratio": ratio, "low": 1, "high": 4} for ratio in (1.5, 3.5, 2.5)]
    assert verdicts(results(scale=sizes, pages=pages)) == {
        "load, many sessions": [(1.1, True)],
        "slowest page of the admin": [(3.5, False)],
    }


def test_requests_are_judged_by_web_server_and_bytes_by_server_at_one_size() -> None:
    requests = [
        {"server": server, "server_program": program, "view": view, "save_every_request": every, "engine": OURS}
        | {"ratio": ratio, "low": ratio, "high": ratio}
        for server, program, view, every, ratio in (
            ("valkey", "gunicorn", "read", False, 1.01),
            ("redis", "gunicorn", "read", False, 0.9),
            ("valkey", "gunicorn", "read", True, 0.1),
            ("valkey", "gunicorn", "write", False, 1.05),
            ("valkey", "gunicorn", "user", False, 0.2),
            ("valkey", "uvicorn", "read", False, 1.2),
            ("valkey", "uvicorn", "write", False, 1.4),
        )
    ]
    sizes = [
        {"server": server, "engine": OURS, "kind": kind, "viewed": viewed, "at": at, "bytes": size}
        for server, kind, viewed, at, size in (
            ("valkey", "guest", 0, 131_072, 270.1),
            ("redis", "guest", 0, 131_072, 270.1),
            ("valkey", "guest", 0, 0, 300),
            ("valkey", "guest", 5, 0, 500),
            ("valkey", "signed in", 0, 131_072, 520),
        )
    ]
    found = results(requests=requests, bytes=sizes)
    assert verdicts(found) == {
        "requests a second, gunicorn, read": [(1.01, True), (0.9, False)],
        "requests a second, gunicorn, write": [(1.05, False)],
        "requests a second, uvicorn, read": [(1.2, False)],
        "requests a second, uvicorn, write": [(1.4, True)],
        "bytes of a session, signed in, valkey": [(520, True)],
        "bytes of a session, guest, valkey": [(270.1, False)],
        "bytes of a session, guest, redis": [(270.1, True)],
    }


def test_python_is_judged_by_functions_and_microseconds_of_our_own() -> None:
    python = [
        {"engine": engine, "operation": operation, "functions": functions + 60, "functions_of_redis_py": 60}
        | {"functions_besides": functions, "own_microseconds": own, "microseconds": 50.0}
        | {"ratio": 0.9, "low": 0.8, "high": 1.0}
        for engine, operation, functions, own in (
            (OURS, "load", 35.0, 12.5),
            (OURS, "load and save", 76.0, 40.0),
            (OURS, "save", 41.0, 20.0),
            (BASE, "load", 1.0, None),
        )
    ]
    found = results(python=python)
    assert verdicts(found) == {
        "functions besides redis-py's, load": [(35, True)],
        "functions besides redis-py's, load and save": [(76, False)],
        "own code, load": [(12.5, False)],
        "own code, save": [(20, True)],
    }
    text = markdown(found)
    assert lines_of(text, f"{OURS}: load") == [[f"{OURS}: load", "95", "60", "12.5", "50.0", "0.90 (0.80 to 1.00)"]]
    assert lines_of(text, f"{BASE}: load")[0][3] == ""


def test_the_time_of_the_server_is_judged_beside_that_of_the_same_again() -> None:
    of_server = {"ratio": 1.5, "low": 1.4, "high": 1.6}
    rows = [
        an_operation(OURS, "load", 0.5, server_cpu_ratio=of_server),
        an_operation(AGAIN, "load", 1, server_cpu_ratio={"ratio": 1.1, "low": 1, "high": 1.2}),
        an_operation(FLOOR, "load", 0.1, server_cpu_ratio=None),
    ]
    [line] = lines_of(markdown(results(operations=rows)), "server's CPU, load")
    assert line[3:] == ["1.50 (1.40 to 1.60)", "about there: two of the same differ by 10 %"]


def test_a_report_says_how_often_each_section_was_measured() -> None:
    options = Options(False, False, {}, None, targets=True)
    found = results() | {"options": {name: options.conditions(name) for name in ("operations", "bytes")}}
    text = markdown(found)
    today = options.conditions("bytes")["date"]
    assert lines_of(text, "operations") == [["operations", "targets", "30", today]]
    assert lines_of(text, "bytes") == [["bytes", "targets", "", today]]


def test_every_target_is_told_apart_by_its_name() -> None:
    assert len({target.name for target in TARGETS}) == len(TARGETS)


def test_the_machine_is_described() -> None:
    told = machine(available())
    assert told["Python"] == sys.version.split()[0]
    assert [kind for kind in available() if not told[f"{kind} server"][0].isdecimal()] == []
    assert json.loads(json.dumps(told)) == told


@pytest.mark.parametrize(
    ("arguments", "environment", "message"),
    [
        (["--only", "speed"], {}, "argument --only: invalid choice: 'speed'"),
        (["--server", "mysql"], {}, "argument --server: invalid choice: 'mysql'"),
        (["--rounds", "0"], {}, "--rounds must be at least 1"),
        (["--quick", "--full"], {}, "--quick and --full exclude each other"),
        (["--full", "--targets"], {}, "--full and --targets exclude each other"),
        (["--targets", "--only", "pages"], {}, "--only: pages is not part of --targets"),
        (["--full"], {"QUICK": "1"}, "--quick and --full exclude each other"),
        (["--quick", "--only", "bytes", "pages"], {}, "--only: pages is not part of --quick"),
        (["--output", "Makefile"], {}, "--output: Makefile is no folder"),
        (["--fast"], {}, "unrecognized arguments: --fast"),
    ],
)
def test_wrong_options_are_refused_by_name(
    arguments: list[str],
    environment: dict[str, str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("QUICK", "FULL"):
        monkeypatch.setenv(name, environment.get(name, ""))
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit) as refused:
        parsed(arguments)
    assert refused.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err.splitlines()[-1]
