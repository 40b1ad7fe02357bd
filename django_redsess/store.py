"""
What can be done with sessions in Redis: each operation is one call of one script.

The functions here send nothing. Each returns a :class:`Call`, which names the partition, the script and what it is
given, and reads the reply; ``call.run()`` sends it. Operations that concern every partition return a call for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, NamedTuple, TypeVar

from django_redsess import scripts
from django_redsess.client import connection_for
from django_redsess.conf import conf
from django_redsess.keys import Partition, keyspace
from django_redsess.scripts import Script

T = TypeVar("T")

BATCH_MAX = 1000
"""The most sessions that one call may take out: more would keep the server from everybody else for too long."""

USERS_MAX = 1000
"""The most users whose sessions one call may count or page through: each costs a look into that user's list."""

LAST_SECOND = 250_000_000_000
"""In the year 9892: a later deadline is shown as this one, since Python's dates end soon after."""


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One round trip to one partition: what is sent, and ``read``, which makes a result of the reply."""

    partition: Partition
    script: Script
    keys: Sequence[str]
    args: Sequence[str | bytes | int]
    read: Callable[[Any], T]

    def run(self) -> T:
        """Send it, and return the result. Raises what :meth:`Script.run` raises."""
        return self.read(self.script.run(connection_for(self.partition), self.keys, self.args))


class Deadline(NamedTuple):
    """When a session is due: ``age_seconds`` from the moment it is written, or at ``date`` where one is given."""

    age_seconds: float
    date: datetime | None = None

    def args(self) -> tuple[str, str]:
        return f"{self.age_seconds * 1000:.0f}", f"{self.date.timestamp() * 1000:.0f}" if self.date else ""


class Ended(NamedTuple):
    """A session that is over; ``user_id`` is ``""`` for a guest's."""

    sid: str
    user_id: str


class Row(NamedTuple):
    """A session as a list shows it; ``login_at`` is None for a guest's, ``record`` is still packed."""

    sid: str
    login_at: datetime | None
    seen_at: datetime
    expires_at: datetime
    record: bytes


def load(sid: str, *, touch_interval_seconds: int | None = None) -> Call[bytes | None]:
    """
    Read the record of ``sid``: None when there is no such session, or it is due.

    With ``touch_interval_seconds``, also note that it was seen, unless that was noted less than so long ago.
    """
    partition = keyspace().of_sid(sid)
    interval = -1 if touch_interval_seconds is None else touch_interval_seconds * 1000
    return Call(partition, scripts.LOAD, _session_keys(partition)[:4], (sid, interval), _record)


def create(sid: str, record: bytes, user_id: str, deadline: Deadline) -> Call[bool]:
    """Add a session. False when ``sid`` is taken. Sessions that are due, or too many, make room: two of each."""
    space = keyspace()
    partition = space.of_sid(sid)
    maximum = _share(conf.MAX_SESSIONS, space.count)
    args = (sid, record, user_id, *deadline.args(), maximum)
    return Call(partition, scripts.CREATE, _session_keys(partition), args, bool)


def save(sid: str, record: bytes, user_id: str, deadline: Deadline) -> Call[bool]:
    """Replace the record of a live session. False, and nothing written, when it is gone or due."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.SAVE, _session_keys(partition), (sid, record, user_id, *deadline.args()), bool)


def rotate(old_sid: str, sid: str, record: bytes, user_id: str, deadline: Deadline) -> Call[bool]:
    """
    Move a live session to a new sid of the same partition, with a new record. False when it is gone or due.

    Raises ValueError when the two are of different partitions: no script reaches over two.
    """
    partition = keyspace().of_sid(sid)
    if not same_partition(old_sid, sid):
        raise ValueError("A session keeps its partition when its key rotates.")
    args = (old_sid, sid, record, user_id, *deadline.args())
    return Call(partition, scripts.ROTATE, _session_keys(partition), args, bool)


def same_partition(sid: str, other_sid: str) -> bool:
    """Tell whether one script can reach both sessions."""
    return keyspace().of_sid(sid) == keyspace().of_sid(other_sid)


def end(sids: Sequence[str]) -> list[Call[list[Ended]]]:
    """End sessions, up to 1 000 a call. Each call's result holds those that were there."""
    return [
        Call(partition, scripts.END, _session_keys(partition), batch, _ended) for partition, batch in _batches(sids)
    ]


def expire(*, limit: int) -> list[Call[list[Ended]]]:
    """End up to ``limit`` (at most 1 000) due sessions of each partition."""
    return [
        Call(partition, scripts.EXPIRE, _session_keys(partition), (_batch(limit),), _ended)
        for partition in keyspace().partitions
    ]


def evict(maximum: int, *, limit: int) -> list[Call[list[Ended]]]:
    """End up to ``limit`` (at most 1 000) sessions of each partition above its share of ``maximum``, oldest first."""
    space = keyspace()
    args = (_share(maximum, space.count), _batch(limit))
    return [Call(partition, scripts.EVICT, _session_keys(partition), args, _ended) for partition in space.partitions]


def count(user_ids: Sequence[str] | None = None) -> list[Call[int]]:
    """Count signed-in sessions, of these users or of all, after ending up to 200 due ones of each partition."""
    return [
        Call(partition, scripts.COUNT, (*_session_keys(partition), *_lists(partition, user_ids)), (), int)
        for partition in keyspace().partitions
        if user_ids is None or user_ids
    ]


def page(
    first: int, last: int, *, newest_first: bool = True, user_ids: Sequence[str] | None = None
) -> list[Call[list[Row]]]:
    """
    Read the signed-in sessions, of these users or of all, from rank ``first`` to ``last`` (inclusive) by login time.

    Ends up to 200 due ones of each partition before.

    With several partitions each answers from rank 0 on, since any of them may hold all of the page; merge and cut.
    """
    space = keyspace()
    args = (first if space.count == 1 else 0, last, *(("REV",) if newest_first else ()))
    return [
        Call(partition, scripts.PAGE, (*_session_keys(partition), *_lists(partition, user_ids)), args, _rows)
        for partition in space.partitions
        if user_ids is None or user_ids
    ]


def find(sids: Sequence[str]) -> list[Call[list[Row]]]:
    """Look up sessions, up to 1 000 a call. Those that are gone or due are left out."""
    return [
        Call(partition, scripts.FIND, _session_keys(partition), batch, _rows) for partition, batch in _batches(sids)
    ]


def view(sid: str, item: str, *, keep: int) -> list[Call[bool]]:
    """
    Note that a live session viewed ``item``, of which it keeps the newest ``keep``, and count the view.

    Run the calls in order and stop at the first that returns False: the session is gone, or due. There is a second one
    when the item is counted in another partition.
    """
    space = keyspace()
    partition, counting = space.of_sid(sid), space.of_item(item)
    keys = _session_keys(partition)
    if partition == counting:
        return [Call(partition, scripts.VIEW, (*keys, counting.viewed), (sid, item, keep), bool)]
    return [
        Call(partition, scripts.VIEW, keys, (sid, item, keep), bool),
        Call(counting, scripts.COUNT_VIEW, (counting.viewed,), (item,), bool),
    ]


def recent_items(sid: str, *, limit: int) -> Call[list[tuple[str, datetime]]]:
    """Read what a session viewed: item and time, the newest ``limit`` first."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.ITEMS, (partition.viewed_by(sid),), (0, limit - 1, "REV"), _items(_time))


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


def _session_keys(partition: Partition) -> tuple[str, ...]:
    # The order that partition.lua gives names to; load.lua needs the first four only.
    return (
        partition.login,
        partition.expire,
        partition.recent,
        partition.online_seen,
        partition.online_user,
        partition.online_user_of(""),
        partition.viewed_by(""),
    )


def _lists(partition: Partition, user_ids: Sequence[str] | None) -> tuple[str, ...]:
    if user_ids is None:
        return (partition.online_user,)
    if len(user_ids) > USERS_MAX:
        raise ValueError(f"At most {USERS_MAX} users can be asked for at once, not {len(user_ids)}.")
    return tuple(partition.online_user_of(user_id) for user_id in user_ids)


def _batches(sids: Sequence[str]) -> Iterator[tuple[Partition, list[str]]]:
    space = keyspace()
    partitions: dict[Partition, list[str]] = {}
    for sid in sids:
        partitions.setdefault(space.of_sid(sid), []).append(sid)
    for partition, of_partition in partitions.items():
        for start in range(0, len(of_partition), BATCH_MAX):
            yield partition, of_partition[start : start + BATCH_MAX]


def _share(maximum: int, partitions: int) -> int:
    return -(-maximum // partitions)


def _batch(limit: int) -> int:
    if not 1 <= limit <= BATCH_MAX:
        raise ValueError(f"A batch has 1 to {BATCH_MAX} sessions, not {limit}.")
    return limit


def _record(reply: bytes | None) -> bytes | None:
    return reply


def _ended(reply: list[bytes]) -> list[Ended]:
    parts = [part.decode() for part in reply]
    return [Ended(sid, user_id) for sid, user_id in zip(parts[::2], parts[1::2], strict=True)]


def _rows(reply: list[tuple[bytes, bytes, bytes, bytes, bytes]]) -> list[Row]:
    return [
        Row(sid.decode(), _time(login_at) if login_at else None, _time(seen_at), _time(expires_at), record)
        for sid, login_at, seen_at, expires_at, record in reply
    ]


def _items(meaning: Callable[[bytes], T]) -> Callable[[list[bytes]], list[tuple[str, T]]]:
    def read(reply: list[bytes]) -> list[tuple[str, T]]:
        return [(item.decode(), meaning(score)) for item, score in zip(reply[::2], reply[1::2], strict=True)]

    return read


def _views(score: bytes | int) -> int:
    return -int(float(score))


def _time(milliseconds: bytes) -> datetime:
    return datetime.fromtimestamp(min(float(milliseconds) / 1000, LAST_SECOND), UTC)
