"""
What can be done with sessions in Redis: each operation is one call of one script.

The functions here send nothing: each returns a :class:`~django_redsess.call.Call`, and ``call.run()`` or ``await
call.arun()`` sends it. Operations that concern every partition return a call for each; ending sessions may take
several, one after another, and so it is steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from django_redsess import scripts
from django_redsess.call import Call, Steps
from django_redsess.conf import conf
from django_redsess.keys import Partition, is_sid, keyspace
from django_redsess.signals import Ended, Endings, Reason

T = TypeVar("T")

AT_ONCE_MAX = 250
"""The most sessions that a call takes out or looks up: more would keep the server from everybody else for too long."""

USERS_MAX = 1000
"""The most users whose sessions one call may count or page through: each costs a look into that user's list."""

LAST_SECOND = 250_000_000_000
"""In the year 9892: a later deadline is shown as this one, since Python's dates end soon after."""


class Touch(StrEnum):
    """What reading a session leaves behind."""

    NOTHING = ""
    SEEN = "seen"
    """A note that it was seen: for a request that nobody made by hand."""
    ACTIVE = "active"
    """The same, and later deadlines, as far as the settings move them."""


class Loaded(NamedTuple):
    """A session as it was read; ``record`` is None when it is gone, and then ``note`` may say why."""

    record: bytes | None
    refresh_cookie: bool = False
    note: str = ""

    @property
    def rotated_to(self) -> str:
        """The sid under which the session lives on, or ``""``."""
        return _rotated_to(self.note)


class Written(NamedTuple):
    """
    What a save writes.

    ``date`` is the deadline where one was set as a date, else the record's age counts. ``signs_in`` gives a new login
    time, ``passive`` leaves the deadline as it is.
    """

    record: bytes
    user_id: str
    date: datetime | None = None
    signs_in: bool = False
    passive: bool = False


class Outcome(NamedTuple):
    """What became of a save: ``saved``; or ``gone``; or ``changed``, and ``record`` is the one that is there now."""

    word: str
    record: bytes = b""
    note: str = ""

    @property
    def rotated_to(self) -> str:
        """The sid under which the session lives on, or ``""``."""
        return _rotated_to(self.note)


class Row(NamedTuple):
    """A session as a list shows it; ``login_at`` is None for a guest's, ``record`` is still packed."""

    sid: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    record: bytes


def load(sid: str, touch: Touch = Touch.NOTHING) -> Call[Loaded]:
    """Read the record of ``sid``, and leave behind that it was seen, as ``touch`` says."""
    partition = keyspace().of_sid(sid)
    args = (sid, touch.value, *_policy(), int(conf.SLIDING))
    return Call(partition, scripts.LOAD, session_keys(partition), args, _loaded)


def create(sid: str, written: Written, viewed: Sequence[bytes] | None = None) -> Call[bool]:
    """
    Add a session. False when ``sid`` is taken. Sessions that are due, or too many, make room: two of each.

    ``viewed`` says that it comes from another partition, and what it viewed there: items and the times of their views,
    one after another, as :func:`viewed_by` returns them.
    """
    space = keyspace()
    partition = space.of_sid(sid)
    maximum = share_of(conf.MAX_SESSIONS, space.count)
    made: tuple[str | bytes | int, ...] = (sid, written.record, written.user_id, _date(written), *_policy(), maximum)
    args = (*made, int(viewed is not None), *(viewed or ()))
    return Call(partition, scripts.CREATE, session_keys(partition), args, lambda reply, _: bool(reply))


def save(sid: str, written: Written, *, loaded: bytes) -> Call[Outcome]:
    """
    Replace the record of a live session that still has the revision ``loaded``, or any where that is empty.

    Otherwise nothing is written.
    """
    partition = keyspace().of_sid(sid)
    args = (sid, *_written(written, loaded), int(written.passive))
    return Call(partition, scripts.SAVE, session_keys(partition), args, _outcome)


def rotate(old_sid: str, sid: str, written: Written, *, loaded: bytes) -> Call[Outcome]:
    """
    Move a live session to a new sid, with a new record, if it still has the revision ``loaded``.

    Where the new sid belongs to another partition, which no script reaches, create it there before: this call then
    only ends the old one, with a note of where it went.
    """
    partition = keyspace().of_sid(old_sid)
    if not same_partition(old_sid, sid):
        written = written._replace(record=b"")
    args = (old_sid, sid, *_written(written, loaded))
    return Call(partition, scripts.ROTATE, session_keys(partition), args, _outcome)


def viewed_by(sid: str) -> Call[list[bytes]]:
    """Read what a session viewed, to take it along: item, time, item, time, …"""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.ITEMS, (partition.viewed_by(sid),), (0, -1), list)


def same_partition(sid: str, other_sid: str) -> bool:
    """Tell whether one script can reach both sessions."""
    space = keyspace()
    return space.count == 1 or space.of_sid(sid) == space.of_sid(other_sid)


def at_home(sid: str, user_id: str) -> bool:
    """Tell whether a session of this user (``""``: a guest) may have this sid: a user's are all in one partition."""
    space = keyspace()
    return space.count == 1 or not user_id or space.of_sid(sid) == space.of_user(user_id)


def end(sids: Sequence[str], reason: Reason | None) -> Steps[list[Ended]]:
    """
    End sessions, up to 250 a call, and return those that were there.

    Nobody is told of an end without a reason: it takes back what nobody has had.
    """
    ended: list[Ended] = []
    for partition, batch in _batches(sids):
        while batch:
            args = (reason or "", *batch)
            dealt_with, gone = yield Call(partition, scripts.END, session_keys(partition), args, _both)
            ended += gone
            batch = batch[dealt_with:]
    return ended


def count(user_ids: Sequence[str] | None = None) -> list[Call[int]]:
    """Count signed-in sessions, of these users or of all, after ending up to 200 due ones of each partition."""
    return [
        Call(partition, scripts.COUNT, (*session_keys(partition), *lists), (), lambda reply, _: int(reply))
        for partition, lists in _lists(user_ids)
    ]


def page(
    first: int, last: int, *, newest_first: bool = True, user_ids: Sequence[str] | None = None
) -> list[Call[list[Row]]]:
    """
    Read the signed-in sessions, of these users or of all, from rank ``first`` to ``last`` (inclusive) by login time.

    Ends up to 200 due ones of each partition before.

    With several partitions each answers from rank 0 on, since any of them may hold all of the page; merge and cut.
    """
    partitions = list(_lists(user_ids))
    args = (first if len(partitions) == 1 else 0, last, *(("REV",) if newest_first else ()))
    return [
        Call(partition, scripts.PAGE, (*session_keys(partition), *lists), args, lambda reply, _: _rows(reply))
        for partition, lists in partitions
    ]


def find(sids: Sequence[str]) -> list[Call[list[Row]]]:
    """Look up sessions, up to 250 a call. Those that are gone or due are left out."""
    return [Call(partition, scripts.FIND, session_keys(partition), batch, _rows) for partition, batch in _batches(sids)]


def view(sid: str, item: str, *, keep: int) -> list[Call[bool]]:
    """
    Note that a live session viewed ``item``, of which it keeps the newest ``keep``, and count the view.

    Run the calls in order and stop at the first that returns False: the session is gone, or due. There is a second one
    when the item is counted in another partition.
    """
    space = keyspace()
    partition, counting = space.of_sid(sid), space.of_item(item)
    keys = session_keys(partition)
    if partition == counting:
        return [Call(partition, scripts.VIEW, (*keys, counting.viewed), (sid, item, keep), bool)]
    return [
        Call(partition, scripts.VIEW, keys, (sid, item, keep), bool),
        Call(counting, scripts.COUNT_VIEW, (counting.viewed,), (item,), bool),
    ]


def recent_items(sid: str, *, limit: int) -> Call[list[tuple[str, datetime]]]:
    """Read what a session viewed: item and time, the newest ``limit`` first."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.ITEMS, (partition.viewed_by(sid),), (0, limit - 1, "REV"), _items(time_of))


def popular_items(*, limit: int) -> list[Call[list[tuple[str, int]]]]:
    """Read each partition's ``limit`` most viewed items: item and views, the most viewed first."""
    return [
        Call(partition, scripts.ITEMS, (partition.viewed,), (0, limit - 1), _items(_views))
        for partition in keyspace().partitions
    ]


def views_of(item: str) -> Call[int]:
    """Read how often ``item`` was viewed."""
    partition = keyspace().of_item(item)
    return Call(partition, scripts.VIEWS, (partition.viewed,), (item,), lambda reply: _views(reply[0] or 0))


def _policy() -> tuple[int, int, int]:
    # Milliseconds, 0 for no limit.
    return conf.TOUCH_INTERVAL * 1000, (conf.IDLE_TIMEOUT or 0) * 1000, (conf.ABSOLUTE_TIMEOUT or 0) * 1000


def _written(written: Written, loaded: bytes) -> tuple[str | bytes | int, ...]:
    return written.record, written.user_id, _date(written), *_policy(), loaded, int(written.signs_in)


def _date(written: Written) -> str:
    return f"{written.date.timestamp() * 1000:.0f}" if written.date else ""


@lru_cache(maxsize=2048)
def session_keys(partition: Partition) -> tuple[str, ...]:
    """Name the keys of ``partition`` in the order of ``partition.lua``."""
    return (
        partition.login,
        partition.expire,
        partition.recent,
        partition.online_seen,
        partition.online_user,
        partition.online_user_of(""),
        partition.viewed_by(""),
        partition.ended_of(""),
        partition.wake,
        partition.totals,
    )


def _lists(user_ids: Sequence[str] | None) -> Iterable[tuple[Partition, Sequence[str]]]:
    # The sorted sets that list these users' sessions, or everybody's, by partition.
    space = keyspace()
    if user_ids is None:
        return [(partition, [partition.online_user]) for partition in space.partitions]
    if len(user_ids) > USERS_MAX:
        raise ValueError(f"At most {USERS_MAX} users can be asked for at once, not {len(user_ids)}.")
    homes: dict[Partition, list[str]] = {}
    for user_id in user_ids:
        home = space.of_user(user_id)
        homes.setdefault(home, []).append(home.online_user_of(user_id))
    return homes.items()


def _batches(sids: Sequence[str]) -> Iterator[tuple[Partition, list[str]]]:
    space = keyspace()
    partitions: dict[Partition, list[str]] = {}
    for sid in dict.fromkeys(sids):
        partitions.setdefault(space.of_sid(sid), []).append(sid)
    for partition, of_partition in partitions.items():
        for start in range(0, len(of_partition), AT_ONCE_MAX):
            yield partition, of_partition[start : start + AT_ONCE_MAX]


def _rotated_to(note: str) -> str:
    word, _, sid = note.partition(" ")
    return sid if word == "rotated" and is_sid(sid) else ""


def share_of(maximum: int, partitions: int) -> int:
    """Return how many of ``maximum`` sessions one of so many partitions may have."""
    return -(-maximum // partitions)


def _loaded(reply: list[Any]) -> Loaded:
    record, more = reply
    return Loaded(None, note=more.decode(errors="replace")) if record is None else Loaded(record, bool(more))


def _outcome(reply: list[bytes]) -> Outcome:
    word, more = reply[0].decode(), b"".join(reply[1:])
    return Outcome(word, note=more.decode(errors="replace")) if word == "gone" else Outcome(word, more)


def _both(reply: int, ended: Endings) -> tuple[int, list[Ended]]:
    return reply, list(ended)


def _rows(reply: list[tuple[bytes, bytes, bytes, bytes, bytes]]) -> list[Row]:
    return [
        Row(sid.decode(), time_of(login_at) if login_at else None, time_of(seen_at), time_of(expires_at), record)
        for sid, login_at, seen_at, expires_at, record in reply
    ]


def _items(meaning: Callable[[bytes], T]) -> Callable[[list[bytes]], list[tuple[str, T]]]:
    def read(reply: list[bytes]) -> list[tuple[str, T]]:
        return [(item.decode(), meaning(score)) for item, score in zip(reply[::2], reply[1::2], strict=True)]

    return read


def _views(score: bytes | int) -> int:
    return -int(float(score))


def time_of(milliseconds: bytes) -> datetime:
    """Return the time that the server wrote."""
    return datetime.fromtimestamp(max(0, min(float(milliseconds or 0) / 1000, LAST_SECOND)), UTC)
