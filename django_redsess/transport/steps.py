"""
Work as steps, which threads and event loops take in the same way.

Work is a generator. It yields what it waits for: :class:`Send`, :class:`Pause`, :class:`SendSignals` or
:class:`CallOutside`. It is sent the result, or thrown the error. :func:`drive` and :func:`adrive` do what is yielded,
and differ in nothing but ``await``. All else is written once.

:class:`ScriptCall` and :class:`Pipeline` are one round trip each, as a value. Steps yield *from* them, and get a result
whose type is known.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, ParamSpec, TypeVar

from asgiref.sync import sync_to_async

from django_redsess import signals
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.signals import EndedByCommand, EndedSession, Reason
from django_redsess.transport import agreement, attempts, connections
from django_redsess.transport.attempts import PipelineExtras
from django_redsess.transport.connections import Pause, Send, loop_pool, server_of
from django_redsess.transport.keys import Partition, Store, is_sid, other_store, using
from django_redsess.transport.packing import Part, pack_command
from django_redsess.transport.replicas import Confirmation
from django_redsess.transport.scripts import Script

P = ParamSpec("P")
T = TypeVar("T")


class EndedSessions(EndedByCommand):
    """
    The sessions that one command ended, as its reply has them. They are decoded only when somebody iterates.

    ``by`` and ``message`` are those of :class:`EndedSession`.
    """

    def __init__(self, at_milliseconds: bytes, groups: Sequence[Any], by: str = "", message: str = "") -> None:
        self._at, self._by, self._message = at_milliseconds, by, message
        self._groups = list(zip(groups[::3], groups[1::3], groups[2::3], strict=True))

    def __len__(self) -> int:
        return sum(count for _, count, _ in self._groups)

    def __iter__(self) -> Iterator[EndedSession]:
        at = time_of(self._at)
        for reason, _, packed in self._groups:
            why, start = Reason(reason.decode()), 0
            # See with_ended in common.lua. A foreign record may have any text as its user, and a name that is no sid.
            while start < len(packed):
                end = start + 21 + packed[start + 20]
                sid, user_id = packed[start : start + 20].decode(errors="replace"), packed[start + 21 : end]
                created_at = last_seen_at = None
                if user_id:
                    times = packed[end : end + 6], packed[end + 6 : end + 12]
                    created_at, last_seen_at = (time_of(int.from_bytes(each, "big")) for each in times)
                    end += 12
                if is_sid(sid):
                    who = user_id.decode(errors="replace")
                    note = self.internal_note if why is Reason.KICKED else ""
                    yield EndedSession(sid, who, why, at, created_at, last_seen_at, self._by, self._message, note)
                start = end

    def __contains__(self, ended: object) -> bool:
        return ended in list(self)


LAST_SECOND = 250_000_000_000
"""In the year 9892. A later time is shown as this one, because Python's dates end soon after."""


def time_of(milliseconds: float | bytes) -> datetime:
    """Return the datetime of a time that the server wrote."""
    return datetime.fromtimestamp(max(0, min(float(milliseconds or 0) / 1000, LAST_SECOND)), UTC)


def ms_in(score: float) -> int:
    """Return the milliseconds of a score that is a time. Another program may have written any: as :func:`time_of`."""
    return int(max(0, min(score, LAST_SECOND * 1000)))


class Step(Generic[T]):
    """Steps as a value: it can be yielded from, or run by itself."""

    __slots__ = ()

    def __iter__(self) -> Steps[T]:
        raise NotImplementedError

    def run(self) -> T:
        """Take the steps, and return the result."""
        return drive(iter(self))

    async def arun(self) -> T:
        """Take the steps in an event loop, and return the result."""
        return await adrive(iter(self))


@dataclass(slots=True)
class SendSignals:
    """Sessions that have begun or ended, for the receivers of the signals."""

    events: Collection[signals.Event]


@dataclass(slots=True)
class CallOutside:
    """A function that waits for something other than our servers, such as a database. Its result is the reply."""

    function: Callable[[], Any]


Steps = Generator[Send | Pause | SendSignals | CallOutside, Any, T]
"""Work of several steps that returns ``T``."""


def drive(steps: Steps[T]) -> T:
    """Take ``steps`` to their end, and return what they return."""
    try:
        wanted = next(steps)
        while True:
            reply = None
            try:
                if isinstance(wanted, Send):
                    reply = connections.send(wanted.to, wanted.packed, wanted.replies, wanted.follow_up)
                elif isinstance(wanted, Pause):
                    _pause(wanted)
                elif isinstance(wanted, CallOutside):
                    reply = wanted.function()
                else:
                    signals.send_signals(wanted.events)
            except Exception as error:
                wanted = steps.throw(error)
            except BaseException:
                # Now, and not when the last traceback with these steps is garbage-collected.
                steps.close()
                raise
            else:
                wanted = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


async def adrive(steps: Steps[T]) -> T:
    """Take ``steps`` to their end in an event loop, and return what they return."""
    try:
        wanted = next(steps)
        while True:
            reply = None
            try:
                if isinstance(wanted, Send):
                    pool = await loop_pool(wanted.to)
                    reply = await connections.asend(pool, wanted.packed, wanted.replies, wanted.follow_up)
                elif isinstance(wanted, Pause):
                    await _apause(wanted)
                elif isinstance(wanted, CallOutside):
                    reply = await sync_to_async(wanted.function)()
                else:
                    await signals.asend_signals(wanted.events)
            except Exception as error:
                wanted = steps.throw(error)
            except BaseException:
                # Now, and not when the last traceback with these steps is garbage-collected.
                steps.close()
                raise
            else:
                wanted = steps.send(reply)
    except StopIteration as end:
        returned: T = end.value
        return returned


def in_store(
    store: Store | None, operation: Callable[P, Steps[T] | Step[T]], *args: P.args, **kwargs: P.kwargs
) -> Steps[T]:
    """Take the steps that ``operation`` returns in ``store``, as ``using`` does. Return what they return."""
    if store is None and other_store() is None:
        # The store is used already. Most sites have no other.
        return (yield from operation(*args, **kwargs))
    with using(store):
        steps: Steps[T] = iter(operation(*args, **kwargs))
    go_on: Callable[[], Any] = partial(next, steps)
    try:
        while True:
            # Not while a step is awaited: other tasks go on meanwhile.
            with using(store):
                try:
                    wanted = go_on()
                except StopIteration as end:
                    returned: T = end.value
                    return returned
            try:
                go_on = partial(steps.send, (yield wanted))
            except Exception as error:
                go_on = partial(steps.throw, error)
    finally:
        steps.close()


def _pause(pause: Pause) -> None:
    if pause.until is None:
        time.sleep(pause.seconds)
    else:
        futures.wait([pause.until], pause.seconds)


async def _apause(pause: Pause) -> None:
    if pause.until is None:
        await asyncio.sleep(pause.seconds)
    else:
        await asyncio.wait([asyncio.wrap_future(pause.until)], timeout=pause.seconds)


@dataclass(slots=True)
class ScriptCall(Step[T]):
    """
    One script on the server of one partition. ``read`` makes a result of the reply.

    If the script may end sessions, ``read`` also gets which have ended. ``first_attempt_args`` are arguments
    behind ``args`` for what must not happen twice: they are left out when the call is sent again because its reply was
    lost. ``before`` makes plain commands from the server's time; they are sent in front of the script, and
    ``read`` gets their ``reply_count`` replies last. ``confirmation`` is for ends that replicas confirm. ``by`` and
    ``message`` are those of the sessions that the script ends. ``name`` is what observers are told, if not the script's
    task.

    Raises SessionStoreUnavailable in an outage, ImproperlyConfigured where the store does not suit this site, and
    redis-py's ResponseError when the server refuses for any other reason.
    """

    partition: Partition
    script: Script
    keys: tuple[Part, ...]
    args: Sequence[Part | int]
    read: Callable[..., T]
    first_attempt_args: Sequence[Part | int] = ()
    before: Callable[[int], bytes] | None = None
    reply_count: int = 0
    confirmation: Confirmation | None = None
    by: str = ""
    message: str = ""
    name: str = ""

    def __iter__(self) -> Steps[T]:
        tag, server = self.partition.tag, server_of(self.partition)
        if tag not in server.agreed:
            yield from agreement.agree([self.partition])
        before = b"" if self.before is None else self.before((yield from current_time(self.partition)))
        follow_up = None if self.confirmation is None else partial(self.confirmation.follow_up, self.partition)
        extras = PipelineExtras(before, self.reply_count, follow_up)
        reply, replies = yield from attempts.run_script(
            tag, self.script, self.keys, self.args, self.first_attempt_args, extras, self.name
        )
        result = yield from self.finished(reply, () if self.before is None else (replies,))
        if tag not in server.agreed:
            # The server did not know the script: it may have lost its data. Then the agreement is written.
            with suppress(SessionStoreUnavailable):
                yield from agreement.agree([self.partition])
        return result

    def finished(self, reply: Any, beside: tuple[Any, ...] = ()) -> Steps[T]:
        """Make the result of ``reply``, and of the replies ``beside`` it. Send signals for sessions that have ended."""
        if not self.script.ends:
            return self.read(reply, *beside)
        reply, at, *groups = reply
        server_of(self.partition).clock.learn_from_script(int(at))
        ended = EndedSessions(at, groups, self.by, self.message)
        result = self.read(reply, ended, *beside)
        if not signals.hold_events(ended):
            yield SendSignals(ended)
        return result


@dataclass(slots=True)
class Pipeline(Step[T]):
    """
    Plain commands in one round trip to the server of ``partition``: ``read`` makes a result of their replies.

    ``packed`` are the commands. ``replies`` is how many replies there are; an error among the first ``needed`` is
    raised. ``name`` names the operation in an outage. One of the commands may run ``script``, which
    declares all its keys. Raises what :class:`ScriptCall` raises.
    """

    partition: Partition
    name: str
    packed: bytes
    replies: int
    read: Callable[[list[Any]], T]
    needed: int = 1
    script: Script | None = None

    def __iter__(self) -> Steps[T]:
        tag, server = self.partition.tag, server_of(self.partition)
        if tag not in server.agreed:
            yield from agreement.agree([self.partition])
        replies = yield from attempts.fetch(server, tag, self.name, self.packed, self.replies, self.needed, self.script)
        return self.read(replies)


def current_time(partition: Partition) -> Steps[int]:
    """Return the time of the server that has ``partition``, in milliseconds. Ask the server if it has not told yet."""
    server = server_of(partition)
    known: int | None = server.clock.now()
    if known is None:
        reply = yield from attempts.fetch(server, partition.tag, "time", pack_command("TIME"), 1)
        known = server_of(partition).clock.learn(reply[0])
    return known
