"""What is told of a server that does not answer, or refuses all that is asked: its cause, and what to change."""

from __future__ import annotations

import re
import socket
from typing import Any

from redis.connection import SSLConnection
from redis.exceptions import AuthenticationError, InvalidResponse

from django_redsess.checks.server import TO_SENTINELS, WRITE_AS, name_of_cache
from django_redsess.transport.outage import has_answered, message_of, words_of

Told = tuple[str, str, str]
"""The number of a check, its message, and its hint."""


def why_unusable(pool: Any, error: Exception) -> Told:
    """Tell why the server of this pool answers ``error`` to all that is asked, or does not answer."""
    if isinstance(error, InvalidResponse):
        message = "The server that holds the sessions can't be reached: what answers there is no Redis or Valkey."
        return "W050", message, f"Change host and port in LOCATION of {name_of_cache()}."
    if has_answered(error):
        return "W050", f"{message_of(error)}.".replace("..", "."), _what_to_change(pool, error)
    if issubclass(pool.connection_class, SSLConnection) and _speaks_without_tls(pool):
        message = f"{name_of_cache()} connects with TLS (rediss://), and its server speaks without: no request works."
        return "W051", message, "Begin LOCATION with redis://, or set up TLS on the server."
    hint = (
        f"If it is not to run now, nothing is wrong. Otherwise look at host, port and scheme in LOCATION of "
        f"{name_of_cache()} (rediss:// is with TLS), and whether the server runs."
    )
    return "I049", f"{message_of(error)}.".replace("..", "."), hint


def is_of_database(error: Exception) -> bool:
    """Tell whether the server lacks the database that LOCATION names."""
    return words_of(error).startswith("DB index is out of range")


def _what_to_change(pool: Any, error: Exception) -> str:
    entry = name_of_cache()
    if isinstance(error, AuthenticationError):
        each = "" if pool.cluster is None else " Nodes do not tell each other about users: each needs the user."
        return f"Give user and password in LOCATION of {entry}. {WRITE_AS}{each}"
    if is_of_database(error):
        return f"LOCATION of {entry} ends in the number of the database. Servers have 0 to 15, unless told otherwise."
    return "Until the server takes commands, requests are answered with 503."


def _speaks_without_tls(pool: Any) -> bool:
    """Tell whether the server answers in plain text. Nothing secret is sent."""
    options = pool.connection_kwargs
    try:
        # Behind Sentinel, the address is not among the options.
        address = options["host"], int(options["port"])
        with socket.create_connection(address, timeout=options.get("socket_timeout")) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(1) in (b"+", b"-")
    except (KeyError, OSError):
        return False


def why_unfit(hello: dict[str, str]) -> Told | None:
    """Tell why a server that answered HELLO with these fields can't keep sessions; None if it can."""
    if hello.get("mode") == "sentinel":
        message = f"The server of {name_of_cache()} is a sentinel, which keeps no sessions."
        return "W054", message, TO_SENTINELS
    version = hello.get("version", "")
    # Valkey begins with 7.2.
    if re.match(r"[1-6]\.", version):
        message = f"The server of the sessions is Redis {version}, which is too old: sessions can't be used."
        return "W052", message, "Use Redis 7.0, Valkey 8, or newer."
    return None
