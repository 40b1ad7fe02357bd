"""A hash slot that is half moved from one node of a cluster to another, key by key, and stays so while a test looks."""

from __future__ import annotations

from collections.abc import Iterable

from redis.crc import key_slot

from testproject.clusters import Cluster
from testproject.nodes import Node
from tests.helpers.running import wait_until


class HalfMoved:
    """
    The slot of the keys with the hash tag ``tag``. It moves from its node to ``target``, the ``moved`` keys first.

    :meth:`end` moves the others. ``MIGRATE`` fails with BUSYKEY where both nodes have a key of one name.
    """

    def __init__(self, cluster: Cluster, tag: str) -> None:
        self.cluster, self.slot = cluster, key_slot(tag.encode())
        for node in cluster.primaries:
            # A test that failed may have left it half moved.
            node.cluster("SETSLOT", self.slot, "STABLE")
        self.source = cluster.node_of(self.slot)
        self.target = next(node for node in cluster.primaries if node is not self.source)

    def begin(self, moved: Iterable[bytes]) -> None:
        self.target.cluster("SETSLOT", self.slot, "IMPORTING", self.source.id)
        self.source.cluster("SETSLOT", self.slot, "MIGRATING", self.target.id)
        self._move(moved)

    def end(self) -> None:
        """Move what is left, and give the slot to the target."""
        self._move(self.source.cluster("GETKEYSINSLOT", self.slot, 1000))
        others = [node for node in self.cluster.primaries if node not in (self.source, self.target)]
        for node in (self.target, self.source, *others):
            node.cluster("SETSLOT", self.slot, "NODE", self.target.id)
        # Else a message that is under way may undo the next move.
        wait_until(lambda: self._epoch(self.target) == self._epoch(self.source))

    def content(self) -> dict[tuple[int, bytes], bytes]:
        """Return all keys of the slot on both nodes, by port and name, as the servers write them to disk."""
        return {
            (node.port, name): value for node in (self.source, self.target) for name, value in self._dump(node).items()
        }

    def _epoch(self, told_by: Node) -> bytes:
        (line,) = (line for line in told_by.cluster("NODES").splitlines() if line.startswith(self.target.id.encode()))
        return bytes(line.split()[6])

    def _move(self, names: Iterable[bytes]) -> None:
        if names := list(names):
            self.source.ask("MIGRATE", "127.0.0.1", self.target.port, "", 0, 20_000, "KEYS", *names)

    def _dump(self, node: Node) -> dict[bytes, bytes]:
        names = node.cluster("GETKEYSINSLOT", self.slot, 1000)
        pipeline = node.client.pipeline(transaction=False)
        for name in names:
            # Before each: it holds for the next command only.
            pipeline.execute_command("ASKING")
            pipeline.dump(name)
        return dict(zip(names, pipeline.execute()[1::2], strict=True))
