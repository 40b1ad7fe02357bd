"""Why the server can't be used, and which setting to change, in words for developers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from django.conf import settings
from redis.exceptions import AuthenticationError, BusyLoadingError, ResponseError


class _Kind(NamedTuple):
    """
    A kind of error: ``pattern`` finds it in the name and the text of an exception of redis-py.

    ``state`` completes "The server that holds the sessions". If it is empty, the server refuses, or can't be reached.
    ``setting`` says what to change, and where. In both, ``{entry}`` stands for the entry of ``CACHES``.
    """

    pattern: str
    setting: str
    state: str = ""


WRITE_AS = (
    "Write it as 'redis://user:password@host:6379/1', without the user if there is none. In a password, write / as "
    "%2F, ? as %3F, # as %23, [ as %5B, ] as %5D, a comma as %2C and a semicolon as %3B."
)

_KINDS: Sequence[_Kind] = (
    # Answers of the server.
    _Kind(
        "^OutOfMemoryError|OOM ",
        "maxmemory of the server: raise it, as by 'CONFIG SET maxmemory 2gb' and in its configuration file. Or set "
        "REDSESS['MAX_SESSIONS'] or REDSESS['MAX_GUESTS'] lower, and move other data to another server. For room at "
        "once, 'manage.py cleansessions --max-guests 0' ends all sessions of guests.",
        "is full",
    ),
    _Kind(
        "already authenticated|Authentication required|NOAUTH",
        f"LOCATION of {{entry}} lacks the password. {WRITE_AS}",
        "wants a password",
    ),
    _Kind(
        "^AuthenticationError",
        f"LOCATION of {{entry}} has a wrong user or password, or OPTIONS have. {WRITE_AS}",
    ),
    _Kind(
        "^NoPermissionError|ACL failure in script|The user executing the script can't",
        "ACL of the server: the user that LOCATION of {entry} names needs more rules. 'manage.py check' prints the "
        "line 'ACL SETUSER …' for it.",
    ),
    _Kind(
        "^ReadOnlyError|READONLY|^MasterDownError|MASTERDOWN",
        "LOCATION of {entry} names a replica. Name its master there. If another server may become the master, use "
        "Sentinel or a cluster.",
        "is a replica",
    ),
    _Kind(
        "MISCONF",
        "dir of the server: make room on the disk of this folder, or let the server write there. The server's own log "
        "says what has failed.",
        "can't save to its disk",
    ),
    _Kind(
        "NOREPLICAS",
        "min-replicas-to-write of the server: fewer replicas are connected than it wants. Start them, or set it lower.",
        "lacks replicas",
    ),
    _Kind("^BusyLoadingError|LOADING", "None: wait until the server has read its data.", "is starting"),
    _Kind(
        "BUSY ",
        "None: a script runs for too long on the server. 'SCRIPT KILL' ends it. If another program has sent it, give "
        "sessions a server of their own, in LOCATION of {entry}.",
        "is busy",
    ),
    _Kind(
        "^ClusterDownError|CLUSTERDOWN",
        "cluster-require-full-coverage of the nodes: set it to no, so that the other nodes go on while one is down. "
        "'redis-cli --cluster check HOST:PORT' says what is missing.",
        "is a cluster that is down",
    ),
    _Kind(
        "^MovedError|MOVED ",
        "OPTIONS of {entry}: add 'CONNECTION_FACTORY': 'django_redsess.cluster.ClusterConnectionFactory', since the "
        "server is a node of a cluster.",
    ),
    _Kind(
        "cluster support disabled",
        "OPTIONS of {entry}: remove CONNECTION_FACTORY, since the server is no cluster. Or name nodes of a cluster in "
        "LOCATION.",
    ),
    _Kind(
        "DB index is out of range|SELECT is not allowed",
        "LOCATION of {entry} ends in the number of the database, and the server has none of this number. Most servers "
        "have 0 to 15, and most clusters only 0.",
    ),
    _Kind(
        "WRONGTYPE",
        "REDSESS['PREFIX']: another program writes keys with this prefix. Set another one, or delete the key and give "
        "sessions a database of their own, in LOCATION of {entry}.",
    ),
    _Kind("DENIED", "requirepass of the server: set a password there, and in LOCATION of {entry}."),
    _Kind(
        "nknown (Redis )?command",
        "rename-command of the server: give the command its name back. A server older than Redis 7.0 lacks commands.",
    ),
    _Kind(
        "max number of clients",
        "maxclients of the server: raise it, or set max_connections lower in OPTIONS of each process that connects.",
        "has too many clients",
    ),
    # Connections that fail, or that there are none of.
    _Kind(
        "No connection available|^MaxConnectionsError|Too many connections",
        "max_connections in OPTIONS of {entry}: raise it to the number of requests that a process serves at once.",
        "is not asked: all connections to it are in use",
    ),
    _Kind(
        "^MasterNotFoundError|No master found",
        "LOCATION of {entry} has the name of the master, which these sentinels do not know, or SENTINELS in OPTIONS "
        "names no sentinel that runs.",
    ),
    _Kind(
        "not known|name resolution|nodename|getaddrinfo|Name does not resolve|No address associated",
        "LOCATION of {entry} has a host that nobody knows. Correct its name. In Docker, it is the name of the service.",
    ),
    _Kind(
        "CERTIFICATE_VERIFY_FAILED.*(mismatch|not valid for)",
        "LOCATION of {entry} has another host than the server's certificate. Write the name of the certificate there.",
    ),
    _Kind(
        "CERTIFICATE_VERIFY_FAILED",
        "LOCATION of {entry}: add '?ssl_ca_certs=/path/of/ca.pem', the certificate of who has signed the server's.",
    ),
    _Kind(
        "CERTIFICATE_REQUIRED|certificate required|HANDSHAKE_FAILURE",
        "LOCATION of {entry}: add '?ssl_certfile=…&ssl_keyfile=…', since the server wants a certificate of the site.",
    ),
    _Kind(
        "WRONG_VERSION_NUMBER|RECORD_LAYER|SSLError|record layer failure",
        "LOCATION of {entry}: begin it with redis:// instead of rediss://, or set up TLS on the server.",
    ),
    _Kind(
        "^InvalidResponse",
        "LOCATION of {entry}: change host and port. Another kind of server answers there, or one without TLS "
        "(rediss:// means TLS).",
        "is another kind of server",
    ),
    _Kind(
        "Error while reading|Connection closed|reset by peer|Broken pipe|IncompleteReadError",
        "LOCATION of {entry}: if each request fails, the server may want TLS: begin it with rediss://. If a few "
        "fail, the server was restarted, or has closed connections (timeout, maxclients).",
    ),
    _Kind(
        "No such file",
        "LOCATION of {entry} names a file that does not exist: the server's socket, or a certificate.",
    ),
    _Kind(
        "refused|Connect call failed",
        "LOCATION of {entry}: nothing listens at this host and port. Start the server, or correct them.",
    ),
    _Kind(
        "^TimeoutError|imeout|timed out",
        "SOCKET_TIMEOUT in OPTIONS of {entry}, if the server is slow ('SLOWLOG GET' shows why). If it never answers, "
        "start it, open its port in the firewall, or begin LOCATION with redis:// (rediss:// means TLS).",
    ),
)

_OTHER = _Kind("", "LOCATION of {entry} names the server: 'manage.py check' says what may be wrong.")


def setting_to_change(error: Exception) -> str:
    """Return the setting of Django or of the server that has to change for this error of redis-py, and how."""
    return _kind_of(error).setting.format(entry=f"CACHES[{settings.SESSION_CACHE_ALIAS!r}]")


def has_answered(error: Exception) -> bool:
    """Tell whether the server has answered with this error. Otherwise it can't be reached."""
    # redis-py treats some answers as errors of the connection.
    return isinstance(error, (AuthenticationError, BusyLoadingError, ResponseError))


def message_of(error: Exception) -> str:
    """Say what state the server is in, that it refuses, or that it can't be reached, and why."""
    state = _kind_of(error).state or ("refuses" if has_answered(error) else "can't be reached")
    return f"The server that holds the sessions {state}: {words_of(error)}"


def words_of(error: Exception) -> str:
    """Return the text of ``error`` without the command, and without redis-py's list of sentinels."""
    # Some servers repeat the arguments, and tell the line of the script, or how to use HELLO.
    end = ", with args|(?<!ACL failure in) script: | : <redis|, otherwise the HELLO|\n"
    return re.split(end, str(error))[0]


def _kind_of(error: Exception) -> _Kind:
    text = f"{type(error).__name__}: {error}"
    return next((kind for kind in _KINDS if re.search(kind.pattern, text)), _OTHER)
