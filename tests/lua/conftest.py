"""
What the tests of single scripts share.

``store``: a partition whose keys a test writes by plain commands, and on which it runs a script by itself.
"""

from collections import Counter
from collections.abc import Sequence
from os import urandom
from typing import Any

import pytest
import redis as redis_py

from django_redsess.session.record import Record, pack
from django_redsess.transport.keys import keyspace
from django_redsess.transport.scripts import Script, declares

AGE = 900_000
"""Milliseconds until a session is due, where a test does not say so."""


class Store:
    """One partition. Sessions have short names here: ``a`` has the sid ``00a.................``."""

    def __init__(self, client: redis_py.Redis) -> None:
        self.client, self.partition = client, keyspace().partitions[0]
        # By the server's clock. It goes on meanwhile, but not by a second.
        self.now = self._time()

    def _time(self) -> int:
        seconds, microseconds = self.client.time()
        return seconds * 1000 + microseconds // 1000

    def sid(self, name: str) -> str:
        return f"00{name:.<18}"

    def record(
        self, name: str, user: str = "", *, login: int | None = None, size: int = 0, binding: bytes = b""
    ) -> bytes:
        """Make a record with a new revision. A user signed in ``login`` milliseconds ago."""
        at = self.now - (login or 0) if user else 0
        deadline = (self.now + AGE) // 1000
        return pack(self.sid(name), Record(user, at, deadline, AGE // 1000, b"", urandom(size), binding=binding))

    def add(self, name: str, user: str = "", *, due: int = AGE, seen: int = 0, login: int = 0, **more: Any) -> bytes:
        """Write a session that is due in ``due`` milliseconds and was seen ``seen`` ago; return its record."""
        keys, sid = self.partition, self.sid(name)
        record = self.record(name, user, login=login, **more)
        self.client.hset(keys.login, sid, record)
        self.client.zadd(keys.expire, {sid: self.now + due})
        self.client.zadd(keys.recent if user else keys.guests, {sid: self.now - seen})
        if user:
            for list_of_users in (keys.online_user, keys.online_user_of(user)):
                self.client.zadd(list_of_users, {sid: self.now - login})
        return record

    def run(self, script: Script, once: dict[str, Any] | None = None, **given: Any) -> Any:
        """
        Run a script and return its reply.

        ``given`` are its arguments, and the keys that a partition does not name; ``once`` what a repetition leaves out.
        """
        declared = {name for name, _ in declares(script.text, "KEYS")}
        keys = {name: given.pop(name) for name in declared & given.keys()}
        names = script.keys(self.partition, **keys)
        more = () if once is None else script.first_attempt_args(**once)
        return self.client.eval(script.text, len(names), *names, *script.arguments(**given), *more)

    def run_ending(
        self, script: Script, once: dict[str, Any] | None = None, **given: Any
    ) -> tuple[Any, dict[str, int]]:
        """Run a script that may end sessions; return its own result, and how many have ended for which reason."""
        result, at, *groups = self.run(script, once, **given)
        assert abs(int(at) - self.now) < 60_000
        for sids in groups[2::3]:
            assert not sids or sids.startswith(b"00")
        ended = Counter[str]()
        for reason, count in zip(groups[::3], groups[1::3], strict=True):
            ended[reason.decode()] += count
        return result, dict(ended)

    def refused(self, script: Script, once: dict[str, Any] | None = None, **given: Any) -> list[Any]:
        """Run a script that refuses, and so writes nothing; return its result, with ``now`` in place of the time."""
        before = self.content()
        result, ended = self.run_ending(script, once, **given)
        assert (self.content(), ended) == (before, {})
        if result[0] == b"clock":
            assert abs(int(result[1]) - self.now) < 1000
            result[1] = "now"
        return list(result)

    def content(self) -> dict[str, Any]:
        """Read all that is stored, by key."""
        read = {
            b"hash": self.client.hgetall,
            b"zset": lambda name: self.client.zrange(name, 0, -1, withscores=True),
            b"string": self.client.get,
            b"list": lambda name: self.client.lrange(name, 0, -1),
        }
        return {name.decode(): read[self.client.type(name)](name) for name in self.client.keys()}

    def names(self, key: str) -> list[str]:
        """Name the sessions in a key, in its order."""
        found: Sequence[bytes] = (
            self.client.hkeys(key) if key == self.partition.login else self.client.zrange(key, 0, -1)
        )
        return [sid.decode()[2:].rstrip(".") for sid in found]

    def note(self, name: str) -> str:
        note = self.client.get(self.partition.ended_of(self.sid(name)))
        return note.decode() if note else ""

    def total(self, name: str) -> int:
        return int(self.client.hget(self.partition.totals, name) or 0)


@pytest.fixture
def store(redis) -> Store:
    return Store(redis)
