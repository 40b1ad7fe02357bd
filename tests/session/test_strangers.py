"""What strangers send, and what a stranger finds who can read everything in Redis."""

import base64
import logging
import re
from collections.abc import Callable
from random import Random
from urllib.parse import quote

import pytest
import redis as redis_py
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.http import HttpRequest, HttpResponse
from django.test import Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.middleware import SessionMiddleware
from django_redsess.session.record import unpack
from django_redsess.transport.keys import keyspace, sid_of
from tests.helpers.site import MIDDLEWARE, VIEWED_VIEWS
from tests.helpers.store import have_agreed, make_due, stored

LONG = "x" * 1_000_000

HOSTILE = {
    "1 MB": LONG,
    "NUL": "a\0b" * 8,
    "CRLF": "a\r\nSet-Cookie: sessionid=forged\r\n\r\n[ERROR] forged",
    "line feed": "abcdefgh\n[ERROR] forged line",
    "other line ends, escapes": "abcdefgh\x85\u2028[ERROR] forged\x0b\x0c\x1c\x1b[2J\x1b[31m",
    "not UTF-8": "caf\udce9\udcff\udc80" * 8,
    "not UTF-8, from WSGI": "caf\xe9\xff\x80" * 8,
    "NaN": "NaN",
    "colon": ":",
    "names of keys": "{redsess}:login",
    "glob": "*",
    "Lua": "']] redis.call('FLUSHALL') --",
    "empty": "",
    "percent": "%s %d %(sid)s {0} {sid}",
}
"""Values that come in a header or a URL. A surrogate stands for a byte that is no UTF-8."""

hostile = pytest.mark.parametrize("value", HOSTILE.values(), ids=HOSTILE.keys())


@pytest.fixture
def visitor(settings, db) -> Client:
    """A browser at the site of tests/helpers/site, signed in as nobody; errors are answered, as everywhere."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS}
    return Client(raise_request_exception=False)


@pytest.fixture
def log(caplog) -> Callable[[], list[str]]:
    """Return a function that gives every message so far, of any logger; one that breaks its line is an error."""
    caplog.set_level(logging.DEBUG)

    def messages() -> list[str]:
        found = [record.getMessage() for record in caplog.records]
        assert [message for message in found if len(message.splitlines()) > 1 or "\x1b" in message] == []
        return found

    return messages


def records(redis: redis_py.Redis) -> list[bytes]:
    """The names of all keys, but for what every store has."""
    return [name for name in redis.keys() if not name.endswith(b":meta")]


def leaves_it_alone(request: HttpRequest) -> None:
    """Do nothing with the session."""


def reads_it(request: HttpRequest) -> None:
    request.session.get("colour")


def asks_whether_it_is_there(request: HttpRequest) -> None:
    assert "colour" not in request.session
    assert request.session.is_empty()


def ask_as_strangers(view: Callable[[HttpRequest], None], cookies: list[str]) -> set[int]:
    """Send a request with each cookie through the middleware, and return the statuses of the answers."""

    def answer(request: HttpRequest) -> HttpResponse:
        view(request)
        return HttpResponse()

    middleware = SessionMiddleware(answer)
    statuses = set()
    for cookie in cookies:
        # A RequestFactory would take longer than all the rest.
        request = HttpRequest()
        request.COOKIES["sessionid"] = cookie
        response = middleware(request)
        statuses.add(response.status_code)
        # At most the cookie is deleted.
        assert response.cookies.get("sessionid") is None or response.cookies["sessionid"]["max-age"] == 0
    return statuses


def unknown_keys(number: int) -> list[str]:
    random = Random(number)
    return ["".join(random.choices(VALID_KEY_CHARS, k=32)) for _ in range(number)]


def reads_of(sent: dict[str, int]) -> int:
    """How many scripts were run, and sessions read."""
    return sent.get("evalsha", 0) + sent.get("eval", 0) + sent.get("hget", 0)


@pytest.fixture(params=[False, True], ids=["", "saved every request"])
def every_request(request, settings) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = request.param


VIEWS = [leaves_it_alone, reads_it, asks_whether_it_is_there]


@pytest.mark.parametrize(
    ("view", "number"), [*((view, 300) for view in VIEWS), pytest.param(reads_it, 5_000, marks=pytest.mark.slow)]
)
@pytest.mark.usefixtures("partitions", "every_request")
def test_unknown_cookies_cost_a_read_each_and_leave_no_record(redis, commands, view, number: int) -> None:
    have_agreed()
    commands()
    changes, memory = redis.info("persistence")["rdb_changes_since_last_save"], redis.info("memory")["used_memory"]
    assert ask_as_strangers(view, unknown_keys(number)) == {200}
    sent = commands()
    assert max(sent.get("hget", 0), sent.get("get", 0)) <= number
    assert not set(sent) & {"evalsha", "eval", "hset", "set", "del", "hdel", "zrem", "lpush", "rpush", "expire"}
    # What is sent of who was seen changes nothing.
    assert redis.info("persistence")["rdb_changes_since_last_save"] == changes
    assert redis.info("memory")["used_memory"] < memory + 200_000
    assert records(redis) == []


@pytest.mark.parametrize("view", VIEWS)
def test_cookies_that_cannot_be_keys_cost_no_command(redis, commands, every_request, view) -> None:
    malformed = ["x" * 129, "short", "Capitals" * 4, "with-dash" * 4, "ä" * 32, "\u0661" * 32, "k" * 31 + "\n"]
    malformed += [value for name, value in HOSTILE.items() if name != "empty"] + [sid_of("k" * 32)]
    SessionStore().exists("k" * 32)
    commands()
    assert ask_as_strangers(view, malformed * 20) == {200}
    assert reads_of(commands()) == 0
    assert records(redis) == []


def test_the_cookie_of_an_ended_session_leaves_no_record(redis, new_session, every_request) -> None:
    ended, due = new_session("7"), new_session("7")
    online.end(ended.sid)
    make_due(redis, due.sid)
    for view in VIEWS:
        assert ask_as_strangers(view, [ended.session_key, due.session_key]) == {200}
    online.count()
    assert stored(redis) == 0


@hostile
def test_a_hostile_cookie_is_refused(visitor, redis, log, value: str) -> None:
    # A header is bytes, and WSGI reads them as Latin-1.
    cookie = value.encode(errors="surrogateescape").decode("latin-1")
    for path in ("/held/who/", "/held/read/colour/", "/held/item/lamp/"):
        visitor.cookies["sessionid"] = cookie
        assert visitor.get(path).status_code == 200
    assert records(redis) == []
    visitor.cookies["sessionid"] = cookie
    assert visitor.get("/held/write/colour/blue/").status_code == 200
    assert re.fullmatch("[0-9a-z]{32}", visitor.cookies["sessionid"].value)
    assert stored(redis) == 1
    log()


@hostile
@pytest.mark.parametrize("header", ["HTTP_USER_AGENT", "REMOTE_ADDR", "HTTP_X_FORWARDED_FOR"])
def test_a_hostile_header_is_cut_or_refused(visitor, settings, alice, log, header: str, value: str) -> None:
    visitor.force_login(alice)
    headers = {"REMOTE_ADDR": "192.0.2.1", "HTTP_X_FORWARDED_FOR": "192.0.2.2, 192.0.2.3", header: value}
    for proxies, header_of_address in enumerate(["REMOTE_ADDR", "HTTP_X_FORWARDED_FOR"]):
        settings.REDSESS = {**settings.REDSESS, "TRUSTED_PROXY_COUNT": proxies}
        assert visitor.get(f"/held/write/colour/{proxies}/", **headers).status_code == 200
        [session] = online.sessions()
        assert session.address == ("" if header == header_of_address else ["192.0.2.1", "192.0.2.3"][proxies])
        assert len(session.user_agent.encode()) <= 256
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", session.user_agent)
        assert visitor.get("/held/read/colour/", **headers).content == str(proxies).encode()
    # An address that a proxy added is not hidden by what came before it.
    visitor.get("/held/write/colour/blue/", HTTP_X_FORWARDED_FOR=f"{value}, 192.0.2.9", REMOTE_ADDR="10.0.0.1")
    assert [session.address for session in online.sessions()] == ["192.0.2.9"]
    log()


@hostile
def test_a_hostile_item_is_noted_as_it_is_or_refused(visitor, alice, redis, log, new_session, value: str) -> None:
    visitor.force_login(alice)
    before = set(redis.keys())
    sent = value.encode(errors="surrogateescape")
    assert visitor.get(f"/held/item/{quote(sent)}/").status_code == 200
    [session] = online.sessions()
    # Django leaves bytes that are no UTF-8 as they were quoted.
    item = value if sent == value.encode(errors="ignore") else quote(sent)
    kept = [item] if 1 <= len(item.encode()) <= 64 else []
    assert [found.item for found in viewed.recent(session.sid)] == kept
    assert viewed.popular() == [(item, 1) for item in kept]
    # No other name was made of it.
    space = keyspace()
    allowed = {space.of_sid(session.sid).viewed_by(session.sid).encode(), space.of_item("").viewed.encode()}
    assert set(redis.keys()) - before <= allowed
    log()


@hostile
def test_a_hostile_sid_ends_nothing(redis, commands, log, new_session, value: str) -> None:
    session = new_session("7")
    commands()
    assert online.end(value) == []
    assert online.get(value) is None
    assert reads_of(commands()) == 0
    assert [found.sid for found in online.sessions()] == [session.sid]
    log()


@pytest.mark.parametrize("value", [LONG, "x" * 256, "a\0b:c", "NaN", "{redsess}:login", "*", "a\nb", "\udcff"])
def test_a_hostile_user_id_is_one_like_any_or_refused(partitions: int, redis, log, new_session, value: str) -> None:
    try:
        session = new_session(value)
    except ValueError:
        assert records(redis) == []
    else:
        assert [found.sid for found in online.sessions(user_ids=[value])] == [session.sid]
        session.flush()
        assert stored(redis) == 0
    log()


def dump(redis: redis_py.Redis) -> set[bytes]:
    """Every name, member, field and value that is in Redis, and what records have packed."""
    found = set(redis.keys())
    for name in redis.keys():
        match redis.type(name):
            case b"hash":
                fields = redis.hgetall(name)
                found |= {part for pair in fields.items() for part in pair}
                if name.endswith(b":login"):
                    found |= {unpack(sid.decode(), record).data for sid, record in fields.items()}
            case b"zset":
                found |= set(redis.zrange(name, 0, -1))
            case b"string":
                found.add(redis.get(name))
            case b"list":
                found |= set(redis.lrange(name, 0, -1))
            case b"set":
                found |= redis.smembers(name)
            case b"stream":
                found |= {part for _, pairs in redis.xrange(name) for pair in pairs.items() for part in pair}
    return found


def spellings(found: bytes) -> set[str]:
    """What somebody may try as a cookie who has ``found``: it, its parts, and both in other spellings."""
    parts = {found, *re.split(rb"[^0-9A-Za-z+/._-]+", found)}
    parts |= {found[at : at + length] for length in (16, 32) for at in range(len(found) - length + 1)}
    texts = set()
    for part in parts:
        encoded = [base64.b64encode(part), base64.b32encode(part), part.hex().encode()]
        for text in [part.decode("latin-1"), *[spelling.decode().rstrip("=") for spelling in encoded]]:
            texts |= {text, text.lower(), re.sub(r"[^0-9a-z]", "", text.lower())}
    return {text for text in texts if 8 <= len(text) <= 128}


@pytest.fixture
def secrets(visitor, alice, redis) -> set[str]:
    """Fill the store with a session of every kind, and return all session keys there were."""
    keys = []
    for ending in ("", "sign out", "kick", "expire", "rotate"):
        visitor.cookies.clear()
        visitor.get("/held/write/colour/blue/", HTTP_USER_AGENT="Mozilla/5.0")
        visitor.get("/held/item/lamp/")
        keys.append(visitor.cookies["sessionid"].value)
        visitor.force_login(alice)
        visitor.get("/held/write/size/large/", HTTP_USER_AGENT="Mozilla/5.0")
        visitor.get("/held/item/vase/")
        keys.append(visitor.cookies["sessionid"].value)
        if ending == "sign out":
            visitor.get("/held/sign-out/")
        elif ending == "kick":
            online.end(sid_of(keys[-1]))
        elif ending == "expire":
            make_due(redis, sid_of(keys[-1]))
        elif ending == "rotate":
            visitor.get("/held/cycle/")
            keys.append(visitor.cookies["sessionid"].value)
    return set(keys)


def test_nothing_that_is_in_redis_works_as_a_cookie(secrets, visitor, redis) -> None:
    found = dump(redis)
    everything = b"\n".join([*found, *map(redis.dump, redis.keys())])
    # Were the keys there, they would be found: this is, in a record.
    assert b"colour" in everything
    for key in map(str.encode, secrets):
        for spelling in (key, key[:16], key[16:], key.hex().encode(), base64.b64encode(key)[:40]):
            assert spelling not in everything
    tried = set().union(*map(spellings, found))
    assert not tried & secrets
    # What is no key is refused before it is looked for: see to it that some are looked for.
    assert sum(SessionStore(cookie).session_key is not None for cookie in tried) > 1_000
    assert [cookie for cookie in tried if dict(SessionStore(cookie).items())] == []


def test_unknown_cookies_over_the_whole_site_leave_no_record(visitor, settings, redis) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = True
    for key in unknown_keys(30):
        for path in ("/held/who/", "/held/read/colour/", "/held/item/lamp/", "/held/sign-out/", "/held/cycle/"):
            visitor.cookies["sessionid"] = key
            assert visitor.get(path).status_code == 200
    assert records(redis) == []
