"""What developers read of an outage: its cause, and the setting to change. The page, ``check`` and commands agree."""

import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.test import AsyncClient, Client
from redis.exceptions import ClusterDownError, MasterDownError, RedisError, ResponseError
from redis.exceptions import ConnectionError as RedisConnectionError

from django_redsess.transport.causes import setting_to_change
from testproject.servers import Server, available
from tests.helpers.clusters import use_cluster
from tests.helpers.outages import TIMEOUT, caches, frozen, full, replica, without_disk, without_replicas
from tests.helpers.pooled import give, take
from tests.helpers.running import wait_until
from tests.helpers.sentinels import behind_sentinel
from tests.helpers.store import pool
from tests.helpers.visitors import Browser, assert_unavailable
from tests.transport.test_cluster_factory import made_by_openssl

pytestmark = pytest.mark.django_db


@pytest.fixture
def visitors(site, alice, own_server, settings) -> list[Browser]:
    """Users of a server of their own, over WSGI and ASGI, while DEBUG is on."""
    settings.CACHES = caches(own_server.url)
    found = [Browser(Client()), Browser(AsyncClient())]
    for each in found:
        each.sign_in(alice)
    settings.DEBUG = True
    return found


def told_to(visitor: Browser) -> tuple[str, str]:
    """Return the cause and the setting that a program gets. The page has them, too, with blanks between."""
    answer, page = (
        visitor.post(f"{visitor.views}/write/colour/red/", headers={"Accept": kind})
        for kind in ("application/json", "text/html")
    )
    assert_unavailable(answer)
    assert_unavailable(page)
    told = answer.json()
    assert "<dt>Cause:</dt> <dd>" in page.text
    assert "<dt>Setting:</dt> <dd>" in page.text
    return told["cause"], told["setting"]


def told_by_check() -> list[tuple[str, str]]:
    """Return the message and the hint of each check that has asked the server."""
    return [(each.msg, str(each.hint)) for each in run_checks(tags=["session_server"])]


def told_by_command() -> str:
    with pytest.raises(CommandError) as raised:
        call_command("endsessions", "--all", "--noinput")
    return str(raised.value)


def busy(server: Server) -> Iterator[None]:
    server.client.config_set("busy-reply-threshold", 10)
    other = redis_py.Redis(port=server.port, socket_timeout=60)

    def run() -> None:
        with pytest.raises(RedisError):
            other.eval("while true do end", 0)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: not _answers(server))
    yield
    server.client.script_kill()
    thread.join()


def _answers(server: Server) -> bool:
    try:
        return bool(server.client.ping())
    except RedisError:
        return False


STATES: dict[str, tuple[Callable[[Server], Any], str, str]] = {
    "OOM": (lambda server: full(server.client), " is full: ", "maxmemory of the server: raise it"),
    "MISCONF": (without_disk, " can't save to its disk: ", "dir of the server: make room"),
    "READONLY": (replica, " is a replica: ", "LOCATION of CACHES['sessions'] names a replica."),
    "NOREPLICAS": (without_replicas, " lacks replicas: ", "min-replicas-to-write of the server"),
    "BUSY": (contextmanager(busy), " is busy: ", "None: a script runs for too long"),
    "frozen": (frozen, " can't be reached: Timeout ", "SOCKET_TIMEOUT in OPTIONS of CACHES['sessions']"),
}


@pytest.mark.both_servers
@pytest.mark.parametrize(
    "state", [pytest.param(each, marks=[pytest.mark.slow] if each == "frozen" else []) for each in STATES]
)
def test_what_a_server_refuses_or_does_names_its_cause_and_the_setting(visitors, own_server, settings, state) -> None:
    enter, cause, setting = STATES[state]
    settings.CACHES = caches(f"{own_server.url}?client_name=hasty", timeout=TIMEOUT)
    with enter(own_server):
        for visitor in visitors:
            told = told_to(visitor)
            assert (cause in told[0], told[1].startswith(setting)) == (True, True), told
        [(message, hint)] = told_by_check()
    assert cause in message
    assert setting in hint
    assert told_by_check() == []


ADDRESSES = {
    "refused": ("redis://127.0.0.1:1/0", "connecting to 127.0.0.1:1", "nothing listens at this host and port"),
    "no such name": ("redis://no-such-host.invalid/0", "no-such-host.invalid", "has a host that nobody knows"),
    "wrong password": ("redis://shop:wrong@{at}/0", " refuses: invalid username-password", "wrong user or password"),
    "password missing": (
        "redis://{at}/0?client_name=locked",
        " wants a password: ",
        "lacks the password. Write it as 'redis://user:",
    ),
    "wrong database": ("redis://shop:hush@{at}/99", "DB index is out of range", "the number of the database"),
    "no right to a command": ("redis://limited:hush@{at}/0", "'evalsha' command", "ACL of the server: the user"),
    "no right in a script": ("redis://half:hush@{at}/0", "(HSET in the script save)", "ACL of the server"),
    "no socket": ("unix:///nowhere/redis.sock", "No such file", "names a file that does not exist"),
}


@pytest.mark.both_servers
@pytest.mark.parametrize("case", ADDRESSES)
def test_a_wrong_address_names_its_cause_and_the_setting(visitors, own_server, settings, case) -> None:
    location, cause, setting = ADDRESSES[case]
    for name, rules in {"shop": ["+@all"], "limited": ["+@all", "-evalsha"], "half": ["+@all", "-hset"]}.items():
        own_server.client.execute_command("ACL", "SETUSER", name, "on", ">hush", "~*", *rules)
    own_server.client.config_set("requirepass", "hush")
    settings.CACHES = caches(location.format(at=f"127.0.0.1:{own_server.port}"))
    for visitor in visitors:
        told = told_to(visitor)
        assert (cause in told[0], setting in told[1]) == (True, True), told
        assert "hush" not in "".join(told).replace("authenticated", "")
    [(message, hint)] = told_by_check()
    # For permissions, check has the line to type.
    assert ("ACL SETUSER" in hint) if "right" in case else (cause in message and setting in hint)
    # The command writes no session.
    command = "" if case == "no right in a script" else told_by_command()
    assert not command or (cause in command and setting in command)
    own_server.client.auth("hush")
    own_server.client.config_set("requirepass", "")


@pytest.mark.slow
def test_a_pool_without_a_free_connection_names_its_option(visitors, own_server, settings) -> None:
    settings.CACHES = caches(f"{own_server.url}?max_connections=1", timeout=TIMEOUT)
    held = take(pool())
    cause, setting = told_to(visitors[0])
    give(pool(), held)
    assert "all connections to it are in use" in cause
    assert setting.startswith("max_connections in OPTIONS of CACHES['sessions']")


@pytest.mark.slow
def test_a_server_that_reads_its_data_says_to_wait(visitors, server, settings) -> None:
    slowly = ("--key-load-delay", "1000", "--loading-process-events-interval-bytes", "1024")
    with closing(Server(server.binary, *slowly)) as loading:
        loading.client.eval("for n = 1, 3000 do redis.call('SET', 'other:' .. n, n) end", 0)
        loading.client.save()
        loading.stop()
        loading.start()
        settings.CACHES = caches(loading.url)
        told = told_to(visitors[0])
    assert (" is starting: " in told[0], told[1]) == (True, "None: wait until the server has read its data."), told


@pytest.mark.parametrize(
    ("error", "setting"),
    [
        (ClusterDownError("The cluster is down"), "cluster-require-full-coverage of the nodes"),
        (MasterDownError("Link with MASTER is down"), "LOCATION of CACHES['sessions'] names a replica."),
        (RedisConnectionError("max number of clients reached"), "maxclients of the server"),
        (ResponseError("DENIED Redis is running in protected mode"), "requirepass of the server"),
        (RedisError("something else"), "LOCATION of CACHES['sessions'] names the server: 'manage.py check' says"),
    ],
    ids=repr,
)
def test_what_other_errors_name(error: RedisError, setting: str) -> None:
    assert setting_to_change(error).startswith(setting)


def test_another_kind_of_server_is_an_outage_that_says_so(visitors, settings) -> None:
    class Web(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(1024)
            self.request.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Web) as web:
        threading.Thread(target=web.serve_forever, daemon=True).start()
        settings.CACHES = caches(f"redis://127.0.0.1:{web.server_address[1]}/0")
        for visitor in visitors:
            cause, setting = told_to(visitor)
            assert " is another kind of server: " in cause
            assert "change host and port" in setting
        [(message, hint)] = told_by_check()
        assert (" is another kind of server: " in message, "change host and port" in hint) == (True, True)
        web.shutdown()


@contextmanager
def with_tls(folder: Path, *options: str) -> Iterator[tuple[int, Path]]:
    certificate, key = made_by_openssl(folder)
    files = ("--tls-cert-file", str(certificate), "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with closing(Server(available()["redis"], "--tls-port", str(port), *files, *options)):
        yield port, certificate


TLS = {
    "nobody vouches": ("rediss://localhost:{port}/0", "CERTIFICATE_VERIFY_FAILED", "add '?ssl_ca_certs="),
    "another name": (
        "rediss://127.0.0.2:{port}/0?ssl_ca_certs={file}&ssl_check_hostname=True",
        "not valid for",
        "has another host than the server's certificate",
    ),
    "plain": ("redis://localhost:{port}/0", "reset by peer", "begin it with rediss://"),
}


@pytest.mark.slow
@pytest.mark.skipif("redis" not in available(), reason="the embedded server has no TLS")
@pytest.mark.parametrize("case", TLS)
def test_tls_that_fails_names_what_to_add_to_the_address(visitors, settings, tmp_path, case) -> None:
    location, cause, setting = TLS[case]
    with with_tls(tmp_path, "--tls-auth-clients", "no", "--bind", "127.0.0.1", "127.0.0.2") as (port, certificate):
        settings.CACHES = caches(location.format(port=port, file=certificate))
        told = told_to(visitors[0])
    assert setting in told[1], told
    assert cause in told[0] or case == "plain", told


@pytest.mark.slow
def test_a_cluster_names_what_its_nodes_lack(visitors, own_cluster, own_server, settings) -> None:
    before, told = settings.REDSESS, set()
    use_cluster(settings, own_server.url)
    assert "remove CONNECTION_FACTORY" in told_to(visitors[0])[1]
    settings.REDSESS = before
    for node in own_cluster.primaries:
        settings.CACHES = caches(node.url)
        answer: Any = visitors[0].post("/write/colour/red/", headers={"Accept": "application/json"})
        told.add(answer.json()["setting"] if answer.status_code == 503 else "")
    assert any("'CONNECTION_FACTORY': 'django_redsess.cluster." in setting for setting in told)


def test_sentinels_that_know_no_such_master_name_location(visitors, own_server, tmp_path, settings) -> None:
    with behind_sentinel(own_server, tmp_path) as behind:
        behind["sessions"]["LOCATION"] = "redis://another/0"
        settings.CACHES = behind
        cause, setting = told_to(visitors[0])
    assert "No master found for 'another'" in cause
    assert setting.startswith("LOCATION of CACHES['sessions'] has the name of the master")
