"""``merged``: a page of what several partitions have is that of one list, and little is read for it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_redsess.transport.round_trips import Parts, Steps, drive, merged, share

pytestmark = pytest.mark.unit

Entry = tuple[int, int]

# Few scores, so that many are equal; one partition may have nearly all.
partitions = st.sampled_from([1, 4, 64]).flatmap(
    lambda count: st.lists(
        st.tuples(st.one_of(st.just(0), st.integers(0, count - 1)), st.integers(0, 1), st.integers(0, 5)), max_size=150
    ).map(lambda entries: (count, entries))
)


@given(partitions, st.integers(1, 160), st.booleans())
def test_a_page_is_that_of_one_sorted_list(
    there: tuple[int, list[tuple[int, int, int]]], wanted: int, reverse: bool
) -> None:
    count, given_entries = there
    lists: list[list[list[Entry]]] = [[[], []] for _ in range(count)]
    for number, (partition, which, score) in enumerate(given_entries):
        lists[partition][which].append((score, number))
    asked: list[int] = []

    def read(numbers: Sequence[int], limit: int) -> Steps[Parts[Entry]]:
        asked.append(limit)
        return [[sorted(entries, reverse=reverse)[:limit] for entries in lists[number]] for number in numbers]
        yield

    every = sorted((entry for of_one in lists for entries in of_one for entry in entries), reverse=reverse)
    assert drive(merged(read, count, wanted, reverse=reverse)) == every[:wanted]
    # Read again once at most, and no further than the page.
    assert asked in ([share(wanted, count)], [share(wanted, count), wanted])


def test_little_more_than_a_share_is_read() -> None:
    assert share(100, 1) == 100
    assert share(100, 64) == 8
    assert share(2_000, 64) == 51
