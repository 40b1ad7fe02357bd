"""What a store's processes agree on is kept: while a node stalls, when the data have gone, among other releases."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from django.contrib.sessions.backends.base import UpdateError
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.test import AsyncClient, Client, override_settings

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport import agreement
from django_redsess.transport.agreement import FORMAT, fingerprints
from django_redsess.transport.keys import keyspace, sid_of
from testproject.clusters import Cluster
from tests.helpers import every_operation
from tests.helpers.clusters import begin_anew, use_cluster
from tests.helpers.outages import TIMEOUT, caches, lines_of
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import dump, pool
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]


def tag_of(key: str) -> str:
    return keyspace().of_sid(sid_of(key)).tag


def statuses(key: str) -> list[int]:
    """Return the status that the visitor with this key gets, over WSGI and over ASGI."""
    found = []
    for client in (Client(), AsyncClient()):
        browser = Browser(client)
        browser.cookie = key
        found.append(browser.get(f"{browser.views}/read/colour/").status_code)
    return found


def test_a_process_that_starts_while_the_node_of_the_agreement_stalls(server, settings, new_session) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    with closing(Cluster(server.binary, replicas=0)) as cluster:
        use_cluster(settings, cluster.urls, timeout=TIMEOUT)
        sessions: dict[str, str] = {}
        while len(sessions) < keyspace().count:
            key = str(new_session(colour="blue").session_key)
            sessions.setdefault(tag_of(key), key)
        stalled = cluster.node_of(keyspace().prefix)
        lost = {tag for tag in sessions if cluster.node_of(tag) == stalled}
        cluster.freeze(stalled)
        others = [key for tag, key in sessions.items() if tag not in lost]
        begin_anew()
        for key in others:
            assert statuses(key) == [200, 200]
        assert statuses(sessions[min(lost)]) == [503, 503]
        # Who does not fit is refused by the copies.
        for wrong in ({"REDSESS": {"PARTITIONS": 4}}, {"SECRET_KEY": "another"}):
            with override_settings(**wrong):
                for key in [key for key in others if tag_of(key) not in lost][:2]:
                    begin_anew()
                    assert statuses(key) == [500, 500]
        begin_anew()
        assert statuses(others[0]) == [200, 200]


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(("restarts", "again"), [(False, False), (True, False), (True, True)])
def test_the_agreement_is_renewed_when_data_go(own_server, settings, new_session, partitions, restarts, again) -> None:
    settings.CACHES = caches(own_server.url)
    settings.REDSESS = {"PARTITIONS": partitions}
    key = str(new_session("7").session_key)
    if restarts:
        own_server.stop()
        own_server.start()
    else:
        own_server.client.flushall()
    assert own_server.client.dbsize() == 0
    if again:
        new_session("7")
    else:
        assert SessionStore(key).load() == {}
    for wrong in ({"REDSESS": {"PARTITIONS": 2}}, {"SECRET_KEY": "another"}):
        with override_settings(**wrong):
            pool().invalidate()
            with pytest.raises(ImproperlyConfigured):
                online.count()
    pool().invalidate()
    assert SessionStore(key).load() == {}
    new_session("7")


KEY = "k" * 32

OLDER, OURS = "2", FORMAT.decode()


@pytest.fixture
def starts(monkeypatch, redis) -> Iterator[Callable[..., None]]:
    """Return a function that goes on as a process which has just started, of the release that writes this format."""

    def start(written: str = OURS) -> None:
        monkeypatch.setattr(agreement, "FORMAT", written.encode())
        pool().invalidate()

    yield start
    redis.flushall()


WAYS_IN: dict[str, Callable[[], object]] = {
    "load": lambda: SessionStore(KEY).load(),
    "load, awaited": lambda: asyncio.run(SessionStore(KEY).aload()),
    "exists": lambda: SessionStore(KEY).exists(KEY),
    "create": lambda: every_operation.create({"colour": "blue"}),
    "create, awaited": lambda: asyncio.run(every_operation.acreate({"colour": "blue"})),
    "change": lambda: every_operation.change(KEY, {"colour": "red"}),
    "replace": lambda: every_operation.create({"_auth_user_id": "7"}),
    "end its own": lambda: SessionStore(KEY).flush(),
    "end": lambda: online.end("kk" + "a" * 18),
    "end all": online.end_all,
    "count": online.count,
    "list": online.sessions,
    "view": lambda: viewed.record(SessionStore(KEY), "lamp"),
    "popular": viewed.popular,
    "reset": viewed.reset_all,
    "clear": every_operation.clean,
    "evict": lambda: every_operation.evict(0, 10),
    **{
        command: partial(call_command, *command.split())
        for command in ("clearsessions", "cleansessions", "cleanviewed", "online", "endsessions --all --noinput")
    },
}


def have_an_older_store(redis: Any) -> dict[bytes, Any]:
    """Leave what an older release has left: records of which this one can read nothing."""
    partition = keyspace().partitions[0]
    meta = {"partitions": "1", "format": OLDER, "keys": fingerprints("redsess")[0]}
    redis.hset(keyspace().deciding_partition.meta, mapping=meta)
    sid = SessionStore(KEY).sid
    redis.hset(partition.login, sid, b"2" + b"\x01" * 80)
    # Due, too many and wrong: what a cleaner would take out.
    for name in (partition.expire, partition.recent, partition.online_user):
        redis.zadd(name, {sid: 1000})
    redis.zadd(partition.viewed, {"lamp": -3})
    return dump(redis)


def assert_says(error: BaseException, *, there: str, here: str) -> None:
    """In words: what is there, what this release would look for, and what can be done."""
    text = str(error)
    assert f"in format {there}" in text
    assert f"format {here}" in text.replace(f"in format {there}", "")
    assert "begin anew, with everybody signed out, under another REDSESS['PREFIX']" in text


@pytest.mark.parametrize("way", WAYS_IN.values(), ids=WAYS_IN)
def test_a_store_of_an_older_format_is_refused_and_not_touched(redis, starts, way) -> None:
    before = have_an_older_store(redis)
    for _ in range(2):
        starts()
        with pytest.raises((CommandError, ImproperlyConfigured)) as refused:
            way()
        assert_says(refused.value, there=OLDER, here=OURS)
    assert dump(redis) == before


def test_an_older_release_is_refused_what_we_have_stored(redis, starts, new_session) -> None:
    starts()
    session = new_session("7", colour="blue")
    viewed.record(session, "lamp")
    assert redis.hget(keyspace().deciding_partition.meta, "format") == OURS.encode() == b"6"
    before = dump(redis)
    for way in WAYS_IN.values():
        starts(OLDER)
        with pytest.raises((CommandError, ImproperlyConfigured)) as refused:
            way()
        assert_says(refused.value, there=OURS, here=OLDER)
        assert dump(redis) == before
    # And we go on.
    starts()
    assert SessionStore(session.session_key)["colour"] == "blue"


def test_a_record_of_an_older_format_is_nobodys_and_logged(redis, starts, new_session, settings, caplog) -> None:
    """Where the store says that its format is ours."""

    def told() -> list[str]:
        found = lines_of(caplog, "django.security.SuspiciousSession", logging.WARNING)
        caplog.clear()
        return found

    session = new_session("7", colour="blue")
    loaded = SessionStore(session.session_key)
    assert loaded["colour"] == "blue"
    login = keyspace().of_sid(str(session.sid)).login
    redis.hset(login, session.sid, b"2" + b"\x07" * 90)
    line = f"Session data of {session.sid} is not usable: unknown format"
    before = redis.hgetall(login)
    found = SessionStore(session.session_key)
    assert (dict(found.items()), found.session_key) == ({}, None)
    assert told() == [line]
    # Nor does it sign its visitor in.
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    browser = Browser(Client())
    browser.cookie = session.session_key
    assert browser.get("/user-id/").content == b"nobody"
    assert told() == [line]
    assert browser.cookie in ("", None)
    # Nor is it saved over.
    loaded["colour"] = "red"
    with pytest.raises(UpdateError):
        loaded.save()
    assert told() == [line]
    assert redis.hgetall(login) == before
    # Whoever it is, it can be seen and ended.
    assert online.count() == 1
    assert [ended.sid for ended in online.end(str(session.sid))] == [session.sid]


@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_a_visitor_of_an_older_store_keeps_the_cookie(redis, starts, settings, client) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    before = have_an_older_store(redis)
    browser = Browser(client())
    browser.cookie = KEY
    for path in ("who/", "write/colour/red/"):
        starts()
        response = browser.post(f"{browser.views}/{path}")
        assert (response.status_code, list(response.cookies)) == (500, [])
    # Who does not look at the session does not notice.
    starts()
    assert browser.get(f"{browser.views}/plain/").status_code == 200
    assert dump(redis) == before
