"""Comparing all keys and mending entries that disagree, in small steps, while sessions come and go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from django_redsess.exceptions import SessionNotReadable
from django_redsess.online.labels import printable
from django_redsess.session.encryption import has_key
from django_redsess.transport import scripts
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import Partition, keyspace
from django_redsess.transport.steps import EndedSessions, ScriptCall

ENTRIES_MAX = 200
"""The most entries that one call compares with all other keys."""

RECORD_BYTES_ENOUGH = 256 * 1024
"""After a call with more bytes of records, the next one takes fewer entries. The server reads records whole."""

NAMES_AT_ONCE = 100


class Fault(NamedTuple):
    """
    An entry of ``key`` that disagrees with the other keys.

    Some values of ``kind`` can be mended: ``missing``, ``stray`` (the entry should not be there), ``differs`` (in its
    login time) and ``ahead`` (of the server's clock). Others can't: ``unreadable`` (perhaps a record of another
    release) and ``unknown`` (not a key of this app).
    """

    kind: str
    sid: str
    key: str

    def __str__(self) -> str:
        sid, key = printable(self.sid), printable(self.key)
        return {
            "missing": f"{key}: session {sid} is missing",
            "stray": f"{key}: {sid} does not belong there",
            "differs": f"{key}: session {sid} has another login time than elsewhere",
            "ahead": f"{key}: session {sid} has a time that is still to come",
            "unreadable": f"{key}: the record of {sid} is in no known format",
            "unknown": f"{key}: no key of this app",
        }[self.kind]

    @property
    def can_be_mended(self) -> bool:
        return self.kind in ("missing", "stray", "differs", "ahead")


class CheckStep(NamedTuple):
    """
    The reply of one step of a check.

    ``cursor`` is where the next step begins, 0 after the last one. ``sealed``, ``encrypted`` and ``without_key`` are
    those of :class:`Comparison`.
    """

    cursor: int
    entries: int
    record_bytes: int
    faults: list[Fault]
    sealed: int
    encrypted: int
    without_key: int


class Comparison(NamedTuple):
    """
    The result of one call: the number of ``entries`` compared, and the faults found, mended or not.

    ``sealed`` and ``encrypted`` are the numbers of sessions of each kind that were read. Over a whole check, each
    session counts once. ``without_key`` is the number of encrypted sessions whose key this process lacks.
    """

    entries: int
    faults: list[Fault]
    sealed: int = 0
    encrypted: int = 0
    without_key: int = 0


def check_store(*, mend: bool = False) -> Iterator[Comparison]:
    """
    Compare every key of the store with the others. With ``mend``, mend the entries that disagree.

    Each script reads all that it compares in one go, so concurrent changes by visitors are no faults. A record with a
    deadline is a session: it is added to each list that lacks it. A record without a deadline is removed, and so is a
    deadline without a record.
    """
    space = keyspace()
    for partition in space.partitions:
        for key in partition.lists:
            yield from _check_list(partition, key, mend=mend)
    # A server lists only its own keys, so each server is asked once, through one of its partitions.
    for partition in {server_of(partition): partition for partition in space.partitions}.values():
        cursor = None
        while cursor != 0:
            args = scripts.SCAN_KEYS.arguments(cursor=cursor or 0, pattern=space.pattern, about=1000)
            reply: list[Any] = ScriptCall(partition, scripts.SCAN_KEYS, (), args, list).run()
            cursor = int(reply[0])
            yield from _check_names([_decode_name(name) for name in reply[1]], mend=mend)


def _check_list(partition: Partition, key: str, *, mend: bool, owner: str | None = None) -> Iterator[Comparison]:
    cursor, about = None, 1
    while cursor != 0:
        checked = _check_entries(partition, key, cursor or 0, about=about, mend=mend, owner=owner).run()
        yield Comparison(checked.entries, checked.faults, checked.sealed, checked.encrypted, checked.without_key)
        cursor = checked.cursor
        about = _next_batch_size(about, checked.record_bytes)


def _check_names(names: list[str], *, mend: bool) -> Iterator[Comparison]:
    space = keyspace()
    to_check: dict[Partition, list[str]] = {}
    for name in names:
        partition = space.of_name(name)
        kind = "other" if partition is None else partition.kind_of(name)
        if partition is not None and kind in ("user", "session"):
            to_check.setdefault(partition, []).append(name)
        elif not kind:
            yield Comparison(1, [Fault("unknown", "", name)])
    for partition, of_partition in to_check.items():
        for start in range(0, len(of_partition), NAMES_AT_ONCE):
            some = of_partition[start : start + NAMES_AT_ONCE]
            script = scripts.CHECK_KEYS
            args = script.arguments(mend=mend, names=[_encode_name(name) for name in some])
            reply: list[list[bytes]] = ScriptCall(partition, script, script.keys(partition), args, list).run()
            faults, too_long = reply
            yield Comparison(len(some), _read_faults(faults))
            for name in map(_decode_name, too_long):
                owner = name.removeprefix(partition.online_user_of(""))
                yield from _check_list(partition, name, mend=mend, owner=owner)


def _check_entries(
    partition: Partition, key: str, cursor: int, *, about: int, mend: bool, owner: str | None = None
) -> ScriptCall[CheckStep]:
    """
    Compare some entries of ``key`` with the other keys, from ``cursor`` on. With ``mend``, mend what disagrees.

    ``about`` is roughly the number of entries. ``key`` is the hash of records, or a list of sessions. ``owner`` is the
    user id if ``key`` is a user's list.
    """
    script = scripts.CHECK_ENTRIES
    args = script.arguments(mend=mend, cursor=cursor, about=about, owner=None if owner is None else _encode_name(owner))
    return ScriptCall(partition, script, script.keys(partition, walked=_encode_name(key)), args, _read_step)


def _next_batch_size(about: int, record_bytes: int) -> int:
    return max(1, about // 2) if record_bytes > RECORD_BYTES_ENOUGH else min(about * 2, ENTRIES_MAX)


def _read_step(reply: list[Any], _: EndedSessions) -> CheckStep:
    cursor, entries, record_bytes, faults, sealed, of_keys = reply
    counts = dict(zip(of_keys[::2], of_keys[1::2], strict=True))
    without_key = sum(count for name, count in counts.items() if not _has_key(name))
    return CheckStep(
        int(cursor), entries, record_bytes, _read_faults(faults), sealed, sum(counts.values()), without_key
    )


def _has_key(name: bytes) -> bool:
    try:
        return has_key(name)
    except SessionNotReadable:
        # Without the package or the keys, this process decrypts no session.
        return False


def _read_faults(reply: list[bytes]) -> list[Fault]:
    parts = [_decode_name(part) for part in reply]
    return [Fault(*each) for each in zip(parts[::3], parts[1::3], parts[2::3], strict=True)]


def _decode_name(name: bytes) -> str:
    # With surrogateescape, a name that is not UTF-8 is sent back unchanged.
    return name.decode(errors="surrogateescape")


def _encode_name(text: str) -> bytes:
    return text.encode(errors="surrogateescape")
