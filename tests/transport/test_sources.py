"""Connections of event loops have the class and the options of those of threads, or say that they can't."""

import asyncio
import inspect
import ssl
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis as redis_py
import redis.asyncio
from django.core.checks import CheckMessage
from django.core.exceptions import ImproperlyConfigured

from django_redsess.checks import cache as cache_checks
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import connections, sources
from testproject.servers import Server, available, free_port
from tests.helpers.backends import entry
from tests.helpers.outages import PATIENCE
from tests.helpers.pooled import take
from tests.helpers.store import afetch, fetch
from tests.transport.test_pools import PING

SYNC = {each: getattr(redis_py, each) for each in ("Connection", "SSLConnection", "UnixDomainSocketConnection")}


@pytest.fixture
def use(settings) -> Iterator[Callable[..., Any]]:
    """Return a function that gives the sessions a pool for ``url`` and these options."""
    made: list[Any] = []

    def use(url: str, **options: Any) -> Any:
        settings.CACHES = {"sessions": entry("Django", url, seconds=PATIENCE, **options)}
        made.append(connections.pool())
        return made[-1]

    yield use
    for pool in made:
        pool.disconnect()


def in_threads() -> bool:
    try:
        return fetch("ping", PING, 1) == [b"PONG"]
    except SessionStoreUnavailable:
        return False


def in_a_loop() -> bool:
    async def ask() -> bool:
        return await afetch("ping", PING, 1) == [b"PONG"]

    try:
        return asyncio.run(ask())
    except SessionStoreUnavailable:
        return False


async def of_event_loop(pool: Any) -> Any:
    """Return the pool of redis-py that the running event loop uses in place of that of ``pool``."""
    made = await connections.loop_pool(pool)
    return made.source


def asgi_checks() -> list[CheckMessage]:
    return cache_checks.check_event_loops()


# Options of the connection, in both halves, by redis-py's own signatures.


def known(cls: type) -> dict[str, Any]:
    """Return what the constructors of ``cls`` take, as far as one hands its options on."""
    found: dict[str, Any] = {}
    for each in cls.__mro__:
        if "__init__" in vars(each) and each is not object:
            parameters = inspect.signature(each.__init__).parameters.values()
            found |= {one.name: one.default for one in parameters if one.kind is not one.VAR_KEYWORD}
            if not any(one.kind is one.VAR_KEYWORD for one in parameters):
                break
    return found


@pytest.mark.unit
@pytest.mark.parametrize("name", SYNC)
def test_every_option_that_both_halves_know_reaches_both(name: str) -> None:
    sync, other = SYNC[name], getattr(redis.asyncio, name)
    both = known(sync).keys() & known(other).keys() - {"self"}
    reaching = {each for each in both if each not in sources.NOT_SHARED}
    # What one half keeps for itself are classes, functions, repetitions and what redis-py notes of a pool.
    assert {"host", "path"} & reaching
    assert {"db", "username", "socket_timeout", "socket_read_size", "encoding", "protocol"} <= reaching
    assert not [each for each in sources.NOT_SHARED if each.startswith("ssl_")]
    value = object()
    pool = redis_py.ConnectionPool(connection_class=sync)
    pool.connection_kwargs = dict.fromkeys(both, value)
    assert set(sources.options_for(other, pool)) - {"maint_notifications_config"} == reaching - {
        "maint_notifications_config"
    }
    if name == "SSLConnection":
        flags = {each for each in both if each.startswith("ssl_")}
        assert {"ssl_ca_certs", "ssl_cert_reqs", "ssl_check_hostname"} < flags < reaching


def signed(folder: Path) -> tuple[Path, Path]:
    """Return a certificate and its key. It names no key of its signer, ``ca.pem``."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    (folder / "extensions").write_text(
        "subjectAltName=DNS:localhost\nauthorityKeyIdentifier=none\nsubjectKeyIdentifier=none\n"
    )
    new = ("req", "-newkey", "rsa:2048", "-nodes")
    openssl(*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca-key.pem", "-out", "ca.pem")
    openssl(*new, "-subj", "/CN=localhost", "-keyout", "key.pem", "-out", "request.pem")
    by = ("-CA", "ca.pem", "-CAkey", "ca-key.pem", "-CAcreateserial", "-extfile", "extensions")
    openssl("x509", "-req", "-days", "2", "-in", "request.pem", *by, "-out", "certificate.pem")
    return folder / "certificate.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """The URL of a server with TLS, and the certificate of who has signed its own."""
    if "redis" not in available():
        pytest.skip("the embedded server has no TLS")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = signed(folder)
    port = free_port()
    options = ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)]
    server = Server(available()["redis"], *options, "--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate))
    yield f"rediss://localhost:{port}", folder / "ca.pem"
    server.close()


CRL, STRICT = ssl.VerifyFlags.VERIFY_CRL_CHECK_LEAF, ssl.VerifyFlags.VERIFY_X509_STRICT
VERIFYING: list[tuple[dict[str, Any], bool]] = [
    # Python 3.13 looks at all certificates strictly.
    ({}, sys.version_info < (3, 13)),
    ({"ssl_include_verify_flags": [STRICT]}, False),
    ({"ssl_exclude_verify_flags": [STRICT]}, True),
    # There is no such list of revoked certificates: the connection must be refused.
    ({"ssl_include_verify_flags": [CRL], "ssl_exclude_verify_flags": [STRICT]}, False),
    ({"ssl_include_verify_flags": [CRL], "ssl_exclude_verify_flags": [STRICT, CRL]}, True),
    ({"ssl_min_version": ssl.TLSVersion.TLSv1_3, "ssl_exclude_verify_flags": [STRICT]}, True),
]


@pytest.mark.parametrize(("options", "works"), VERIFYING)
def test_both_halves_verify_alike(encrypted, use, options: dict[str, Any], works: bool) -> None:
    url, signer = encrypted
    if not options.keys() <= known(redis_py.SSLConnection).keys():
        pytest.skip("this redis-py does not know these options")
    use(url, ssl_ca_certs=str(signer), **options)
    assert (in_threads(), in_a_loop()) == (works, works)


@pytest.mark.skipif(sources.MaintNotificationsConfig is None, reason="this redis-py has none")
@pytest.mark.parametrize("enabled", [False, "auto"])
def test_messages_about_maintenance_are_as_the_alias_has_them_in_both_halves(server, use, enabled: Any) -> None:
    config = sources.MaintNotificationsConfig(enabled=enabled)
    pool = use(server.url, protocol=3, maint_notifications_config=config)
    assert bool(pool.source.maint_notifications_enabled()) == bool(enabled)
    of_loop = asyncio.run(of_event_loop(pool))
    # redis-py 7 knows them for threads only.
    knows = "maint_notifications_config" in known(redis.asyncio.Connection)
    assert bool(getattr(of_loop, "maint_notifications_enabled", bool)()) == (bool(enabled) and knows)


# A class of connections of one's own.


class Tunnel(redis_py.Connection):
    """A connection that the site made its own, with an option of its own."""

    def __init__(self, *, tunnel: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.tunnel = tunnel


class AsyncTunnel(redis.asyncio.Connection):
    def __init__(self, *, tunnel: str = "", **options: Any) -> None:
        super().__init__(**options)
        self.tunnel = tunnel


class Encrypted(redis_py.SSLConnection):
    """As before, with TLS."""


class Managed(redis_py.sentinel.SentinelManagedConnection):
    """As before, behind Sentinel."""


class AsyncManaged(redis.asyncio.sentinel.SentinelManagedConnection):
    """As before, behind Sentinel."""


NAMED = {"ASYNC_CONNECTION_CLASS": f"{__name__}.AsyncTunnel"}


@pytest.mark.parametrize("blocking", [False, True])
def test_a_class_of_ones_own_serves_event_loops_by_the_counterpart_that_is_named(
    server, settings, use, blocking: bool
) -> None:
    kind = {"pool_class": "BlockingConnectionPool"} if blocking else {}
    pool = use(server.url, connection_class=Tunnel, tunnel="t", **kind)
    settings.REDSESS = {**settings.REDSESS, **NAMED}
    assert (in_threads(), in_a_loop()) == (True, True)
    assert take(pool).connection.tunnel == "t"
    source = asyncio.run(of_event_loop(pool))
    assert (source.connection_class, source.connection_kwargs["tunnel"]) == (AsyncTunnel, "t")
    assert asgi_checks() == []


def test_without_one_it_serves_threads_alone_and_says_so(server, settings, use) -> None:
    use(server.url, connection_class=Tunnel, tunnel="t")
    assert in_threads()
    with pytest.raises(ImproperlyConfigured, match="ASYNC_CONNECTION_CLASS"):
        in_a_loop()
    [told] = asgi_checks()
    assert told.id == "django_redsess.W072"
    assert f"{__name__}.Tunnel" in told.msg


@pytest.mark.parametrize(
    ("own", "path", "words"),
    [
        (Tunnel, "shop.no_such_module.AsyncTunnel", "can't be imported"),
        (Tunnel, "redis.asyncio.ConnectionPool", "does not derive from redis.asyncio.connection.Connection"),
        # It would speak without TLS, or to a server that the sentinels do not name.
        (Encrypted, f"{__name__}.AsyncTunnel", "does not derive from redis.asyncio.connection.SSLConnection"),
    ],
)
def test_a_counterpart_of_another_kind_is_refused(server, settings, use, own: type, path: str, words: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "ASYNC_CONNECTION_CLASS": path}
    use(server.url, connection_class=own)
    with pytest.raises(ImproperlyConfigured, match=words):
        in_a_loop()
    [told] = asgi_checks()
    assert told.id == "django_redsess.E073"
    assert words in told.msg


@pytest.mark.unit
def test_behind_sentinel_the_counterpart_is_one_behind_sentinel(settings) -> None:
    manager = redis_py.sentinel.Sentinel([("localhost", 1)], min_other_sentinels=2)
    found = redis_py.sentinel.SentinelConnectionPool("name", manager, connection_class=Managed, db=3)
    settings.REDSESS = {**settings.REDSESS, **NAMED}
    with pytest.raises(ImproperlyConfigured, match="SentinelManagedConnection"):
        sources.loop_source_like(found)
    settings.REDSESS = {**settings.REDSESS, "ASYNC_CONNECTION_CLASS": f"{__name__}.AsyncManaged"}
    made = sources.loop_source_like(found)
    assert (made.connection_class, made.connection_kwargs["db"]) == (AsyncManaged, 3)
    assert made.sentinel_manager.min_other_sentinels == 2
    [sentinel] = made.sentinel_manager.sentinels
    # The sentinels themselves have connections of redis-py's class.
    assert sentinel.connection_pool.connection_class is redis.asyncio.Connection


# Options that one half alone knows.


@pytest.mark.parametrize("option", ["ssl_validate_ocsp", "ssl_ocsp_expected_cert"])
def test_what_protects_threads_alone_keeps_event_loops_from_connecting(use, option: str) -> None:
    use("rediss://localhost:1", **{option: "yes"})
    with pytest.raises(ImproperlyConfigured, match=option):
        in_a_loop()
    [told] = asgi_checks()
    assert told.id == "django_redsess.W071"
    assert option in told.msg
    assert "refuse" in told.msg


def test_what_is_said_as_it_is_anyway_is_not_told_of(use) -> None:
    use("rediss://localhost:1", ssl_validate_ocsp=False, ssl_ocsp_context=None)
    assert asgi_checks() == []
    assert not in_a_loop()


def no_name(connection: Any) -> None:
    connection.on_connect()


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"redis_connect_func": no_name}, "redis_connect_func"),
        ({"connection_class": Tunnel, "tunnel": "t"}, "tunnel"),
    ],
)
def test_what_event_loops_go_without_is_told(server, settings, use, options: dict[str, Any], name: str) -> None:
    plain = {"ASYNC_CONNECTION_CLASS": "redis.asyncio.connection.Connection"}
    settings.REDSESS = {**settings.REDSESS, **plain}
    use(server.url, **options)
    assert (in_threads(), in_a_loop()) == (True, True)
    [told] = asgi_checks()
    assert told.id == "django_redsess.W071"
    assert name in told.msg
