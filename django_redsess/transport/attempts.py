"""Sending scripts and plain commands: again if the connection broke, and to another node if a cluster says so.

The functions here are steps: they yield what is to be sent, and are sent the replies or thrown the error. An error that
remains is judged by :mod:`django_redsess.transport.outages`. Only :func:`ask_server` sends by itself, and repeats
nothing.

Observers get one call per operation, for all its attempts and nodes.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any, NamedTuple, TypeVar

from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    ClusterDownError,
    MovedError,
    NoScriptError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import TimeoutError as RedisTimeoutError

from django_redsess import observers
from django_redsess.clock import monotonic
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.observers import Server
from django_redsess.transport import connections, packing
from django_redsess.transport.causes import words_of
from django_redsess.transport.cluster_map import Cluster, format_address
from django_redsess.transport.connections import FollowUpMaker, Pause, Send, pool
from django_redsess.transport.outages import UNREACHABLE, is_moving, logger
from django_redsess.transport.packing import Part
from django_redsess.transport.pools import Pool
from django_redsess.transport.scripts import Script

T = TypeVar("T")

Sends = Generator[Send | Pause, Any, T]
"""Steps that only send and wait, and return ``T``."""

REPEATS = 1
"""How often a command is sent again when the connection broke. With the time-outs that the README recommends, half a
second each, a request waits one second at most."""

REDIRECTIONS_MAX = 8
"""How often a cluster may redirect a command. More would mean that its nodes redirect in a circle."""

MOVING_SECONDS = 0.5
"""How long a command waits for keys that a cluster is moving."""


class _Attempts:
    """
    The attempts of one operation, and the server ``to`` of the next one. It has the partition with this ``tag``.
    """

    def __init__(self, tag: str, name: str, began: float, script: Script | None = None) -> None:
        self._tag, self._name, self._script = tag, name, script
        self._left = REPEATS if script is None or script.repeatable else 0
        self._began, self._redirections = began, 0
        self.to = pool().server_of_tag(tag)
        self.asking = False
        """Whether ``to`` does not serve the hash slot yet, and the command must begin with ``ASKING``."""

    def go_on_after(self, error: RedisError) -> Sends[bool]:
        """
        Return if there is another attempt after this error. Otherwise raise what the caller gets.

        The result is False if the failed attempt has certainly done nothing.
        """
        self.to.invalidate_reads()
        cluster = self.to.cluster
        if cluster is not None:
            if (yield from self._redirected(cluster, error)):
                return False
            # A node that is lost or out of order may have been replaced.
            if isinstance(error, (*UNREACHABLE, ReadOnlyError, ClusterDownError)):
                refreshed = cluster.refresh(self.to)
                if self._left and self._may_pass(error):
                    # With the attempts before and after, it is two and a half time-outs at most.
                    patience = cluster.patience_seconds
                    yield from Pause(max(patience, self._began + 3 * patience - monotonic()), refreshed)
                    if isinstance(error, RedisTimeoutError) and not refreshed.done():
                        # The other nodes do not answer either.
                        self._left = 0
        if self._left and self._may_pass(error):
            self._left -= 1
            self.to, self.asking = pool().server_of_tag(self._tag), False
            return True
        if cluster is not None and is_moving(error):
            # This is no outage of the node: its other partitions go on working.
            slot = key_slot(self._tag.encode())
            if not cluster.is_moving(slot):
                logger.warning("Sessions in slot %s wait while the cluster moves it: %s", slot, words_of(error))
            raise SessionStoreUnavailable("The cluster is moving the sessions to another node.") from error
        raised = self.to.outages.judge(error, self._name, text=self._script.text if self._script else "")
        if raised is error:
            raise error
        raise raised from error

    def _redirected(self, cluster: Cluster, error: RedisError) -> Sends[bool]:
        """Tell whether the cluster has refused, and another attempt may succeed, at this node or another."""
        if isinstance(error, MovedError):
            self._redirections += 1
            cluster.moved(error.slot_id, error.node_addr, self.to)
            self.to, self.asking = pool().server_of_tag(self._tag), False
            return self._redirections <= REDIRECTIONS_MAX
        if not isinstance(error, (AskError, TryAgainError)) or monotonic() > self._began + MOVING_SECONDS:
            return False
        if isinstance(error, AskError) and not self.asking and self._script is not None and self._script.declares_all:
            self.to, self.asking = cluster.at(error.node_addr, self.to), True
        else:
            yield from Pause(0.03)
            self.to, self.asking = pool().server_of_tag(self._tag), False
        return True

    def _may_pass(self, error: RedisError) -> bool:
        # While an outage is known, repeating would only make everybody wait longer.
        if isinstance(error, ReadOnlyError):
            # A master was demoted: a new connection may find the one that took its place.
            return not self.to.outages.refusing.is_known
        return isinstance(error, UNREACHABLE) and not self.to.outages.out_of_reach.is_known


class PipelineExtras(NamedTuple):
    """
    What is sent along with a script: commands ``before`` it, with ``reply_count`` replies, and a ``follow_up``.

    See :class:`django_redsess.transport.connections.Send`.
    """

    before: bytes = b""
    reply_count: int = 0
    follow_up: FollowUpMaker | None = None


NO_EXTRAS = PipelineExtras()


class _Attempt(NamedTuple):
    """What one attempt sends: commands ``before`` the script, with ``reply_count`` replies, and the script's call."""

    before: bytes
    reply_count: int
    args: Sequence[Part | int]
    by_digest: bool = True


_ASKING = packing.pack_command("ASKING")


def run_script(  # noqa: PLR0913, a value that holds these would cost each call one more
    tag: str,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    first_attempt_args: Sequence[Part | int] = (),
    extras: PipelineExtras = NO_EXTRAS,
    name: str = "",
) -> Sends[tuple[Any, list[Any]]]:
    """
    Run ``script`` where the partition with this ``tag`` is. Return its reply and those to the commands before it.

    An error among the replies to the commands before is returned as an exception, and not raised.

    A script whose connection broke is sent once more, if the script allows it, and then without
    ``first_attempt_args``, which come last. Raises SessionStoreUnavailable in an outage, and redis-py's ResponseError
    when the server refuses for any other reason. ``name`` is what observers are told, if not the script's task.
    """
    began = monotonic()
    attempts = _Attempts(tag, script.task, began, script)
    usual = _Attempt(extras.before, extras.reply_count, (*args, *first_attempt_args))
    before = list[Any]()
    try:
        while True:
            # A node that does not serve the slot yet is asked for the next command only.
            attempt = usual._replace(before=_ASKING, reply_count=1) if attempts.asking else usual
            try:
                packed = attempt.before + packing.pack_script_call(
                    script, keys, attempt.args, by_digest=attempt.by_digest
                )
                *replies, reply = yield Send(attempts.to, packed, attempt.reply_count + 1, extras.follow_up)
                if replies and attempt is usual:
                    before = replies
                if isinstance(reply, ResponseError):
                    raise reply
            except NoScriptError:
                # The server was restarted, or told to forget its scripts. Now it gets the text. The commands before
                # have been run already. The agreement may have gone with the data.
                attempts.to.invalidate()
                usual = usual._replace(before=b"", reply_count=0, by_digest=False)
            except RedisError as error:
                if (yield from attempts.go_on_after(error)):
                    usual = usual._replace(args=args)
            else:
                break
        # A short way that leaves its task to another has done nothing.
        if attempts.to.outages.under_way and (reply or script.task == script.name):
            attempts.to.outages.note_success(script.task)
    except BaseException as error:
        if observers.chosen:
            notify_observers(
                name or script.task,
                pool().server_of_tag(tag),
                began,
                error,
                "EVALSHA",
                extras.reply_count + 1,
                script.name,
            )
        raise
    if observers.chosen:
        notify_observers(
            name or script.task, pool().server_of_tag(tag), began, None, "EVALSHA", extras.reply_count + 1, script.name
        )
    return reply, before


def fetch(  # noqa: PLR0913, looking up the server here, too, would cost each load a call
    to: Pool, tag: str, name: str, packed: bytes, replies: int, needed: int = 1, script: Script | None = None
) -> Sends[list[Any]]:
    """
    Send plain commands, one or several of :func:`packing.pack_command`, on one connection, and return their replies.

    They go to the server ``to``, which has the partition with this ``tag``. All replies are read, though an earlier one
    is an error; errors are returned as exceptions. An error among the first ``needed`` is raised, as by
    :func:`run_script`. With 0, the caller itself sends refused commands once more: until then, no outage is over.
    Later ones do not disturb, except for that of a master that was demoted: then all is sent once more on a new
    connection. That must be harmless. ``name`` names the operation in an outage. One of the commands
    may run ``script``, if it declares all keys that it uses.
    """
    attempts, began = None, monotonic()
    try:
        while True:
            try:
                answers: list[Any] = yield Send(to, packed, replies)
                for answer in answers[:needed]:
                    if isinstance(answer, ResponseError):
                        yield from _follow_redirections(to, packed, answers, needed)
                        break
            except NoScriptError:
                if script is None:
                    raise
                to.invalidate()
                packed = packing.with_text(packed, script)
            except RedisError as error:
                attempts = attempts or _Attempts(tag, name, began)
                yield from attempts.go_on_after(error)
                to = attempts.to
            else:
                break
        if to.outages.under_way and (needed or not any(isinstance(answer, ResponseError) for answer in answers)):
            to.outages.note_success(name)
    except BaseException as error:
        if observers.chosen:
            _notify_of_fetch(name, to, tag, began, error, packed, replies, script)
        raise
    if observers.chosen:
        _notify_of_fetch(name, to, tag, began, None, packed, replies, script)
    return answers


def _follow_redirections(to: Pool, packed: bytes, answers: list[Any], needed: int) -> Sends[None]:
    """
    Ask the other node for those keys of a moving slot that are there already, and put its replies into ``answers``.

    A command has its keys on one of the two nodes: it gets its reply there. A key that is on neither is missing. Raises
    any other error that is among the ``needed`` answers.
    """
    for number, answer in enumerate(answers[:needed]):
        if type(answer) is AskError and to.cluster is not None:
            there = to.cluster.at(answer.node_addr, to)
            asking = _ASKING + packing.split_commands(packed)[number]
            answers[number] = (yield Send(there, asking, 2))[1]
        if isinstance(answers[number], ResponseError):
            raise answers[number]


def ask_server(server: Pool, name: str, *parts: Part | int) -> Any:
    """Send one plain command to the server of this pool, and return its reply. Raises redis-py's RedisError."""
    began = monotonic()
    try:
        (reply,) = connections.send(server, packing.pack_command(name, *parts), 1)
        if isinstance(reply, ResponseError):
            raise reply
    except BaseException as error:
        notify_observers("check", server, began, error, name)
        raise
    notify_observers("check", server, began, None, name)
    return reply


def notify_observers(  # noqa: PLR0913, all that observers are told
    name: str, to: Pool, began: float, error: BaseException | None, command: str, commands: int = 1, script: str = ""
) -> None:
    """
    Tell all observers of the operation ``name`` on the server of the pool ``to``.

    ``began`` is when it began, by the monotonic clock. The rest is as :class:`~django_redsess.observers.Server` and
    :meth:`~django_redsess.observers.Observer.operation` have it.
    """
    if not observers.chosen:
        return
    seconds = monotonic() - began
    # Behind Sentinel, the master may be another by now.
    if to.address is None or to.is_behind_sentinel:
        to.address = _address_of(to)
    host, port, database, peer = to.address
    observers.notify_operation(name, Server(host, port, database, peer, script, commands, command), seconds, error)


def _notify_of_fetch(  # noqa: PLR0913, see fetch()
    name: str,
    to: Pool,
    tag: str,
    began: float,
    error: BaseException | None,
    packed: bytes,
    replies: int,
    script: Script | None,
) -> None:
    if to.cluster is not None:
        # The operation may have gone on elsewhere.
        to = pool().server_of_tag(tag)
    command = "EVALSHA" if script else packed.split(b"\r\n", 3)[2].decode()
    notify_observers(name, to, began, error, command, replies, script.name if script else "")


def _address_of(to: Pool) -> tuple[str, int | None, int, str]:
    """Return where the server of this pool is: the first four fields of ``Server``."""
    options = to.connection_kwargs
    database = int(options.get("db") or 0)
    if to.is_behind_sentinel:
        master = to.source.master_address
        return (to.source.service_name, None, database, format_address(master) if master else "")
    if to.cluster is not None:
        host, port = to.cluster.start[0]
        return (host, port, database, format_address((options["host"], options["port"])) if options else "")
    if "path" in options:
        return (options["path"], None, database, "")
    return (options.get("host", "localhost"), int(options.get("port", 6379)), database, "")
