"""
Golden stores as files: all keys of a server as JSON, and what of two such files must be the same.

Bytes are written as characters with the same numbers (Latin-1), so that names and texts can be read and compared.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import redis

from tests.golden.contents import AGE_SECONDS
from tests.helpers.store import Record, decrypted, sid_of, unpack

FOLDER = Path(__file__).parent

SEAL_SIZE = 12
YEARS = 2 * 365 * 86_400_000
"""Milliseconds. What lives longer ends with a session, or at a date."""

COPIED = b"copied"
"""A revision that means something. All others are random."""

COPY_SIZE = 12
"""Bytes of the name of a copy of a session that is on the way to another store. They are random."""


class Golden(NamedTuple):
    """
    A store as it was written.

    ``options`` are its keys of REDSESS, ``made_at`` is when it was written, in milliseconds of the server's clock.
    ``session_keys`` are those of its sessions, by name, and ``keys`` all keys of the server: type, lifetime left in
    milliseconds (None: for ever) and value of each. ``zlib`` is the version of the library that has compressed records.
    """

    options: dict[str, Any]
    made_at: int
    zlib: str
    server: str
    session_keys: dict[str, str]
    keys: dict[str, dict[str, Any]]


def releases() -> list[str]:
    """The releases of which there are golden stores, the latest one last."""
    found = [path.name for path in FOLDER.iterdir() if re.fullmatch(r"\d+\.\d+", path.name)]
    return sorted(found, key=lambda name: [int(part) for part in name.split(".")])


def read(release: str, store: str) -> Golden:
    return Golden(**contents(release, store))


def contents(release: str, name: str) -> dict[str, Any]:
    """Return what the file ``name`` of a release holds."""
    found: dict[str, Any] = json.loads((FOLDER / release / f"{name}.json").read_text())
    return found


def write(release: str, name: str, held: dict[str, Any]) -> None:
    folder = FOLDER / release
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.json").write_text(json.dumps(held, indent=1, sort_keys=True) + "\n")


def taken(client: redis.Redis, options: dict[str, Any], session_keys: dict[str, str]) -> Golden:
    """Return what is on this server, which has nothing but the store."""
    seconds, microseconds = client.time()
    info = client.info("server")
    version = f"{info.get('server_name', 'redis')} {info.get('valkey_version') or info['redis_version']}"
    made_at = seconds * 1000 + microseconds // 1000
    keys = {_text(name): _key(client, name, made_at) for name in client.keys()}
    return Golden(options, made_at, zlib.ZLIB_RUNTIME_VERSION, version, session_keys, keys)


def put(client: redis.Redis, golden: Golden) -> None:
    """Put the store on an empty server. What expires soon has as long to live as when it was written."""
    for text, key in golden.keys.items():
        name, value = _bytes(text), key["value"]
        if key["type"] == "hash":
            client.hset(name, mapping={_bytes(field): _bytes(text) for field, text in value.items()})
        elif key["type"] == "zset":
            client.zadd(name, {_bytes(member): score for member, score in value.items()})
        elif key["type"] == "list":
            client.rpush(name, *map(_bytes, value))
        else:
            client.set(name, _bytes(value))
        if key["lifetime"] is not None and key["lifetime"] < YEARS:
            client.pexpire(name, key["lifetime"])
        elif key["lifetime"] is not None:
            client.pexpireat(name, golden.made_at + key["lifetime"])


def comparable(golden: Golden) -> dict[str, Any]:
    """
    Return what must be the same each time that such a store is written.

    Names stand for sids. Times say how far they are from the time of writing, in hours. What is random is left out: the
    revisions, nonces, and with them seals and tags of records. The rest of a record is there byte by byte.
    """
    sids = {sid_of(key): f"<{name}>" for name, key in golden.session_keys.items()}

    def plain(text: str) -> str:
        for sid, name in sids.items():
            text = text.replace(sid, name)
        text = re.sub(r"^[0-9a-f]{32}(?=:\d+$)", "<token>", text)
        return re.sub(r"(?<![\d.])\d{10}(\d{3})?(?![\d.])", lambda found: _hours(found[0], golden.made_at), text)

    found: dict[str, Any] = {}
    for name, key in golden.keys.items():
        value = key["value"]
        if name.endswith(":login"):
            value = {plain(sid): _parts(sid, _bytes(record), golden.made_at) for sid, record in value.items()}
        elif key["type"] == "hash":
            value = {plain(field): plain(text) for field, text in value.items()}
        elif key["type"] == "zset":
            is_time = not name.endswith(":viewed")
            value = {plain(at): plain(f"{score:.0f}") if is_time else score for at, score in value.items()}
        elif key["type"] == "list":
            value = [plain(text) for text in value]
        elif ":moved:" in name and len(value.removeprefix("departed ")) == COPY_SIZE:
            value = value[:-COPY_SIZE] + "<copy>"
        else:
            value = plain(value)
        found[plain(name)] = {
            "type": key["type"],
            "lifetime": _lifetime(key["lifetime"], golden.made_at),
            "value": value,
        }
    return found


def _parts(sid: str, record: bytes, made_at: int) -> dict[str, Any]:
    """The parts of a record as docs/architecture and ``session/record.py`` describe them, without what is random."""
    encrypts, length = record[16] & 16, record[17]
    login_end = 18 + length + (6 if length else 0)
    seal_at = login_end + (8 if record[16] & 128 else 0)
    header, rest = record[16:seal_at], record[seal_at:]
    opened = decrypted(sid, header, rest) if encrypts else rest[SEAL_SIZE:]
    assert opened is not None, f"{sid} can't be decrypted"
    login = str(int.from_bytes(record[login_end - 6 : login_end], "big")) if length else ""
    return {
        "format": _text(record[:1]),
        "revision": "copied" if record[1:7] == COPIED else "",
        "deadline": _hours(str(int.from_bytes(record[7:12], "big")), made_at),
        "age": int.from_bytes(record[12:16], "big"),
        "how": header[0],
        "user": _text(header[2 : 2 + length]),
        "login": _hours(login, made_at),
        "binding": _text(record[login_end:seal_at]),
        "client and data": opened.hex(),
        "around": len(rest) - len(opened),
    }


def inflated(golden: Golden) -> dict[str, Record]:
    """Each record as the package reads it, by name: for where another zlib compresses to other bytes."""
    names = {sid_of(key): name for name, key in golden.session_keys.items()}
    records = {
        names[sid]: unpack(sid, _bytes(record))
        for name, key in golden.keys.items()
        if name.endswith(":login")
        for sid, record in key["value"].items()
    }
    return {name: record._replace(revision=b"", login_ms=0, deadline_seconds=0) for name, record in records.items()}


def _hours(number: str, made_at: int) -> str:
    """Say how far a time, in seconds or milliseconds, is from when the store was written. Other numbers stay."""
    if not number:
        return ""
    milliseconds = int(number) * (1 if len(number) == 13 else 1000)
    for beginning, name in ((made_at, "now"), (made_at + AGE_SECONDS * 1000, "deadline")):
        hours = round((milliseconds - beginning) / 3_600_000)
        if abs(hours) <= 2 * 24:
            return f"<{name}{hours:+d}h>"
        # Times that were rounded down to an hour.
        if abs(hours) <= 60 * 24:
            return f"<{name}{round(hours / 24):+d}d>"
    return number


def _lifetime(milliseconds: int | None, made_at: int) -> str:
    """Say how long a key lives, in hours; or when it ends, if that does not depend on when it was written."""
    if milliseconds is None:
        return "for ever"
    hours, session = round(milliseconds / 3_600_000), AGE_SECONDS // 3600
    if milliseconds < YEARS:
        return f"{hours} h"
    if abs(hours - session) <= 2 * 24:
        return f"that of a session {hours - session:+d} h"
    return f"until {round((made_at + milliseconds) / 3_600_000)} h after 1970"


def _key(client: redis.Redis, name: bytes, made_at: int) -> dict[str, Any]:
    kind = client.type(name).decode()
    value: Any
    if kind == "hash":
        value = {_text(field): _text(text) for field, text in client.hgetall(name).items()}
    elif kind == "zset":
        value = {_text(member): score for member, score in client.zrange(name, 0, -1, withscores=True)}
    elif kind == "list":
        value = [_text(text) for text in client.lrange(name, 0, -1)]
    else:
        assert kind == "string", (name, kind)
        value = _text(client.get(name))
    expires_at = client.pexpiretime(name)
    return {"type": kind, "lifetime": None if expires_at < 0 else expires_at - made_at, "value": value}


def _text(data: bytes) -> str:
    return data.decode("latin-1")


def _bytes(text: str) -> bytes:
    return text.encode("latin-1")


def difference(expected: Mapping[str, Any], found: Mapping[str, Any], path: str = "") -> list[str]:
    """Say where two comparable stores differ: a line for each place."""
    lines = []
    for name in sorted({*expected, *found}):
        before, after, place = expected.get(name), found.get(name), f"{path}/{name}"
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += difference(before, after, place)
        elif before != after:
            lines.append(f"{place}: was {before!r}, is {after!r}")
    return lines
