"""Read a list of sessions from a place on, so that nothing is left out or repeated while sessions come and go."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from django_redsess.online import listing
from django_redsess.transport.partitions import Scored
from django_redsess.transport.steps import Steps, ms_in

AT_ONE_TIME = 20
"""Usually no more sessions have the same time. If they have, a page is read again, further."""


class Place(NamedTuple):
    """The place of a session in a list: its time in milliseconds, and its sid among those with the same time."""

    score: int
    sid: str


def after(
    session_filter: listing.SessionFilter, place: Place | None, limit: int, *, by_seen: bool, latest_first: bool
) -> Steps[tuple[list[listing.ListRow], Place | None]]:
    """
    Read up to ``limit`` sessions that come after ``place``, or the first ones. Return also the place of the last one.

    That is None if no others come. Whatever comes and goes elsewhere in the list, the sessions after a place are the
    same. First ends up to 200 due sessions of each partition. If users' lists have to be sorted, at most the latest
    5 000 sign-ins of each partition can be reached. ``session_filter`` names no client.
    """
    lists = listing.lists_of(session_filter, by_seen=by_seen)
    if not lists:
        return [], None
    # One more tells whether others come. Those that have the time of the place are read once more.
    wanted, ends_due = limit + 1 + (0 if place is None else AT_ONE_TIME), True
    if place is not None and not session_filter.has_list(by_seen=by_seen):
        wanted = listing.CONSIDERED_MAX * len(lists)
    # Another program may have written scores beyond it.
    edge = ms_in(inf if latest_first else -inf)
    while True:
        if session_filter.has_list(by_seen=by_seen):
            # Those with the time of the place come again.
            begin = None if place is None or place.score == edge else place.score + latest_first
            found = yield from listing.Lists(session_filter, lists).first(
                wanted, begin=begin, latest_first=latest_first, ends_due=ends_due
            )
        else:
            found = yield from listing.of_users(session_filter, wanted - 1, by_seen=by_seen, latest_first=latest_first)
        in_order = sorted(((float(ms_in(score)), member) for score, member in found), reverse=latest_first)
        entries = [entry for entry in in_order if place is None or _is_beyond(entry, place, latest_first=latest_first)]
        if len(entries) > limit or len(found) < wanted:
            break
        wanted, ends_due = wanted * 4, False
    # Another program may have written others.
    known = [Place(int(score), sid) for score, member in entries for sid in listing.sids_of([(member,)])]
    listing.log_foreign(len(entries) - len(known))
    rows = yield from listing.find([each.sid for each in known[:limit]], due_too=True)
    return rows, known[limit - 1] if len(known) > limit else None


def _is_beyond(entry: Scored, place: Place, *, latest_first: bool) -> bool:
    at = float(place.score), place.sid.encode()
    return entry < at if latest_first else entry > at
