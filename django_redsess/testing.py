"""
Tests of a site with this engine: each has a store of its own, which is emptied afterwards, and a clock to move. Public.

Processes that tests start, such as servers, use the store that is open at the time: see :class:`_Folder`.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import unittest
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timedelta
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.test.runner import ParallelTestSuite, RemoteTestResult, RemoteTestRunner

import django_redsess.conf as configuration
from django_redsess.conf import FOLDER_OF_TESTS
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations
from django_redsess.transport import attempts, scripts
from django_redsess.transport.connections import pool, server_of
from django_redsess.transport.keys import Keyspace, Partition
from django_redsess.transport.packing import pack_command
from django_redsess.transport.pools import Clock
from django_redsess.transport.steps import current_time, drive

if TYPE_CHECKING:
    from unittest import TestCase as _TestCase
    from unittest import TestResult as _Result

    from django.test.runner import DiscoverRunner as _Runner
else:
    _TestCase = _Runner = _Result = object

__all__ = ["SessionStoreMixin", "SessionStoreRunnerMixin", "own_store", "travel"]

AT_ONCE = 500
"""How many keys one round trip lists, reads, removes or restores."""

Kept = dict[str, list[tuple[bytes, int, bytes]]]
"""For the tag of each partition the names of its keys, with their milliseconds to live and their dumps."""


@contextmanager
def own_store() -> Iterator[str]:
    """
    Keep sessions in a new, empty store as long as the context lasts. Then remove its keys.

    Its ``PREFIX`` is unique, so no other key is touched. Changes of ``REDSESS`` by the test do not change the prefix.
    Yields the prefix. Sessions from outside the context are not visible inside, and are back afterwards.
    """
    with closing(OwnStore().open()) as store:
        yield store.prefix


@contextmanager
def travel(to: float | timedelta | datetime) -> Iterator[None]:
    """
    Move the clock of the test's store ahead as long as the context lasts.

    ``to`` is how far, in seconds or as a ``timedelta``, or an aware ``datetime`` to move it to. The clock goes on from
    there. Within another ``travel()``, ``to`` counts from that one's time. Sessions expire, blocks end, and requests
    are seen by the moved clock, in synchronous and asynchronous code and in servers that the test has started.
    Afterwards, the clock is as before. Sessions that were stored meanwhile then have times in the future.

    Only the store's clock is moved. ``django.utils.timezone.now()`` stays: freezegun or time-machine move that one.

    Raises RuntimeError where the test has no store of its own, ValueError for a time that is not ahead or has no zone.
    """
    if not (own := _own_stores()):
        raise RuntimeError("travel() moves the clock of a test's own store, and none is open: see own_store().")
    store = own[-1]
    moved_ms, milliseconds = store.moved_ms, _milliseconds_to(to, store)
    if milliseconds < 0:
        raise ValueError(f"travel() moves the clock ahead, and not back: {to!r}")
    store.expire_early(milliseconds)
    store.moved_ms += milliseconds
    _use_last_opened()
    try:
        yield
    finally:
        store.moved_ms = moved_ms
        _use_last_opened()


def _milliseconds_to(to: float | timedelta | datetime, store: OwnStore) -> int:
    if isinstance(to, datetime):
        if to.utcoffset() is None:
            raise ValueError(f"travel() needs a datetime with a zone: {to!r}")
        return int(to.timestamp() * 1000) - drive(current_time(Partition(store.prefix)))
    if not isinstance(to, (int, float, timedelta)):
        raise TypeError(f"travel() takes seconds, a timedelta or a datetime, and not {to!r}.")
    return int((to.total_seconds() if isinstance(to, timedelta) else to) * 1000)


class SessionStoreMixin(_TestCase):
    """
    Gives each test of a test case a store of its own, and removes its keys afterwards, however the test ends.

    Put it in front of Django's class: ``class ShopTest(SessionStoreMixin, TestCase)``. It works with each of Django's
    classes, ``LiveServerTestCase`` too.

    Sessions that ``setUpTestData()`` or ``setUpClass()`` make are there in each test of the class, as they were at
    first. They are removed after the last.
    """

    @classmethod
    def setUpClass(cls) -> None:
        cls.addClassCleanup(OwnStore.within().open().close)
        super().setUpClass()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        # Not in setUp(): a test case may override it. The cleanup that is added first runs last. A skipped test runs
        # none.
        with closing(OwnStore.within().open()) as store:
            self.addCleanup(store.close)
            return super().run(result)


class OwnStore:
    """A store for tests. Its prefix is made here, so it matches no other key of the server. Private."""

    def __init__(self, outer: OwnStore | None = None, kept: Kept | None = None):
        self.prefix: str = outer.prefix if outer else f"test-{uuid4().hex}"
        # The keys to restore at the end.
        self.kept = kept or {}
        self.pid = os.getpid()
        # Whether this process has used it.
        self.is_asked = False
        self.moved_ms = 0

    @property
    def is_used(self) -> bool:
        return self.is_asked or self.prefix in _folder.used_prefixes()

    @classmethod
    def within(cls) -> OwnStore:
        """Return a store that begins with the sessions of the open one, if any, and in the end restores them."""
        # A forked worker inherits its parent's stores, as all other workers do.
        if (own := _own_stores()) and ((outer := own[-1]).is_used or outer.kept):
            kept = outer._dump()
            if any(not name.endswith(b":meta") for keys in kept.values() for name, _, _ in keys):
                return cls(outer, kept)
        return cls()

    def open(self) -> OwnStore:
        if own := _own_stores():
            self.moved_ms = own[-1].moved_ms
        else:
            _folder.create_folder()
        _opened.append(self)
        _use_last_opened()
        return self

    def close(self) -> None:
        if self in _opened:
            _opened.remove(self)
            # Servers that still run must not use a store that is being emptied.
            _use_last_opened()
            # On a server that is gone, nothing can be removed. The outage is logged.
            with suppress(SessionStoreUnavailable):
                if self.is_used or self.kept:
                    self.empty()
            if not _own_stores():
                _folder.remove()

    def expire_early(self, milliseconds: int) -> None:
        """Shorten the TTL of all keys that have one."""
        for tag, names in self._names() if self.is_used else ():
            replies = _send_commands(tag, [("PTTL", name) for name in names])
            # The server removes a key whose new TTL is not positive.
            sooner = [(name, left - milliseconds) for name, left in zip(names, replies, strict=True) if left > 0]
            if sooner:
                _send_commands(tag, [("PEXPIRE", name, left) for name, left in sooner])

    def empty(self) -> None:
        """Remove the keys of the store, and restore those that it had when it was opened."""
        for tag, names in self._names():
            _send_commands(tag, [("UNLINK", *names)])
        for tag, keys in self.kept.items():
            for some in _split(keys):
                _send_commands(tag, [("RESTORE", name, max(ttl, 0), dump) for name, ttl, dump in some])

    def _dump(self) -> Kept:
        found: Kept = defaultdict(list)
        for tag, names in self._names():
            replies = _send_commands(tag, [part for name in names for part in (("PTTL", name), ("DUMP", name))])
            # A key may have expired meanwhile.
            read = zip(names, replies[::2], replies[1::2], strict=True)
            found[tag] += [(name, ttl, dump) for name, ttl, dump in read if dump is not None]
        return found

    def _names(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the names of keys in batches, each with the tag of their partition."""
        if (
            self.prefix not in _folder.used_prefixes()
            and not _send_commands(self.prefix, [("EXISTS", Partition(self.prefix).meta)])[0]
        ):
            # The first operation of this process in a store makes that key: there was none.
            return
        found: dict[str, list[bytes]] = defaultdict(list)
        partitions = [Partition(self.prefix), *Keyspace(self.prefix, configuration.conf.PARTITIONS).partitions]
        # A server lists its own names only.
        for partition in {server_of(partition): partition for partition in partitions}.values():
            cursor = None
            while cursor != 0:
                # Of any number of partitions: the test may have changed PARTITIONS.
                scan = ("SCAN", cursor or 0, "MATCH", f"{{{self.prefix}[:}}]*", "COUNT", AT_ONCE)
                [(reply, names)] = _send_commands(partition.tag, [scan])
                cursor = int(reply)
                for name in names:
                    if own := re.match(rb"\{(%b(?::\d+)?)\}:" % self.prefix.encode(), name):
                        found[own[1].decode()].append(name)
        for tag, names in found.items():
            yield from ((tag, some) for some in _split(list(dict.fromkeys(names))))


class _Stores(_Result):
    """
    A result that opens a store when a test starts, and closes it when the test stops.

    A result does not learn when a class begins. So a new store is opened after each test. If the next test is of
    another class, the store has the sessions that the class has set up, and stays open as long as its tests last.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._class: type | None = None
        self._of_class = self._of_test = self._between = OwnStore().open()

    def startTest(self, test: unittest.TestCase) -> None:
        if isinstance(test, SessionStoreMixin):
            # It opens and closes its own.
            return super().startTest(test)
        if type(test) is self._class:
            self._between.close()
        else:
            if self._of_class is not self._between:
                self._of_class.close()
            self._class, self._of_class = type(test), self._between
        self._of_test = OwnStore.within().open()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        if isinstance(test, SessionStoreMixin):
            return super().stopTest(test)
        try:
            self._of_test.close()
        except Exception:
            self.addError(test, sys.exc_info())
        super().stopTest(test)
        self._between = OwnStore().open()


class _WorkersResult(_Stores, RemoteTestResult):
    pass


class _WorkersRunner(RemoteTestRunner):
    resultclass = _WorkersResult

    def run(self, test: Any) -> Any:
        try:
            return super().run(test)
        finally:
            _close_all()


class _ParallelSuite(ParallelTestSuite):
    runner_class = _WorkersRunner


class SessionStoreRunnerMixin(_Runner):
    """
    Gives each test of a project a store of its own, as :class:`SessionStoreMixin` does for a test case.

    Put it in front of ``DiscoverRunner``, or of your own runner, in a class that ``TEST_RUNNER`` names. With
    several processes, its ``parallel_test_suite`` takes the place of the runner's.
    """

    parallel_test_suite = _ParallelSuite

    def setup_test_environment(self, **kwargs: Any) -> None:
        """Open a store for code that runs outside of tests."""
        super().setup_test_environment(**kwargs)
        OwnStore().open()

    def teardown_test_environment(self, **kwargs: Any) -> None:
        """Remove the keys of all stores that are still open."""
        _close_all()
        super().teardown_test_environment(**kwargs)

    def get_resultclass(self) -> Any:
        """Return a class of results that opens and closes the store of each test."""
        own: Any = super().get_resultclass() or self.test_runner.resultclass
        return type(own.__name__, (_Stores, own), {})


class _Folder:
    """
    The folder that names the open store of a process that runs tests, for servers in other processes.

    A server may have been started before the test, by fork or as a new program. So it reads the folder each time. The
    file ``open`` has the prefix, and the milliseconds by which the clock is moved; or it is empty. For each store that
    another process has used, there is an empty file named after its prefix.
    """

    def __init__(self) -> None:
        self._path, self._pid = Path(), 0

    def create_folder(self) -> None:
        if self._pid != os.getpid():
            # The path stays the same: a process that starts others, such as a forkserver, has read it once.
            self._path, self._pid = Path(tempfile.gettempdir()) / f"redsess-tests-{uuid4().hex}", os.getpid()
            os.environ[FOLDER_OF_TESTS] = str(self._path)
        self._path.mkdir(mode=0o700)

    def write_open_store(self, *words: object) -> None:
        if self._path.is_dir():
            # Atomic: no reader sees a part.
            (self._path / "new").write_text(" ".join(map(str, words)))
            (self._path / "new").replace(self._path / "open")

    def used_prefixes(self) -> set[str]:
        """Return the prefixes of the stores that other processes have used."""
        return {path.name for path in self._path.glob("test-*")} if self._pid == os.getpid() else set()

    def remove(self) -> None:
        with suppress(SessionStoreUnavailable):
            for prefix in self.used_prefixes():
                # A server may have written after the test.
                store = OwnStore()
                store.prefix = prefix
                store.empty()
        rmtree(self._path)

    def read_open_store(self) -> str | None:
        """Return the prefix of the store that is open in the process which has started this one."""
        path = Path(os.environ.get(FOLDER_OF_TESTS, ""))
        try:
            prefix, moved_ms = (path / "open").read_text().split()
            (path / prefix).touch()
        except (OSError, ValueError):
            return None
        _move_clock(int(moved_ms))
        return prefix


_folder = _Folder()

_opened: list[OwnStore] = []
"""The open stores. The last one is used."""


def _own_stores() -> list[OwnStore]:
    """Return the stores that this process has opened itself, without those of a parent that it was forked from."""
    return [store for store in _opened if store.pid == os.getpid()]


def _prefix_of_test() -> str | None:
    if own := _own_stores():
        own[-1].is_asked = True
        return own[-1].prefix
    return _folder.read_open_store() if FOLDER_OF_TESTS in os.environ else None


configuration.prefix_of_test = _prefix_of_test
# Values that were read before this import.
configuration.conf.clear_cached()


def _use_last_opened() -> None:
    """Use the store that was opened last, here and in the processes that this one has started."""
    configuration.conf.clear_cached()
    own = _own_stores()
    _folder.write_open_store(*(own[-1].prefix, own[-1].moved_ms) if own else ())
    _move_clock(own[-1].moved_ms if own else 0)


def _move_clock(milliseconds: int) -> None:
    if milliseconds != Clock.moved_ms:
        Clock.moved_ms = milliseconds
        scripts.move_clock(milliseconds)
        # The templates contain the digest of a script.
        operations.save_templates.cache_clear()


def _close_all() -> None:
    for store in _own_stores()[::-1]:
        store.close()


def _send_commands(tag: str, commands: list[tuple[Any, ...]]) -> list[Any]:
    packed = b"".join(pack_command(*each) for each in commands)
    return drive(
        attempts.fetch(pool().server_of_tag(tag), tag, commands[0][0].lower(), packed, len(commands), len(commands))
    )


def _split(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
