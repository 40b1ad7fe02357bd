"""
The first exchange on a new connection. In it the server also says whether it is a master.

What redis-py sends first has replies, too. redis-py closes the connection only after its own errors, and not after an
interruption.
"""

from __future__ import annotations

from typing import Any

from redis.exceptions import ReadOnlyError, ResponseError

CLUSTER = (b"cluster", "cluster")
REPLICA = (b"replica", b"slave", "replica", "slave")
"""Roles of a server that takes no writes. Any other role is taken for a master's."""


def greet(connection: Any) -> None:
    """
    Make a new connection ready, or close it and raise an error.

    Raises redis-py's ReadOnlyError if the server is a replica. Behind Sentinel, the repetition looks for the master.
    """
    try:
        connection.on_connect()
        # redis-py sends HELLO for RESP3 only, and then keeps the reply.
        hello = connection.handshake_metadata
        if not hello and _is_of_sentinel(connection):
            connection.send_command("HELLO", check_health=False)
            try:
                hello = connection.read_response()
            except ResponseError:
                hello = None
        _refuse_replica(connection, hello)
    except BaseException:
        connection.disconnect()
        raise


async def agreet(connection: Any) -> None:
    """Do as :func:`greet` does, for a connection of an event loop."""
    try:
        await connection.on_connect()
        # Here redis-py does not keep the reply.
        if _is_of_sentinel(connection):
            await connection.send_command("HELLO", check_health=False)
            try:
                hello = await connection.read_response()
            except ResponseError:
                hello = None
            _refuse_replica(connection, hello)
    except BaseException:
        await connection.disconnect(nowait=True)
        raise


# HELLO without a version changes nothing, and no ACL can forbid it. A renamed command can be unknown: then the role is
# not known either.


def _is_of_sentinel(connection: Any) -> bool:
    # A sentinel may name a master that was demoted. For a fixed address the first write tells.
    return hasattr(connection, "connect_to")


def _refuse_replica(connection: Any, hello: Any) -> None:
    if isinstance(hello, list):  # As in RESP2: names and values by turns.
        hello = dict(zip(hello[::2], hello[1::2], strict=False))
    if not hello or (hello.get(b"mode") or hello.get("mode")) in CLUSTER:
        # A cluster's replica says by itself where to go, and may be asked for the map.
        return
    if (hello.get(b"role") or hello.get("role")) in REPLICA:
        raise ReadOnlyError(f"{_address_of(connection)} is a replica, and not the master.")


def _address_of(connection: Any) -> str:
    return getattr(connection, "path", "") or f"{connection.host}:{connection.port}"
