"""
The index of addresses: what a save writes into it.

With ``INDEX_ADDRESSES``, each session whose record has an address has an entry: sid → place, see
:func:`django_redsess.session.networks.place_of`. The script that writes the record writes the entry. A save that keeps
the address writes no entry.

Processes of one store may have different values of the setting. A process without it takes a session out of the index
when it changes the address. So an entry may be missing, but has no place of an earlier address. ``cleansessions
--repair`` adds what is missing.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from django_redsess.conf import conf
from django_redsess.session.networks import place_of
from django_redsess.session.payload import packed_address
from django_redsess.session.record import Record
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import Partition
from django_redsess.transport.packing import Part

STAYS, NONE = "", "none"
"""Instead of a place: the index stays as it is; or the session is taken out of it."""

address_of = lru_cache(maxsize=1024)(packed_address)
"""The address in the client part of a record. It is cached, because the same visitors come again and again."""


class Entry(NamedTuple):
    """The new entry of a session whose address has changed: its place, or ``NONE``, and which of the two lists."""

    place: str
    has_user: bool


def written_place(client: bytes) -> str:
    """Return the place of a session with this client part of its record, or ``NONE``."""
    address = address_of(client) if conf.INDEX_ADDRESSES else b""
    return str(place_of(address)) if address else NONE


def place_of_new(client: bytes) -> str:
    """Return the place of a session under a new sid, or ``STAYS``: it has no entry yet."""
    place = written_place(client)
    return STAYS if place == NONE else place


def changed_entry(before: Record, client: bytes) -> Entry | None:
    """Return the new entry of a session, whose user stays. None if the address stays, too. ``before`` is its record."""
    if address_of(client) == address_of(before.client_packed):
        return None
    return Entry(written_place(client), bool(before.user_id))


def packed_change(partition: Partition, entry: Entry, args: tuple[Part, ...]) -> bytes:
    """Pack the short script that saves, so that it also writes ``entry``. ``args`` are its other arguments."""
    script, name = scripts.CHANGE, partition.places_of(has_user=entry.has_user)
    if entry.place == NONE:
        return packing.script_call(script, script.keys(partition), (*args, "", name))
    return packing.script_call(script, script.keys(partition, places=name), (*args, entry.place))


@lru_cache(maxsize=4096)
def adding_keys(partition: Partition, has_user: bool, has_place: bool) -> tuple[bytes, ...]:
    """Return the keys of the short script that creates a session."""
    if has_user:
        lists = [partition.recent, partition.online_user, partition.online_user_of("")]
    else:
        # The script does not use the second and the third. They only stand before the list of the index.
        lists = [partition.guests] * (3 if has_place else 1)
    if has_place:
        lists.append(partition.places_of(has_user=has_user))
    names = ("seen_list", "online_user", "online_user_of", "places")
    return scripts.ADD.keys(partition, **dict(zip(names, lists, strict=False)))
