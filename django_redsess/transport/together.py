"""Scripts and plain commands of several partitions in one round trip to each server, rather than one by one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redsess.transport import agreement, packing, repeating
from django_redsess.transport.connections import by_server
from django_redsess.transport.keys import Partition
from django_redsess.transport.steps import Call, Steps, T, now

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
        for numbers in by_server([call.partition for call in calls], waiting).values():
            of_server = [calls[number] for number in numbers]
            packed = b"".join(packing.script_call(call.script, call.keys, call.args) for call in of_server)
            first = of_server[0]
            answers = yield from repeating.fetch(first.partition.tag, first.script.task, packed, len(of_server), 0)
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
    name: str, partitions: Sequence[Partition], commands: Callable[[int, int], bytes], replies: int
) -> Steps[list[list[Any]]]:
    """
    Ask each partition by plain commands, those to the same server in one pipeline. Return the replies of each.

    ``commands`` takes the number of a partition in ``partitions``, and the time of its server. It returns the packed
    commands. Each partition has so many ``replies``. The commands must be repeatable. ``name`` stands for what is
    asked, where it meets an outage. Raises what :class:`~django_redsess.transport.steps.Plain` raises.
    """
    found = dict[int, list[Any]]()
    yield from agreement.agree(partitions)
    waiting = list(range(len(partitions)))
    while waiting:
        again: list[int] = []
        refused: list[int] = []
        for server, numbers in by_server(partitions, waiting).items():
            tag = partitions[numbers[0]].tag
            at = yield from now(partitions[numbers[0]])
            packed = b"".join([_TIME, *(commands(number, at) for number in numbers)])
            time, *answers = yield from repeating.fetch(tag, name, packed, 1 + replies * len(numbers), 0)
            if isinstance(time, ResponseError):
                refused += numbers
                continue
            if abs(server.clock.learn(time) - at) > CLOCK_SLACK:
                # The server's clock was set, or nobody has asked for long.
                again += numbers
                continue
            for place, number in enumerate(numbers):
                found[number] = answers[place * replies : (place + 1) * replies]
            if any(isinstance(answer, ResponseError) for answer in answers):
                refused += [number for number in numbers if _has_error(found[number])]
        waiting = [*again, *refused[1:]]
        for number in refused[:1]:
            partition = partitions[number]
            packed = commands(number, (yield from now(partition)))
            found[number] = yield from repeating.fetch(partition.tag, name, packed, replies, replies)
    return [found[number] for number in range(len(partitions))]


def with_scores(reply: list[Any]) -> list[Scored]:
    """Return the entries in a reply to a plain ``ZRANGE … WITHSCORES``, which has pairs in RESP3 only."""
    if reply and isinstance(reply[0], list):
        return [(score, member) for member, score in reply]
    return list(zip(map(float, reply[1::2]), reply[::2], strict=True))


_TIME = packing.command("TIME")


def _has_error(replies: list[Any]) -> bool:
    return any(isinstance(reply, ResponseError) for reply in replies)
