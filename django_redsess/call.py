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
    One round trip to one partition: what is sent, and ``read``, which makes a result of the reply.

    Where the script may end sessions, ``read`` gets what it replied, and which have ended. ``once`` follows ``args``,
    but is left out when the call is sent again because its reply was lost: what must not happen twice.
    """

    partition: Partition
    script: Script
    keys: tuple[client.Part, ...]
    args: Sequence[client.Part | int]
    read: Callable[..., T]
    once: Sequence[client.Part | int] = ()

    def run(self) -> T:
        """Send it, and return the result. Raises what :func:`client.run` raises, and ImproperlyConfigured."""
        if (agreement := _agreement()) is not None:
            agreement.read(client.run(agreement.partition, agreement.script, agreement.keys, agreement.args))
        reply = client.run(self.partition, self.script, self.keys, self.args, self.once)
        if not self.script.ends:
            return self.read(reply)
        result, at, *groups = reply
        ended = Endings(at, groups)
        signals.tell(ended)
        return self.read(result, ended)

    async def arun(self) -> T:
        """Do as :meth:`run` does, awaiting the reply."""
        if (agreement := _agreement()) is not None:
            agreement.read(await client.arun(agreement.partition, agreement.script, agreement.keys, agreement.args))
        reply = await client.arun(self.partition, self.script, self.keys, self.args, self.once)
        if not self.script.ends:
            return self.read(reply)
        result, at, *groups = reply
        ended = Endings(at, groups)
        await signals.atell(ended)
        return self.read(result, ended)


@dataclass(frozen=True, slots=True)
class Pause:
    """Time to wait, in seconds."""

    seconds: float

    def run(self) -> None:
        time.sleep(self.seconds)

    async def arun(self) -> None:
        await asyncio.sleep(self.seconds)


Steps = Generator[Call[Any] | Pause, Any, T]


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


def take_new_secret_key() -> None:
    """Have the store take this site's ``SECRET_KEY`` as one of its own: for who replaced it without fallbacks."""
    agreement = _agreement(takes_key=True)
    if agreement is not None:
        agreement.read(client.run(agreement.partition, agreement.script, agreement.keys, agreement.args))


def _agreement(*, takes_key: bool = False) -> Call[None] | None:
    # Asked once by each process: with a wrong number of partitions every session is looked for where it is not, and
    # with another site's SECRET_KEY none can be read, but all can be ended.
    store = client.pool(), keyspace()
    if store in _agreed and not takes_key:
        return None
    space = store[1]
    here = [str(space.count), FORMAT.decode()]

    def read(reply: list[bytes]) -> None:
        *there, knows_key = [part.decode() for part in reply]
        if there != here:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} are spread over {there[0]} partitions in format "
                f"{there[1]}, and this site would look for {here[0]} in format {here[1]}. Set REDSESS['PARTITIONS'] "
                f"back to {there[0]}; or begin anew, with everybody signed out, under another REDSESS['PREFIX']."
            )
        if not knows_key:
            raise ImproperlyConfigured(
                f"The sessions under the prefix {space.prefix!r} know another SECRET_KEY than this site's. If they are "
                "another site's, set another REDSESS['PREFIX'] here. If this site's key was replaced, put the old one "
                "into SECRET_KEY_FALLBACKS; or, where it has leaked, sign everybody out: manage.py endsessions --all "
                "--new-secret-key."
            )
        _agreed.add(store)

    args: tuple[str | int, ...] = (*here, int(takes_key), *fingerprints(space.prefix))
    return Call(Partition(space.prefix), scripts.META, (space.meta,), args, read)
