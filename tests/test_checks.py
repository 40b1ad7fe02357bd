import pickle
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.auth.models import User
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.core.checks import CheckMessage, run_checks
from django.core.management import call_command
from django_redis.pool import ConnectionFactory
from redis.backoff import NoBackoff
from redis.exceptions import BusyLoadingError, OutOfMemoryError
from redis.retry import Retry

from django_redsess import backend, middleware, online, viewed
from django_redsess.checks.settings import RULES, SETTING_NAMES
from django_redsess.cleaning import cleaner
from django_redsess.cleaning.waker import Waker
from django_redsess.conf import conf
from django_redsess.transport.keys import keyspace
from testproject import servers
from tests.support.outages import full

OURS = "django_redsess.middleware.SessionMiddleware"
DJANGOS = "django.contrib.sessions.middleware.SessionMiddleware"
VIEWED = "django_redsess.middleware.ViewedItemsMiddleware"
TIMEOUTS = {"SOCKET_CONNECT_TIMEOUT": 0.5, "SOCKET_TIMEOUT": 0.5}
NEVER = Retry(NoBackoff(), 0)

SetCache = Callable[..., None]


class OwnViewedItems(middleware.ViewedItemsMiddleware):
    pass


class OwnMiddleware(middleware.SessionMiddleware):
    pass


class OwnAuthentication(AuthenticationMiddleware):
    pass


class OwnOfDjangos(DjangoSessionMiddleware):
    pass


class SessionStore(backend.SessionStore):
    """Makes this module a session engine."""


class PickleSerializer:
    def dumps(self, obj: object) -> bytes:
        return pickle.dumps(obj)

    def loads(self, data: bytes) -> Any:
        return pickle.loads(data)


class TextSerializer(PickleSerializer):
    def dumps(self, obj: object) -> Any:
        return str(obj)


class BrokenSerializer(PickleSerializer):
    def __init__(self) -> None:
        raise RuntimeError("no such key file")


def messages() -> list[CheckMessage]:
    return [message for message in run_checks() if message.id.startswith("django_redsess")]


def found() -> list[str]:
    return [message.id.removeprefix("django_redsess.") for message in messages()]


@pytest.fixture(autouse=True)
def pools(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give each test pools of its own: django-redis tells them apart by the URL, not by the options."""
    made: dict[str, Any] = {}
    monkeypatch.setattr(ConnectionFactory, "_pools", made)
    yield
    for pool in made.values():
        pool.disconnect()


@pytest.fixture(autouse=True)
def set_cache(settings: Any, server: servers.Server, pools: None) -> SetCache:
    """Make a site that is as the README has it; return a function that changes an entry of its CACHES."""
    settings.SESSION_CACHE_ALIAS = "sessions"

    def change(location: object = server.url, *, alias: str = "sessions", backend: str = "", **options: Any) -> None:
        entry = {
            "BACKEND": backend or "django_redis.cache.RedisCache",
            "LOCATION": location,
            "OPTIONS": options if alias != "sessions" else {**TIMEOUTS, **options},
        }
        settings.CACHES = {**settings.CACHES, alias: entry}

    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    change()
    return change


@pytest.fixture
def silent() -> Iterator[socket.socket]:
    """A port that takes connections, and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)
        yield listening


def url_of(listening: socket.socket) -> str:
    return f"redis://127.0.0.1:{listening.getsockname()[1]}/0"


def was_called(listening: socket.socket) -> bool:
    try:
        listening.accept()[0].close()
    except TimeoutError:
        return False
    return True


def test_a_good_site_has_nothing_to_complain_about() -> None:
    assert found() == []


def test_every_setting_has_a_rule_that_its_default_keeps(settings) -> None:
    settings.REDSESS = {}
    assert sorted(RULES) == SETTING_NAMES
    assert all(rule.allows(getattr(conf, name)) for name, rule in RULES.items())


def test_an_unknown_setting_is_refused_with_the_names_allowed(settings) -> None:
    settings.REDSESS = {"MAX_SESSION": 5}
    [error] = messages()
    assert error.id == "django_redsess.E002"
    assert "'MAX_SESSION'" in error.msg
    assert error.hint.startswith("Did you mean 'MAX_SESSIONS'? The settings are ABSOLUTE_TIMEOUT, ")


@pytest.mark.parametrize(("name", "meant"), [("idle_timeout", "IDLE_TIMEOUT"), ("IDLE_TIME_OUT", "IDLE_TIMEOUT")])
def test_what_an_unknown_setting_is_most_like_is_told(settings, name: str, meant: str) -> None:
    settings.REDSESS = {name: 5}
    [error] = messages()
    assert error.hint.startswith(f"Did you mean {meant!r}? ")


@pytest.mark.parametrize("name", ["COLOUR", 5])
def test_an_unknown_setting_that_is_like_none_gets_no_guess(settings, name: object) -> None:
    settings.REDSESS = {name: 5}
    [error] = messages()
    assert error.id == "django_redsess.E002"
    assert error.hint.startswith("The settings are ")


def test_more_guests_than_sessions_is_warned_of(settings) -> None:
    settings.REDSESS = {"MAX_SESSIONS": 1000, "MAX_GUESTS": 1001}
    [warning] = messages()
    assert warning.id == "django_redsess.W024"
    assert "1,001" in warning.msg
    for maximum in (1000, None):
        settings.REDSESS = {"MAX_SESSIONS": 1000, "MAX_GUESTS": maximum}
        assert messages() == []
    # What is wrong at all is told once.
    settings.REDSESS = {"MAX_SESSIONS": "1000", "MAX_GUESTS": 1001}
    assert [each.id for each in messages()] == ["django_redsess.E003"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PREFIX", ""),
        ("PREFIX", "a{b}"),
        ("PREFIX", 5),
        ("MAX_SESSIONS", 0),
        ("MAX_SESSIONS", "10"),
        ("MAX_SESSIONS", True),
        ("MAX_GUESTS", 0),
        ("MAX_GUESTS", "10"),
        ("MAX_GUESTS", True),
        ("MAX_SESSIONS_PER_USER", 0),
        ("MAX_SESSIONS_PER_USER", -1),
        ("MAX_SESSIONS_PER_USER", 2.5),
        ("MAX_SESSIONS_PER_USER", True),
        ("MAX_SESSIONS_PER_USER", "3"),
        ("MAX_SESSIONS_PER_USER", ""),
        ("MAX_SESSIONS_PER_USER", "sessions_of"),
        ("MAX_SESSIONS_PER_USER", len),
        ("MAX_SESSIONS_PER_USER", [3]),
        ("SESSION_LIMIT_POLICY", "end_newest"),
        ("SESSION_LIMIT_POLICY", ""),
        ("SESSION_LIMIT_POLICY", None),
        ("SESSION_LIMIT_POLICY", ["refuse"]),
        ("TOUCH_INTERVAL", -1),
        ("TOUCH_INTERVAL", 0.5),
        ("PARTITIONS", 0),
        ("PARTITIONS", -2),
        ("PARTITIONS", 3),
        ("PARTITIONS", 2048),
        ("PARTITIONS", 4.0),
        ("PARTITIONS", True),
        ("IDLE_TIMEOUT", 0),
        ("IDLE_TIMEOUT", 0.5),
        ("ABSOLUTE_TIMEOUT", False),
        ("ABSOLUTE_TIMEOUT", "8h"),
        ("SLIDING", 1),
        ("SLIDING", None),
        ("PASSIVE_PATHS", "/poll/"),
        ("PASSIVE_PATHS", ["poll/"]),
        ("PASSIVE_PATHS", ["/poll/", 5]),
        ("PASSIVE_PATHS", None),
        ("HIDDEN_VALUES", "oauth_token"),
        ("HIDDEN_VALUES", ["oauth_token", 5]),
        ("HIDDEN_VALUES", None),
        ("PASSIVE_HEADER", ""),
        ("PASSIVE_HEADER", None),
        ("TRUSTED_PROXIES", -1),
        ("TRUSTED_PROXIES", True),
        ("TRUSTED_PROXIES", ["10.0.0.1"]),
        ("CLIENT_ADDRESS", "hashed"),
        ("CLIENT_ADDRESS", None),
        ("CLIENT_ADDRESS", ["full"]),
        ("VIEWED_VIEWS", ["shop:product"]),
        ("VIEWED_VIEWS", {"shop:product": 5}),
        ("VIEWED_PER_SESSION", 0),
        ("VIEWED_GUESTS", 1),
        ("VIEWED_GUESTS", None),
        ("VIEWED_RESOLVE", "products"),
        ("VIEWED_RESOLVE", len),
        ("VIEWED_RESOLVE", ""),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(settings, name: str, value: object) -> None:
    settings.REDSESS = {name: value}
    assert found() == ["E003"]
    settings.REDSESS = {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MAX_SESSIONS_PER_USER", None),
        ("MAX_SESSIONS_PER_USER", 1),
        ("MAX_SESSIONS_PER_USER", 10_000),
        ("MAX_SESSIONS_PER_USER", f"{__name__}.found"),
        ("SESSION_LIMIT_POLICY", "end_oldest"),
        ("SESSION_LIMIT_POLICY", "end_least_recent"),
        ("SESSION_LIMIT_POLICY", "refuse"),
        ("PARTITIONS", 2),
        ("PARTITIONS", 1024),
        ("IDLE_TIMEOUT", 1),
        ("ABSOLUTE_TIMEOUT", 8 * 3600),
        ("SLIDING", True),
        ("PASSIVE_PATHS", ["/poll/", "/"]),
        ("PASSIVE_PATHS", ("/poll/",)),
        ("HIDDEN_VALUES", ["oauth_token"]),
        ("HIDDEN_VALUES", ()),
        ("PASSIVE_HEADER", "X-Heartbeat"),
        ("TRUSTED_PROXIES", 2),
        ("CLIENT_ADDRESS", "truncated"),
        ("CLIENT_ADDRESS", "none"),
    ],
)
def test_a_value_of_the_right_kind_is_allowed(settings, name: str, value: object) -> None:
    settings.REDSESS = {name: value}
    assert found() == []


def test_settings_that_are_no_dict_are_refused(settings) -> None:
    settings.REDSESS = ["PREFIX"]
    assert found() == ["E001"]
    settings.REDSESS = {}


@pytest.mark.parametrize("replaced", [[], [DJANGOS], [f"{__name__}.OwnOfDjangos"], ["no.such.Middleware"]])
def test_a_site_without_our_middleware_is_warned(settings, replaced: list[str]) -> None:
    settings.MIDDLEWARE = replaced
    assert "W005" in found()


@pytest.mark.parametrize("path", [OURS, f"{__name__}.OwnMiddleware"])
def test_our_middleware_may_be_subclassed_and_stand_beside_what_cannot_be_imported(settings, path: str) -> None:
    others = [name for name in settings.MIDDLEWARE if name != OURS]
    settings.MIDDLEWARE = [path, *others, "no.such.Middleware", f"{__name__}.found"]
    assert found() == []


@pytest.mark.parametrize("other", [DJANGOS, f"{__name__}.OwnOfDjangos", f"{__name__}.OwnMiddleware", OURS])
def test_a_second_session_middleware_is_refused(settings, other: str) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, other]
    [error] = messages()
    assert error.id == "django_redsess.E006"
    assert OURS in error.msg
    assert other in error.msg


def test_of_two_session_middlewares_ours_is_to_stay_where_the_upper_one_is(settings) -> None:
    # What Django says of ours below AuthenticationMiddleware leads to this.
    settings.MIDDLEWARE = [DJANGOS, *(name for name in settings.MIDDLEWARE if name != OURS), OURS]
    [error] = messages()
    assert error.id == "django_redsess.E006"
    assert f"Keep {OURS!r} only, in the place of {DJANGOS!r}" in error.hint


@pytest.mark.parametrize(
    ("needing", "given"),
    [
        ("django.contrib.auth.middleware.AuthenticationMiddleware", {}),
        (f"{__name__}.OwnAuthentication", {}),
        ("django.contrib.messages.middleware.MessageMiddleware", {}),
        ("django.middleware.csrf.CsrfViewMiddleware", {"CSRF_USE_SESSIONS": True}),
    ],
)
def test_our_middleware_must_stand_above_what_needs_the_session(settings, needing: str, given: dict[str, Any]) -> None:
    for name, value in given.items():
        setattr(settings, name, value)
    settings.MIDDLEWARE = [needing, OURS, VIEWED]
    [error] = messages()
    assert error.id == "django_redsess.E019"
    assert OURS in error.msg
    assert f"above {needing!r}" in error.hint


def test_our_middleware_may_stand_below_what_needs_no_session(settings) -> None:
    settings.MESSAGE_STORAGE = "django.contrib.messages.storage.cookie.CookieStorage"
    needing_none = ["django.middleware.csrf.CsrfViewMiddleware", "django.contrib.messages.middleware.MessageMiddleware"]
    settings.MIDDLEWARE = [*needing_none, OURS, VIEWED]
    assert found() == []


def test_named_views_without_what_records_them_are_warned_of(settings) -> None:
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != VIEWED]
    [warning] = messages()
    assert warning.id == "django_redsess.W014"
    assert VIEWED in warning.hint
    settings.REDSESS = {}
    assert found() == []


@pytest.mark.parametrize("own", [VIEWED, f"{__name__}.OwnViewedItems"])
def test_what_records_views_must_stand_below_what_opens_sessions(settings, own: str) -> None:
    settings.MIDDLEWARE = [own, *(name for name in settings.MIDDLEWARE if name != VIEWED)]
    [error] = messages()
    assert error.id == "django_redsess.E015"
    assert OURS in error.hint


@pytest.mark.parametrize("path", ["no.such.function", f"{__name__}.OURS", f"{__name__}.nothing", "no such path.x"])
def test_a_function_that_can_not_find_objects_is_refused(settings, path: str) -> None:
    settings.REDSESS = {"VIEWED_RESOLVE": path}
    [error] = messages()
    assert error.id == "django_redsess.E016"
    assert repr(path) in error.msg


def test_a_function_that_finds_objects_is_fine(settings) -> None:
    settings.REDSESS = {"VIEWED_RESOLVE": f"{__name__}.found"}
    assert found() == []


@pytest.mark.parametrize("path", ["no.such.function", f"{__name__}.OURS", f"{__name__}.nothing", "no such path.x"])
def test_a_function_that_can_not_tell_how_many_sessions_a_user_may_have_is_refused(settings, path: str) -> None:
    settings.REDSESS = {"MAX_SESSIONS_PER_USER": path}
    [error] = messages()
    assert error.id == "django_redsess.E017"
    assert "REDSESS['MAX_SESSIONS_PER_USER']" in error.msg
    assert repr(path) in error.msg


def test_a_pickling_serializer_is_warned_of(settings) -> None:
    settings.SESSION_SERIALIZER = f"{__name__}.PickleSerializer"
    assert found() == ["W013"]


@pytest.mark.parametrize("name", ["no.such.Serializer", f"{__name__}.TextSerializer", f"{__name__}.BrokenSerializer"])
def test_a_serializer_that_does_not_work_is_refused(settings, name: str) -> None:
    settings.SESSION_SERIALIZER = name
    assert found() == ["E012"]


@pytest.mark.parametrize("alias", ["missing", "local"])
def test_a_cache_that_is_not_of_django_redis_is_refused(settings, alias: str) -> None:
    settings.CACHES = {**settings.CACHES, "local": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
    settings.SESSION_CACHE_ALIAS = alias
    [error] = messages()
    assert error.id == "django_redsess.E004"
    assert ("which does not exist" in error.msg) == (alias == "missing")
    assert error.hint == "Set SESSION_CACHE_ALIAS to one of django-redis in CACHES: 'sessions'."


def test_where_no_cache_is_of_django_redis_those_are_named_that_there_are(settings) -> None:
    local = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
    settings.CACHES = {"default": local, "pages": local}
    [error] = messages()
    assert error.id == "django_redsess.E004"
    assert "CACHES has 'default', 'pages':" in error.hint


@pytest.mark.parametrize(
    ("location", "options", "wrong"),
    [
        ("http://:hush@127.0.0.1", {}, "begins with none of redis://, rediss://, unix://"),
        ("127.0.0.1:6379", {}, "begins with none of redis://, rediss://, unix://"),
        ([6379], {}, "is missing, or not a string"),
        # A slash in a password has to be escaped: this is a port "hush".
        ("redis://:hush/1@127.0.0.1", {}, "has a host and port that can't be read"),
        ("redis://:hush,1@127.0.0.1", {}, "has a host and port that can't be read"),
        ("redis://:hush[1@127.0.0.1", {}, "has a host and port that can't be read"),
        ("redis://:hush@127.0.0.1:66379", {}, "has a host and port that can't be read"),
        ("redis://:hush@127.0.0.1?db=hush", {}, "Invalid value for 'db'"),
        ("redis://127.0.0.1/0", {"CLIENT_CLASS": "django_redis.client.ShardClient"}, "can't be used"),
        ("redis://127.0.0.1/0", {"SOCKET_TIMEOUT": "1"}, "can't be used"),
        ("redis://127.0.0.1/0", {"CONNECTION_POOL_KWARGS": {"tiemout": 1}}, "can't be used"),
    ],
)
def test_a_cache_whose_connection_cannot_be_made_is_refused_without_showing_its_url(
    set_cache: SetCache, location: object, options: dict[str, Any], wrong: str
) -> None:
    set_cache(location, **options)
    [error] = messages()
    assert error.id == "django_redsess.E004"
    assert wrong in error.msg
    assert "hush" not in error.msg + error.hint


@pytest.mark.parametrize("in_url", [True, False])
def test_a_connection_that_decodes_is_refused(set_cache: SetCache, server: servers.Server, in_url: bool) -> None:
    if in_url:
        set_cache(f"{server.url}?decode_responses=true")
    else:
        set_cache(CONNECTION_POOL_KWARGS={"decode_responses": True})
    assert found() == ["E007"]


def test_a_connection_that_is_told_not_to_decode_is_fine(set_cache: SetCache) -> None:
    set_cache(CONNECTION_POOL_KWARGS={"decode_responses": False})
    assert found() == []


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


@pytest.mark.parametrize("of", ["django_redis.cache.RedisCache", "django.core.cache.backends.redis.RedisCache"])
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("redis://127.0.0.1:{port}/0", "redis://127.0.0.1:{port}/0"),
        ("redis://127.0.0.1:{port}/3", "redis://localhost:{port}?db=3"),
        ("redis://127.0.0.1:{port}", "rediss://127.0.0.1:{port}/0"),
        ("redis://127.0.0.1:{port}/0", "redis://elsewhere:6379/0,redis://127.0.0.1:{port}/0"),
        ("redis://127.0.0.1:{port}/0", ["redis://elsewhere:6379/0", "redis://127.0.0.1:{port}/0"]),
        ("unix:///run/no-such.sock?db=2", "unix:///run/no-such.sock?db=2"),
    ],
)
def test_a_cache_in_the_database_of_the_sessions_is_warned_of(
    set_cache: SetCache, server: servers.Server, ours: str, theirs: str | list[str], of: str
) -> None:
    set_cache(ours.format(port=server.port))
    here = [url.format(port=server.port) for url in ([theirs] if isinstance(theirs, str) else theirs)]
    set_cache(here[0] if isinstance(theirs, str) else here, alias="pages", backend=of)
    [warning] = messages()
    assert warning.id == "django_redsess.W009"
    assert "'pages'" in warning.msg
    assert "FLUSHDB" in warning.hint


@pytest.mark.parametrize(
    "theirs",
    [
        "redis://127.0.0.1:{port}/1",
        "redis://127.0.0.1:{port}?db=1",
        "redis://elsewhere:{port}/0",
        "redis://127.0.0.1:1/0",
        "unix:///run/no-such.sock?db=0",
        "redis://127.0.0.1:nonsense/0",
        "unique-snowflake",
        ["127.0.0.1:11211", "127.0.0.1:11212"],
        None,
    ],
)
def test_a_cache_elsewhere_is_fine(set_cache: SetCache, server: servers.Server, theirs: Any) -> None:
    location = theirs.format(port=server.port) if isinstance(theirs, str) else theirs
    set_cache(location, alias="pages", backend="django.core.cache.backends.redis.RedisCache")
    assert found() == []


def test_the_number_of_a_database_is_read_from_the_options_that_the_cache_reads_it_from(
    set_cache: SetCache, server: servers.Server
) -> None:
    without_number = f"redis://127.0.0.1:{server.port}"
    set_cache(without_number, CONNECTION_POOL_KWARGS={"db": 1})
    set_cache(without_number, alias="pages", db=1)  # django-redis does not read it there: database 0
    assert found() == []
    set_cache(without_number, alias="pages", backend="django.core.cache.backends.redis.RedisCache", db=1)
    assert found() == ["W009"]
    set_cache(without_number, alias="pages", CONNECTION_POOL_KWARGS={"db": "1"})
    assert found() == ["W009"]


@pytest.mark.parametrize(
    ("timeout", "words"), [({}, "20 seconds"), ({"timeout": None}, "for ever"), ({"timeout": 0.6}, "0.6 seconds")]
)
def test_a_pool_that_makes_requests_wait_longer_than_the_server_may_is_warned_of(
    set_cache: SetCache, timeout: dict[str, Any], words: str
) -> None:
    set_cache(CONNECTION_POOL_CLASS="redis.BlockingConnectionPool", CONNECTION_POOL_KWARGS=timeout)
    [warning] = messages()
    assert warning.id == "django_redsess.W020"
    assert f"waits {words} for a free connection" in warning.msg
    assert "'CONNECTION_POOL_KWARGS': {'timeout': 0.5}" in warning.hint


def test_a_pool_that_makes_requests_wait_no_longer_than_the_server_may_is_fine(set_cache: SetCache) -> None:
    set_cache(CONNECTION_POOL_CLASS="redis.BlockingConnectionPool", CONNECTION_POOL_KWARGS={"timeout": 0.5})
    assert found() == []


def found_for_deployment() -> list[str]:
    """All that is said of the flags of the session's cookie, by Django or by us."""
    return sorted(
        message.id for message in run_checks(include_deployment_checks=True) if "SESSION_COOKIE_" in message.msg
    )


@pytest.mark.parametrize(
    ("middleware", "apps", "warnings"),
    [
        (OURS, [], ["django_redsess.W021", "django_redsess.W022"]),
        (f"{__name__}.OwnMiddleware", [], ["django_redsess.W021", "django_redsess.W022"]),
        # What Django says itself is not said twice.
        (OURS, ["django.contrib.sessions"], ["security.W010", "security.W013"]),
        (DJANGOS, [], ["security.W011", "security.W014"]),
    ],
)
def test_cookies_without_flags_are_warned_of_once(
    settings, middleware: str, apps: list[str], warnings: list[str]
) -> None:
    settings.SESSION_COOKIE_HTTPONLY = False
    settings.MIDDLEWARE = [middleware if name == OURS else name for name in settings.MIDDLEWARE]
    others = [name for name in settings.INSTALLED_APPS if name != "django.contrib.sessions"]
    settings.INSTALLED_APPS = [*apps, *others]
    assert found_for_deployment() == warnings
    assert set(warnings).isdisjoint(message.id for message in run_checks())
    settings.SESSION_COOKIE_SECURE = settings.SESSION_COOKIE_HTTPONLY = True
    assert found_for_deployment() == []


def test_sessions_in_the_default_cache_are_warned_of(settings, set_cache: SetCache) -> None:
    set_cache(alias="default", **TIMEOUTS)
    settings.SESSION_CACHE_ALIAS = "default"
    settings.CACHES = {"default": settings.CACHES["default"]}
    [warning] = messages()
    assert warning.id == "django_redsess.W009"
    assert "SESSION_CACHE_ALIAS = 'sessions'" in warning.hint


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"SOCKET_TIMEOUT": None}, ["socket_timeout"]),
        ({"SOCKET_CONNECT_TIMEOUT": 0}, ["socket_connect_timeout"]),
        ({"SOCKET_TIMEOUT": None, "SOCKET_CONNECT_TIMEOUT": None}, ["socket_timeout", "socket_connect_timeout"]),
        ({"CONNECTION_POOL_KWARGS": {"socket_timeout": None}}, ["socket_timeout"]),
    ],
)
def test_a_connection_without_time_outs_is_warned_of(
    set_cache: SetCache, options: dict[str, Any], named: list[str]
) -> None:
    set_cache(**options)
    [warning] = messages()
    assert warning.id == "django_redsess.W010"
    assert all(f"no {name}" in warning.msg for name in named)
    assert "'SOCKET_CONNECT_TIMEOUT': 0.5, 'SOCKET_TIMEOUT': 0.5" in warning.hint


def test_time_outs_may_be_in_the_url(set_cache: SetCache, server: servers.Server) -> None:
    url = f"{server.url}?socket_timeout=0.5&socket_connect_timeout=0.5"
    set_cache(url, SOCKET_TIMEOUT=None, SOCKET_CONNECT_TIMEOUT=None)
    assert found() == []


@pytest.mark.parametrize(
    "repeating",
    [{"retry": Retry(NoBackoff(), 3)}, {"retry_on_timeout": True}, {"retry_on_error": [BusyLoadingError]}],
)
def test_retries_of_redis_py_are_warned_of(set_cache: SetCache, repeating: dict[str, Any]) -> None:
    set_cache(CONNECTION_POOL_KWARGS=repeating)
    assert found() == ["W011"]


@pytest.mark.parametrize("given", [{"retry": NEVER}, {"retry_on_timeout": False}, {"retry_on_error": []}])
def test_retries_that_are_turned_off_are_fine(set_cache: SetCache, given: dict[str, Any]) -> None:
    set_cache(CONNECTION_POOL_KWARGS=given)
    assert found() == []


@pytest.fixture
def set_sentinel(set_cache: SetCache, silent: socket.socket) -> SetCache:
    """Return a function that puts an entry of CACHES behind a sentinel, which never answers."""

    def change(location: str = "redis://shop/0", **options: Any) -> None:
        sentinel = {
            "CLIENT_CLASS": "django_redis.client.SentinelClient",
            "CONNECTION_FACTORY": "django_redis.pool.SentinelConnectionFactory",
            "SENTINELS": [silent.getsockname()],
        }
        set_cache(location, **{**sentinel, **options})

    return change


def test_a_site_behind_sentinels_is_warned_of_their_retries_and_connects_to_nothing(
    set_sentinel: SetCache, silent: socket.socket
) -> None:
    set_sentinel(
        SENTINEL_KWARGS={**{name.lower(): value for name, value in TIMEOUTS.items()}, "retry": Retry(NoBackoff(), 3)}
    )
    [warning] = messages()
    assert warning.id == "django_redsess.W011"
    assert "'SENTINEL_KWARGS'" in warning.hint
    assert not was_called(silent)


def test_a_site_behind_sentinels_can_be_without_complaint(set_sentinel: SetCache, silent: socket.socket) -> None:
    set_sentinel(SENTINEL_KWARGS={"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "retry": NEVER})
    assert found() == []
    assert was_called(silent)


def test_sentinels_are_checked_as_a_server_is(set_sentinel: SetCache, silent: socket.socket) -> None:
    kwargs = {"socket_connect_timeout": None, "socket_timeout": None, "retry": NEVER}
    pool = {"decode_responses": True, "retry_on_timeout": True}
    set_sentinel(SOCKET_TIMEOUT=None, SENTINEL_KWARGS=kwargs, CONNECTION_POOL_KWARGS=pool)
    assert sorted(found()) == ["E007", "W010", "W010", "W011"]
    assert not was_called(silent)


def test_services_of_one_name_are_told_apart_by_their_sentinels(set_sentinel: SetCache, silent: socket.socket) -> None:
    kwargs = {"socket_connect_timeout": 0.5, "socket_timeout": 0.5, "retry": NEVER}
    set_sentinel(SENTINEL_KWARGS=kwargs)
    set_sentinel(alias="pages", SENTINELS=[("elsewhere", 26379)])
    assert found() == []
    set_sentinel(alias="pages", SENTINELS=[list(silent.getsockname())])
    assert found() == ["W009"]


def bad_site(settings: Any, set_cache: SetCache) -> None:
    settings.SESSION_CACHE_ALIAS = "default"
    settings.SESSION_SERIALIZER = f"{__name__}.PickleSerializer"
    settings.MIDDLEWARE = [name for name in settings.MIDDLEWARE if name != OURS]
    kwargs = {"decode_responses": True, "retry_on_timeout": True}
    set_cache(alias="default", CONNECTION_POOL_KWARGS=kwargs)


def test_a_subclass_of_our_engine_is_checked_as_ours_is(settings, set_cache: SetCache) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = __name__
    assert set(found()) == {"W005", "E007", "W009", "W010", "W011", "W013"}


@pytest.mark.parametrize("engine", ["django.contrib.sessions.backends.db", "no.such.engine", "testproject.demo", None])
def test_of_another_engine_nothing_is_said_but_that_it_is_not_ours(
    settings, set_cache: SetCache, engine: str | None
) -> None:
    bad_site(settings, set_cache)
    settings.SESSION_ENGINE = engine
    [warning] = messages()
    assert warning.id == "django_redsess.W018"
    assert repr(engine) in warning.msg
    assert "SESSION_ENGINE = 'django_redsess.backend'" in warning.hint
    assert "SILENCED_SYSTEM_CHECKS" in warning.hint
