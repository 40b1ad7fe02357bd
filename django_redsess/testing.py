"""Tests of a site with this engine: each has a store of its own, which is emptied afterwards. Public."""

from __future__ import annotations

import os
import re
import sys
import unittest
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from django.test.runner import ParallelTestSuite, RemoteTestResult, RemoteTestRunner

import django_redsess.conf as configuration
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import retries
from django_redsess.transport.connections import of, pool
from django_redsess.transport.keys import Keyspace, Partition
from django_redsess.transport.round_trips import drive
from django_redsess.transport.sending import command

if TYPE_CHECKING:
    from unittest import TestCase as _TestCase
    from unittest import TestResult as _Result

    from django.test.runner import DiscoverRunner as _Runner
else:
    _TestCase = _Runner = _Result = object

__all__ = ["SessionStoreMixin", "SessionStoreRunnerMixin", "own_store"]

AT_ONCE = 500
"""How many keys one round trip lists, reads, removes or restores."""

Kept = dict[str, list[tuple[bytes, int, bytes]]]
"""For the tag of each partition the names of its keys, with their milliseconds to live and their dumps."""


@contextmanager
def own_store() -> Iterator[str]:
    """
    Keep sessions in a new, empty store as long as the context lasts. Then remove its keys.

    The store has a ``PREFIX`` that no other has: nobody shares it, and no other key is touched. Changes of ``REDSESS``
    by the test do not change the prefix. Yields the prefix. What is stored outside is not seen inside, and is there
    again afterwards.
    """
    with closing(Store().open()) as store:
        yield store.prefix


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
        cls.addClassCleanup(Store.within().open().close)
        super().setUpClass()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        # Not in setUp(), which a test case may override. The first cleanup that is added is the last that is done.
        # A test that is skipped does no cleanups.
        with closing(Store.within().open()) as store:
            self.addCleanup(store.close)
            return super().run(result)


class Store:
    """A store of tests. Its prefix is made here, so nothing else on the server can be meant. Private."""

    def __init__(self, outer: Store | None = None, kept: Kept | None = None):
        self.prefix: str = outer.prefix if outer else f"test-{uuid4().hex}"
        # What is put back in the end.
        self.kept = kept or {}
        self.pid = os.getpid()
        self.is_used = False

    @classmethod
    def within(cls) -> Store:
        """Return a store that has the sessions of the one that is open, and changes none of them; or an empty one."""
        outer = _opened[-1] if _opened else None
        # A worker that was forked has the stores of its parent, as all other workers have.
        if outer is not None and outer.pid == os.getpid() and (outer.is_used or outer.kept):
            kept = outer._dump()
            if any(not name.endswith(b":meta") for keys in kept.values() for name, _, _ in keys):
                return cls(outer, kept)
        return cls()

    def open(self) -> Store:
        _opened.append(self)
        configuration.conf.forget()
        return self

    def close(self) -> None:
        if self in _opened:
            _opened.remove(self)
            configuration.conf.forget()
            # Of a server that is gone, nothing can be removed. That it is gone is logged.
            with suppress(SessionStoreUnavailable):
                if self.is_used or self.kept:
                    self._empty()

    def _empty(self) -> None:
        for tag, names in self._names():
            _ask(tag, [("UNLINK", *names)])
        for tag, keys in self.kept.items():
            for some in _batches(keys):
                _ask(tag, [("RESTORE", name, max(ttl, 0), dump) for name, ttl, dump in some])

    def _dump(self) -> Kept:
        found: Kept = defaultdict(list)
        for tag, names in self._names():
            replies = _ask(tag, [part for name in names for part in (("PTTL", name), ("DUMP", name))])
            # A key may have expired meanwhile.
            read = zip(names, replies[::2], replies[1::2], strict=True)
            found[tag] += [(name, ttl, dump) for name, ttl, dump in read if dump is not None]
        return found

    def _names(self) -> Iterator[tuple[str, list[bytes]]]:
        """Yield the names of keys in batches, each with the tag of their partition."""
        if not _ask(self.prefix, [("EXISTS", Partition(self.prefix).meta)])[0]:
            # The first operation in a store makes that key: there was none.
            return
        found: dict[str, list[bytes]] = defaultdict(list)
        partitions = [Partition(self.prefix), *Keyspace(self.prefix, configuration.conf.PARTITIONS).partitions]
        # A server lists its own names only.
        for partition in {of(partition): partition for partition in partitions}.values():
            cursor = None
            while cursor != 0:
                # All numbers of partitions are meant: the test may have set another.
                scan = ("SCAN", cursor or 0, "MATCH", f"{{{self.prefix}[:}}]*", "COUNT", AT_ONCE)
                [(reply, names)] = _ask(partition.tag, [scan])
                cursor = int(reply)
                for name in names:
                    if own := re.match(rb"\{(%b(?::\d+)?)\}:" % self.prefix.encode(), name):
                        found[own[1].decode()].append(name)
        for tag, names in found.items():
            yield from ((tag, some) for some in _batches(list(dict.fromkeys(names))))


class _Stores(_Result):
    """
    A result that opens a store when a test starts, and closes it when the test stops.

    It is not told when a class begins. So a new store is opened after each test. If the next test is of another class,
    the store has what that class has set up, and stays open as long as its tests last.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._class: type | None = None
        self._of_class = self._of_test = self._between = Store().open()

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
        self._of_test = Store.within().open()
        super().startTest(test)

    def stopTest(self, test: unittest.TestCase) -> None:
        if isinstance(test, SessionStoreMixin):
            return super().stopTest(test)
        try:
            self._of_test.close()
        except Exception:
            self.addError(test, sys.exc_info())
        super().stopTest(test)
        self._between = Store().open()


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
    Does for all tests of a project what :class:`SessionStoreMixin` does for one test case.

    Put it in front of ``DiscoverRunner``, or of your own runner, in a class that ``TEST_RUNNER`` names. With
    several processes, its ``parallel_test_suite`` takes the place of the runner's.
    """

    parallel_test_suite = _ParallelSuite

    def setup_test_environment(self, **kwargs: Any) -> None:
        """Open a store for what happens outside of tests."""
        super().setup_test_environment(**kwargs)
        Store().open()

    def teardown_test_environment(self, **kwargs: Any) -> None:
        """Remove the keys of all stores that are still open."""
        _close_all()
        super().teardown_test_environment(**kwargs)

    def get_resultclass(self) -> Any:
        """Return a class of results that opens and closes the store of each test."""
        own: Any = super().get_resultclass() or self.test_runner.resultclass
        return type(own.__name__, (_Stores, own), {})


_opened: list[Store] = []
"""The stores that are open, the one that is used last."""


def _prefix() -> str | None:
    if not _opened:
        return None
    _opened[-1].is_used = True
    return _opened[-1].prefix


configuration.prefix_of_test = _prefix


def _close_all() -> None:
    # A worker that was forked leaves those of its parent.
    for store in [store for store in _opened if store.pid == os.getpid()][::-1]:
        store.close()


def _ask(tag: str, commands: list[tuple[Any, ...]]) -> list[Any]:
    packed = b"".join(command(*each) for each in commands)
    return drive(retries.fetch(pool().of(tag), tag, commands[0][0].lower(), packed, len(commands), len(commands)))


def _batches(items: list[Any]) -> Iterator[list[Any]]:
    return (items[start : start + AT_ONCE] for start in range(0, len(items), AT_ONCE))
