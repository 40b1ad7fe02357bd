"""
Telling observers of operations. The functions that send are replaced by ones that tell, and only where somebody
observes: elsewhere not one call more is made.

An operation is what its caller waits for: all attempts, at all nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.signals import setting_changed

from django_redsess import observers
from django_redsess.clock import monotonic
from django_redsess.observers import Server
from django_redsess.transport import attempts, exchange
from django_redsess.transport.attempts import NO_EXTRAS, PipelineExtras, Sends
from django_redsess.transport.cluster_map import named
from django_redsess.transport.connections import pool
from django_redsess.transport.packing import Part
from django_redsess.transport.scripts import Script

_UNOBSERVED = attempts.run, attempts.fetch, exchange.ask
_plain_run, _plain_fetch, _plain_ask = _UNOBSERVED


def begin() -> None:
    """Tell the observers that ``REDSESS["OBSERVERS"]`` names, from now on, as :func:`observers.choose` does."""
    if observers.choose():
        ways = (_run, _fetch, _ask) if observers.chosen else _UNOBSERVED
        attempts.run, attempts.fetch, exchange.ask = ways


def _begin_again(*, setting: str, **kwargs: Any) -> None:
    if setting == "REDSESS":
        begin()


setting_changed.connect(_begin_again)


def tell(  # noqa: PLR0913, all that observers are told
    name: str, to: Any, began: float, error: BaseException | None, command: str, commands: int = 1, script: str = ""
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
    observers.operation(name, Server(host, port, database, peer, script, commands, command), seconds, error)


def _run(  # noqa: PLR0913, as that of run()
    tag: str,
    script: Script,
    keys: tuple[Part, ...],
    args: Sequence[Part | int],
    once: Sequence[Part | int] = (),
    along: PipelineExtras = NO_EXTRAS,
    name: str = "",
) -> Sends[tuple[Any, list[Any]]]:
    began, raised = monotonic(), None
    try:
        return (yield from _plain_run(tag, script, keys, args, once, along))
    except BaseException as error:
        raised = error
        raise
    finally:
        tell(name or script.task, pool().of(tag), began, raised, "EVALSHA", along.asks + 1, script.name)


def _fetch(  # noqa: PLR0913, as that of fetch()
    to: Any, tag: str, name: str, packed: bytes, replies: int, needed: int = 1, script: Script | None = None
) -> Sends[list[Any]]:
    began, raised = monotonic(), None
    try:
        return (yield from _plain_fetch(to, tag, name, packed, replies, needed, script))
    except BaseException as error:
        raised = error
        raise
    finally:
        if to.cluster is not None:
            # The operation may have gone on elsewhere.
            to = pool().of(tag)
        command = "EVALSHA" if script else packed.split(b"\r\n", 3)[2].decode()
        tell(name, to, began, raised, command, replies, script.name if script else "")


def _ask(connections: Any, name: str, *parts: Part | int) -> Any:
    began, raised = monotonic(), None
    try:
        return _plain_ask(connections, name, *parts)
    except BaseException as error:
        raised = error
        raise
    finally:
        tell("check", connections, began, raised, name)


def _address_of(to: Any) -> tuple[str, int | None, int, str]:
    """Return where the server of this pool is: the first four fields of ``Server``."""
    options = to.connection_kwargs
    database = int(options.get("db") or 0)
    if to.is_behind_sentinel:
        master = to.source.master_address
        return (to.source.service_name, None, database, named(master) if master else "")
    if to.cluster is not None:
        host, port = to.cluster.start[0]
        return (host, port, database, named((options["host"], options["port"])) if options else "")
    if "path" in options:
        return (options["path"], None, database, "")
    return (options.get("host", "localhost"), int(options.get("port", 6379)), database, "")
