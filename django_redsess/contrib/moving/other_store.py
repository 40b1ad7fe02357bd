"""
The store of ``MOVE_FROM``, for operations on many sessions: what was ended there is noted here.

Nobody can list whose sessions another engine has. So a note says which of them are over: as of a time, those of a user,
of all users or of all guests. A session that began before is over when it is met.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from django_redsess.contrib.moving import marks
from django_redsess.contrib.moving.marks import DAY
from django_redsess.contrib.moving.sources import source
from django_redsess.session.other_store import EndBefore, Watched
from django_redsess.session.reading import texts_of
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import Partition, Store, keyspace
from django_redsess.transport.partitions import ask_each, together
from django_redsess.transport.steps import ScriptCall, Steps

LIFETIME_OF_ENDS = 401 * DAY
"""
How long ends in the other store are remembered: a day longer than browsers keep any cookie. The limit is that of
RFC 6265bis, section 5.5.
"""


class ForeignStore:
    """The store of another engine. Implements :class:`django_redsess.session.other_store.OtherStore`."""

    @property
    def display_name(self) -> str:
        return source().name

    def own_stores(self) -> Sequence[Store | None]:
        return (None,)

    def note_end_before(self, which: EndBefore) -> Steps[None]:
        script, space = scripts.END_BEFORE, keyspace()
        kept = [*(f"session {sid}" for sid in which.keep), *(f"user {user_id}" for user_id in which.keep_user_ids)]
        names = [(home, home.over_of(user_id)) for user_id in which.user_ids or () for home in [space.of_user(user_id)]]
        if which.user_ids is None:
            names += [(each, each.over_users) for each in space.partitions if which.users]
            names += [(each, each.over_guests) for each in space.partitions if which.guests]
        args = script.arguments(before=which.latest, lifetime=LIFETIME_OF_ENDS, kept=kept)
        calls = [
            ScriptCall(partition, script, script.keys(partition, over=name), args, bytes) for partition, name in names
        ]
        if calls:
            yield from together(calls)

    def note_ends(self, sids: Sequence[str]) -> Steps[None]:
        yield from marks.set_marks([(sid, None, marks.HERE) for sid in sids])

    def find_living(self, watched: Sequence[Watched]) -> Steps[list[bool]]:
        space, command = keyspace(), packing.pack_command
        partitions, homes = (
            [space.of_sid(sid) for sid, *_ in watched],
            [_partition_of_ends(sid, user) for sid, user, _ in watched],
        )

        def pack_question(number: int, at: int) -> bytes:
            here, sid = partitions[number], watched[number].sid
            return command("HEXISTS", here.login, sid) + command("EXISTS", here.ended_of(sid), here.moved_of(sid))

        def pack_ends_question(number: int, at: int) -> bytes:
            names = keys_of_ends(homes[number], watched[number].user_id)
            return b"".join(command("GET", name) for name in names)

        found = yield from ask_each("watch", partitions, pack_question, 2)
        ends = yield from ask_each("watch", homes, pack_ends_question, 2)
        lives = list[bool]()
        for each, (is_here, traces), over in zip(watched, found, ends, strict=True):
            texts = {text.decode(errors="replace") for text in over if text}
            lives.append(bool(is_here or (not traces and _beginning_after(texts, *each) is not None)))
        return lives


def find_beginning(sid: str, user_id: str, began_at: int) -> Steps[int | None]:
    """
    Tell whether a session of the other store still lives there, by what :meth:`ForeignStore.note_end_before` has noted.

    Return None if not; else when it began, in milliseconds: a later time, if it was meant to stay.
    """
    home = _partition_of_ends(sid, user_id)
    texts = yield from texts_of(home, *set(keys_of_ends(home, user_id)))
    return _beginning_after(texts, sid, user_id, began_at)


def _partition_of_ends(sid: str, user_id: str) -> Partition:
    return keyspace().of_user(user_id) if user_id else keyspace().of_sid(sid)


def _beginning_after(texts: Iterable[str], sid: str, user_id: str, began_at: int) -> int | None:
    stays = {f"session {sid}", f"user {user_id}"}
    later = [(before, kept) for text in texts for before, *kept in _parse_ends(text) if before >= began_at]
    if any(stays.isdisjoint(map(str, kept)) for _, kept in later):
        return None
    return max((before + 1 for before, _ in later), default=began_at)


def keys_of_ends(home: Partition, user_id: str) -> tuple[str, str]:
    return (home.over_of(user_id), home.over_users) if user_id else (home.over_guests, home.over_guests)


def _parse_ends(text: str) -> list[Any]:
    try:
        found = json.loads(text or "[]")
    except ValueError:  # Another program may have stored anything there.
        return []
    entries = found if isinstance(found, list) else []
    return [each for each in entries if isinstance(each, list) and each and isinstance(each[0], int)]
