"""What the helpers for tests of a site promise, one test at a time in this process."""

import unittest
from multiprocessing import get_context
from typing import Any
from unittest.mock import DEFAULT, patch

import pytest
import redis as redis_py
from django.core.exceptions import ImproperlyConfigured
from django.test import SimpleTestCase, override_settings
from django.test.runner import DiscoverRunner

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from django_redsess.testing import SessionStoreMixin, SessionStoreRunnerMixin, own_store
from tests.helpers.running import run_python


class Runner(SessionStoreRunnerMixin, DiscoverRunner):
    pass


def outcome_of(case: type[unittest.TestCase], runner: type[DiscoverRunner] | None = None) -> dict[str, int]:
    """Run the tests of ``case`` and return how many of them failed, and how many were left out."""
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(case)
    if runner is None:
        result: Any = suite.run(unittest.TestResult())
    else:
        running = runner(verbosity=0)
        # What Django's own two do, pytest-django has done already.
        with patch.multiple(DiscoverRunner, setup_test_environment=DEFAULT, teardown_test_environment=DEFAULT):
            running.setup_test_environment()
            result = running.run_suite(suite)
            running.teardown_test_environment()
    return {"failed": len(result.failures), "errors": len(result.errors), "skipped": len(result.skipped)}


def names(redis: redis_py.Redis) -> list[bytes]:
    return [name for name in redis.keys() if name.startswith(b"{test-")]


def test_a_store_of_its_own_is_empty_and_leaves_nothing(new_session, redis, commands) -> None:
    outside = new_session(user="1")
    commands()
    with own_store():
        # Where nobody uses it, no server is asked.
        pass
    # Only what counts them.
    assert commands().keys() <= {"info", "config|resetstat"}
    with own_store() as prefix:
        assert prefix == conf.PREFIX
        assert online.count() == 0
        new_session(user="1")
        online.end_all()
        # An end leaves a note.
        new_session(user="2")
        assert names(redis)
        with own_store():
            assert online.count() == 0
            new_session(user="1")
        assert online.count() == 1
    assert names(redis) == []
    assert conf.PREFIX == "redsess"
    assert online.of_user(type("Somebody", (), {"pk": 1, "id": 1})())[0].sid == outside.sid


def test_settings_of_a_test_can_not_name_the_store_of_the_site(new_session, redis) -> None:
    new_session(user="1")
    with own_store() as prefix, override_settings(REDSESS={"PREFIX": "redsess", "PARTITIONS": 4}):
        assert prefix == conf.PREFIX
        assert online.count() == 0
        for user in range(9):
            new_session(user=str(user))
        assert len({name.partition(b"}")[0] for name in names(redis)}) > 1
    assert names(redis) == []
    assert online.count() == 1


def test_more_keys_than_one_batch_are_removed_and_no_others(redis: redis_py.Redis) -> None:
    with own_store() as prefix:
        online.count()
        redis.mset({f"{{{prefix}}}:ended:{number}": "" for number in range(1300)})
        others = [f"{{{prefix}0}}:login", f"{{{prefix}:x}}:login", f"{prefix}", f"{{{prefix[:-1]}}}:login"]
        redis.mset(dict.fromkeys(others, "x"))
    left = names(redis) + list(redis.keys("test-*"))
    assert sorted(left) == sorted(name.encode() for name in others)
    redis.delete(*others)


def make_cases(new_session, *mixins: type) -> type[unittest.TestCase]:
    class Case(*mixins, SimpleTestCase):  # type: ignore[misc]
        @classmethod
        def setUpClass(cls) -> None:
            super().setUpClass()
            cls.kept = new_session(user="1", basket=1)

        def setUp(self) -> None:
            # Without super(), and with a cleanup that still finds the store.
            self.addCleanup(online.end_all)

        def test_a_change(self) -> None:
            session = SessionStore(self.kept.session_key)
            assert session["basket"] == 1
            session["basket"] = 2
            session.save()

        def test_an_end(self) -> None:
            assert online.count() == 1
            self.kept.delete()
            new_session(user="1")

        def test_an_error(self) -> None:
            assert SessionStore(self.kept.session_key)["basket"] == 1
            new_session(user="1")
            raise AssertionError

        @unittest.skip("on purpose")
        def test_nothing(self) -> None:
            pass

    return Case


@pytest.mark.parametrize("way", ["mixin", "runner", "both"])
def test_sessions_of_a_class_are_there_in_each_test_as_they_were(new_session, redis, partitions, way: str) -> None:
    case = make_cases(new_session, *([] if way == "runner" else [SessionStoreMixin]))
    assert outcome_of(case, None if way == "mixin" else Runner) == {"failed": 1, "errors": 0, "skipped": 1}
    assert online.count() == 0
    assert names(redis) == []


def child(pipe: Any) -> None:
    from django_redsess.testing import OwnStore

    pipe.send(OwnStore.within().prefix)


def test_a_forked_worker_goes_on_with_no_store_of_its_parent(new_session) -> None:
    here, there = get_context("fork").Pipe()
    with own_store() as prefix:
        new_session(user="1")
        process = get_context("fork").Process(target=child, args=[there])
        process.start()
        assert here.recv() != prefix
        process.join()


def test_the_plugin_needs_no_settings_and_imports_no_django() -> None:
    program = "import sys, django_redsess.pytest_plugin as plugin; "
    program += "print(plugin._is_in_use(), 'django' in sys.modules, 'redis' in sys.modules)"
    assert run_python("-c", program).split() == ["False", "False", "False"]


def test_an_alias_that_a_test_drops_is_named(settings: Any) -> None:
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    with pytest.raises(ImproperlyConfigured) as raised:
        SessionStore().create()
    assert "'sessions'" in str(raised.value)
