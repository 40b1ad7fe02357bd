"""A file of recorded visits: its events, the items that each user views, and what the sessions must hold then."""

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
# Not imported from the package: a replay checks the package's number.
HISTORY = 25


class ReplayError(Exception):
    """The file can't be replayed. The message says why."""


class Event(NamedTuple):
    """A row: ``user`` viewed ``item``."""

    user: str
    item: str
    at: datetime


@dataclass(frozen=True)
class Seen:
    """Histories by user, one for each session with the newest item first, and the number of views by item."""

    histories: dict[str, list[list[str]]]
    views: Mapping[str, int]


def read_events(lines: Iterable[str], *, limit: int | None = None) -> tuple[list[Event], list[str]]:
    """
    Read the recorded visits.

    ``lines`` are those of a CSV file with the columns of ``COLUMNS``; other columns are ignored. ``limit`` is the
    maximum number of rows.

    Returns the events in the order of the file, and a line for each row that is not valid, which says where and why.
    Raises ReplayError if the file is not such a CSV file.
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
    """Return the event of a row. Raises ValueError, with a text to print, if the row is not valid."""
    # In DictReader, a missing field is None, and additional fields have the key None.
    if None in row or None in row.values():
        raise ValueError("the number of fields is not that of the first line")
    user, item, timestamp = (str(row[column]).strip() for column in COLUMNS)
    # Normalized as in the sign-in form, so that the user name typed there is the one created here.
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
    """Return the items of each user in the order of their timestamps; if these are equal, in the order of the file."""
    found: dict[str, list[str]] = {}
    for event in sorted(events, key=lambda event: event.at):
        found.setdefault(event.user, []).append(event.item)
    return found


def expected(journeys: dict[str, list[str]]) -> Seen:
    """Return what the sessions must hold when each user has signed in once and viewed all items of their journey."""
    return Seen(
        histories={user: [list(dict.fromkeys(reversed(items)))[:HISTORY]] for user, items in journeys.items()},
        views=Counter(item for items in journeys.values() for item in items),
    )


def differences(expected: Seen, found: Seen) -> Iterator[str]:
    """Yield a line for each user and each item in which ``found`` differs from ``expected``."""
    for user, histories in expected.histories.items():
        sessions = found.histories.get(user, [])
        if len(sessions) != len(histories):
            yield f"user {user}: {len(sessions)} sessions online instead of {len(histories)}"
        elif sessions != histories:
            yield f"user {user}: viewed {_listed(sessions[0])} instead of {_listed(histories[0])}"
    # Items that are not in the file too: they must have no new views.
    for item in {**expected.views, **found.views}:
        there, wanted = found.views.get(item, 0), expected.views.get(item, 0)
        if there != wanted:
            yield f"item {item}: {there} views instead of {wanted}"


def faults_in_order(ranking: Sequence[tuple[str, int]]) -> Iterator[str]:
    """Yield a line for each item of the ``ranking`` that is in it twice, or in a wrong place."""
    listed: set[str] = set()
    for place, (item, views) in enumerate(ranking):
        if item in listed:
            yield f"item {item}: twice among the most viewed"
        elif place and views > ranking[place - 1][1]:
            yield f"item {item}: below {ranking[place - 1][0]} among the most viewed, with {views} views"
        listed.add(item)


def _listed(items: list[str]) -> str:
    return " ".join(items) or "nothing"
