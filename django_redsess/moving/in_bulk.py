"""All sessions of the other store, page by page: moving them, deleting their rows, and the way back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from django_redsess import cleaning
from django_redsess.moving import marks
from django_redsess.moving.contents import kept
from django_redsess.moving.session_store import SessionStore, began, copy_of, copying, keys_here, keys_of
from django_redsess.moving.sources import PAGE, Row, source
from django_redsess.session import script_calls
from django_redsess.session.merge import same
from django_redsess.session.saving import serialized, user_of
from django_redsess.signals import Reason
from django_redsess.transport import sending
from django_redsess.transport.connections import of
from django_redsess.transport.keys import bucket_of, keyspace, sid_of
from django_redsess.transport.round_trips import Call, ask_each, drive, together


class Page(NamedTuple):
    """
    What became of a page of rows.

    ``done`` is how many were moved, deleted or written back now. ``before`` were moved before. ``ended`` are over, and
    their rows were deleted. ``left`` stay as they are. ``at`` are the first two characters of the last key.
    """

    done: int = 0
    before: int = 0
    ended: int = 0
    left: int = 0
    at: str = ""

    @property
    def rows(self) -> int:
        """The number of rows."""
        return self.done + self.before + self.ended + self.left


class _Session(NamedTuple):
    """A session to be moved: its name there, its row as read and as kept, its sid by that name, and its sid here."""

    name: str
    read: Row
    row: Row
    sid_there: str
    sid: str


def move(after: str = "", *, dry_run: bool = False) -> Iterator[Page]:
    """
    Move all sessions, those with keys above ``after``. Yield what became of each page; ``left`` are due.

    It can be stopped and run again at any time, twice at once, and beside the site's traffic. MAX_SESSIONS holds.
    ``dry_run`` only counts.
    """
    for page in _pages(after):
        marked = _marks_of([_sid(name) for name, _ in page])
        new = [each for each, mark in zip(page, marked, strict=True) if not mark]
        moved = len(new) if dry_run else _move(new)
        yield Page(moved, len(page) - len(new), 0, len(new) - moved, page[-1][0][:2])
        if not dry_run:
            for _ in cleaning.evicted():
                pass


def finish() -> Iterator[Page]:
    """
    Delete the rows of sessions that are or have been here. Yield what became of each page.

    The key in such a row is a valid cookie, for whoever reads the other store or a backup of it.
    """
    for page in _pages():
        names = [name for name, _ in page]
        done = [name for name, mark in zip(names, _marks_of(list(map(_sid, names))), strict=True) if mark]
        source().delete_many(done)
        yield Page(len(done), left=len(names) - len(done), at=names[-1][:2])


def bring_back() -> Iterator[Page]:
    """
    Write the sessions that are here into their rows, and delete the rows of those that have ended here.

    It is for a return to a release that does not know this store. Yield what became of each page. Sessions that began
    here have no rows, and stay here.
    """
    for page in _pages():
        done = ended = 0
        names = [name for name, _ in page]
        for name, mark in zip(names, _marks_of(list(map(_sid, names))), strict=True):
            if mark:
                session = SessionStore(name)
                data = session.load()
                if session.session_key is None:
                    source().delete(name)
                    ended += 1
                else:
                    source().write(name, data)
                    done += 1
        yield Page(done, 0, ended, len(names) - done - ended, names[-1][:2])


def _pages(after: str = "") -> Iterator[list[tuple[str, Row]]]:
    rows = ((name, row) for name, row in source().rows(after) if row is not None)
    while page := list(islice(rows, PAGE)):
        yield page


def _sid(name: str) -> str:
    return name if source().names_are_sids else sid_of(keys_here(name)[0])


def _marks_of(sids: Sequence[str]) -> list[bytes | None]:
    partitions = [keyspace().of_sid(sid) for sid in sids]

    def reading(number: int, at: int) -> bytes:
        return sending.command("GET", partitions[number].moved_of(sids[number]))

    return [mark for [mark] in drive(ask_each("mark", partitions, reading, 1))] if sids else []


def _move(page: Sequence[tuple[str, Row]]) -> int:
    """Move these sessions, and return how many were."""
    session, moving, calls = SessionStore(), list[_Session](), list[Call[tuple[str, int]]]()
    for name, read in page:
        row = began(read)
        row = row._replace(data=kept(row.data, session.serializer))
        sid = sid_there = _sid(name)
        if not source().names_are_sids:
            [key, *_] = keys_of(name, keys_here(name)[0], user_of(row.data))
            sid = sid_of(key)
        each = _Session(name, read, row, sid_there, sid)
        call = _call(session, each)
        if call is not None:
            moving.append(each)
            calls.append(call)
    outcomes = [outcome for outcome, _ in drive(together(calls))] if calls else []
    for number, each in enumerate(moving):
        if outcomes[number] == "clock":
            # The clock of the server was set meanwhile, or the page has taken more than a second.
            outcomes[number] = drive(copying(session, each.sid, each.row, each.sid_there))
    _mark_elsewhere([each for each in moving if each.sid != each.sid_there])
    _take_late_changes([each for each, outcome in zip(moving, outcomes, strict=True) if outcome == "copied"])
    return len(moving)


def _call(session: SessionStore, moving: _Session) -> Call[tuple[str, int]] | None:
    partition = keyspace().of_sid(moving.sid)
    at = of(partition).clock.now() or script_calls.time(partition).run()
    made = copy_of(session, moving.row, serialized(session, moving.row.data), at)
    return marks.copy(moving.sid, made, at, moving.sid_there) if made.due > at else None


def _mark_elsewhere(moved: Sequence[_Session]) -> None:
    """Note where sessions are that have other keys here than there."""
    partitions = [keyspace().of_sid(each.sid_there) for each in moved]

    def marking(number: int, at: int) -> bytes:
        each = moved[number]
        return marks.marking(each.sid_there, each.row.deadline, str(bucket_of(each.sid)), at)

    if moved:
        for each, [is_set] in zip(moved, drive(ask_each("mark", partitions, marking, 1)), strict=True):
            if is_set is None and not drive(marks.moved_to(each.sid_there, each.row.deadline, each.sid)):
                # It was ended by its old key while it was copied.
                drive(script_calls.end([each.sid], script_calls.Ending(Reason.INVALIDATED)))


def _take_late_changes(moved: Sequence[_Session]) -> None:
    """
    Take what processes that do not move yet have written while their sessions were moved.

    Each first request to a session does so, too: here it is done because rows may be deleted before.
    """
    late = source().read_many([each.name for each in moved])
    for each in moved:
        row = late.get(each.name)
        if not (row is None or row is each.read or same(row.data, each.read.data) or source().names_are_sids):
            SessionStore(each.name).load()
