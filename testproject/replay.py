"""What a file of recorded visits asks for: the rows, each user's way through the shop, what must be seen after it."""

import csv
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

COLUMNS = ("user_id", "event", "timestamp")
# Written down here rather than taken from the package, whose number is what a replay checks.
HISTORY = 25


class ReplayError(Exception):
    """The file can't be replayed at all; the message says why."""


class Event(NamedTuple):
    """One row: ``user`` looked at ``item``."""

    user: str
    item: str
    at: datetime


@dataclass(frozen=True)
class Seen:
    """Each user's sessions, each as its items from the newest to the oldest, and how often each item was viewed."""

    histories: dict[str, list[list[str]]]
    views: Mapping[str, int]


def read_events(lines: Iterable[str], *, limit: int | None = None) -> tuple[list[Event], list[str]]:
    """
    Read the recorded visits.

    ``lines`` are those of a CSV file with the columns of ``COLUMNS``; others are ignored. ``limit`` reads only that
    many rows.

    Returns the events in the file's order, and for each row that is none a line that says where and why. Raises
    ReplayError when the whole is no such file.
    """
    reader = csv.DictReader(lines, strict=True)
    events: list[Event] = []
    problems: list[str] = []
    try:
        missing = [column for column in COLUMNS if column not in (reader.fieldnames or ())]
        if missing:
            raise ReplayError(f"has no column {', '.join(missing)}: its first line must name {', '.join(COLUMNS)}")
        for row in islice(reader, limit):
            try:
                events.append(_event(row))
            except ValueError as error:
                problems.append(f"line {reader.line_num}: {error}")
    except UnicodeDecodeError as error:
        raise ReplayError("is not UTF-8 text") from error
    except csv.Error as error:
        raise ReplayError(f"is not CSV (line {reader.line_num}: {error})") from error
    return events, problems


def _event(row: dict[str, str | None]) -> Event:
    """Raise ValueError, with a reason to print, for a row that is no event."""
    # DictReader gives None to a field that isn't there, and puts what is too much under the key None.
    if None in row or None in row.values():
        raise ValueError("the number of fields is not that of the first line")
    user, item, timestamp = (str(row[column]).strip() for column in COLUMNS)
    # As the sign-in form does it: what is typed there must find the user created here.
    user = unicodedata.normalize("NFKC", user).strip()
    if not user:
        raise ValueError("user_id is empty")
    if len(user) > 150 or not user.isprintable():
        raise ValueError("user_id is no user name of at most 150 characters")
    if not re.fullmatch(r"[-a-zA-Z0-9_]{1,64}", item):
        raise ValueError(f"event {item[:80]!r} is not 1 to 64 letters, digits, - or _")
    try:
        at = datetime.fromisoformat(timestamp)
    except ValueError:
        raise ValueError(f"timestamp {timestamp[:80]!r} is no ISO date") from None
    return Event(user, item, at if at.tzinfo else at.replace(tzinfo=UTC))


def journeys(events: Iterable[Event]) -> dict[str, list[str]]:
    """Return the items of each user in the order they were viewed; at the same time, in the file's order."""
    found: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda event: event.at):
        found.setdefault(event.user, []).append(event.item)
    return found


def expected(journeys: dict[str, list[str]]) -> Seen:
    """Return what must be seen once each user has signed in and made their journey."""
    return Seen(
        histories={user: [list(dict.fromkeys(reversed(items)))[:HISTORY]] for user, items in journeys.items()},
        views=Counter(item for items in journeys.values() for item in items),
    )


def differences(expected: Seen, found: Seen) -> Iterator[str]:
    """Yield a line for each user and each item that was not seen as it must be."""
    for user, histories in expected.histories.items():
        sessions = found.histories.get(user, [])
        if len(sessions) != len(histories):
            yield f"user {user}: {len(sessions)} sessions online instead of {len(histories)}"
        elif sessions != histories:
            yield f"user {user}: viewed {_listed(sessions[0])} instead of {_listed(histories[0])}"
    # An item that is not in the file must have gained none.
    for item in {**expected.views, **found.views}:
        there, wanted = found.views.get(item, 0), expected.views.get(item, 0)
        if there != wanted:
            yield f"item {item}: {there} views instead of {wanted}"


def faults_in_order(ranking: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield a line for each item of the most viewed ones, with their views, that is there twice or in a wrong place."""
    listed: set[str] = set()
    for place, (item, views) in enumerate(ranking):
        if item in listed:
            yield f"item {item}: twice among the most viewed"
        elif place and views > ranking[place - 1][1]:
            yield f"item {item}: below {ranking[place - 1][0]} among the most viewed, with {views} views"
        listed.add(item)


def _listed(items: list[str]) -> str:
    return " ".join(items) or "nothing"
