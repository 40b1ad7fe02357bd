"""
One round trip as a value, and work that takes several of them.

A round trip that ends sessions tells so: :mod:`django_redsess.signals`.

Work is written once, as a generator that yields what it waits for and is sent the result, or thrown the error.
Steps are driven by :func:`drive` and :func:`adrive`, and differ in nothing but ``await``.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Coroutine, Generator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Generic, ParamSpec, TypeVar

from django_redsess.transport import agreement, announcing, client
from django_redsess.transport.announcing import Endings
from django_redsess.transport.keys import Keyspace, Partition, keyspace
from django_redsess.transport.scripts import Script

T = TypeVar("T")


class Step(Generic[T]):
    """Something to wait for. Steps yield *from* it, and so get its result, with its type."""

    __slots__ = ()

    def __iter__(self) -> Steps[T]:
        result: T = yield self
        return result

    def run(self) -> T:
        """Do it, and return the result."""
        raise NotImplementedError

    async def arun(self) -> T:
        """Do as :meth:`run` does, awaiting the result."""
        raise NotImplementedError


Steps = Generator[Step[Any], Any, T]
"""Work of several steps, as a generator; ``T`` is what it returns."""


@dataclass(slots=True)
class Call(Step[T]):
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
        if (question := agreement.question(keyspace())) is not None:
            question.read(client.run(question.partition, question.script, question.keys, question.args))
        result, ended = self._result(
            client.run(self.partition, self.script, self.keys, self.args, self.once, **self._beside())
        )
        if ended is not None:
            announcing.tell(ended)
        return result

    async def arun(self) -> T:
        if (question := agreement.question(keyspace())) is not None:
            question.read(await client.arun(question.partition, question.script, question.keys, question.args))
        result, ended = self._result(
            await client.arun(self.partition, self.script, self.keys, self.args, self.once, **self._beside())
        )
        if ended is not None:
            await announcing.atell(ended)
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


@dataclass(slots=True)
class Plain(Step[T]):
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
        pool = client.pool()
        if (question := agreement.question(self.space, pool)) is not None:
            question.read(client.run(question.partition, question.script, question.keys, question.args))
        packed = self.packed
        if not isinstance(packed, bytes):
            packed = packed(pool.clock.now())
        return self.read(client.fetch(self.name, packed, self.replies, self.needed, connections=pool))

    async def arun(self) -> T:
        pool = client.pool()
        if (question := agreement.question(self.space, pool)) is not None:
            question.read(await client.arun(question.partition, question.script, question.keys, question.args))
        packed = self.packed
        if not isinstance(packed, bytes):
            packed = packed(pool.clock.now())
        return self.read(await client.afetch(self.name, packed, self.replies, self.needed))


def _now() -> int:
    # The agreement has brought the first time.
    return client.clock().now() or 0


@dataclass(slots=True)
class Pause(Step[None]):
    """Time to wait, in seconds."""

    seconds: float

    def run(self) -> None:
        time.sleep(self.seconds)

    async def arun(self) -> None:
        await asyncio.sleep(self.seconds)


def drive(steps: Steps[T]) -> T:
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


async def adrive(steps: Steps[T]) -> T:
    """Do as :func:`drive` does, awaiting each step."""
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
        return drive(steps(*args, **kwargs))

    @wraps(steps)
    async def arun_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return await adrive(steps(*args, **kwargs))

    # Help shows what they return, and not what the steps are.
    signature = inspect.signature(steps)
    returned = str(signature.return_annotation).removeprefix("Steps[").removesuffix("]")
    name = steps.__name__.removeprefix("_")
    for made, made_name in ((run_steps, name), (arun_steps, f"a{name}")):
        made.__name__ = made.__qualname__ = made_name
        made.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[union-attr]
    return run_steps, arun_steps
