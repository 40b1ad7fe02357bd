"""What is sent first on a new connection."""

from __future__ import annotations

from typing import Any

# It has replies, too. redis-py closes the connection only after its own errors, and not after an interruption.


def greet(connection: Any) -> None:
    """Greet the server. The connection is closed if that is interrupted."""
    try:
        connection.on_connect()
    except BaseException:
        connection.disconnect()
        raise


async def agreet(connection: Any) -> None:
    """Do as :func:`greet` does, in an event loop."""
    try:
        await connection.on_connect()
    except BaseException:
        await connection.disconnect(nowait=True)
        raise
