"""What is found wrong with the server, and when it is not asked."""

import socket
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import override_settings
from django.utils import timezone
from redis.exceptions import OutOfMemoryError

from django_redsess import cleaning, online, viewed
from django_redsess.cleaning.wake_up import WakeUpSleeper
from testproject import servers
from tests.helpers.checks import found, messages, url_of, was_called
from tests.helpers.outages import full
from tests.helpers.permissions import commands, listed
from tests.helpers.sentinels import behind_sentinel
from tests.helpers.store import dump, keyspace


@pytest.fixture
def set_policy(redis) -> Iterator[Callable[[str], None]]:
    yield lambda policy: redis.config_set("maxmemory-policy", policy)
    redis.config_set("maxmemory-policy", "noeviction")


def test_a_server_that_evicts_sessions_is_warned_of(set_policy) -> None:
    for policy in ("allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction", "volatile-lru", "volatile-ttl"):
        set_policy(policy)
        assert found() == (["W008"] if policy.startswith("allkeys") else []), policy


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


@pytest.mark.both_servers
@pytest.mark.parametrize(
    ("save", "appendonly", "warnings"),
    [("3600 1", "no", ["W056"]), ("3600 1", "yes", []), ("", "no", [])],
    ids=["snapshots", "snapshots and a file", "nothing"],
)
def test_snapshots_alone_are_warned_of_before_deployment(own_server, set_cache, save, appendonly, warnings) -> None:
    own_server.client.config_set("save", save)
    own_server.client.config_set("appendonly", appendonly)
    set_cache(own_server.url)
    assert found() == []
    assert [each for each in found(deploy=True) if each == "W056"] == warnings
    # A managed server may hide its settings.
    own_server.client.acl_setuser("site", enabled=True, nopass=True, keys=["*"], commands=["+@all", "-config"])
    set_cache(own_server.url.replace("//", "//site:any@"))
    assert "W056" not in found(deploy=True)


@pytest.mark.parametrize(
    ("save", "appendonly", "warns"), [("", "no", True), ("3600 1", "no", False), ("", "yes", False)]
)
def test_blocks_that_a_restart_would_lift_are_warned_of(
    own_server, set_cache, settings, save, appendonly, warns
) -> None:
    # With that app the database has a copy.
    settings.INSTALLED_APPS = [app for app in settings.INSTALLED_APPS if app != "django_redsess.contrib.history"]
    own_server.client.config_set("save", save)
    own_server.client.config_set("appendonly", appendonly)
    set_cache(own_server.url)
    assert "W065" not in found()
    online.block(User(pk=7), until=timezone.now() + timedelta(hours=1))
    assert ("W065" in found()) is warns
    online.unblock(User(pk=7))
    assert "W065" not in found()


@pytest.fixture
def set_user(redis, server, set_cache) -> Iterator[Callable[..., None]]:
    """Return a function that lets the site use the server as a user with these rules."""

    def change(*rules: str) -> None:
        redis.execute_command("ACL", "SETUSER", "site", "reset", "on", "nopass", *rules)
        set_cache(server.url.replace("//", "//site:any@").replace("/0", "/1"))

    yield change
    redis.acl_deluser("site")


def test_a_server_that_refuses_to_tell_its_policy_is_not_complained_about(set_policy, set_user) -> None:
    set_policy("allkeys-lru")
    set_user("~*", "+@all", "-info")
    assert found() == []


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (["~*", "+@all", "-zadd", "-hscan", "-acl", "-info"], " HSCAN, ZADD on"),
        (["~{redsess}:[^s]*", "+@all"], " {redsess}:samples, {redsess}:samples:active."),
        *((["~other:*", "+@all"], ""), (["~*", "+@all", "-eval"], ""), (["~*", "+@all", "-select"], ""), (["~*"], "")),
    ],
)
def test_a_user_who_may_not_run_a_command_or_use_a_key_of_ours_is_warned_of(set_user, rules, named: str) -> None:
    set_user(*rules)
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert named in warning.msg


def test_each_command_of_the_docs_is_asked_for(set_user) -> None:
    names = sorted(commands(listed()) - {"eval", "evalsha", "info", "select"})
    # In halves: a check that had most of them to do may be refused something that it needs itself.
    for some in (names[::2], names[1::2]):
        set_user("~*", "+@all", *(f"-{name}" for name in some), "-info")
        [warning] = messages()
        assert warning.id == "django_redsess.W023"
        assert f" can't run {', '.join(some).upper()} on" in warning.msg


def test_a_user_who_may_not_ping_is_warned_of_where_connections_are_looked_at(set_user, settings) -> None:
    set_user("~*", "+@all", "-ping", "-info")
    assert found() == []
    settings.CACHES["sessions"]["LOCATION"] += "?health_check_interval=5"
    settings.CACHES = {**settings.CACHES}
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert " +ping" in warning.hint


def test_a_user_who_may_not_wait_is_warned_of_where_ends_are_confirmed(set_user, settings) -> None:
    set_user("~*", "+@all", "-wait", "-info")
    assert found() == []
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": (1, 100)}
    [warning] = messages()
    assert warning.id == "django_redsess.W023"
    assert " +wait" in warning.hint


@pytest.mark.both_servers
def test_a_server_that_lacks_a_command_of_ours_is_warned_of(server, set_cache) -> None:
    for renamed in ("EVAL", "ZPOPMAX"):
        for own in servers.serving(server.binary, "--rename-command", renamed, ""):
            set_cache(own.url)
            [warning] = messages()
            assert warning.id == "django_redsess.W023"
            assert renamed in warning.msg


@pytest.mark.both_servers
def test_a_user_who_may_do_what_the_hint_says_can_do_all(set_user, server, partitions, new_session, caplog) -> None:
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
    assert online.count() == len(online.sessions(order="last_seen_at")) == len(online.of_user(User(pk=7))) == 3
    online.details(sessions[-1].sid)
    for option in ("--dry-run", "--check", "--repair", "--max-sessions=1"):
        call_command("cleansessions", option, verbosity=0)
    with closing(WakeUpSleeper(keyspace().partitions)) as waker, closing(socket.socket()) as nothing:
        waker.sleep(0.01, until=nothing)
    cleaning.take_sample()
    online.samples()
    call_command("cleanviewed", max_items=1, verbosity=0)
    assert viewed.popular() == [("lamp", 1)]
    viewed.forget(sessions[-1])
    assert online.end_user(User(pk=7)) == 1
    assert caplog.records == []


def test_a_server_that_is_down_is_told_and_is_no_fault(set_cache) -> None:
    set_cache(f"redis://127.0.0.1:{servers.free_port()}/0")
    # Not even for this is it a failure: an image is built where no server runs.
    call_command("check", fail_level="WARNING")
    assert found() == ["I049"]


def test_a_server_that_never_answers_holds_the_checks_up_for_one_time_out_only(set_cache, silent) -> None:
    set_cache(url_of(silent))
    started = time.monotonic()
    assert found() == ["I049"]
    assert was_called(silent)
    assert time.monotonic() - started < 1.5


@pytest.fixture
def locked(server) -> Iterator[servers.Server]:
    for own in servers.serving(server.binary):
        own.client.config_set("requirepass", "hush")
        yield own


@pytest.mark.both_servers
def test_a_password_that_is_missing_or_wrong_is_told_as_a_command_tells_it(locked, set_cache) -> None:
    for password in ("", ":wrong@", "nobody:wrong@"):
        set_cache(locked.url.replace("//", f"//{password}"))
        [warning] = messages()
        assert warning.id == "django_redsess.W050"
        assert "wrong@" not in warning.msg + warning.hint
        with pytest.raises(CommandError) as raised:
            call_command("online")
        assert str(raised.value) == f"{warning.msg} What to change: {warning.hint}"
    set_cache(locked.url.replace("//", "//:hush@"))
    assert found() == []


@pytest.mark.both_servers
def test_a_database_that_the_server_lacks_is_warned_of(server, set_cache) -> None:
    set_cache(server.url.replace("/0", "/99"))
    assert found() == ["W050"]


@pytest.mark.both_servers
def test_tls_to_a_server_without_it_is_warned_of(locked, server, set_cache) -> None:
    for each in (locked, server):
        set_cache(each.url.replace("redis:", "rediss:"))
        assert found() == ["W051"]


@contextmanager
def serving_as(handler: type[socketserver.BaseRequestHandler]) -> Iterator[str]:
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), handler) as serving:
        serving.daemon_threads, serving.block_on_close = True, False
        threading.Thread(target=serving.serve_forever, daemon=True).start()
        yield f"redis://127.0.0.1:{serving.server_address[1]}/0"
        serving.shutdown()


def test_a_server_below_7_is_warned_of(server, set_cache) -> None:
    # A real server, with another version in what it says of itself.
    told = server.client.info("server")
    version = told.get("valkey_version", told["redis_version"]).encode()

    class Older(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", server.port)) as behind:
                while asked := self.request.recv(65536):
                    behind.sendall(asked)
                    self.request.sendall(behind.recv(65536).replace(version, b"6" + version[1:]))

    with serving_as(Older) as url:
        set_cache(url)
        assert found() == ["W052"]


def test_what_is_no_redis_at_all_is_warned_of(set_cache) -> None:
    class Greeting(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.sendall(b"SSH-2.0-any\r\n")
            self.request.recv(1024)

    with serving_as(Greeting) as url:
        set_cache(url)
        assert found() == ["W050"]


def test_a_sentinel_in_the_place_of_its_master_is_warned_of(own_server, tmp_path, set_cache) -> None:
    with behind_sentinel(own_server, tmp_path) as caches:
        [(host, port)] = caches["sessions"]["OPTIONS"]["SENTINELS"]
        set_cache(f"redis://{host}:{port}/0")
        assert found() == ["W054"]


@pytest.mark.parametrize(
    ("options", "warning"),
    [({"SOCKET_TIMEOUT": None}, "W010"), ({"CONNECTION_POOL_KWARGS": {"retry_on_timeout": True}}, "W011")],
)
def test_a_server_is_not_asked_where_the_time_outs_do_not_bound_the_wait(set_cache, silent, options, warning) -> None:
    set_cache(url_of(silent), **options)
    assert found() == [warning]
    assert not was_called(silent)


@pytest.mark.both_servers
@pytest.mark.parametrize("partitions", [1, 4])
def test_a_store_that_does_not_suit_the_site_is_told_of(redis, settings, new_session, partitions: int) -> None:
    settings.REDSESS = {"PARTITIONS": partitions}
    assert found() == []
    assert redis.keys() == []
    new_session("7")
    before = dump(redis)
    assert found() == []
    with override_settings(SECRET_KEY="another"):
        assert found() == ["E044"]
    with override_settings(SECRET_KEY="another", SECRET_KEY_FALLBACKS=[settings.SECRET_KEY]):
        assert found() == []
    with override_settings(REDSESS={"PARTITIONS": 64}):
        [message] = messages()
        assert (message.id, f"over {partitions} partitions" in message.msg) == ("django_redsess.E043", True)
    assert dump(redis) == before
    redis.hset("{redsess}:meta", "format", "1")
    assert found() == ["E045"]
