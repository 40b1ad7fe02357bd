"""What is found wrong with the entry of CACHES: their connections, pools, time-outs and retries."""

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError
from redis.retry import Retry

from django_redsess import online
from django_redsess.backend import SessionStore
from testproject import servers
from tests.helpers.backends import BACKENDS, OTHERS, entry
from tests.helpers.checks import NEVER, TIMEOUTS, SetCache, found, messages, was_called

LOCAL = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}


@pytest.mark.parametrize(
    ("alias", "entries", "wrong", "hint"),
    [
        ("missing", ["sessions"], "which does not exist", "Set SESSION_CACHE_ALIAS = 'sessions': "),
        ("local", ["sessions"], "LocMemCache' is no cache of", "Set SESSION_CACHE_ALIAS = 'sessions': "),
        ("missing", [], "which does not exist", "Add to CACHES: 'missing': {'BACKEND': 'django_redis"),
        ("local", [], "LocMemCache' is no cache of", "Write this entry as 'local': {'BACKEND': 'django_redis"),
        ("default", [], "LocMemCache' is no cache of", "Leave it as it is. Set SESSION_CACHE_ALIAS = 'sessions'"),
    ],
)
def test_a_cache_that_sessions_cannot_use_is_told_with_what_to_type(settings, alias, entries, wrong, hint) -> None:
    others = {"default": LOCAL, "local": LOCAL}
    settings.CACHES = {**others, **{name: settings.CACHES[name] for name in entries}}
    settings.SESSION_CACHE_ALIAS = alias
    [error] = messages()
    assert (error.id, wrong in error.msg, error.hint.startswith(hint)) == ("django_redsess.E004", True, True)


@pytest.mark.parametrize(
    ("location", "options"),
    [
        ("http://:hush@127.0.0.1", {}),
        ("127.0.0.1:6379", {}),
        ([6379], {}),
        # A slash in a password has to be escaped: this is a port "hush".
        ("redis://:hush/1@127.0.0.1", {}),
        ("redis://:hush,1@127.0.0.1", {}),
        ("redis://:hush[1@127.0.0.1", {}),
        ("redis://:hush@127.0.0.1?db=hush", {}),
        ("redis://127.0.0.1/0", {"CLIENT_CLASS": "django_redis.client.ShardClient"}),
        ("redis://127.0.0.1/0", {"CONNECTION_POOL_KWARGS": {"tiemout": 1}}),
    ],
)
def test_a_cache_that_cannot_be_connected_to_is_refused_without_its_url(set_cache, location: object, options) -> None:
    set_cache(location, **options)
    [error] = messages()
    assert error.id == "django_redsess.E004"
    assert "hush" not in error.msg + error.hint


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("SOCKET_CONNECT_TIMEOUT", "OPTIONS in upper case are for django-redis: set BACKEND to 'django_redis.cache."),
        ("PASSWORD", "OPTIONS in upper case are for django-redis: set BACKEND to 'django_redis.cache."),
        ("CLIENT_CLASS", "OPTIONS in upper case are for django-redis: set BACKEND to 'django_redis.cache."),
        ("tiemout", "Check its OPTIONS in the documentation of Django's RedisCache"),
    ],
)
def test_options_of_django_redis_in_an_entry_of_django_are_named(set_cache, settings, server, option, hint) -> None:
    settings.CACHES = {**settings.CACHES, "sessions": entry("Django", server.url, **{option: "hush"})}
    [error] = messages()
    assert (error.id, f"(TypeError: {option})" in error.msg) == ("django_redsess.E004", True)
    assert error.hint.startswith(hint)
    assert "hush" not in error.msg + error.hint


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("redis://127.0.0.1:{port}/3", "redis://localhost:{port}?db=3"),
        ("redis://127.0.0.1:{port}", "rediss://127.0.0.1:{port}/0"),
        ("redis://127.0.0.1:{port}/0", "redis://elsewhere:6379/0,redis://127.0.0.1:{port}/0"),
        ("redis://127.0.0.1:{port}/0", ["redis://elsewhere:6379/0", "redis://127.0.0.1:{port}/0"]),
        ("unix:///run/no-such.sock?db=2", "unix:///run/no-such.sock?db=2"),
    ],
)
def test_a_cache_in_the_database_of_the_sessions_is_warned_of(set_cache, server, ours: str, theirs) -> None:
    set_cache(ours.format(port=server.port))
    here = [url.format(port=server.port) for url in ([theirs] if isinstance(theirs, str) else theirs)]
    for backend in BACKENDS.values():
        set_cache(here[0] if isinstance(theirs, str) else here, alias="pages", backend=backend)
        assert set(found()) - {"I049"} == {"W009"}, backend


def test_a_cache_elsewhere_is_fine(set_cache, server) -> None:
    for location in (
        *(f"redis://127.0.0.1:{server.port}/1", f"redis://elsewhere:{server.port}/0", "redis://127.0.0.1:1/0"),
        *("unix:///run/no-such.sock?db=0", "redis://127.0.0.1:nonsense/0", "unique-snowflake"),
        *(["127.0.0.1:11211", "127.0.0.1:11212"], None),
    ):
        set_cache(location, alias="pages", backend="django.core.cache.backends.redis.RedisCache")
        assert found() == [], location


def test_the_number_of_a_database_is_read_from_the_options_that_the_cache_reads_it_from(set_cache, server) -> None:
    without_number = f"redis://127.0.0.1:{server.port}"
    set_cache(without_number, CONNECTION_POOL_KWARGS={"db": 1})
    set_cache(without_number, alias="pages", db=1)  # django-redis does not read it there: database 0
    assert found() == []
    set_cache(without_number, alias="pages", backend="django.core.cache.backends.redis.RedisCache", db=1)
    assert found() == ["W009"]
    set_cache(without_number, alias="pages", CONNECTION_POOL_KWARGS={"db": "1"})
    assert found() == ["W009"]


def test_sessions_in_the_default_cache_are_warned_of(settings, set_cache) -> None:
    set_cache(alias="default", **TIMEOUTS)
    settings.SESSION_CACHE_ALIAS = "default"
    settings.CACHES = {"default": settings.CACHES["default"]}
    assert found() == ["W009"]


def test_options_may_be_in_the_url(set_cache, server) -> None:
    url = f"{server.url}?socket_timeout=0.5&socket_connect_timeout=0.5"
    set_cache(url, SOCKET_TIMEOUT=None, SOCKET_CONNECT_TIMEOUT=None)
    assert found() == []
    set_cache(f"{url}&retry_on_timeout=true")
    assert found() == ["W011"]


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        *(({"retry": Retry(NoBackoff(), 3)}, ["W011"]), ({"retry": NEVER}, [])),
        *(({"retry_on_timeout": True}, ["W011"]), ({"retry_on_timeout": False}, [])),
        *(({"retry_on_error": [BusyLoadingError]}, ["W011"]), ({"retry_on_error": []}, [])),
        # It changes nothing: no reply of ours is decoded.
        ({"decode_responses": True}, []),
        ({"socket_timeout": None}, ["W010"]),
    ],
)
def test_retries_of_redis_py_are_warned_of(set_cache, given: dict[str, Any], warnings) -> None:
    set_cache(CONNECTION_POOL_KWARGS=given)
    assert found() == warnings


@pytest.mark.parametrize(
    ("timeout", "warnings"),
    [({}, ["W020"]), ({"timeout": None}, ["W020"]), ({"timeout": 0.6}, ["W020"]), ({"timeout": 0.5}, [])],
)
def test_a_pool_that_makes_requests_wait_longer_than_the_server_may_is_warned_of(set_cache, timeout, warnings) -> None:
    set_cache(CONNECTION_POOL_CLASS="redis.BlockingConnectionPool", CONNECTION_POOL_KWARGS=timeout)
    assert found() == warnings


def test_a_connection_without_time_outs_is_warned_of(set_cache) -> None:
    for without in ({"SOCKET_TIMEOUT": None}, {"SOCKET_CONNECT_TIMEOUT": 0}, dict.fromkeys(TIMEOUTS)):
        set_cache(**without)
        assert found() == ["W010"]


@pytest.mark.parametrize("name", ["SOCKET_TIMOUT", "socket_timeout", "SOCKET_TIMEOUTS"])
def test_a_misspelt_time_out_is_named(set_cache, name: str) -> None:
    set_cache(SOCKET_TIMEOUT=None, SOCKET_KEEPALIVE=True, IGNORE_EXCEPTIONS=True, **{name: 0.5})
    [warning] = messages()
    assert warning.hint.startswith(f"Did you mean 'SOCKET_TIMEOUT', not {name!r}? Add to OPTIONS: ")


def test_options_of_other_names_are_not_taken_for_time_outs(set_cache) -> None:
    set_cache(SOCKET_TIMEOUT=None, SOCKET_KEEPALIVE=True, SOCKET_TYPE=1, TIMEOUT=5, CONNECT_TIMEOUT=5)
    [warning] = messages()
    assert warning.hint.startswith("Add to OPTIONS: ")


@pytest.fixture
def set_sentinel(set_cache, silent) -> SetCache:
    """Return a function that puts an entry of CACHES behind a sentinel, which never answers."""

    def change(location: str = "redis://shop/0", **options: Any) -> None:
        sentinel = {
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SENTINELS": [silent.getsockname()],
        }
        set_cache(location, **{**sentinel, **options})

    return change


def test_a_site_behind_sentinels_is_warned_of_their_retries_and_connects_to_nothing(set_sentinel, silent) -> None:
    set_sentinel(SENTINEL_KWARGS={"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "retry": Retry(NoBackoff(), 3)})
    assert found() == ["W011"]
    assert not was_called(silent)


def test_a_site_behind_sentinels_can_be_without_complaint(set_sentinel, silent) -> None:
    set_sentinel(SENTINEL_KWARGS={"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "retry": NEVER})
    assert found() == ["I049"]
    assert was_called(silent)


def test_sentinels_are_checked_as_a_server_is(set_sentinel, silent) -> None:
    kwargs = {"socket_connect_timeout": None, "socket_timeout": None, "retry": NEVER}
    pool = {"retry_on_timeout": True}
    set_sentinel(SOCKET_TIMEOUT=None, SENTINEL_KWARGS=kwargs, CONNECTION_POOL_KWARGS=pool)
    assert sorted(found()) == ["W010", "W010", "W011"]
    assert not was_called(silent)


def test_services_of_one_name_are_told_apart_by_their_sentinels(set_sentinel, silent) -> None:
    set_sentinel(SENTINEL_KWARGS={"socket_connect_timeout": 0.1, "socket_timeout": 0.1, "retry": NEVER})
    for sentinel, warned in ((("elsewhere", 26379), False), (list(silent.getsockname()), True)):
        set_sentinel(alias="pages", SENTINELS=[sentinel])
        assert ("W009" in found()) == warned


@pytest.mark.parametrize("client", [{}, {"CLIENT_CLASS": "django_redis.client.SentinelClient"}])
def test_sentinels_that_nothing_asks_are_refused(set_cache, silent, client: dict[str, Any]) -> None:
    set_cache("redis://shop/0", SENTINELS=[silent.getsockname()], **client)
    assert found() == ["E053"]
    assert not was_called(silent)


def test_of_several_servers_sessions_use_the_first_only(set_cache, server) -> None:
    urls = [server.url, f"redis://127.0.0.1:{servers.free_port()}/0"]
    for named, warnings in ((urls[:1], []), (urls, ["W055"])):
        for location in (named, ",".join(named)):
            set_cache(location)
            assert found() == warnings


DJANGO, VALKEY = BACKENDS["Django"], BACKENDS["django-valkey"]


@pytest.fixture
def set_entry(settings) -> Callable[..., None]:
    """Return a function that writes the entry of the sessions as a backend has it."""

    def change(backend: str, url: str, **options: Any) -> None:
        settings.CACHES = {**settings.CACHES, "sessions": entry(backend, url, **options)}

    return change


@pytest.mark.parametrize("backend", OTHERS)
def test_another_backend_is_without_complaint_and_needs_no_time_outs(set_entry, server, backend: str) -> None:
    set_entry(backend, server.url)
    assert found() == []
    set_entry(backend, server.url, pool_class="BlockingConnectionPool")
    assert found() == []


@pytest.mark.parametrize(
    ("options", "expected", "named"),
    [
        ({"socket_timeout": None, "socket_connect_timeout": None}, "W010", "Remove socket_connect_timeout and socket_"),
        ({"retry_on_timeout": True}, "W011", "retry_on_timeout"),
        ({"pool_class": "BlockingConnectionPool", "timeout": 3}, "W020", "'timeout': 0.5"),
    ],
)
@pytest.mark.parametrize(("backend", "place"), [("Django", "OPTIONS"), ("django-valkey", "CONNECTION_POOL_KWARGS")])
def test_hints_name_the_options_of_the_backend(set_entry, server, backend, place, options, expected, named) -> None:
    set_entry(backend, server.url, **options)
    [message] = messages()
    assert message.id == f"django_redsess.{expected}"
    assert place in message.hint
    assert named in message.hint
    assert ("CONNECTION_POOL_KWARGS" in message.hint) == (place == "CONNECTION_POOL_KWARGS")
    # Those of django-redis and django-valkey, which would not help here.
    assert "SOCKET_TIMEOUT" not in message.hint


@pytest.mark.parametrize(
    ("backend", "options", "expected"),
    [
        (DJANGO, {"pool_class": "redis.sentinel.SentinelConnectionPool"}, "E069"),
        (DJANGO, {"SENTINELS": [("127.0.0.1", 26379)]}, "E069"),
        (VALKEY, {"CLIENT_CLASS": "django_valkey.client.SentinelClient", "SENTINELS": [("127.0.0.1", 26379)]}, "E069"),
        ("django_valkey.cluster_cache.cache.ClusterValkeyCache", {}, "E069"),
        (VALKEY, {"CONNECTION_POOL_KWARGS": {"cache_enabled": True}}, "E070"),
    ],
)
def test_what_only_django_redis_can_is_refused(set_cache, settings, backend: str, options, expected: str) -> None:
    set_cache("redis://:hush@127.0.0.1")
    before = settings.CACHES["sessions"]
    settings.CACHES = {**settings.CACHES, "sessions": {**before, "BACKEND": backend, "OPTIONS": options}}
    [error] = messages()
    assert error.id == f"django_redsess.{expected}"
    assert "hush" not in error.msg + error.hint


@pytest.mark.parametrize("backend", OTHERS)
@pytest.mark.parametrize(
    "url", ["http://:hush@127.0.0.1", "redis://:hush/1@127.0.0.1", "redis://:hush@127.0.0.1?db=hush"]
)
def test_an_address_of_another_backend_is_refused_without_its_password(set_entry, backend: str, url: str) -> None:
    set_entry(backend, url)
    [error] = messages()
    assert error.id == "django_redsess.E004"
    assert "hush" not in error.msg + error.hint
    assert ("valkey://" in error.msg) == (backend == "django-valkey" and url.startswith("http"))


def test_an_option_that_redis_py_does_not_know_is_named(set_cache, set_entry, server) -> None:
    set_entry("Django", server.url, tiemout=1)
    [of_django] = messages()
    set_cache(CONNECTION_POOL_KWARGS={"tiemout": 1})
    [of_django_redis] = messages()
    for error in (of_django, of_django_redis):
        assert error.id == "django_redsess.E004"
        assert "tiemout" in error.msg


@pytest.mark.parametrize("backend", OTHERS)
def test_of_several_servers_of_another_backend_sessions_use_the_first(set_entry, settings, server, backend) -> None:
    set_entry(backend, f"{server.url},redis://127.0.0.1:{servers.free_port()}/0")
    assert found() == ["W055"]


@pytest.mark.parametrize("backend", OTHERS)
def test_a_node_of_a_cluster_is_told_to_use_django_redis(set_entry, cluster, backend: str) -> None:
    set_entry(backend, cluster.urls[0])
    [warning] = messages()
    assert warning.id == "django_redsess.W026"
    assert "'django_redis.cache.RedisCache'" in warning.hint


@pytest.mark.parametrize("protocol", [2, 3])
def test_decode_responses_changes_no_reply_of_ours(set_cache, store_settings, protocol: int) -> None:
    set_cache(CONNECTION_POOL_KWARGS={"decode_responses": True, "protocol": protocol})
    assert found() == []
    session = SessionStore()
    session["_auth_user_id"], session["colour"] = "7", "blå"
    session.save()
    again = SessionStore(session.session_key)
    again["size"] = "L"
    again.cycle_key()
    again.save()
    expected = {"_auth_user_id": "7", "colour": "blå", "size": "L"}
    assert SessionStore(again.session_key).load() == expected
    assert async_to_sync(SessionStore(again.session_key).aload)() == expected
    assert [each.user_id for each in online.sessions()] == ["7"]
    assert online.end_all() == 1
    assert SessionStore(again.session_key).load() == {}
