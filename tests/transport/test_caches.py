"""What an entry of CACHES says, with each backend, and sessions that connect as it says."""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import redis as redis_py
from django.core.cache import caches

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport import connections
from django_redsess.transport.caches import UnfitEntry, backend_of
from django_redsess.transport.cluster_map import Cluster
from testproject.servers import Server, available, free_port
from tests.helpers.backends import BACKENDS, OTHERS, entry
from tests.helpers.clusters import use_cluster
from tests.helpers.outages import frozen
from tests.helpers.pooled import take
from tests.helpers.running import run_python
from tests.helpers.store import stored
from tests.transport.test_cluster_factory import made_by_openssl

SECRET = "se:cr/et@#?%"
QUOTED = "se%3Acr%2Fet%40%23%3F%25"

Use = Callable[..., Any]


@pytest.fixture
def use(settings) -> Iterator[Use]:
    """Return a function that makes an entry the sessions' one, and returns their pool."""
    made: list[Any] = []

    def use(given: dict[str, Any]) -> Any:
        settings.CACHES = {"sessions": given}
        made.append(connections.pool())
        return made[-1]

    yield use
    for pool in made:
        pool.disconnect()


DEFAULTS = {"socket_timeout": 0.5, "socket_connect_timeout": 0.5}
DJANGO: dict[str, Any] = {"BACKEND": BACKENDS["Django"]}
VALKEY: dict[str, Any] = {"BACKEND": BACKENDS["django-valkey"]}
PLAIN, TLS, UNIX = "Connection", "SSLConnection", "UnixDomainSocketConnection"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "kind", "expected"),
    [
        ({**DJANGO, "LOCATION": "redis://h:7/3"}, PLAIN, {"host": "h", "port": 7, "db": 3, **DEFAULTS}),
        ({**DJANGO, "LOCATION": "redis://h;redis://i"}, PLAIN, {"host": "h"}),
        ({**DJANGO, "LOCATION": "redis://h,redis://i"}, PLAIN, {"host": "h"}),
        ({**DJANGO, "LOCATION": ["redis://h", "redis://i"]}, PLAIN, {"host": "h"}),
        ({**DJANGO, "LOCATION": "rediss://h?ssl_cert_reqs=none"}, TLS, {"ssl_cert_reqs": "none"}),
        ({**DJANGO, "LOCATION": "unix:///run/x.sock?db=2"}, UNIX, {"path": "/run/x.sock", "db": 2}),
        (
            {**DJANGO, "LOCATION": "redis://h/1", "OPTIONS": {"db": 4, "username": "u", "password": "p"}},
            PLAIN,
            {"db": 1, "username": "u", "password": "p"},
        ),
        (
            {**DJANGO, "LOCATION": "redis://h?socket_timeout=3", "OPTIONS": {"socket_connect_timeout": 2}},
            PLAIN,
            {"socket_timeout": 3.0, "socket_connect_timeout": 2},
        ),
        ({**DJANGO, "LOCATION": "redis://h", "OPTIONS": {"serializer": "no.where"}}, PLAIN, DEFAULTS),
        (
            {**DJANGO, "LOCATION": "redis://h", "OPTIONS": {"parser_class": "redis._parsers._RESP2Parser"}},
            PLAIN,
            {"parser_class": redis_py._parsers._RESP2Parser},
        ),
        ({**VALKEY, "LOCATION": "valkey://h:7/3"}, PLAIN, {"host": "h", "port": 7, "db": 3, **DEFAULTS}),
        ({**VALKEY, "LOCATION": "redis://u:p@h,valkey://i"}, PLAIN, {"host": "h", "username": "u", "password": "p"}),
        ({**VALKEY, "LOCATION": ("valkey://h", "valkey://i")}, PLAIN, {"host": "h"}),
        ({**VALKEY, "LOCATION": "VALKEYS://h"}, TLS, {"host": "h"}),
        ({**VALKEY, "LOCATION": "rediss://h?ssl_ca_certs=/ca.pem"}, TLS, {"ssl_ca_certs": "/ca.pem"}),
        ({**VALKEY, "LOCATION": "unix:/run/x.sock?db=2"}, UNIX, {"path": "/run/x.sock", "db": 2}),
        ({**VALKEY, "LOCATION": "unix:///run/x.sock"}, UNIX, {"path": "/run/x.sock"}),
        (
            {
                **VALKEY,
                "LOCATION": "valkey://h",
                "OPTIONS": {
                    "CLIENT_CLASS": "django_valkey.client.HerdClient",
                    "COMPRESSOR": "django_valkey.compressors.zlib.ZlibCompressor",
                    "PARSER_CLASS": "valkey.connection.DefaultParser",
                    "USERNAME": "u",
                    "PASSWORD": "p",
                    "SOCKET_TIMEOUT": 2,
                    "SOCKET_CONNECT_TIMEOUT": 0,
                    "CONNECTION_POOL_KWARGS": {"client_name": "shop", "retry": None, "retry_on_error": []},
                },
            },
            PLAIN,
            {
                "username": "u",
                "password": "p",
                "client_name": "shop",
                "socket_timeout": 2,
                "socket_connect_timeout": 0.5,
            },
        ),
        (
            {
                **VALKEY,
                "LOCATION": "valkey://h",
                "OPTIONS": {"SOCKET_TIMEOUT": 2, "CONNECTION_POOL_KWARGS": {"socket_timeout": None, "db": 3}},
            },
            PLAIN,
            {"socket_timeout": None, "db": 3},
        ),
    ],
)
def test_an_entry_is_read(use, given: dict[str, Any], kind: str, expected: dict[str, Any]) -> None:
    pool = use(given)
    assert pool.connection_class is getattr(redis_py.connection, kind)
    assert expected.items() <= pool.connection_kwargs.items()
    # redis-py takes all of it, and repeats nothing by itself.
    assert pool.connection_class(**pool.connection_kwargs).retry._retries == 0


@pytest.mark.unit
@pytest.mark.parametrize("backend", OTHERS)
def test_who_waits_for_a_connection_waits_no_longer_than_for_a_reply(use, backend: str) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    blocking, plain = "BlockingConnectionPool", "ConnectionPool"
    assert use(entry(backend, url)).wait_seconds == 0.5
    assert use(entry(backend, url, seconds=2, pool_class=plain, max_connections=7)).wait_seconds == 2
    assert use(entry(backend, url, pool_class=blocking)).wait_seconds == 0.5
    assert use(entry(backend, f"{url}?socket_timeout=3", pool_class=blocking)).wait_seconds == 3
    pool = use({**entry(backend, url, pool_class=blocking, max_connections=7)})
    assert (pool.max_connections, pool.wait_seconds) == (7, 0.5)
    assert use(entry(backend, f"{url}?timeout=4", pool_class=blocking)).wait_seconds == 4


@pytest.mark.unit
def test_a_class_of_pools_may_be_given_itself(use) -> None:
    given = {**DJANGO, "LOCATION": "redis://h", "OPTIONS": {"pool_class": redis_py.BlockingConnectionPool}}
    assert use(given).max_connections == 50


class OwnPool(redis_py.ConnectionPool):
    """A class of pools that is not redis-py's."""


VALKEY_FACTORY = "django_valkey.pool.SentinelConnectionFactory"


@pytest.mark.unit
@pytest.mark.parametrize(
    ("given", "about", "named"),
    [
        ({"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}, "entry", "CACHES['sessions']"),
        ({"BACKEND": "django_valkey.cluster_cache.cache.ClusterValkeyCache"}, "backend", "ClusterValkeyCache"),
        ({**DJANGO, "OPTIONS": {"pool_class": OwnPool}}, "backend", "pool_class"),
        ({**DJANGO, "OPTIONS": {"pool_class": f"{__name__}.OwnPool"}}, "backend", "pool_class"),
        ({**DJANGO, "OPTIONS": {"pool_class": "redis.sentinel.SentinelConnectionPool"}}, "backend", "pool_class"),
        ({**DJANGO, "OPTIONS": {"SENTINELS": [("h", 26379)]}}, "backend", "SENTINELS"),
        ({**VALKEY, "OPTIONS": {"SENTINELS": [("h", 26379)]}}, "backend", "SENTINELS"),
        ({**VALKEY, "OPTIONS": {"CONNECTION_FACTORY": VALKEY_FACTORY}}, "backend", "CONNECTION_FACTORY"),
        ({**VALKEY, "OPTIONS": {"CLIENT_CLASS": "django_valkey.client.SentinelClient"}}, "backend", "SentinelClient"),
        ({**VALKEY, "OPTIONS": {"CLIENT_CLASS": "django_valkey.client.ShardClient"}}, "backend", "ShardClient"),
        ({**VALKEY, "OPTIONS": {"CONNECTION_POOL_CLASS": f"{__name__}.OwnPool"}}, "backend", "CONNECTION_POOL_CLASS"),
        ({**VALKEY, "OPTIONS": {"CONNECTION_POOL_KWARGS": {"retry": object()}}}, "option", "retry"),
        ({**VALKEY, "OPTIONS": {"CONNECTION_POOL_KWARGS": {"retry_on_error": [OSError]}}}, "option", "retry_on_error"),
        ({**VALKEY, "OPTIONS": {"CONNECTION_POOL_KWARGS": {"cache_enabled": True}}}, "option", "cache_enabled"),
    ],
)
def test_what_cannot_be_carried_over_is_refused_by_name(use, given: dict[str, Any], about: str, named: str) -> None:
    with pytest.raises(UnfitEntry) as refused:
        use({"LOCATION": "redis://:hush@127.0.0.1", **given})
    assert refused.value.about == about
    assert named in str(refused.value)
    assert "hush" not in str(refused.value) + refused.value.hint


@pytest.mark.unit
def test_a_factory_for_all_of_django_valkey_is_refused(use, settings) -> None:
    settings.DJANGO_VALKEY_CONNECTION_FACTORY = VALKEY_FACTORY
    with pytest.raises(UnfitEntry, match="CONNECTION_FACTORY"):
        use({**VALKEY, "LOCATION": "valkey://h"})
    settings.DJANGO_VALKEY_CONNECTION_FACTORY = "django_valkey.pool.ConnectionFactory"
    assert use({**VALKEY, "LOCATION": "valkey://h"}).connection_kwargs["host"] == "h"


@pytest.mark.unit
@pytest.mark.parametrize("backend", BACKENDS)
def test_equal_settings_share_a_pool(use, backend: str) -> None:
    url = f"redis://127.0.0.1:{free_port()}"
    pool = use(entry(backend, url))
    assert use({**entry(backend, url), "TIMEOUT": 5}) is pool
    assert use(entry(backend, f"{url}/1")) is not pool
    if backend in OTHERS:
        assert use(entry(backend, url, max_connections=3)) is not pool


@pytest.mark.unit
def test_a_backend_that_derives_from_one_is_one() -> None:
    assert {str(path) for path in BACKENDS.values()} == {
        backend_of({"BACKEND": each}).path for each in BACKENDS.values()
    }
    assert backend_of({"BACKEND": "django_prometheus.cache.backends.redis.RedisCache"}).name == "django-redis"
    assert backend_of({"BACKEND": "django_prometheus.cache.backends.redis.NativeRedisCache"}).name.startswith(
        "Django's"
    )
    assert backend_of({"BACKEND": "no.where"}) is backend_of({}) is None


def test_a_cluster_stays_with_django_redis(cluster, settings) -> None:
    use_cluster(settings, cluster.urls[0])
    assert isinstance(connections.pool(), Cluster)


def visit() -> None:
    """Save and load a session."""
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    assert SessionStore(session.session_key)["colour"] == "blue"


async def avisit() -> None:
    session = SessionStore()
    await session.aset("colour", "blue")
    await session.asave()
    assert await SessionStore(session.session_key).aget("colour") == "blue"


async def avisit_at_once() -> None:
    await asyncio.gather(*(avisit() for _ in range(5)))


@pytest.mark.both_servers
@pytest.mark.parametrize(("backend", "protocol"), [("django-redis", 3), ("Django", 2), ("django-valkey", 3)])
def test_threads_and_loops_share_the_store(use, server, redis, backend: str, protocol: int) -> None:
    use(entry(backend, server.url, seconds=5, protocol=protocol, client_name=f"of-{protocol}"))
    with ThreadPoolExecutor(4) as threads:
        for each in [threads.submit(visit) for _ in range(8)]:
            each.result()
        for each in [threads.submit(asyncio.run, avisit_at_once()) for _ in range(2)]:
            each.result()
    assert stored(redis) == 18
    # Equal settings are found again, after the cache was used, too.
    caches["sessions"].set("number", 1)
    caches["sessions"].delete("number")
    visit()


@pytest.fixture(params=available())
def closed(request, tmp_path) -> Iterator[tuple[Server, Path, int | None]]:
    """
    A server that asks for a user and a password, with its socket of the file system, and its port for TLS.

    The port is None where the server knows no TLS; the certificate is beside the socket.
    """
    options = ["--unixsocket", str(tmp_path / "server.sock"), "--user", "shop", "on", f">{SECRET}", "~*", "&*", "+@all"]
    port = None
    if request.param == "redis":
        certificate, key = made_by_openssl(tmp_path)
        port = free_port()
        options += ["--tls-port", str(port), "--tls-auth-clients", "no", "--tls-cert-file", str(certificate)]
        options += ["--tls-key-file", str(key), "--tls-ca-cert-file", str(certificate)]
    started = Server(available()[request.param], *options)
    started.client.execute_command("ACL", "SETUSER", "default", "resetpass", f">{SECRET}2")
    yield started, tmp_path, port
    started.close()


@pytest.mark.slow
@pytest.mark.parametrize("where", ["url", "options", "unix", "tls"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_credentials_sockets_and_tls(closed, use, backend: str, where: str) -> None:
    started, folder, tls_port = closed
    options: dict[str, Any] = {}
    if where == "options":
        url, options = f"redis://127.0.0.1:{started.port}/2", {"username": "shop", "password": SECRET}
    elif where == "unix":
        url = f"unix://shop:{QUOTED}@{folder}/server.sock?db=2"
    elif where == "tls":
        if tls_port is None:
            pytest.skip("this server has no TLS")
        url = f"rediss://shop:{QUOTED}@localhost:{tls_port}/2"
        options = {"ssl_ca_certs": str(folder / "certificate.pem")}
    else:
        url = f"redis://shop:{QUOTED}@127.0.0.1:{started.port}/2"
    pool = use(entry(backend, url, seconds=5, **options))
    visit()
    asyncio.run(avisit())
    assert take(pool).connection.db == 2


@pytest.mark.parametrize("backend", OTHERS)
def test_an_outage_is_over_in_its_time_and_signs_nobody_out(own_server, use, backend: str) -> None:
    pool = use(entry(backend, own_server.url))
    # This is (1 + repetitions) times the time-out, with one repetition.
    assert 2 * max(pool.connection_kwargs["socket_timeout"], pool.connection_kwargs["socket_connect_timeout"]) < 1.5
    session = SessionStore()
    session["colour"] = "blue"
    session.save()
    with frozen(own_server):
        with pytest.raises(SessionStoreUnavailable):
            SessionStore(session.session_key).load()
        with pytest.raises(SessionStoreUnavailable):
            asyncio.run(SessionStore(session.session_key).aload())
    assert SessionStore(session.session_key)["colour"] == "blue"


def calls_of(work: Callable[[], object]) -> int:
    """Count the functions of Python that ``work`` calls. The fewest of several: each second there is more to do."""
    called = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal called
        called += event == "call"

    counts = []
    gc.disable()
    for _ in range(6):
        called = 0
        sys.setprofile(note)
        try:
            work()
        finally:
            sys.setprofile(None)
        counts.append(called)
    gc.enable()
    return min(counts)


def test_a_load_and_a_save_cost_the_same_with_each(use, server, commands, new_session) -> None:
    key = new_session(user="7", basket=3).session_key

    def load() -> None:
        SessionStore(key).load()

    def save() -> None:
        session = SessionStore(key)
        session["basket"] = session["basket"] + 1
        session.save()

    def costs_of(backend: str) -> Any:
        use(entry(backend, server.url, seconds=5))
        calls = calls_of(load), calls_of(save)
        commands()
        load()
        save()
        return calls, {name: count for name, count in commands().items() if name != "info"}

    def costs() -> list[Any]:
        return [costs_of(backend) for backend in BACKENDS]

    # An interval of touches may begin in the midst of one. A difference that is there is there each time.
    found = next((each for each in (costs() for _ in range(5)) if each[1:] == each[:-1]), costs())
    assert found[1:] == found[:-1]


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("django_valkey", "valkey"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Missing())
from django.conf import settings
from tests.helpers.backends import entry
settings.configure(SESSION_CACHE_ALIAS="sessions", CACHES={"sessions": entry("Django", sys.argv[1])})
import django
django.setup()
from django_redsess.transport import attempts, connections
print(attempts.ask_server(connections.pool(), "PING"))
"""


@pytest.mark.slow
def test_django_valkey_need_not_be_installed(server) -> None:
    assert run_python("-c", WITHOUT, server.url, quiet=True) == "b'PONG'\n"
