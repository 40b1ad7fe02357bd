"""What the people who run the shop do, and what happens to its machines and clocks."""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from testproject.servers import Server
from tests.helpers.outages import frozen
from tests.helpers.running import wait_until
from tests.soak.ledger import Ledger
from tests.soak.shop import KINDS, Shop

HOUR_SECONDS = 3600

NIGHT_SECONDS = 24 * HOUR_SECONDS

AFTER = 3
"""Seconds after an event in which a process may still meet what was."""

UNSENT = 1
"""Seconds before a master is killed: of what it acknowledged then, the replicas may not have heard."""

FREEZE_SECONDS = 5
"""Longer than a web process waits, and shorter than the sentinel does."""

PATIENCE = 120
"""Seconds that a failover may take."""


class Operations:
    """``shop`` is what they are done to, and ``ledger`` is told what may come of it."""

    def __init__(self, shop: Shop, ledger: Ledger, chance: random.Random) -> None:
        self._shop, self._ledger, self._chance = shop, ledger, chance
        self._servers = threading.Lock()

    # Deploys.

    def deploy(self) -> None:
        """Replace all processes, one site after the other. No request fails."""
        self._shop.write_settings()
        for kind in self._chance.sample(list(KINDS), len(KINDS)):
            if self._ledger.over:
                raise InterruptedError
            self._shop.replace(kind)
        self._shop.replace_cleaner()

    def rotate_secret_key(self) -> None:
        old = self._shop.release.keys
        new = f"a new key of a soak, which is long enough for its checks: {len(old)}"
        with self._ledger.announced("rotation"):
            for keys in ([old[0], new, *old[1:]], [new, *old]):
                self._release(keys=keys)

    def switch_encryption(self) -> None:
        self._release(encrypt=not self._shop.release.encrypt)

    def move(self) -> None:
        """Move all sessions to another store, under another prefix and with another number of partitions."""
        before = self._shop.release
        prefix, partitions = f"soak{int(before.prefix[4:]) + 1}", 4 if before.partitions == 1 else 1
        here, there = (
            {"PREFIX": before.prefix, "PARTITIONS": before.partitions},
            {"PREFIX": prefix, "PARTITIONS": partitions},
        )
        self._release(engine="django_redsess.contrib.moving.growing", more={"MOVE_TO": there})
        self._release(prefix=prefix, partitions=partitions, more={"MOVE_FROM": here})
        self._shop.command("movesessions", "--verbosity=0")
        self._release(engine=before.engine, more={})
        self._shop.delete_keys(before.prefix)

    def _release(self, **changes: object) -> None:
        self._shop.release = replace(self._shop.release, **changes)  # type: ignore[arg-type]
        self.deploy()

    # Processes that are killed or frozen.

    def kill_web_process(self) -> None:
        with self._ledger.announced("web", after=AFTER):
            os.kill(self._chance.choice(self._shop.web_pids()), signal.SIGKILL)
            wait_until(self._shop.is_served)

    def freeze_web_process(self) -> None:
        """Nobody gets another answer than usual, only later."""
        pid = self._chance.choice(self._shop.web_pids())
        os.kill(pid, signal.SIGSTOP)
        try:
            time.sleep(3)
        finally:
            os.kill(pid, signal.SIGCONT)

    def kill_cleaner(self) -> None:
        self._shop.cleaner.kill()
        self._shop.cleaner = self._shop.new_cleaner()

    # Servers.

    def kill_server(self) -> None:
        """Kill the master. What it has just acknowledged may be lost, and nothing else."""
        with self._outage(), self._ledger.announced("loss", before=UNSENT):
            master = self._shop.servers.master()
            master.stop()
            self._wait_for_another_than(master)
            self._shop.restart(master)
            self._wait_until_in_place()

    def freeze_server(self) -> None:
        """Freeze the master for less time than the sentinel waits. Nothing is lost."""
        with self._outage(), frozen(self._shop.servers.master()):
            time.sleep(FREEZE_SECONDS)

    def freeze_server_for_long(self) -> None:
        """Freeze the master until a replica is the master. When it goes on, it does not know that at once."""
        with self._outage(), self._ledger.announced("loss", before=UNSENT, after=AFTER):
            master = self._shop.servers.master()
            with frozen(master):
                self._wait_for_another_than(master)
            self._wait_until_in_place()

    def fail_over(self) -> None:
        """
        Make a replica the master by plan, with writes paused before. Nothing is lost.

        For up to a second, a process may read from the old master what has changed at the new one.
        """
        with self._outage(), self._ledger.announced("failover"):
            master = self._shop.servers.master()
            self._shop.servers.pause_writes()
            self._shop.servers.fail_over()
            self._wait_for_another_than(master)
            self._wait_until_in_place()

    @contextmanager
    def _outage(self) -> Iterator[None]:
        # One after the other: what may be lost in two of them at the same time, nobody promises.
        with self._servers, self._ledger.announced("outage", after=AFTER):
            yield

    def _wait_for_another_than(self, master: Server) -> None:
        wait_until(lambda: self._shop.servers.master() is not master, seconds=PATIENCE)

    def _wait_until_in_place(self) -> None:
        wait_until(self._shop.servers.in_place, seconds=PATIENCE)

    # Clocks. By them, the replicas have not answered for so long, and the master refuses until they do.

    def night(self) -> None:
        """Let a day pass: the clock of the servers jumps."""
        with self._outage(), self._ledger.announced("night"):
            self._step(NIGHT_SECONDS)

    def step_back(self) -> None:
        """Let the clock be an hour late for a while. Nobody is signed out."""
        with self._outage():
            self._step(-HOUR_SECONDS)
            time.sleep(2)
            self._step(HOUR_SECONDS)

    def _step(self, seconds: int) -> None:
        self._shop.step(seconds)
        at = time.time() + self._shop.ahead_by_seconds
        wait_until(lambda: all(abs(each.client.time()[0] - at) < 60 for each in self._shop.servers.servers))
        self._wait_until_in_place()


Operation = Callable[[Operations], None]

WEEK: dict[Operation, int] = {
    Operations.deploy: 2,
    Operations.rotate_secret_key: 1,
    Operations.switch_encryption: 2,
    Operations.move: 2,
    Operations.kill_web_process: 3,
    Operations.freeze_web_process: 2,
    Operations.kill_cleaner: 2,
    Operations.kill_server: 2,
    Operations.freeze_server: 2,
    Operations.freeze_server_for_long: 1,
    Operations.fail_over: 2,
}
"""How often each happens in a week."""

CLOCKS: dict[Operation, int] = {Operations.night: 7, Operations.step_back: 1}
"""The same, of what happens beside those."""
