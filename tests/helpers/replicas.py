"""A server with a replica, whose link a test can cut, and which takes the server's place."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from testproject.servers import Server
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until


class Replicated:
    """A server, and a replica that is connected to it by way of a proxy."""

    def __init__(self, binary: Path) -> None:
        with ExitStack() as on_error:
            self.server = Server(binary, "--repl-diskless-sync-delay", "0")
            on_error.callback(self.server.close)
            self._link = Proxy(self.server.port)
            on_error.callback(self._link.close)
            self.replica = Server(binary, "--replicaof", f"127.0.0.1 {self._link.port}")
            on_error.callback(self.replica.close)
            self.link()
            self._closing = on_error.pop_all()

    @property
    def _replicas(self) -> int:
        return int(self.server.client.info("replication")["connected_slaves"])

    def cut(self) -> None:
        """Cut the link: the replica gets nothing from now on."""
        self._link.refuse()
        wait_until(lambda: not self._replicas)

    def link(self) -> None:
        """Link the replica again, and wait until it has all."""
        self._link.restore()
        wait_until(lambda: self.replica.client.info("replication")["master_link_status"] == "up")
        # Its first acknowledgement may take a second.
        with self.server.client.pipeline(transaction=False) as together:
            together.publish("linked", "").execute_command("WAIT", 1, 10_000)
            assert together.execute()[-1] == 1

    def fail_over(self) -> str:
        """Kill the server, have the replica take its place, and return its URL."""
        self.server.stop()
        self.replica.client.replicaof("NO", "ONE")
        return self.replica.url

    def close(self) -> None:
        self._closing.close()
