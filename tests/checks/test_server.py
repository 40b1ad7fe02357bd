"""What is found wrong with the server, and when it is not asked."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from redis.exceptions import OutOfMemoryError

from django_redsess import online, viewed
from django_redsess.cleaning import cleaner
from django_redsess.cleaning.waker import Waker
from django_redsess.transport.keys import keyspace
from testproject import servers
from tests.support.checks import SetCache, found, messages, url_of, was_called
from tests.support.outages import full


@pytest.fixture
def set_policy(redis: Any) -> Iterator[Callable[[str], None]]:
    """Return a function that sets the eviction policy of the server."""
    yield lambda policy: redis.config_set("maxmemory-policy", policy)
    redis.config_set("maxmemory-policy", "noeviction")


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_server_that_evicts_sessions_is_warned_of(set_policy, policy: str) -> None:
    set_policy(policy)
    [warning] = messages()
    assert warning.id == "django_redsess.W008"
    assert policy in warning.msg
    assert "A volatile policy drops the notes of ended sessions" in warning.hint


@pytest.mark.parametrize("policy", ["noeviction", "volatile-lru", "volatile-ttl"])
def test_a_server_that_evicts_no_session_is_fine(set_policy, policy: str) -> None:
    set_policy(policy)
    assert found() == []


@pytest.mark.both_servers
def test_a_volatile_policy_drops_the_notes_of_ended_sessions_and_nothing_else(set_policy, redis, new_session) -> None:
    new_session("7", colour="blue")
    ended = new_session("8")
    online.end(ended.sid)
    before = set(redis.keys())
    set_policy("volatile-ttl")
    with full(redis), pytest.raises(OutOfMemoryError):
        redis.set("more", 1)
    assert before - set(redis.keys()) == {f"{{redsess}}:ended:{ended.sid}".encode()}


def test_a_server_that_refuses_to_tell_its_policy_is_not_complained_about(
    set_policy, set_cache: SetCache, server: servers.Server, redis
) -> None:
    set_policy("allkeys-lru")
    redis.acl_setuser("site", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-info"])
    set_cache(server.url.replace("//", "//site:any@"))
    try:
        assert found() == []
    finally:
        redis.acl_deluser("site")


@pytest.fixture
def set_user(redis: Any, server: servers.Server, set_cache: SetCache) -> Iterator[Callable[..., None]]:
    """Return a function that lets the site use the server as a user with these rules."""

    def change(*rules: str) -> None:
        redis.execute_command("ACL", "SETUSER", "site", "reset", "on", "nopass", *rules)
        set_cache(server.url.replace("//", "//site:any@").replace("/0", "/1"))

    yield change
    redis.acl_deluser("site")


def test_a_user_who_may_not_run_a_command_of_ours_is_warned_of(set_user) -> None:
    set_user("~*", "+@all", "-zadd", "-hscan", "-acl", "-info")
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert "can't run HSCAN, ZADD on" in warning.msg


def test_a_user_who_may_not_wait_is_warned_of_where_ends_are_confirmed(set_user, settings: Any) -> None:
    set_user("~*", "+@all", "-wait", "-info")
    assert found() == []
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": (1, 100)}
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert "can't run WAIT on" in warning.msg
    assert " +wait" in warning.hint


def test_a_user_who_may_not_use_a_key_of_ours_is_warned_of(set_user) -> None:
    set_user("~{redsess}:[^s]*", "+@all")
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert "can't use {redsess}:samples." in warning.msg
    assert "~{redsess}:* " in warning.hint


@pytest.mark.parametrize("rules", [["~other:*", "+@all"], ["~*", "+@all", "-eval"], ["~*", "+@all", "-select"], ["~*"]])
def test_a_user_who_may_do_nothing_with_our_keys_is_warned_of(set_user, rules: list[str]) -> None:
    set_user(*rules)
    assert found() == ["W023"]


@pytest.mark.both_servers
@pytest.mark.parametrize("renamed", ["EVAL", "ZPOPMAX"])
def test_a_server_that_lacks_a_command_of_ours_is_warned_of(
    server: servers.Server, set_cache: SetCache, renamed: str
) -> None:
    for own in servers.serving(server.binary, "--rename-command", renamed, ""):
        set_cache(own.url)
        [warning] = messages()
        assert warning.id == "django_redsess.W023"
        assert renamed in warning.msg


@pytest.mark.both_servers
def test_a_user_who_may_do_what_the_hint_says_is_enough_for_all_that_this_app_does(
    set_user, server: servers.Server, partitions: int, new_session, caplog: pytest.LogCaptureFixture
) -> None:
    set_user("~*")
    [warning] = messages()
    rules = warning.hint.partition("ACL SETUSER … ")[2].partition(". ")[0].split()
    set_user(*rules)
    assert found() == []
    sessions = [new_session("7", colour="blue") for _ in range(3)]
    viewed.record(sessions[-1], "lamp")
    sessions[-1].cycle_key()
    sessions[-1].save()
    assert [item.item for item in viewed.recent(sessions[-1])] == ["lamp"]
    assert online.count() == len(online.sessions(order="seen_at")) == len(online.of_user(User(pk=7))) == 3
    online.details(sessions[-1].sid)
    for option in ("--dry-run", "--check", "--repair", "--max-sessions=1"):
        call_command("cleansessions", option, verbosity=0)
    with closing(Waker(keyspace().partitions)) as waker, closing(socket.socket()) as nothing:
        waker.wait(0.01, until=nothing)
    cleaner.sample()
    online.history()
    call_command("cleanviewed", limit=1, verbosity=0)
    assert viewed.popular() == [("lamp", 1)]
    viewed.forget(sessions[-1])
    assert online.end_user(User(pk=7)) == 1
    assert caplog.records == []


def test_a_server_that_is_down_is_not_complained_about(set_cache: SetCache) -> None:
    set_cache(f"redis://127.0.0.1:{servers.free_port()}/0")
    assert found() == []


def test_a_server_that_never_answers_holds_the_checks_up_for_one_time_out_only(
    set_cache: SetCache, silent: socket.socket
) -> None:
    set_cache(url_of(silent))
    started = time.monotonic()
    assert found() == []
    assert was_called(silent)
    assert time.monotonic() - started < 1.5


@pytest.mark.parametrize(
    ("options", "warning"),
    [({"SOCKET_TIMEOUT": None}, "W010"), ({"CONNECTION_POOL_KWARGS": {"retry_on_timeout": True}}, "W011")],
)
def test_a_server_is_not_asked_where_the_time_outs_do_not_bound_the_wait(
    set_cache: SetCache, silent: socket.socket, options: dict[str, Any], warning: str
) -> None:
    set_cache(url_of(silent), **options)
    assert found() == [warning]
    assert not was_called(silent)
