"""
Sending scripts and plain commands, once more where the connection broke.

The functions here are steps: they yield what is to be sent, and are sent the replies or thrown the error. An error that
remains is judged by :mod:`django_redsess.transport.outage`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, TypeVar

from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from django_redsess.transport import packing
from django_redsess.transport.exchange import Send
from django_redsess.transport.outage import UNREACHABLE, judge, out_of_reach, refusing, under_way, worked
from django_redsess.transport.packing import Part
from django_redsess.transport.scripts import Script

T = TypeVar("T")

Sends = Generator[Send, list[Any], T]
"""Steps that do nothing but send; ``T`` is what they return."""

REPEATS = 1
"""How often a command is sent again when the connection broke. With the time-outs that the README recommends, half a
second each, a request waits one second at most."""


class _Attempts:
    """The attempts to send something: after one that failed there is another, or the caller gets the error."""

    def __init__(self, name: str, *, text: str = "", repeats: int = REPEATS) -> None:
        self._name, self._text, self._left = name, text, repeats

    def failed(self, error: RedisError) -> None:
        """Return if there is another attempt; else raise what the caller gets."""
        if self._left and _may_pass(error):
            self._left -= 1
            return
        raised = judge(error, self._name, text=self._text)
        if raised is error:
            raise error
        raise raised from error


def _may_pass(error: RedisError) -> bool:
    # While an outage is known, repeating would only make everybody wait longer.
    if isinstance(error, ReadOnlyError):
        # A master was demoted: a new connection may find the one that took its place.
        return not refusing.known
    return isinstance(error, UNREACHABLE) and not out_of_reach.known


def run(
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
    *,
    before: bytes = b"",
    asks: int = 0,
) -> Sends[tuple[Any, list[Any]]]:
    """
    Run ``script``, and return its reply and the replies to the commands ``before``.

    ``before`` are plain commands that are sent in front of the script; ``asks`` is how many. An error among their
    replies is returned as an exception, and not raised.

    A script whose connection broke is sent once more, if the script allows it, and then without the arguments ``once``,
    which come last. Raises SessionStoreUnavailable in an outage, and redis-py's ResponseError when the server refuses
    for any other reason.
    """
    attempts = _Attempts(script.task, text=script.text, repeats=REPEATS if script.repeatable else 0)
    by_digest, beside = True, list[Any]()
    while True:
        try:
            *first, reply = yield Send(
                before + packing.script_call(script, keys, (*args, *once), by_digest=by_digest), asks + 1
            )
            if asks:
                beside = first
            if isinstance(reply, ResponseError):
                raise reply
        except NoScriptError:
            # The server was restarted, or told to forget its scripts. Now it gets the text. The commands before have
            # been run already.
            by_digest, before, asks = False, b"", 0
        except RedisError as error:
            attempts.failed(error)
            once = ()
        else:
            # A short way that leaves its task to another has done nothing.
            if under_way and (reply or script.task == script.name):
                worked(script.task)
            return reply, beside


def fetch(name: str, packed: bytes, replies: int, needed: int = 1) -> Sends[list[Any]]:
    """
    Send plain commands, one or several of :func:`packing.command`, on one connection, and return their replies.

    All replies are read, though an earlier one is an error; errors are returned as exceptions. An error among the first
    ``needed`` is raised instead, as by :func:`run`. Later ones do not disturb, except for that of a master that was
    demoted: then all is sent once more on a new connection. That must be harmless. ``name`` stands for what is asked,
    where it meets an outage.
    """
    attempts = None
    while True:
        try:
            answers = yield Send(packed, replies)
            for answer in answers[:needed]:
                if isinstance(answer, ResponseError):
                    raise answer
        except RedisError as error:
            attempts = attempts or _Attempts(name)
            attempts.failed(error)
        else:
            if under_way:
                worked(name)
            return answers
