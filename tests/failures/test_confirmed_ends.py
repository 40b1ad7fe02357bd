"""Ends with ``CONFIRM_ENDS``: what their answers are worth when a replica takes the server's place."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from django_redsess import accounts, online
from django_redsess.backend import SessionStore
from django_redsess.online import EndedCount, EndedList
from django_redsess.session import user_limit
from django_redsess.transport import replicas
from testproject.nodes import Node
from tests.helpers.clusters import cluster_caches
from tests.helpers.outages import PATIENCE, TIMEOUT, caches, close_connections, frozen, lines_of
from tests.helpers.pooled import give, take
from tests.helpers.proxy import Proxy
from tests.helpers.running import wait_until
from tests.helpers.sentinels import Replicated
from tests.helpers.sign_ins import sign_in
from tests.helpers.store import keyspace, loop_pool, pool, scripts

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

LINKED, CUT = 5000, 50
"""Milliseconds to wait for a replica: one that must confirm, and one that can't."""


@pytest.fixture
def confirm_within(settings) -> Callable[[int], None]:
    """Return a function that sets how many milliseconds each end waits for one replica."""

    def confirm_within(milliseconds: int) -> None:
        settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": (1, milliseconds)}

    return confirm_within


@pytest.fixture(scope="module")
def kept() -> Iterator[dict[Path, Replicated]]:
    """What is left running for the next test: until a replica acknowledges anything, a second passes."""
    running: dict[Path, Replicated] = {}
    yield running
    for each in running.values():
        each.close()


@pytest.fixture
def servers(server, kept, settings, monkeypatch, confirm_within) -> Iterator[Replicated]:
    """The site's sessions are on a server with a replica, and one replica is to confirm each end."""
    monkeypatch.setattr(replicas, "_short_of_replicas", set())
    used = kept.pop(server.binary, None) or Replicated(server.binary)
    settings.CACHES = caches(used.server.url)
    confirm_within(LINKED)
    yield used
    close_connections()
    if used.server.process.poll() is None:
        used.server.client.acl_setuser("default", enabled=True, commands=["+@all"])
        used.server.client.flushall()
        used.link()
        kept[server.binary] = used
    else:
        used.close()


def waits(servers: Replicated) -> int:
    """Count the ``WAIT`` that the server got since the last call, but for those of tests."""
    stats = servers.server.client.info("commandstats")
    servers.server.client.config_resetstat()
    return int(stats.get("cmdstat_wait", {}).get("calls", 0))


# Whoever ends all sessions is the last.
WAYS: dict[str, Callable[[User, str], EndedList | EndedCount]] = {
    "end": lambda user, sid: online.end(sid),
    "aend": lambda user, sid: asyncio.run(online.aend(sid)),
    "end_user": lambda user, sid: online.end_user(user),
    "aend_user": lambda user, sid: asyncio.run(online.aend_user(user)),
    "end_in_batches": lambda user, sid: [*online.end_in_batches(user_ids=[str(user.pk)])][-1],
    "logout_everywhere": lambda user, sid: accounts.logout_everywhere(user),
    "alogout_everywhere": lambda user, sid: asyncio.run(accounts.alogout_everywhere(user)),
    "end_all": lambda user, sid: online.end_all(),
}


@pytest.fixture
def sid(servers, alice) -> str:
    """A session of alice that the replica has, too."""
    session = sign_in(str(alice.pk))
    servers.link()
    return str(session.sid)


@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_ends_say_whether_a_failover_undoes_them_and_look_again(partitions, servers, confirm_within, settings) -> None:
    users = {way: User.objects.create_user(way) for way in WAYS}
    sids = {way: str(sign_in(str(user.pk)).sid) for way, user in users.items()}
    servers.link()
    servers.cut()
    confirm_within(CUT)
    for way, end in WAYS.items():
        ended = end(users[way], sids[way])
        assert (way, ended.confirmed_by, ended.may_return) == (way, 0, True)
    servers.link()
    confirm_within(LINKED)
    others = []
    for way, end in WAYS.items():
        # Another process looks: its connections have written nothing.
        close_connections()
        again = end(users[way], sids[way])
        assert (way, again.confirmed_by, again.may_return) == (way, 1, False)
        others.append(str(sign_in(str(users[way].pk)).sid))
        assert (way, end(users[way], others[-1]).confirmed_by) == (way, 1)
    settings.CACHES = caches(servers.fail_over())
    assert [online.get(sid) for sid in (*sids.values(), *others)] == [None] * 2 * len(WAYS)


def test_an_unconfirmed_end_says_so_and_is_undone(servers, alice, sid, confirm_within, settings, new_session) -> None:
    other = new_session("7").sid
    servers.link()
    servers.cut()
    confirm_within(CUT)
    for ended in (online.end(other), asyncio.run(online.aend_user(alice))):
        assert (ended.confirmed_by, ended.may_return) == (0, True)
    assert (online.get(sid), online.get(other)) == (None, None)
    settings.CACHES = caches(servers.fail_over())
    assert {each.sid for each in online.sessions()} == {sid, other}


def test_looking_again_does_not_take_a_replica_that_lags_for_one_that_has_it(servers, sid, confirm_within) -> None:
    confirm_within(CUT)
    with frozen(servers.replica):
        assert online.end(sid).confirmed_by == 0
        close_connections()
        # Valkey would not wait on a connection that has written nothing.
        assert online.end(sid).confirmed_by == 0
        close_connections()
        assert asyncio.run(online.aend(sid)).confirmed_by == 0
    confirm_within(LINKED)
    assert online.end(sid).confirmed_by == 1


@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_only_ends_wait_and_only_with_the_setting(partitions, servers, alice, set_limit, settings) -> None:
    waits(servers)
    set_limit(2)
    first = SessionStore()
    first.save()
    sign_in(str(alice.pk), first)
    second = sign_in(str(alice.pk))
    session = SessionStore(second.session_key)
    session["colour"] = "blue"
    session.save()
    session.cycle_key()
    session.save()
    asyncio.run(SessionStore(session.session_key).aload())
    session.flush()
    assert online.end_in_batches(user_ids=[])
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": None}
    for way, end in WAYS.items():
        ended = end(alice, str(sign_in(str(alice.pk)).sid))
        assert (way, ended.confirmed_by, ended.may_return) == (way, None, False)
    assert waits(servers) == 0


@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_a_sign_in_that_ends_a_session_waits(partitions, servers, alice, sid, set_limit, settings) -> None:
    set_limit(1)
    for save in (SessionStore.save, async_to_sync(SessionStore.asave)):
        session = SessionStore()
        # Signed in again for the same user, there is nothing to end.
        for expected in (1, 0):
            session["_auth_user_id"] = str(alice.pk)
            session.signed_in(user_limit.limit_of(alice))
            waits(servers)
            save(session)
            assert waits(servers) == expected
    settings.CACHES = caches(servers.fail_over())
    assert [each.sid for each in online.sessions()] == [session.sid]


@pytest.mark.django_db(transaction=True)
def test_account_changes_wait_and_log_whose_sessions_may_return(servers, alice, sid, confirm_within, caplog) -> None:
    waits(servers)
    alice.set_password("other")
    alice.save()
    assert waits(servers) == 1
    sign_in(str(alice.pk))
    servers.cut()
    confirm_within(CUT)
    waits(servers)
    alice.is_active = False
    alice.save()
    assert waits(servers) == 1
    key = str(alice.pk)
    alice.delete()
    assert waits(servers) == 1
    told = lines_of(caplog, "django_redsess", logging.WARNING)
    assert told == [
        "Sessions that end may return after a failover: 0 of 1 replicas confirm it.",
        *[
            f"The sessions of user {key!r} are ended, and may return after a failover: call logout_everywhere() to "
            "check replication again."
        ]
        * 2,
    ]


def test_too_few_replicas_are_logged_once_and_so_is_when_that_is_over(servers, sid, confirm_within, caplog) -> None:
    caplog.set_level(logging.INFO, "django_redsess")
    servers.cut()
    confirm_within(CUT)
    for _ in range(3):
        online.end(sid)
    servers.link()
    confirm_within(LINKED)
    for _ in range(3):
        online.end(sid)
    assert [record.getMessage() for record in caplog.records if record.name == "django_redsess"] == [
        "Sessions that end may return after a failover: 0 of 1 replicas confirm it.",
        "Sessions that end are confirmed by enough replicas again: 1.",
    ]


def test_a_server_that_refuses_to_wait_has_ended_the_session(servers, sid: str, caplog) -> None:
    servers.server.client.acl_setuser("default", enabled=True, commands=["-wait"])
    close_connections()
    for end in (online.end, async_to_sync(online.aend)):
        ended = end(sid)
        assert (ended.confirmed_by, ended.may_return) == (0, True)
    assert online.get(sid) is None
    [line] = lines_of(caplog, "django_redsess", logging.WARNING)
    assert "wait" in line.lower()


def test_replies_may_take_longer_while_it_waits_and_only_then(servers, sid, settings, confirm_within) -> None:
    async def wait() -> None:
        assert (await online.aend(sid)).confirmed_by == 0
        # With the connection that has waited.
        (await loop_pool(pool())).max_connections = 1
        with frozen(servers.server), pytest.raises(Exception, match="can't be reached"):
            await asyncio.wait_for(online.aget(sid), 5)

    # django-redis finds a pool by its address, and by nothing else.
    settings.CACHES = caches(f"{servers.server.url}?client_name=impatient", timeout=TIMEOUT)
    servers.cut()
    confirm_within(700)
    assert online.end(sid).confirmed_by == 0
    pooled = take(pool())
    give(pool(), pooled)
    assert pooled.connection._sock.gettimeout() == TIMEOUT
    asyncio.run(wait())


@pytest.mark.parametrize(
    ("end", "hang"), [(online.end, False), (async_to_sync(online.aend), True)], ids=["threads, cut", "asyncio, hanging"]
)
def test_lost_replies(end, hang: bool, servers, alice, sid, settings, confirm_within) -> None:
    other = sign_in(str(alice.pk))
    confirm_within(300)
    with closing(Proxy(servers.server.port)) as proxy:
        settings.CACHES = caches(proxy.url, timeout=TIMEOUT if hang else PATIENCE)
        end("a" * len(sid))
        online.count()
        proxy.lose_reply("WAIT", hang=hang)
        ended = end(sid)
        assert [each.sid for each in ended] == [sid]
        assert (ended.confirmed_by, ended.may_return) == (0, True)
        # The script is sent again, and ends what is gone.
        proxy.lose_reply(scripts.END_SIDS.digest, hang=hang)
        ended = end(str(other.sid))
        assert ended == []
        assert (ended.confirmed_by, ended.may_return) == (1, False)
        assert proxy.lost == 2
        assert online.count() == 0
        close_connections()


def test_who_is_interrupted_while_it_waits_leaves_no_reply_to_others(servers, alice, sid: str) -> None:
    async def interrupt() -> None:
        await online.acount()
        task = asyncio.create_task(online.aend(sid))
        client = servers.server.client
        await asyncio.to_thread(wait_until, lambda: client.info("clients")["blocked_clients"] == 1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert await online.aget(sid) is None
        assert await online.acount() == 1

    sign_in(str(alice.pk))
    servers.cut()
    asyncio.run(interrupt())


@pytest.mark.slow
def test_in_a_cluster_each_node_has_its_own_replicas(own_cluster, store_settings, new_session, monkeypatch) -> None:
    monkeypatch.setattr(replicas, "_short_of_replicas", set())
    store_settings.CACHES = cluster_caches(own_cluster)
    store_settings.REDSESS = {**store_settings.REDSESS, "PARTITIONS": 64, "CONFIRM_ENDS": (1, 500)}
    sids = [str(new_session(str(number)).sid) for number in range(30)]

    def primary_of(sid: str) -> Node:
        return own_cluster.node_of(keyspace().of_sid(sid).login)

    broken = primary_of(sids[0])
    replica = own_cluster.replica_of(broken)
    there = [sid for sid in sids if primary_of(sid) == broken]
    others = [sid for sid in sids if sid not in there]
    assert len(there) >= 3
    # The first acknowledgement of a replica may take a second.
    wait_until(lambda: online.end_user(User(pk=0)).confirmed_by == 1)
    assert online.end(there[1], others[0]).confirmed_by == 1
    # The replica of one node can't sign in to it any more.
    replica.client.config_set("masteruser", "nobody")
    replica.client.config_set("masterauth", "nothing")
    broken.client.client_kill_filter(_type="replica")
    wait_until(lambda: broken.client.info("replication")["connected_slaves"] == 0)
    assert asyncio.run(online.aend(others[1])).confirmed_by == 1
    for ended in (online.end(*sids[2:]), online.end_all(), online.end_user(User(pk=0))):
        assert (ended.confirmed_by, ended.may_return) == (0, True)
    assert online.count() == 0
    own_cluster.kill(broken)
    replica.cluster("FAILOVER", "TAKEOVER")
    wait_until(lambda: online.get(there[2]) is not None)
    returned = {session.sid for session in online.sessions()}
    assert returned == set(there[2:])
