"""
One round trip as a value, and work that takes several of them.

A round trip that ends sessions tells so: :mod:`django_redsess.signals`.

Work is written once, as a generator that yields what it waits for and is sent the result, or thrown the error.
:func:`run` and :func:`arun` drive it, and differ in nothing but ``await``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from django.core.exceptions import ImproperlyConfigured

from django_redsess import client, scripts, signals
from django_redsess.keys import Keyspace, Partition, keyspace
from django_redsess.record import FORMAT, fingerprints
from django_redsess.scripts import Script
from django_redsess.signals import Endings

T = TypeVar("T")


class Call(NamedTuple, Generic[T]):
    """
    One script on the server of one partition: what is sent, and ``read``, which makes a result of the reply.

    Where the script may end sessions, ``read`` also gets which have ended. ``once`` are arguments behind ``args``, for
    what must not happen twice: they are left out when the call is sent again because its reply was lost. ``before``
    makes plain commands that are sent in front of the script, from the server's time. ``asks`` is how many those are;
    ``read`` gets their replies last.
    """

    partition: Partition
    script: Script
    keys: tuple[client.Part, ...]
    args: Sequence[client.Part | int]
    read: Callable[..., T]
    once: Sequence[client.Part | int] = ()
    before: Callable[[int], bytes] | None = None
    asks: int = 0

    def run(self) -> T:
        """Send it, and return the result. Raises what :func:`client.run` raises, and ImproperlyConfigured."""
        if (agreement := _agreement()) is not None:
            agreement.read(client.run(agreement.partition, agreement.script, agreement.keys, agreement.args))
        result, ended = self._result(client.run(*self[:4], self.once, **self._beside()))
        if ended is not None:
            signals.tell(ended)
        return result

    async def arun(self) -> T:
        """Do as :meth:`run` does, awaiting the reply."""
        if (agreement := _agreement()) is not None:
            agreement.read(await client.arun(agreement.partition, agreement.script, agreement.keys, agreement.args))
        result, ended = self._result(await client.arun(*self[:4], self.once, **self._beside()))
        if ended is not None:
            await signals.atell(ended)
        return result

    def _beside(self) -> dict[str, Any]:
        return {} if self.before is None else {"before": self.before(_now()), "replies": self.asks}

    def _result(self, reply: Any) -> tuple[T, Endings | None]:
        beside: tuple[Any, ...] = ()
        if self.before is not None:
            reply, *beside = reply
        if not self.script.ends:
            return self.read(reply, *beside), None
        result, at, *groups = reply
        client.clock().learn(divmod(int(at) * 1000, 1_000_000))
        ended = Endings(at, groups)
        return self.read(result, ended, *beside), ended


class Plain(NamedTuple, Generic[T]):
    """
    Plain commands in one round trip: ``read`` makes a result of their replies.

    ``packed`` are the commands, or makes them by the server's time; ``replies`` is how many replies there are, and an
    error among the first ``needed`` is raised. ``name`` stands for what is asked, where it meets an outage.
    """

    space: Keyspace
    name: str
    packed: bytes | Callable[[int], bytes]
    replies: int
    read: Callable[[list[Any]], T]
    needed: int = 1

    def run(self) -> T:
        """Send them, and return the result. Raises what :func:`client.fetch` raises, and ImproperlyConfigured."""
        space, name, packed, replies, read, needed = self
        pool = client.pool()
        if (pool is not _agreed_last[0] or space is not _agreed_last[1]) and (agreement := _agreement()) is not None:
            agreement.read(client.run(agreement.partition, agreement.script, agreement.keys, agreement.args))
        if not isinstance(packed, bytes):
            packed = packed(pool.clock.now())
        return read(client.fetch(name, packed, replies, needed, connections=pool))

    async def arun(self) -> T:
        """Do as :meth:`run` does, awaiting the replies."""
        space, name, packed, replies, read, needed = self
        pool = client.pool()
        if (pool is not _agreed_last[0] or space is not _agreed_last[1]) and (agreement := _agreement()) is not None:
            agreement.read(await client.arun(agreement.partition, agreement.script, agreement.keys, agreement.args))
        if not isinstance(packed, bytes):
            packed = packed(pool.clock.now())
        return read(await client.afetch(name, packed, replies, needed))


def _now() -> int:
    # The agreement has brought the first time.
    return client.clock().now() or 0


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to wait, in seconds."""

    seconds: float

    def run(self) -> None:
        time.sleep(self.seconds)

    async def arun(self) -> None:
        await asyncio.sleep(self.seconds)


Steps = Generator[Call[Any] | Plain[Any] | Pause, Any, T]


def run(steps: Steps[T]) -> T:
    """Drive ``steps`` to their end, and return what they return."""
    try:
        step = next(steps)
        while True:
            try:
                reply = step.run()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


async def arun(steps: Steps[T]) -> T:
    """Do as :func:`run` does, awaiting each step."""
    try:
        step = next(steps)
        while True:
            try:
                reply = await step.arun()
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


P = ParamSpec("P")


def both(steps: Callable[P, Steps[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """Make two functions of one that returns steps: one that drives them, and one that awaits them."""

    @wraps(steps)
    def run_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return run(steps(*args, **kwargs))

    @wraps(steps)
    async def arun_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return await arun(steps(*args, **kwargs))

    # Help shows what they return, and not what the steps are.
    signature = inspect.signature(steps)
    returned = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    name = steps.__name__.removeprefix("_")
    for made, made_name in ((run_steps, name), (arun_steps, f"a{name}")):
        made.__name__ = made.__qualname__ = made_name
        made.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[union-attr]
    return run_steps, arun_steps


_agreed: set[tuple[Any, Keyspace]] = set()
_agreed_last: tuple[Any, Any] = None, None


def take_new_secret_key() -> None:
    """Have the store take this site's ``SECRET_KEY`` as one of its own: for who replaced it without fallbacks."""
    agreement = _agreement(takes_key=True)
    if agreement is not None:
        agreement.read(client.run(agreement.partition, agreement.script, agreement.keys, agreement.args))


def _agreement(*, takes_key: bool = False) -> Call[None] | None:
    # Asked once by each process: with a wrong number of partitions every session is looked for where it is not, and
    # with another site's SECRET_KEY none can be read, but all can be ended.
    pool, space = client.pool(), keyspace()
    if pool is _agreed_last[0] and space is _agreed_last[1] and not takes_key:
        # Most often it is the store that was asked for before: then it need not be looked for.
        return None
    if (pool, space) in _agreed and not takes_key:
        return None
    here = [str(space.count), FORMAT.decode()]

    def read(reply: list[Any]) -> None:
        global _agreed_last
        *there, knows_key = [part.decode() for part in reply[:3]]
        if there[1] != here[1]:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} are in format {there[1]}, and this release reads and "
                f"writes format {here[1]} only. Go on with the release that wrote them; or begin anew, with "
                "everybody signed out, under another REDSESS['PREFIX']."
            )
        if there[0] != here[0]:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} are spread over {there[0]} partitions, and this site "
                f"would look for {here[0]}. Set REDSESS['PARTITIONS'] back to {there[0]}; or begin anew, with "
                "everybody signed out, under another REDSESS['PREFIX']."
            )
        if not knows_key:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} know another SECRET_KEY than this site's. If they are "
                "another site's, set another REDSESS['PREFIX'] here. If this site's key was replaced, put the old one "
                "into SECRET_KEY_FALLBACKS; or, where it has leaked, sign everybody out: manage.py endsessions --all "
                "--new-secret-key."
            )
        client.clock().learn(reply[3])
        _agreed_last = pool, space
        _agreed.add(_agreed_last)

    args: tuple[str | int, ...] = (*here, int(takes_key), *fingerprints(space.prefix))
    return Call(Partition(space.prefix), scripts.META, (space.meta,), args, read)
