"""All sessions of the other store, page by page: moving them, deleting their rows, and the way back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from django.core.exceptions import ImproperlyConfigured
from redis.exceptions import RedisError

from django_redsess import cleaning
from django_redsess.conf import conf
from django_redsess.contrib.moving import marks
from django_redsess.contrib.moving.contents import is_movable, keep_serializable, log_if_saved_late, log_unmovable
from django_redsess.contrib.moving.copying import (
    build_copy,
    copy_call,
    copy_session,
    extract_beginning,
    keys_here,
    possible_keys,
)
from django_redsess.contrib.moving.marks import keys_by_mark
from django_redsess.contrib.moving.outages import ask_other_store
from django_redsess.contrib.moving.session_store import SessionStore
from django_redsess.contrib.moving.sources import source
from django_redsess.contrib.moving.sources.base import PAGE, PAGE_BYTES, Row
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.session.merge import same
from django_redsess.session.other_store import Watched
from django_redsess.session.record import data_of, serialized, unpack, user_of
from django_redsess.signals import Reason
from django_redsess.transport import packing
from django_redsess.transport.keys import bucket_of, keyspace, sid_of
from django_redsess.transport.partitions import ask_each, together
from django_redsess.transport.steps import ScriptCall, current_time, drive


class PageResult(NamedTuple):
    """
    What became of a page of rows.

    ``done`` is how many were moved, deleted or written back now. ``before`` were moved before. ``ended`` are over, and
    their rows were deleted. ``left`` stay as they are. ``last`` is the last key.
    """

    done: int = 0
    before: int = 0
    ended: int = 0
    left: int = 0
    last: str = ""

    @property
    def row_count(self) -> int:
        """The number of rows."""
        return self.done + self.before + self.ended + self.left


class _Session(NamedTuple):
    """A session to be moved: its name there, its row as read and as kept, its sid by that name, and its sid here."""

    name: str
    read: Row
    row: Row
    sid_there: str
    sid: str


def move_rows(after: str = "", *, dry_run: bool = False, begun: set[str] | None = None) -> Iterator[PageResult]:
    """
    Move all sessions, those with keys above ``after``. Yield what became of each page; ``left`` are due or unreadable.

    It can be stopped and run again at any time, twice at once, and beside the site's traffic. MAX_SESSIONS holds.
    ``dry_run`` only counts. Raises SessionStoreUnavailable in an outage of either store. Then ``begun`` has the keys of
    the page that the outage has cut in two. Give them to the next call: it counts those that were moved as moved,
    once.
    """
    begun = set() if begun is None else begun
    for page in _row_pages(after):
        rows = _movable_rows(page)
        marked = _marks_of([_sid_there(name) for name, _ in rows])
        new = [each for each, mark in zip(rows, marked, strict=True) if not mark]
        _look_for_late_saves({name: mark for (name, _), mark in zip(rows, marked, strict=True) if mark}, page)
        own = sum(name in begun for (name, _), mark in zip(rows, marked, strict=True) if mark)
        moved, met = (len(new), 0) if dry_run else _move_page(new, begun)
        moved, before = moved + own, len(rows) - len(new) - own + met
        begun.difference_update(name for name, _ in page)
        yield PageResult(moved, before, 0, len(page) - moved - before, page[-1][0])
        if not dry_run:
            for _ in cleaning.evict_sessions():
                pass


def delete_moved_rows(after: str = "") -> Iterator[PageResult]:
    """
    Delete the rows of sessions that are or have been here. Yield what became of each page.

    The key in such a row is a valid cookie: anybody who reads the other store or a backup of it could use it.
    """
    for page in _row_pages(after):
        done = _marks_by_name(page)
        _look_for_late_saves(done, page)
        ask_other_store(partial(source().delete_rows, list(done)))
        yield PageResult(len(done), left=len(page) - len(done), last=page[-1][0])


def bring_rows_back(after: str = "") -> Iterator[PageResult]:
    """
    Write the sessions that are here into their rows, and delete the rows of those that have ended here.

    It is for a return to a release that does not know this store. So rows of sessions that have not moved, but that an
    end of many sessions has included, are deleted, too. Yield what became of each page. Sessions that began here have
    no rows, and stay here.
    """
    for page in _row_pages(after):
        became = list(_bring_page_back(page).values())
        done, ended = became.count("written"), became.count("ended")
        yield PageResult(done, 0, ended, len(page) - done - ended, page[-1][0])


def _bring_page_back(page: Sequence[tuple[str, Row | None]]) -> dict[str, str]:
    """Write or delete the rows of all marked sessions of a page. Return by name the result of each."""
    marked, rows = _marks_by_name(page), dict(page)
    sids = _sids_here(marked)
    # We save these rows now: that is no late save of another process.
    _forget_copying([sids[name][0] for name in marked], list(marked.values()))
    found = _records_of(sids)
    known = {name: _data_to_write(name, rows[name], *here) for name, here in found.items() if here is not None}
    ended = [name for name, here in found.items() if here is None]
    ended += _ended_there(page, marked)
    written = ask_other_store(
        partial(source().write_rows, {name: data for name, data in known.items() if data is not None})
    )
    # Last: after an outage here, the next run would not meet deleted rows, and not count them.
    ask_other_store(partial(source().delete_rows, ended))
    became = {**dict.fromkeys(written, "written"), **dict.fromkeys(ended, "ended")}
    now = _records_of(sids)
    for name in sids:
        if now[name] != found[name] or (name in known and known[name] is None):
            # Somebody has used or ended it meanwhile. Or it has to be compared with its row, or can't be read.
            became[name] = _bring_session_back(name)
    return became


def _ended_there(page: Sequence[tuple[str, Row | None]], marked: Mapping[str, bytes]) -> list[str]:
    """Return which sessions of a page are over by a note here. They have not moved, and so have no mark."""
    rows = {name: extract_beginning(row) for name, row in _movable_rows(page) if name not in marked}
    watched = [Watched(_sid_there(name), user_of(row.data), row.began_ms) for name, row in rows.items()]
    lives = drive(SessionStore.other_store.find_living(watched)) if watched else []
    return [name for name, is_living in zip(rows, lives, strict=True) if not is_living]


def _sids_here(marked: Mapping[str, bytes]) -> dict[str, list[str]]:
    """Return under which sids these sessions may be here, the first one to look at first."""
    found = {}
    for name, mark in marked.items():
        word = mark.partition(b" ")[0].decode(errors="replace")
        found[name] = [_sid_there(name), *map(sid_of, keys_by_mark(name, word))]
    return found


_Here = tuple[str, bytes]
"""The sid and the packed record of a session that is here."""


def _records_of(sids: Mapping[str, Sequence[str]]) -> dict[str, _Here | None]:
    """Read where each of these sessions is: under the first of its ``sids`` that lives. None if it has ended."""
    wanted = [sid for each in sids.values() for sid in each]
    partitions, times = [keyspace().of_sid(sid) for sid in wanted], [0] * len(wanted)

    def pack_question(number: int, at: int) -> bytes:
        names, sid, times[number] = partitions[number], wanted[number], at
        return packing.pack_command("HGET", names.login, sid) + packing.pack_command("ZSCORE", names.expire, sid)

    replies = drive(ask_each("read", partitions, pack_question, 2)) if wanted else []
    live = {
        sid: packed
        for sid, at, (packed, due) in zip(wanted, times, replies, strict=True)
        if packed is not None and float(due or 0) > at
    }
    return {name: next(((sid, live[sid]) for sid in each if sid in live), None) for name, each in sids.items()}


def _data_to_write(name: str, row: Row | None, sid: str, packed: bytes) -> dict[str, Any] | None:
    """Return what is to be written into a session's row. None if its record is not enough to tell."""
    try:
        record = unpack(sid, packed)
        data = data_of(record)
        if record.revision == marks.COPIED:
            # Nobody has used it here yet: its row may be newer.
            serializer = SessionStore().serializer
            if row is None or not same(keep_serializable(extract_beginning(row).data, serializer), data, serializer()):
                return None
    except Exception:  # A serializer may raise anything.
        return None
    return data


def _bring_session_back(name: str) -> str:
    """Write one session into its row, or delete its row. Return what was done: ``"written"``, ``"ended"`` or ``""``."""
    session = SessionStore(name)
    try:
        data = session.load()
        if session.session_key is None:
            ask_other_store(partial(source().delete_row, name))
            return "ended"
        # It leaves out a session whose row somebody has deleted meanwhile.
        return "written" if ask_other_store(partial(source().write_rows, {name: data})) else ""
    except Exception as error:
        _refuse_row(name, error)
        return ""


def _refuse_row(name: str, error: Exception) -> None:
    """Log that one row can't be moved or written. Raise what stops all of them."""
    if isinstance(error, (SessionStoreUnavailable, ImproperlyConfigured, RedisError)):
        raise error
    log_unmovable(name, type(error).__name__)


_Rows = list[tuple[str, Row]]


def _row_pages(after: str = "") -> Iterator[list[tuple[str, Row | None]]]:
    rows, seen = iter(source().iter_rows(after)), set[str]()
    while True:
        page, size = list[tuple[str, Row | None]](), 0
        while (
            len(page) < PAGE and size < PAGE_BYTES and (found := ask_other_store(partial(next, rows, None))) is not None
        ):
            # SCAN may name a session several times.
            if found[0] in seen:
                continue
            if not source().in_order:
                seen.add(found[0])
            page.append(found)
            # A row that can't be read counts as small.
            size += len(repr(found[1]))
        if not page:
            return
        yield page


def _movable_rows(page: Sequence[tuple[str, Row | None]]) -> _Rows:
    """Return the rows that can be moved. Log the others, but those that the source has logged."""
    found = _Rows()
    for name, row in page:
        if row is None:
            continue
        if keys_here(name) and is_movable(row):
            found.append((name, row))
        else:
            log_unmovable(name, "it can't be written here")
    return found


def _marks_by_name(page: Sequence[tuple[str, Row | None]]) -> dict[str, bytes]:
    """Return the marks of sessions that are or have been here, by name, whether or not their rows can be read."""
    names = [name for name, _ in page if keys_here(name)]
    return {name: mark for name, mark in zip(names, _marks_of(list(map(_sid_there, names))), strict=True) if mark}


def _sid_there(name: str) -> str:
    return sid_of(keys_here(name)[0])


def _marks_of(sids: Sequence[str]) -> list[bytes | None]:
    partitions = [keyspace().of_sid(sid) for sid in sids]

    def pack_question(number: int, at: int) -> bytes:
        return packing.pack_command("GET", partitions[number].moved_of(sids[number]))

    return [mark for [mark] in drive(ask_each("mark", partitions, pack_question, 1))] if sids else []


def _look_for_late_saves(marked: Mapping[str, bytes], page: Sequence[tuple[str, Row | None]]) -> None:
    for name, row in page:
        # Going back to the release before, somebody may count by --dry-run what is left.
        if conf.MOVES and row is not None and name in marked:
            log_if_saved_late(row.data, row.deadline_ms, marked[name].decode(errors="replace"))


def _forget_copying(sids: Sequence[str], found: Sequence[bytes]) -> None:
    """Take the times of the copying out of these marks."""
    partitions = [keyspace().of_sid(sid) for sid in sids]

    def pack_mark(number: int, at: int) -> bytes:
        word = found[number].partition(b" ")[0]
        return packing.pack_command("SET", partitions[number].moved_of(sids[number]), word, "XX", "KEEPTTL")

    if sids:
        drive(ask_each("mark", partitions, pack_mark, 1))


def _move_page(page: _Rows, begun: set[str]) -> tuple[int, int]:
    """
    Move these sessions. Return how many were moved, and how many somebody else had moved or ended meanwhile.

    ``begun`` gets the keys of those that may have been moved by this call, in case an outage interrupts it.
    """
    session, moving, calls = SessionStore(), list[_Session](), list[ScriptCall[tuple[str, int]]]()
    for name, read in page:
        try:
            each = _prepare_move(session, name, read)
            call = _prepare_copy(session, each)
        except Exception as error:
            _refuse_row(name, error)
            continue
        if call is not None:
            moving.append(each)
            calls.append(call)
    begun.update(each.name for each in moving)
    outcomes = [outcome for outcome, _ in drive(together(calls))] if calls else []
    for number, each in enumerate(moving):
        if outcomes[number] == "clock":
            # The clock of the server was set meanwhile, or the page has taken more than a second.
            outcomes[number] = drive(copy_session(session, each.sid, each.row, each.sid_there))
    begun.difference_update(each.name for each, outcome in zip(moving, outcomes, strict=True) if outcome != "copied")
    _mark_new_keys([each for each in moving if each.sid != each.sid_there])
    for each, outcome in zip(moving, outcomes, strict=True):
        if outcome == "over":
            # Its row goes, too.
            _load_session(each.name)
    copied = [each for each, outcome in zip(moving, outcomes, strict=True) if outcome == "copied"]
    _take_late_changes(copied)
    return len(copied), len(moving) - len(copied)


def _load_session(name: str) -> None:
    try:
        SessionStore(name).load()
    except Exception as error:
        _refuse_row(name, error)


def _prepare_move(session: SessionStore, name: str, read: Row) -> _Session:
    row = extract_beginning(read)
    row = row._replace(data=keep_serializable(row.data, session.serializer))
    [key, *_] = possible_keys(name, keys_here(name)[0], user_of(row.data))
    return _Session(name, read, row, _sid_there(name), sid_of(key))


def _prepare_copy(session: SessionStore, moving: _Session) -> ScriptCall[tuple[str, int]] | None:
    partition = keyspace().of_sid(moving.sid)
    at = drive(current_time(partition))
    made = build_copy(session, moving.row, serialized(session.serializer, moving.row.data), at)
    return copy_call(moving.sid, made, at, moving.sid_there) if made.due > at else None


def _mark_new_keys(moved: Sequence[_Session]) -> None:
    """Note where sessions are that have other keys here than there."""
    if not moved:
        return
    entries = [(each.sid_there, each.row.deadline_ms, str(bucket_of(each.sid))) for each in moved]
    for each, is_set in zip(moved, drive(marks.set_marks(entries)), strict=True):
        if not is_set and not drive(marks.mark_moved_to(each.sid_there, each.row.deadline_ms, each.sid)):
            # It was ended by its old key while it was copied.
            drive(operations.end_by_sid([each.sid], operations.Ending(Reason.INVALIDATED)))


def _take_late_changes(moved: Sequence[_Session]) -> None:
    """
    Take the changes that processes of the first step have written while their sessions were moved.

    The first request to a session takes them, too. It is done here because the rows may be deleted before.
    """
    late = ask_other_store(partial(source().read_rows, [each.name for each in moved]))
    for each in moved:
        row = late.get(each.name)
        if row is not None and not same(row.data, each.read.data):
            _load_session(each.name)
