"""
Work as steps, which threads and event loops take in the same way.

Work is a generator. It yields what it waits for: :class:`Send`, :class:`Pause` or :class:`Tell`. It is sent the result,
or thrown the error. :func:`drive` and :func:`adrive` do what is yielded, and differ in nothing but ``await``. All else
is written once.

:class:`Call` and :class:`Plain` are one round trip each, as a value. Steps yield *from* them, and get a result whose
type is known.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Coroutine, Generator, Iterator, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any, Generic, ParamSpec, TypeVar, get_args, get_type_hints

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.signals import EndedSession, Reason, session_ended
from django_redsess.transport import agreement, announcing, exchange, repeating
from django_redsess.transport.confirming import Confirmation
from django_redsess.transport.connections import loop_pool, of
from django_redsess.transport.exchange import Pause, Send
from django_redsess.transport.keys import Partition, is_sid
from django_redsess.transport.packing import Part, command
from django_redsess.transport.repeating import Along
from django_redsess.transport.scripts import Script

P = ParamSpec("P")
T = TypeVar("T")


class EndedSessions(Collection[EndedSession]):
    """The sessions that one command ended, as its reply has them. They are decoded only when somebody iterates."""

    def __init__(self, at_milliseconds: bytes, groups: Sequence[Any]) -> None:
        self._at = at_milliseconds
        self._groups = list(zip(groups[::3], groups[1::3], groups[2::3], strict=True))

    def __len__(self) -> int:
        return sum(count for _, count, _ in self._groups)

    def __iter__(self) -> Iterator[EndedSession]:
        at = datetime.fromtimestamp(int(self._at) / 1000, UTC)
        for reason, _, packed in self._groups:
            why, start = Reason(reason.decode()), 0
            # See with_ended in remove.lua. A foreign record may have any text as its user, and a name that is no sid.
            while start < len(packed):
                end = start + 21 + packed[start + 20]
                sid = packed[start : start + 20].decode(errors="replace")
                if is_sid(sid):
                    yield EndedSession(sid, packed[start + 21 : end].decode(errors="replace"), why, at)
                start = end

    def __contains__(self, ended: object) -> bool:
        return ended in list(self)


class Step(Generic[T]):
    """Steps as a value: it can be yielded from, or run by itself."""

    __slots__ = ()

    def __iter__(self) -> Steps[T]:
        raise NotImplementedError

    def run(self) -> T:
        """Take the steps, and return the result."""
        return drive(iter(self))

    async def arun(self) -> T:
        """Do as :meth:`run` does, awaiting the result."""
        return await adrive(iter(self))


@dataclass(slots=True)
class Tell:
    """A session that has ended, of which the receivers of the signal are told."""

    ended: EndedSession


Steps = Generator[Send | Pause | Tell, Any, T]
"""Work of several steps; ``T`` is what it returns."""


def drive(steps: Steps[T]) -> T:
    """Take ``steps`` to their end, and return what they return."""
    try:
        wanted = next(steps)
        while True:
            reply = None
            try:
                if isinstance(wanted, Send):
                    reply = exchange.send(wanted.to, wanted.packed, wanted.replies, wanted.then)
                elif isinstance(wanted, Pause):
                    _wait(wanted)
                else:
                    session_ended.send_robust(EndedSession, **wanted.ended._asdict())
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


async def adrive(steps: Steps[T]) -> T:
    """Do as :func:`drive` does, awaiting each step."""
    try:
        wanted = next(steps)
        while True:
            reply = None
            try:
                if isinstance(wanted, Send):
                    connections = await loop_pool(wanted.to)
                    reply = await exchange.asend(connections, wanted.packed, wanted.replies, wanted.then)
                elif isinstance(wanted, Pause):
                    await _await(wanted)
                else:
                    await session_ended.asend_robust(EndedSession, **wanted.ended._asdict())
            except Exception as error:
                wanted = steps.throw(error)
            else:
                wanted = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


def _wait(pause: Pause) -> None:
    if pause.until is None:
        time.sleep(pause.seconds)
    else:
        futures.wait([pause.until], pause.seconds)


async def _await(pause: Pause) -> None:
    if pause.until is None:
        await asyncio.sleep(pause.seconds)
    else:
        await asyncio.wait([asyncio.wrap_future(pause.until)], timeout=pause.seconds)


@dataclass(slots=True)
class Call(Step[T]):
    """
    One script on the server of one partition: what is sent, and ``read``, which makes a result of the reply.

    If the script may end sessions, ``read`` also gets which have ended. ``once`` are arguments behind ``args`` for what
    must not happen twice: they are left out when the call is sent again because its reply was lost. ``before`` makes
    plain commands from the server's time; they are sent in front of the script. ``asks`` is how many commands those
    are; ``read`` gets their replies last. ``confirmation`` is for ends that replicas confirm.

    Raises SessionStoreUnavailable in an outage, ImproperlyConfigured where the store does not suit this site, and
    redis-py's ResponseError when the server refuses for any other reason.
    """

    partition: Partition
    script: Script
    keys: tuple[Part, ...]
    args: Sequence[Part | int]
    read: Callable[..., T]
    once: Sequence[Part | int] = ()
    before: Callable[[int], bytes] | None = None
    asks: int = 0
    confirmation: Confirmation | None = None

    def __iter__(self) -> Steps[T]:
        tag, server = self.partition.tag, of(self.partition)
        if tag not in server.agreed:
            yield from agreement.agree([self.partition])
        before = b"" if self.before is None else self.before((yield from now(self.partition)))
        then = None if self.confirmation is None else partial(self.confirmation.after, self.partition)
        along = Along(before, self.asks, then)
        reply, replies = yield from repeating.run(tag, self.script, self.keys, self.args, self.once, along)
        result = yield from self.finished(reply, () if self.before is None else (replies,))
        if tag not in server.agreed:
            # The server did not know the script: it may have lost its data. Nobody else is to be the first to write.
            with suppress(SessionStoreUnavailable):
                yield from agreement.agree([self.partition])
        return result

    def finished(self, reply: Any, beside: tuple[Any, ...] = ()) -> Steps[T]:
        """Make the result of ``reply``, and of the replies ``beside`` it. Tell of sessions that have ended."""
        if not self.script.ends:
            return self.read(reply, *beside)
        reply, at, *groups = reply
        of(self.partition).clock.learn(divmod(int(at) * 1000, 1_000_000))
        ended = EndedSessions(at, groups)
        result = self.read(reply, ended, *beside)
        if not announcing.hold(ended):
            for each in ended:
                yield Tell(each)
        return result


@dataclass(slots=True)
class Plain(Step[T]):
    """
    Plain commands in one round trip to the server of ``partition``: ``read`` makes a result of their replies.

    ``packed`` are the commands, or makes them from the server's time. ``replies`` is how many replies there are; an
    error among the first ``needed`` is raised. ``name`` stands for what is asked, where it meets an outage. One of the
    commands may run ``script``, which declares all its keys. Raises what :class:`Call` raises.
    """

    partition: Partition
    name: str
    packed: bytes | Callable[[int], bytes]
    replies: int
    read: Callable[[list[Any]], T]
    needed: int = 1
    script: Script | None = None

    def __iter__(self) -> Steps[T]:
        tag, server = self.partition.tag, of(self.partition)
        if tag not in server.agreed:
            yield from agreement.agree([self.partition])
        packed = self.packed
        if not isinstance(packed, bytes):
            packed = packed(server.clock.now() or (yield from now(self.partition)))
        return self.read((yield from repeating.fetch(tag, self.name, packed, self.replies, self.needed, self.script)))


def now(partition: Partition) -> Steps[int]:
    """Return the time of the server that has ``partition``, in milliseconds. Ask for it where it is not known."""
    known: int | None = of(partition).clock.now()
    if known is None:
        reply = yield from repeating.fetch(partition.tag, "time", command("TIME"), 1)
        known = of(partition).clock.learn(reply[0])
    return known


def both(steps: Callable[P, Steps[T]]) -> tuple[Callable[P, T], Callable[P, Coroutine[Any, Any, T]]]:
    """Make two functions of one that returns steps: one that drives them, and one that awaits them."""

    @wraps(steps)
    def run_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return drive(steps(*args, **kwargs))

    @wraps(steps)
    async def arun_steps(*args: P.args, **kwargs: P.kwargs) -> T:
        return await adrive(steps(*args, **kwargs))

    # Help shows what they return, and not that it takes steps. The annotations of arguments are not looked at: they may
    # name what is imported for type checking only.
    returns = SimpleNamespace(__annotations__={"return": steps.__annotations__["return"]})
    *_, returned = get_args(get_type_hints(returns, steps.__globals__)["return"])
    signature = inspect.signature(steps).replace(return_annotation=returned)
    name = steps.__name__.removeprefix("_")
    for made, made_name in ((run_steps, name), (arun_steps, f"a{name}")):
        made.__name__ = made.__qualname__ = made_name
        made.__signature__ = signature  # type: ignore[union-attr]
    return run_steps, arun_steps
