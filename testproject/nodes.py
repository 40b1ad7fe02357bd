"""The nodes of a real cluster, and what each knows of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testproject.servers import Server, free_port

OPTIONS = {
    "cluster-enabled": "yes",
    # Short, so that a replica takes over soon. Below a second, a busy machine lets nodes that live look dead.
    "cluster-node-timeout": "1500",
    "cluster-require-full-coverage": "no",
    # Replicas stay with their primary, and a primary whose last slot has moved stays one.
    "cluster-allow-replica-migration": "no",
    # A primary waits five seconds for more replicas before it sends its data.
    "repl-diskless-sync-delay": "0",
    "repl-ping-replica-period": "1",
}


@dataclass(frozen=True)
class Known:
    """What a node knows of a node: a line of ``CLUSTER NODES``."""

    id: str
    flags: frozenset[str]
    primary: str
    slots: tuple[tuple[int, int], ...]

    @classmethod
    def read(cls, line: str) -> Known:
        name, _, flags, primary, _, _, _, _, *ranges = line.split()
        # In brackets are slots that are half moved.
        ends = [each.partition("-") for each in ranges if each[0] != "["]
        slots = tuple((int(first), int(last or first)) for first, _, last in ends)
        return cls(name, frozenset(flags.split(",")), primary, slots)

    @property
    def is_alive(self) -> bool:
        return not self.flags & {"fail", "fail?", "handshake", "noaddr"}


class Node(Server):
    """A server of a cluster."""

    def __init__(self, binary: Path, *options: str, environment: Mapping[str, str] | None = None) -> None:
        self.frozen = False
        # By default it is the port and 10 000 more, which may be one that the system gives to outgoing connections.
        self.bus_port = free_port()
        given = [part for name, value in OPTIONS.items() for part in (f"--{name}", value)]
        super().__init__(binary, *given, "--cluster-port", str(self.bus_port), *options, environment=environment)
        self.id: str = self.cluster("MYID").decode()

    def cluster(self, *arguments: str | int) -> Any:
        return self.ask("CLUSTER", *arguments)

    def ask(self, *command: str | int | bytes) -> Any:
        return self.client.execute_command(*command)  # type: ignore[no-untyped-call]

    def known(self) -> dict[str, Known]:
        """Return what it knows of each node, by id."""
        return {each.id: each for each in map(Known.read, self.cluster("NODES").decode().splitlines())}

    @property
    def own(self) -> Known:
        """What it knows of itself."""
        return self.known()[self.id]

    @property
    def is_running(self) -> bool:
        return not self.frozen and self.process.poll() is None

    def meet(self, other: Node) -> None:
        self.cluster("MEET", "127.0.0.1", other.port, other.bus_port)
