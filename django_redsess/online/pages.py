"""Pages of sessions, by last seen or by login time."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import accumulate

from django_redsess.online import queries
from django_redsess.online.lists import BEYOND, Lists
from django_redsess.online.queries import Row, SessionFilter
from django_redsess.transport.bisection import Bound, bisect, guess_by_share, narrowed
from django_redsess.transport.keys import is_sid
from django_redsess.transport.merging import Parts, merged
from django_redsess.transport.steps import Steps
from django_redsess.transport.together import Scored, together

SHALLOW = 1_000
"""Up to this rank, a page of several partitions is read from the top of each. Beyond it, the page is searched for."""

NEAR_ENOUGH = 200
"""A search may stop this many ranks before its page. The surplus is read, which takes fewer steps."""

logger = logging.getLogger("django.security.SuspiciousSession")


def page(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[Row]]:
    """
    Read the sessions from rank ``first`` to rank ``last`` (inclusive), by last seen or by login time.

    First ends up to 200 due sessions of each partition. If users' lists have to be sorted, at most the latest 5 000
    sign-ins of each partition can be reached.
    """
    lists = queries.lists_of(session_filter, by_seen=by_seen)
    if len(lists) == 1:
        return (yield from _of_one(session_filter, first, last, by_seen=by_seen, latest_first=latest_first))
    if not lists:
        return []
    if session_filter.has_list(by_seen=by_seen):
        passed, found = yield from _of_lists(
            Lists.of(session_filter, by_seen=by_seen), first, last, latest_first=latest_first
        )
    else:
        passed, found = 0, (yield from _of_users(session_filter, last, by_seen=by_seen, latest_first=latest_first))
    members = [member.decode(errors="replace") for _, member in found[first - passed :]]
    sids = [sid for sid in members if is_sid(sid)]
    tell_of_strange(len(members) - len(sids))
    return (yield from queries.find(sids, due_too=True))


def _of_one(
    session_filter: SessionFilter, first: int, last: int, *, by_seen: bool, latest_first: bool
) -> Steps[list[Row]]:
    """Read a page that one partition has."""
    [read] = queries.entries(session_filter, first, last, by_seen=by_seen, latest_first=latest_first, with_rows=True)
    entries, with_rows, rows = yield from read
    tell_of_strange(sum(not is_sid(member.decode(errors="replace")) for _, member in entries))
    left = [member.decode(errors="replace") for _, member in entries[with_rows:]]
    rest = yield from queries.find([sid for sid in left if is_sid(sid)], due_too=True)
    return [*rows, *rest]


def _of_users(session_filter: SessionFilter, last: int, *, by_seen: bool, latest_first: bool) -> Steps[list[Scored]]:
    """Read the entries up to rank ``last`` of users' lists, which each partition puts in order."""
    partitions = len(queries.lists_of(session_filter, by_seen=by_seen))

    def read(numbers: Sequence[int], count: int) -> Steps[Parts[Scored]]:
        # The first reading ends due sessions. If a second did, it would find other ranks.
        keeps_due = len(numbers) < partitions
        calls = queries.entries(
            session_filter, 0, count - 1, by_seen=by_seen, latest_first=latest_first, keeps_due=keeps_due
        )
        found = yield from together([calls[number] for number in numbers])
        return [[entries] for entries, _, _ in found]

    return (yield from merged(read, partitions, last + 1, reverse=latest_first))


def _of_lists(lists: Lists, first: int, last: int, *, latest_first: bool) -> Steps[tuple[int, list[Scored]]]:
    """Read entries up to rank ``last``. Return how many come before them, at most ``first``; and the entries."""
    passed, begin = 0, BEYOND if latest_first else -BEYOND
    is_deep = last >= SHALLOW
    if is_deep:
        found = yield from _search(lists, first, latest_first=latest_first)
        if found is None:
            return first, []
        passed, begin = found
    unread = True

    def read(numbers: Sequence[int], count: int) -> Steps[Parts[Scored]]:
        nonlocal unread
        ends_due, unread = unread and not is_deep, False
        return (yield from lists.read(numbers, count, begin=begin, latest_first=latest_first, ends_due=ends_due))

    wanted = last - passed + 1
    return passed, (yield from merged(read, len(lists.partitions), wanted, reverse=latest_first))


def _search(lists: Lists, first: int, *, latest_first: bool) -> Steps[tuple[int, int] | None]:
    """
    Search for the page that begins at rank ``first``. Return how many entries come before a score, and that score.

    Each partition reports how many entries have a lower score than a guess. Here ranks count from the lowest score.
    Return None if there are no more than ``first`` sessions.
    """
    # This ends due sessions. If they ended later, the ranks would move during the search.
    counts = yield from lists.counts()
    total = sum(map(sum, counts))
    if total <= first:
        return None
    rank = total - 1 - first if latest_first else first

    def bounds_at(scores: list[int]) -> Steps[list[Bound]]:
        lower = yield from lists.lower(scores)
        return [Bound(score, found) for score, found in zip(scores, lower, strict=True)]

    def bound_at(score: int) -> Steps[Bound]:
        [bound] = yield from bounds_at([score])
        return bound

    low = Bound(-BEYOND, [0] * len(counts))
    high = Bound(BEYOND, [sum(of_partition) for of_partition in counts])
    near = yield from bounds_at((yield from _guesses(lists, counts, rank, latest_first=latest_first)))
    low, high = narrowed(rank, low, high, near)
    low, high = yield from bisect(
        bound_at,
        rank,
        low,
        high,
        guess=guess_by_share(rank),
        near_enough=lambda low, high: (high.total - rank if latest_first else rank - low.total) <= NEAR_ENOUGH,
    )
    return (total - high.total, high.score) if latest_first else (low.total, low.score)


def _guesses(lists: Lists, counts: list[list[int]], rank: int, *, latest_first: bool) -> Steps[list[int]]:
    """
    Return scores near the entry with this ``rank``: certainly not above it, probably a little beyond, certainly above.

    Each list has about its share of what comes before that entry. So the entries at these places are near.
    """
    total = sum(map(sum, counts))
    ranks = [[max(0, count - 1 - rank * count // total) for count in of_partition] for of_partition in counts]
    scores = yield from lists.scores_at(ranks)
    found = sorted(
        (int(max(1 - BEYOND, min(score, BEYOND - 1))), count)
        for of_partition, of_counts in zip(scores, counts, strict=True)
        for score, count in zip(of_partition, of_counts, strict=True)
        if score is not None and count
    )
    if not found:
        return []
    # Beyond the page, seen from where it is read: a surplus is read, but what is missing is not.
    beyond = sum(count for _, count in found) * (0.6 if latest_first else 0.4)
    passed = accumulate(count for _, count in found)
    likely = next(score for (score, _), count in zip(found, passed, strict=True) if count >= beyond)
    return [found[0][0], likely, found[-1][0] + 1]


def tell_of_strange(count: int) -> None:
    """Log that so many entries of lists are no sids: another program wrote them."""
    if count:
        logger.warning("A list of sessions has entries that are no session ids: %d.", count)
