"""Calls to several partitions in one round trip to each server, rather than one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from redis.exceptions import ResponseError

from django_redsess.transport import agreement, packing, repeating
from django_redsess.transport.connections import of, pool
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Call, Steps, T


def together(calls: Sequence[Call[T]]) -> Steps[list[T]]:
    """
    Send ``calls``, those to the same server in one pipeline. Return their results in the same order.

    The calls must be repeatable, and have nothing to send before their scripts. Raises what :class:`Call` raises.
    """
    space, results = keyspace(), dict[int, T]()
    if not agreement.agrees(space, pool()):
        yield from agreement.agree(space)
    waiting = list(range(len(calls))) if len(calls) > 1 else []
    while waiting:
        of_server: dict[Any, list[int]] = {}
        for number in waiting:
            of_server.setdefault(of(calls[number].partition), []).append(number)
        refused: list[int] = []
        for numbers in of_server.values():
            answers = yield from _answers([calls[number] for number in numbers])
            for number, answer in zip(numbers, answers, strict=True):
                if isinstance(answer, ResponseError):
                    refused.append(number)
                else:
                    results[number] = yield from calls[number].finished(answer)
        # The first of them learns why: the server does not know the script, or the partition is elsewhere by now.
        waiting = refused[1:]
        for number in refused[:1]:
            results[number] = yield from calls[number]
    if len(calls) == 1:
        return [(yield from calls[0])]
    return [results[number] for number in range(len(calls))]


def _answers(calls: Sequence[Call[T]]) -> repeating.Sends[list[Any]]:
    first = calls[0]
    packed = b"".join(packing.script_call(call.script, call.keys, call.args) for call in calls)
    return (yield from repeating.fetch(first.partition.tag, first.script.task, packed, len(calls), 0))
