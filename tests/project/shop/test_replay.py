"""The replay of recorded traffic, as far as it goes without a shop."""

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from testproject.replay import Seen, differences, expected, faults_in_order, journeys, read_events

pytestmark = pytest.mark.unit

HEADER = "user_id,event,timestamp\n"


def test_rows_become_journeys_in_the_order_of_time_and_what_is_no_event_is_told() -> None:
    rows = "7,c,2019-11-01 10:00\n8,o,2019-11-01\n7,../admin,2019-11-01\n7,b,2019-11-01 10:30+01:00\n7,a,never\n"
    events, problems = read_events(StringIO(HEADER + rows), limit=None)
    assert journeys(events) == {"8": ["o"], "7": ["b", "c"]}
    assert [problem.partition(":")[0] for problem in problems] == ["line 4", "line 6"]


def test_what_is_expected_is_what_the_package_promises_and_each_difference_is_told() -> None:
    items = [f"item{number}" for number in range(40)]
    seen = expected({"7": [*items, "item20"], "8": ["item20"]})
    # The newest 25, each where it was seen last.
    assert seen.histories["7"] == [["item20", *(item for item in items[:14:-1] if item != "item20")]]
    assert (seen.views["item20"], seen.views["item1"]) == (3, 1)
    assert list(differences(seen, seen)) == []
    other = Seen({**seen.histories, "8": []}, {**seen.views, "item1": 2, "more": 1})
    assert len(list(differences(seen, other))) == 3
    assert list(faults_in_order([("a", 3), ("c", 2), ("b", 2)])) == []
    assert len(list(faults_in_order([("a", 3), ("b", 1), ("c", 2), ("a", 1)]))) == 2


@pytest.mark.parametrize("content", [None, "user,event\n", HEADER, f"{HEADER}7,k\xefte,2019-11-01\n", f'{HEADER}7,"k'])
def test_a_file_that_can_not_be_replayed_is_refused(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "visits.csv"
    if content is not None:
        file.write_bytes(content.encode("latin-1"))
    with pytest.raises(CommandError, match=r"visits\.csv "):
        call_command("replay", str(file))
