from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from testproject.replay import Event, ReplayError, Seen, differences, expected, faults_in_order, journeys, read_events

pytestmark = pytest.mark.unit

HEADER = "user_id,event,timestamp\n"


def read(text: str, limit: int | None = None) -> tuple[list[Event], list[str]]:
    return read_events(StringIO(HEADER + text), limit=limit)


def replay(file: Path, *options: str) -> None:
    call_command("replay", str(file), *options)


def test_reader_returns_the_events_in_the_order_of_the_file() -> None:
    events, problems = read("7,kite,2019-11-02\n8,reel,2019-11-01 09:30:00.5\n")
    assert [(event.user, event.item) for event in events] == [("7", "kite"), ("8", "reel")]
    assert not problems


def test_reader_ignores_other_columns() -> None:
    events, _ = read_events(StringIO("price,timestamp,event,user_id\n9,2019-11-01,kite,7\n"))
    assert [(event.user, event.item) for event in events] == [("7", "kite")]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("7,kite", "the number of fields is not that of the first line"),
        ("7,kite,2019-11-01,more", "the number of fields is not that of the first line"),
        (" ,kite,2019-11-01", "user_id is empty"),
        (f"{'7' * 151},kite,2019-11-01", "user_id is no user name of at most 150 characters"),
        ("7\0,kite,2019-11-01", "user_id is no user name of at most 150 characters"),
        ("7,,2019-11-01", "event '' is not 1 to 64 letters, digits, - or _"),
        ("7,../admin,2019-11-01", "event '../admin' is not 1 to 64 letters, digits, - or _"),
        (f"7,{'k' * 65},2019-11-01", f"event {'k' * 65!r} is not 1 to 64 letters, digits, - or _"),
        ("7,drachenflüge,2019-11-01", "event 'drachenflüge' is not 1 to 64 letters, digits, - or _"),
        ("7,kite,yesterday", "timestamp 'yesterday' is no ISO date"),
        ("7,kite,", "timestamp '' is no ISO date"),
    ],
)
def test_reader_skips_a_row_that_is_no_event_and_tells_its_line(row: str, reason: str) -> None:
    events, problems = read(f"7,kite,2019-11-01\n{row}\n7,reel,2019-11-01\n")
    assert [event.item for event in events] == ["kite", "reel"]
    assert problems == [f"line 3: {reason}"]


def test_reader_counts_lines_as_an_editor_does() -> None:
    _, problems = read('7,"ki\nte",2019-11-01\n\n,kite,2019-11-01\n')
    assert [problem.split(":")[0] for problem in problems] == ["line 3", "line 5"]


def test_limit_counts_rows_that_are_skipped_too() -> None:
    events, problems = read("7,kite,2019-11-01\n7,reel,never\n7,tail,2019-11-01\n", limit=2)
    assert ([event.item for event in events], len(problems)) == (["kite"], 1)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(ReplayError, match="has no column event"):
        read_events(StringIO("user_id,timestamp\n7,2019-11-01\n"))


def test_an_unclosed_quote_is_no_csv() -> None:
    with pytest.raises(ReplayError, match="is not CSV"):
        read('7,"kite,2019-11-01\n')


def test_a_journey_is_in_the_order_of_time_and_then_of_the_file() -> None:
    events, _ = read(
        "7,third,2019-11-01 10:00\n8,other,2019-11-01 09:00\n7,first,2019-11-01 09:00\n7,second,2019-11-01 09:00\n"
    )
    assert journeys(events) == {"8": ["other"], "7": ["first", "second", "third"]}


def test_times_with_and_without_a_zone_are_comparable() -> None:
    events, _ = read("7,second,2019-11-01 10:00\n7,first,2019-11-01 10:30+01:00\n")
    assert journeys(events) == {"7": ["first", "second"]}


def test_names_that_the_sign_in_form_takes_for_one_are_one_user() -> None:
    events, _ = read(
        "\N{ANGSTROM SIGN}sa,kite,2019-11-01\n \N{LATIN CAPITAL LETTER A WITH RING ABOVE}sa,reel,2019-11-01\n"
    )
    assert len(journeys(events)) == 1


def test_a_history_is_newest_first() -> None:
    assert expected({"7": ["a", "b", "c"]}).histories == {"7": [["c", "b", "a"]]}


def test_a_revisited_item_is_in_a_history_once_where_it_was_seen_last() -> None:
    assert expected({"7": ["a", "b", "a", "c", "c"]}).histories == {"7": [["c", "a", "b"]]}


def test_a_history_keeps_the_newest_25_items() -> None:
    items = [f"item{number}" for number in range(40)]
    assert expected({"7": items}).histories == {"7": [items[:14:-1]]}


def test_revisits_do_not_push_items_out_of_a_history() -> None:
    items = [f"item{number}" for number in range(25)]
    assert expected({"7": [*items, *["item24"] * 30]}).histories == {"7": [items[::-1]]}


def test_every_visit_counts_as_a_view() -> None:
    assert expected({"7": ["a", "b", "a"], "8": ["a"]}).views == {"a": 3, "b": 1}


def test_what_was_seen_as_expected_makes_no_difference() -> None:
    seen = expected({"7": ["a", "b", "a"], "8": ["a"]})
    assert list(differences(seen, seen)) == []


@pytest.mark.parametrize(
    ("histories", "views", "difference"),
    [
        ({}, {"a": 1, "b": 1}, "user 7: 0 sessions online instead of 1"),
        ({"7": [["b", "a"], []]}, {"a": 1, "b": 1}, "user 7: 2 sessions online instead of 1"),
        ({"7": [["a", "b"]]}, {"a": 1, "b": 1}, "user 7: viewed a b instead of b a"),
        ({"7": [[]]}, {"a": 1, "b": 1}, "user 7: viewed nothing instead of b a"),
        ({"7": [["b", "a"]]}, {"a": 2, "b": 1}, "item a: 2 views instead of 1"),
        ({"7": [["b", "a"]]}, {"a": 1}, "item b: 0 views instead of 1"),
        ({"7": [["b", "a"]]}, {"a": 1, "b": 1, "c": 1}, "item c: 1 views instead of 0"),
        ({"7": [["b", "a"]]}, {"a": 1, "b": 1, "c": -1}, "item c: -1 views instead of 0"),
    ],
)
def test_a_difference_is_told(histories: dict[str, list[list[str]]], views: dict[str, int], difference: str) -> None:
    assert list(differences(expected({"7": ["a", "b"]}), Seen(histories, views))) == [difference]


def test_a_ranking_by_views_has_no_fault() -> None:
    assert list(faults_in_order([("a", 3), ("c", 2), ("b", 2), ("d", 1)])) == []


def test_an_item_that_is_below_one_with_fewer_views_is_told() -> None:
    faults = list(faults_in_order([("a", 3), ("b", 1), ("c", 2)]))
    assert faults == ["item c: below b among the most viewed, with 2 views"]


def test_an_item_that_is_in_the_ranking_twice_is_told() -> None:
    assert list(faults_in_order([("a", 3), ("b", 1), ("a", 1)])) == ["item a: twice among the most viewed"]


def test_command_names_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"visits\.csv can't be read: No such file"):
        replay(tmp_path / "visits.csv")


def test_command_refuses_a_file_that_is_not_utf_8(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_bytes(HEADER.encode() + b"7,k\xefte,2019-11-01\n")
    with pytest.raises(CommandError, match=r"visits\.csv is not UTF-8 text"):
        replay(file)


def test_command_refuses_a_file_without_a_column(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text("user,event,timestamp\n")
    with pytest.raises(CommandError, match=r"visits\.csv has no column user_id"):
        replay(file)


def test_command_refuses_a_file_without_events(tmp_path: Path) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(HEADER)
    with pytest.raises(CommandError, match=r"visits\.csv has no row that can be replayed"):
        replay(file)


@pytest.mark.parametrize("option", ["--workers", "--limit"])
def test_command_refuses_an_option_below_1(tmp_path: Path, option: str) -> None:
    with pytest.raises(CommandError, match=f"{option} must be 1 or more, not 0"):
        replay(tmp_path / "visits.csv", option, "0")


def test_command_reports_at_most_20_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "visits.csv"
    file.write_text(HEADER + "7,kite,never\n" * 23)
    with pytest.raises(CommandError):
        replay(file)
    report = capsys.readouterr().err.splitlines()
    assert (report[0], report[1][:9], report[20][:9], report[21:]) == (
        "23 skipped rows:",
        "  line 2:",
        "  line 21",
        ["  … and 3 more"],
    )
