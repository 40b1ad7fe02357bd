"""What the store has: names of keys, the format of records, and the commands that the server's user needs."""

from __future__ import annotations

from collections.abc import Iterator

from django_redsess.transport.agreement import FORMAT
from django_redsess.transport.keys import Keyspace, Partition
from tests.helpers import permissions


def keys() -> Iterator[str]:
    """Return the names of all keys with the prefix ``shop``, with 0 for an id, and the format of records."""
    yield f"format of records {FORMAT.decode()}"
    yield from Partition("shop").names
    # Of several partitions, each has such a tag. One of another number would find nobody's session.
    yield from (partition.meta for partition in Keyspace("shop", 4).partitions)


def commands() -> Iterator[str]:
    """Return the commands that docs/howto/acl.rst gives to the user: an update that needs more fails without."""
    yield from permissions.commands(permissions.listed())
