"""
Work as steps, which threads and event loops take in the same way.

Work is a generator. It yields what it waits for: :class:`Send`, :class:`Pause`, :class:`SendSignals` or
:class:`CallOutside`. It is sent the result, or thrown the error. :func:`drive` and :func:`adrive` do what is yielded,
and differ in nothing but ``await``. All else is written once.

:class:`Call` and :class:`Plain` are one round trip each, as a value. Steps yield *from* them, and get a result whose
type is known. :func:`together` asks several partitions in one round trip to each server. :func:`merged` reads a page of
entries that are spread over partitions, and :func:`bisect` finds a rank over all of them.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent import futures
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

from asgiref.sync import sync_to_async
from redis.exceptions import ResponseError

from django_redsess import signals
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.signals import EndedSession, Reason
from django_redsess.transport import agreement, retries, sending
from django_redsess.transport.connections import by_server, loop_pool, of
from django_redsess.transport.keys import Partition, Store, is_sid, keyspace, using
from django_redsess.transport.lua_scripts import CONSTANTS, Script, Values
from django_redsess.transport.replicas import Confirmation
from django_redsess.transport.retries import PipelineExtras
from django_redsess.transport.sending import Part, Pause, Send, command

P = ParamSpec("P")
T = TypeVar("T")


class EndedSessions(Collection[EndedSession]):
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
                login_at = seen_at = None
                if user_id:
                    times = packed[end : end + 6], packed[end + 6 : end + 12]
                    login_at, seen_at = (time_of(int.from_bytes(each, "big")) for each in times)
                    end += 12
                if is_sid(sid):
                    who = user_id.decode(errors="replace")
                    yield EndedSession(sid, who, why, at, login_at, seen_at, self._by, self._message)
                start = end

    def __contains__(self, ended: object) -> bool:
        return ended in list(self)


LAST_SECOND = 250_000_000_000
"""In the year 9892. A later time is shown as this one, because Python's dates end soon after."""


def time_of(milliseconds: float | bytes) -> datetime:
    """Return the datetime of a time that the server wrote."""
    return datetime.fromtimestamp(max(0, min(float(milliseconds or 0) / 1000, LAST_SECOND)), UTC)


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
class SendSignals:
    """What has begun or ended, of which the receivers of the signals are told."""

    events: Collection[signals.Event]


@dataclass(slots=True)
class CallOutside:
    """A function that waits for something else than our servers, such as a database. Its result is the reply."""

    function: Callable[[], Any]


Steps = Generator[Send | Pause | SendSignals | CallOutside, Any, T]
"""Work of several steps; ``T`` is what it returns."""


def drive(steps: Steps[T]) -> T:
    """Take ``steps`` to their end, and return what they return."""
    try:
        wanted = next(steps)
        while True:
            reply = None
            try:
                if isinstance(wanted, Send):
                    reply = sending.send(wanted.to, wanted.packed, wanted.replies, wanted.then)
                elif isinstance(wanted, Pause):
                    _wait(wanted)
                elif isinstance(wanted, CallOutside):
                    reply = wanted.function()
                else:
                    signals.announce(wanted.events)
            except Exception as error:
                wanted = steps.throw(error)
            except BaseException:
                # Now, and not when the last traceback that has these steps is forgotten.
                steps.close()
                raise
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
                    reply = await sending.asend(connections, wanted.packed, wanted.replies, wanted.then)
                elif isinstance(wanted, Pause):
                    await _await(wanted)
                elif isinstance(wanted, CallOutside):
                    reply = await sync_to_async(wanted.function)()
                else:
                    await signals.aannounce(wanted.events)
            except Exception as error:
                wanted = steps.throw(error)
            except BaseException:
                # Now, and not when the last traceback that has these steps is forgotten.
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
    with using(store):
        steps: Steps[T] = iter(operation(*args, **kwargs))
    go_on: Callable[[], Any] = partial(next, steps)
    try:
        while True:
            # Not while something is awaited: others go on meanwhile.
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
    are; ``read`` gets their replies last. ``confirmation`` is for ends that replicas confirm. ``by`` and ``message``
    are those of the sessions that the script ends. ``name`` is what observers are told, if not the script's task.

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
    by: str = ""
    message: str = ""
    name: str = ""

    def __iter__(self) -> Steps[T]:
        tag, server = self.partition.tag, of(self.partition)
        if tag not in server.agreed:
            yield from agreement.agree([self.partition])
        before = b"" if self.before is None else self.before((yield from now(self.partition)))
        then = None if self.confirmation is None else partial(self.confirmation.after, self.partition)
        along = PipelineExtras(before, self.asks, then)
        reply, replies = yield from retries.run(tag, self.script, self.keys, self.args, self.once, along, self.name)
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
        of(self.partition).clock.learn_from_script(int(at))
        ended = EndedSessions(at, groups, self.by, self.message)
        result = self.read(reply, ended, *beside)
        if not signals.hold(ended):
            yield SendSignals(ended)
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
        replies = yield from retries.fetch(server, tag, self.name, packed, self.replies, self.needed, self.script)
        return self.read(replies)


def now(partition: Partition) -> Steps[int]:
    """Return the time of the server that has ``partition``, in milliseconds. Ask for it where it is not known."""
    server = of(partition)
    known: int | None = server.clock.now()
    if known is None:
        reply = yield from retries.fetch(server, partition.tag, "time", command("TIME"), 1)
        known = of(partition).clock.learn(reply[0])
    return known


def on_each(script: Script, args: Values, read: Callable[..., T]) -> list[Call[T]]:
    """Return a call of ``script`` for each partition. ``read`` makes the result of a reply."""
    return [Call(partition, script, script.keys(partition), args, read) for partition in keyspace().partitions]


def batches(sids: Iterable[str], at_once: int = CONSTANTS["AT_ONCE_MAX"]) -> Iterator[tuple[Partition, list[str]]]:
    """Group ``sids`` by partition, in batches of up to ``at_once``."""
    space, groups = keyspace(), dict[int, list[str]]()
    if space.count == 1:
        groups[0] = list(dict.fromkeys(sids))
    else:
        for sid in dict.fromkeys(sids):
            groups.setdefault(space.number_of(sid), []).append(sid)
    for number, group in groups.items():
        for start in range(0, len(group), at_once):
            yield space.partitions[number], group[start : start + at_once]


def share_of(maximum: int, partitions: int) -> int:
    """Return the share of ``maximum`` that one partition has, rounded up. ``partitions`` is their number."""
    return -(-maximum // partitions)


class Bound(NamedTuple):
    """A score, and how many entries of each partition have a lower one."""

    score: int
    counts: list[int]

    @property
    def total(self) -> int:
        return sum(self.counts)


def _middle(low: Bound, high: Bound) -> int:
    return (low.score + high.score) // 2


def guess_by_share(rank: int) -> Callable[[Bound, Bound], int]:
    """Return a guess as if the scores were spread evenly. They may not be: every other guess is the middle."""
    halves = True

    def guess(low: Bound, high: Bound) -> int:
        nonlocal halves
        halves = not halves
        if halves:
            return _middle(low, high)
        return low.score + (high.score - low.score) * (rank - low.total) // (high.total - low.total)

    return guess


def _never(low: Bound, high: Bound) -> bool:
    return False


def narrowed(rank: int, low: Bound, high: Bound, found: Iterable[Bound]) -> tuple[Bound, Bound]:
    """
    Return the nearest of ``low``, ``high`` and the bounds ``found`` between which the entry with ``rank`` is.

    Counts may have changed between two readings. A bound that does not fit the others is left out.
    """
    for bound in found:
        if low.total <= bound.total <= rank and bound.score > low.score:
            low = bound
        elif rank < bound.total <= high.total and bound.score < high.score:
            high = bound
    return low, high


def bisect(
    bound_at: Callable[[int], Steps[Bound]],
    rank: int,
    low: Bound,
    high: Bound,
    *,
    guess: Callable[[Bound, Bound], int] = _middle,
    near_enough: Callable[[Bound, Bound], bool] = _never,
) -> Steps[tuple[Bound, Bound]]:
    """
    Move ``low`` and ``high`` together until there is no score between them, and return them.

    The entry with ``rank`` (0 for the lowest score) always has the score ``low.score`` or a higher one, and a lower one
    than ``high.score``. ``bound_at`` asks the partitions about a score. ``guess`` chooses that score, and
    ``near_enough`` may stop earlier.
    """
    while high.score - low.score > 1 and not near_enough(low, high):
        score = min(max(guess(low, high), low.score + 1), high.score - 1)
        bound = yield from bound_at(score)
        if bound.total <= rank:
            low = bound
        else:
            high = bound
    return low, high


E = TypeVar("E", bound=tuple[Any, ...])

Parts = list[list[list[E]]]
"""The entries of some partitions, each of which may have several lists."""


def share(wanted: int, partitions: int) -> int:
    """Return how many entries to read from each partition for a page of ``wanted`` entries: its share and a margin."""
    mean = wanted / partitions
    # Rarely has one partition of 64 more than this of a page, if users are spread evenly.
    return min(wanted, math.ceil(mean + 3 * math.sqrt(mean) + 2))


def merged(
    read: Callable[[Sequence[int], int], Steps[Parts[E]]], partitions: int, wanted: int, *, reverse: bool = False
) -> Steps[list[E]]:
    """
    Return the first ``wanted`` entries of all lists. With ``reverse``, the last ones come first, in each list too.

    ``read`` takes numbers of partitions, and how many entries of each list to read at most. A list of which all entries
    belong to the page may have more of them. Its partition is read again, so far that the page is certain.
    """
    count = share(wanted, partitions)
    parts = yield from read(range(partitions), count)
    page = _first(parts, wanted, reverse)
    if count < wanted:

        def has_more(entries: list[E]) -> bool:
            if len(entries) < count or not page:
                return False
            return len(page) < wanted or (entries[-1] >= page[-1] if reverse else entries[-1] <= page[-1])

        short = [number for number, lists in enumerate(parts) if any(map(has_more, lists))]
        if short:
            # From the beginning: entries may have come and gone since.
            for number, lists in zip(short, (yield from read(short, wanted)), strict=True):
                parts[number] = lists
            page = _first(parts, wanted, reverse)
    return page


def _first(parts: Parts[E], wanted: int, reverse: bool) -> list[E]:
    return sorted((entry for lists in parts for entries in lists for entry in entries), reverse=reverse)[:wanted]


CLOCK_SLACK = 1000
"""Milliseconds by which the time that commands were made from may differ from that of their server."""


Scored = tuple[float, bytes]
"""An entry of a sorted set: score and member."""


def together(calls: Sequence[Call[T]]) -> Steps[list[T]]:
    """
    Send ``calls``, those to the same server in one pipeline. Return their results in the same order.

    The calls must be repeatable, and have nothing to send before their scripts. Raises what :class:`Call` raises.
    """
    if len(calls) == 1:
        return [(yield from calls[0])]
    results = dict[int, T]()
    yield from agreement.agree([call.partition for call in calls])
    waiting = list(range(len(calls)))
    while waiting:
        refused: list[int] = []
        for server, numbers in by_server([call.partition for call in calls], waiting).items():
            of_server = [calls[number] for number in numbers]
            packed = b"".join(sending.script_call(call.script, call.keys, call.args) for call in of_server)
            first = of_server[0]
            tag, task = first.partition.tag, first.script.task
            answers = yield from retries.fetch(server, tag, task, packed, len(of_server), 0)
            for number, answer in zip(numbers, answers, strict=True):
                if isinstance(answer, ResponseError):
                    refused.append(number)
                else:
                    results[number] = yield from calls[number].finished(answer)
        # The first of them learns why: the server does not know the script, or the partition is elsewhere by now.
        waiting = refused[1:]
        for number in refused[:1]:
            results[number] = yield from calls[number]
    return [results[number] for number in range(len(calls))]


def ask_each(
    name: str,
    partitions: Sequence[Partition],
    commands: Callable[[int, int], bytes],
    replies: int,
    needed: int | None = None,
    script: Script | None = None,
) -> Steps[list[list[Any]]]:
    """
    Ask each partition by plain commands, those to the same server in one pipeline. Return the replies of each.

    ``commands`` takes the number of a partition in ``partitions``, and the time of its server. It returns the packed
    commands. Each partition has so many ``replies``. The commands must be repeatable. An error among the first
    ``needed`` of a partition, by default among all, is raised; a later one is returned. ``name`` stands for what is
    asked, where it meets an outage. One of the commands may run ``script``. Raises what
    :class:`~django_redsess.transport.round_trips.Plain` raises.
    """
    found, needed = dict[int, list[Any]](), replies if needed is None else needed
    yield from agreement.agree(partitions)
    waiting = list(range(len(partitions)))
    while waiting:
        again: list[int] = []
        refused: list[int] = []
        for server, numbers in by_server(partitions, waiting).items():
            tag = partitions[numbers[0]].tag
            at = yield from now(partitions[numbers[0]])
            packed = b"".join([_TIME, *(commands(number, at) for number in numbers)])
            time, *answers = yield from retries.fetch(server, tag, name, packed, 1 + replies * len(numbers), 0)
            if isinstance(time, ResponseError):
                refused += numbers
                continue
            if abs(server.clock.learn(time) - at) > CLOCK_SLACK:
                # The server's clock was set, or nobody has asked for long.
                again += numbers
                continue
            for position, number in enumerate(numbers):
                found[number] = answers[position * replies : (position + 1) * replies]
            if any(isinstance(answer, ResponseError) for answer in answers):
                refused += [number for number in numbers if _has_error(found[number][:needed])]
        waiting = [*again, *refused[1:]]
        for number in refused[:1]:
            partition = partitions[number]
            packed, to = commands(number, (yield from now(partition))), of(partition)
            found[number] = yield from retries.fetch(to, partition.tag, name, packed, replies, needed, script)
    return [found[number] for number in range(len(partitions))]


def with_scores(reply: list[Any]) -> list[Scored]:
    """Return the entries in a reply to a plain ``ZRANGE … WITHSCORES``, which has pairs in RESP3 only."""
    if reply and isinstance(reply[0], list):
        return [(score, member) for member, score in reply]
    return list(zip(map(float, reply[1::2]), reply[::2], strict=True))


_TIME = sending.command("TIME")


def _has_error(replies: list[Any]) -> bool:
    return any(isinstance(reply, ResponseError) for reply in replies)
