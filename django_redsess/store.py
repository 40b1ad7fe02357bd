"""
What can be done with sessions in Redis: each operation is one call of one script.

The functions here send nothing: each returns a :class:`~django_redsess.call.Call`, and ``call.run()`` or ``await
call.arun()`` sends it. Operations that concern every partition return a call for each; ending sessions may take
several, one after another, and so it is steps.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from django_redsess import scripts
from django_redsess.call import Call, Steps
from django_redsess.conf import conf
from django_redsess.keys import Partition, is_sid, keyspace
from django_redsess.signals import Ended, Endings, Reason

AT_ONCE_MAX = 250
"""The most sessions or items that a call takes out or looks up: more would keep the server from others for too long."""

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


class Limit(NamedTuple):
    """How many sessions a user may have, and what a sign-in above that does: see ``SESSION_LIMIT_POLICY``."""

    maximum: int
    policy: str


class Written(NamedTuple):
    """
    What a save writes.

    ``date`` is the deadline where one was set as a date, else the record's age counts. ``signs_in`` gives a new login
    time, ``passive`` leaves the deadline as it is. ``item`` is what the request views, ``""`` for nothing; its view is
    noted at most once, though a save is repeated whose reply was lost. ``limit`` holds where a session is created or
    gets another key.
    """

    record: bytes
    user_id: str
    date: datetime | None = None
    signs_in: bool = False
    passive: bool = False
    item: str = ""
    limit: Limit | None = None


class Viewed(NamedTuple):
    """What became of a view: whether the session is there and has noted it, and whether its cookie is to be sent."""

    noted: bool
    refresh_cookie: bool = False


class Outcome(NamedTuple):
    """
    What became of a save: ``saved``; or ``gone``; or ``changed``, and ``record`` is the one that is there now; or of a
    new session ``taken``, when another has that sid; or ``refused``, when its user has enough of them.

    ``item`` is what was to be viewed with it, if that certainly has not been noted. ``crowded`` says that the user may
    still have too many, more than a script takes out: :func:`end_above` goes on.
    """

    word: str
    record: bytes = b""
    note: str = ""
    item: str = ""
    crowded: bool = False

    @property
    def rotated_to(self) -> str:
        """The sid under which the session lives on, or ``""``."""
        return _rotated_to(self.note)


def load(sid: str, touch: Touch = Touch.NOTHING) -> Call[Loaded]:
    """Read the record of ``sid``, and leave behind that it was seen, as ``touch`` says."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.LOAD, session_keys(partition), (sid, *_touching(touch)), _loaded)


def create(sid: str, written: Written, viewed: Sequence[bytes] | None = None, *, is_new: bool = False) -> Call[Outcome]:
    """
    Add a session. Sessions that are due, or too many, make room: two of each.

    ``is_new`` says that nobody can have had that sid before, so there is nothing to look for. ``viewed`` says that it
    comes from another partition, and what it viewed there: items and the times of their views, one after another, as
    :func:`viewed_by` returns them.
    """
    space = keyspace()
    partition = space.of_sid(sid)
    maximum = share_of(conf.MAX_SESSIONS, space.count)
    made: tuple[str | bytes | int, ...] = (sid, written.record, written.user_id, _date(written), *_policy(), maximum)
    args = (*made, *_limit(written), "" if viewed is None else len(viewed), *(viewed or ()))
    keys, once = _view(partition, written.item)
    # Who repeats this may find what was created before.
    return Call(partition, scripts.CREATE, keys, args, _outcome, (int(is_new), *once))


def save(sid: str, written: Written, *, loaded: bytes) -> Call[Outcome]:
    """
    Replace the record of a live session that still has the revision ``loaded``, or any where that is empty.

    Otherwise nothing is written.
    """
    partition = keyspace().of_sid(sid)
    args = (sid, *_written(written, loaded), int(written.passive))
    keys, once = _view(partition, written.item)
    return Call(partition, scripts.SAVE, keys, args, _outcome, once)


def rotate(old_sid: str, sid: str, written: Written, *, loaded: bytes) -> Call[Outcome]:
    """
    Move a live session to a new sid, with a new record, if it still has the revision ``loaded``.

    Where the new sid belongs to another partition, which no script reaches, create it there before: this call then
    only ends the old one, with a note of where it went, and nothing is viewed.
    """
    partition = keyspace().of_sid(old_sid)
    if not same_partition(old_sid, sid):
        written = written._replace(record=b"", item="", limit=None)
    args = (old_sid, sid, *_written(written, loaded), *_limit(written))
    keys, once = _view(partition, written.item)
    return Call(partition, scripts.ROTATE, keys, args, _outcome, once)


def end_above(limit: Limit, user_id: str, *, keep: str) -> Call[bool]:
    """End up to 250 sessions of this user above ``limit``, but not ``keep``, which signed in. True if more are left."""
    partition = keyspace().of_user(user_id)
    args = (user_id, keep, *limit)
    return Call(partition, scripts.LIMIT, session_keys(partition), args, lambda crowded, _: bool(crowded))


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


def end(
    sids: Sequence[str],
    reason: Reason | None,
    *,
    words: str = "",
    latest: int | None = None,
    keep_users: Collection[str] = (),
    follow: bool = False,
) -> Steps[list[Ended]]:
    """
    End sessions, up to 250 a call, and return those that were there.

    Nobody is told of an end without a reason: it takes back what nobody has had. ``words`` are for the ended users to
    read. Those that began after ``latest`` (milliseconds of the server's clock) stay, and the sessions of
    ``keep_users``. With ``follow``, a session that has got another key is ended under that.
    """
    ended: list[Ended] = []
    args = (reason or "", words, "" if latest is None else latest, "", 0, len(keep_users), *keep_users)
    named = set(sids)
    while sids:
        others: list[str] = []
        for partition, batch in batches(sids):
            while batch:
                end_some = Call(partition, scripts.END, session_keys(partition), (*args, *batch), with_ended)
                (dealt_with, *_, moved), gone = yield end_some
                ended += gone
                others += [sid.decode(errors="replace") for sid in moved]
                batch = batch[dealt_with:]
        # Notes that somebody else wrote may go in a circle.
        sids = [sid for sid in others if is_sid(sid) and sid not in named] if follow else []
        named.update(sids)
    return ended


def view(sid: str, item: str, touch: Touch = Touch.NOTHING) -> Call[Viewed]:
    """
    Note that a live session views ``item``, and that it was seen, as ``touch`` says; and count the view.

    It is not counted where :func:`counted_elsewhere` says so: :func:`count_view` is for that.
    """
    partition = keyspace().of_sid(sid)
    keys, viewed = _view(partition, item)
    args = (sid, *_touching(touch), *viewed)
    return Call(partition, scripts.VIEW, keys, args, lambda reply: Viewed(*map(bool, reply)))


def counted_elsewhere(sid: str, item: str) -> bool:
    """Tell whether the views of ``item`` are counted in another partition than that of the session."""
    space = keyspace()
    return space.count > 1 and space.of_sid(sid) != space.of_item(item)


def count_view(item: str) -> Call[bool]:
    """Count a view of ``item``, which a session of another partition has noted."""
    partition = keyspace().of_item(item)
    return Call(partition, scripts.COUNT_VIEW, (partition.viewed, partition.totals), (item, _items_max()), bool)


def history(sid: str, *, limit: int) -> Call[list[tuple[str, datetime]]]:
    """Read what a live session viewed: item and time, the newest ``limit`` first."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.HISTORY, session_keys(partition), (sid, limit), _history)


def forget(sid: str, item: str | None = None) -> Call[int]:
    """Forget that a session viewed ``item``, or (None) all that it viewed. Returns how many items those were."""
    partition = keyspace().of_sid(sid)
    return Call(partition, scripts.FORGET, (partition.viewed_by(sid),), () if item is None else (item,), int)


def _policy() -> tuple[int, int, int]:
    # Milliseconds, 0 for no limit.
    return conf.TOUCH_INTERVAL * 1000, (conf.IDLE_TIMEOUT or 0) * 1000, (conf.ABSOLUTE_TIMEOUT or 0) * 1000


def _touching(touch: Touch) -> tuple[bytes, ...]:
    return _bytes(touch.value, *_policy(), int(conf.SLIDING))


@lru_cache(maxsize=64)
def _bytes(*parts: str | int) -> tuple[bytes, ...]:
    # As the client would make them, at each call.
    return tuple(str(part).encode() for part in parts)


def _view(partition: Partition, item: str) -> tuple[tuple[bytes, ...], tuple[bytes | int, ...]]:
    # The keys of a script that may note a view, and what it is to note.
    if not item:
        return session_keys(partition), ()
    space = keyspace()
    counts = space.count == 1 or space.of_item(item) == partition
    keys = _counting_keys(partition) if counts else session_keys(partition)
    return keys, (item.encode(), conf.VIEWED_PER_SESSION, _items_max())


def _items_max() -> int:
    return share_of(conf.VIEWED_LIMIT, keyspace().count)


def _written(written: Written, loaded: bytes) -> tuple[str | bytes | int, ...]:
    return written.record, written.user_id, _date(written), *_policy(), loaded, int(written.signs_in)


def _limit(written: Written) -> tuple[int | str, ...]:
    return written.limit or ("", "")


def _date(written: Written) -> str:
    return f"{written.date.timestamp() * 1000:.0f}" if written.date else ""


@lru_cache(maxsize=2048)
def session_keys(partition: Partition) -> tuple[bytes, ...]:
    """Name the keys of ``partition`` in the order of ``partition.lua``."""
    return _bytes(
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


@lru_cache(maxsize=2048)
def _counting_keys(partition: Partition) -> tuple[bytes, ...]:
    return *session_keys(partition), partition.viewed.encode()


def batches(sids: Iterable[str]) -> Iterator[tuple[Partition, list[str]]]:
    """Sort ``sids`` by partition, up to 250 together."""
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


def _outcome(reply: list[bytes], _: Endings | None = None) -> Outcome:
    word, more, item = (*reply, b"", b"")[:3]
    record = more if word == b"changed" else b""
    note = more.decode(errors="replace") if word == b"gone" else ""
    return Outcome(word.decode(), record, note, item.decode(), more == b"crowded")


def with_ended(reply: list[Any], ended: Endings) -> tuple[list[Any], list[Ended]]:
    """Return what a script replied, and which sessions it ended."""
    return reply, list(ended)


def _history(reply: list[bytes]) -> list[tuple[str, datetime]]:
    pairs = zip(reply[::2], reply[1::2], strict=True)
    # Somebody else may have written anything.
    return [(item.decode(errors="replace"), time_of(at)) for item, at in pairs]


def time_of(milliseconds: bytes) -> datetime:
    """Return the time that the server wrote."""
    return datetime.fromtimestamp(max(0, min(float(milliseconds or 0) / 1000, LAST_SECOND)), UTC)
