"""Calls and plain commands to several partitions at once: one pipeline a server, and each partition gets its reply."""

import pytest
import redis as redis_py

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.transport.connections import pool, server_of
from django_redsess.transport.keys import keyspace
from django_redsess.transport.packing import pack_command
from django_redsess.transport.partitions import ask_each, with_scores
from django_redsess.transport.steps import drive
from tests.helpers.clusters import cluster_caches
from tests.helpers.outages import caches, full, lines_of
from tests.helpers.store import have_partitions, make_due, stored

USERS = [str(number) for number in range(40)]


@pytest.fixture
def four(monkeypatch) -> None:
    have_partitions(monkeypatch, 4)


def test_each_partition_gets_its_own_reply(four, redis, round_trips) -> None:
    partitions = keyspace().partitions[::-1]
    for number, partition in enumerate(partitions):
        redis.hset(partition.totals, "created", number)
    online.count()
    round_trips()
    found = drive(ask_each("test", partitions, lambda n, _: pack_command("HGET", partitions[n].totals, "created"), 1))
    assert found == [[b"0"], [b"1"], [b"2"], [b"3"]]
    assert round_trips() == 1
    redis.delete(*(partition.totals for partition in partitions))


def test_an_error_of_one_partition_is_raised_and_the_others_are_asked(four, redis) -> None:
    partitions = keyspace().partitions
    redis.set(partitions[2].totals, "no hash")
    with pytest.raises(SessionStoreUnavailable, match="WRONGTYPE"):
        drive(ask_each("test", partitions, lambda n, _: pack_command("HGET", partitions[n].totals, "created"), 1))
    redis.flushall()


def test_a_clock_that_was_set_is_learned_and_those_due_do_not_count(four, redis, new_session) -> None:
    sids = [new_session(user).sid for user in USERS]
    clock = server_of(keyspace().partitions[0]).clock
    seconds, microseconds = redis.time()
    # As if the server's clock had been set forward by an hour since this process asked for it.
    clock.learn((int(seconds) - 3600, microseconds))
    for sid in sids[:10]:
        redis.zadd(keyspace().of_sid(sid).expire, {sid: int(seconds) * 1000 - 60_000})
    assert online.count() == 30
    assert stored(redis) == 30
    assert abs(clock.now() - int(redis.time()[0]) * 1000) < 2_000


def test_more_than_200_due_sessions_of_a_partition_are_counted_until_the_next_call(four, redis, new_session) -> None:
    sids = [new_session("7").sid for _ in range(230)]
    make_due(redis, *sids)
    assert [online.count(), online.count()] == [30, 0]


def test_a_full_server_still_lists_and_logs_nothing(four, redis, new_session, caplog) -> None:
    for user in USERS:
        new_session(user)
    with full(redis):
        assert online.count() == len(online.sessions()) == len(USERS)
    assert lines_of(caplog, "django_redsess", 40) == []


def test_an_outage_is_logged_once_however_often_it_is_met(four, redis, new_session, caplog) -> None:
    caplog.set_level("INFO", "django_redsess")
    new_session("7")
    online.count()
    redis.config_set("replica-serve-stale-data", "no")
    redis.replicaof("127.0.0.1", 1)
    try:
        for _ in range(3):
            for read in (online.count, online.sessions, viewed.total):
                with pytest.raises(SessionStoreUnavailable):
                    read()
    finally:
        redis.replicaof("no", "one")
        redis.config_set("replica-serve-stale-data", "yes")
    assert len(lines_of(caplog, "django_redsess", 40)) == 1
    for read in (online.count, online.sessions, viewed.total):
        read()
    assert len(lines_of(caplog, "django_redsess", 20)) == 1


@pytest.mark.parametrize("protocol", [2, 3])
def test_scores_are_read_in_both_protocols(redis, server, protocol: int) -> None:
    redis.zadd("list", {"one": 1, "two": 2.5})
    with redis_py.Redis(port=server.port, protocol=protocol) as client:
        client.response_callbacks.clear()
        reply = client.execute_command("ZRANGE", "list", 0, -1, "WITHSCORES")
    assert with_scores(reply) == [(1.0, b"one"), (2.5, b"two")]
    redis.delete("list")


@pytest.mark.both_servers
@pytest.mark.parametrize("protocol", [2, 3])
def test_replies_read_the_same_in_both_protocols(server, settings, new_session, protocol: int) -> None:
    # The pool is found by its URL: another URL for each protocol.
    settings.CACHES = caches(f"{server.url}?protocol={protocol}")
    session = new_session("7", colour="blue")
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert viewed.record(session, "lamp")
    assert [found.item for found in viewed.recent(session)] == ["lamp"]
    assert viewed.popular() == [("lamp", 1)]
    assert (viewed.count("lamp"), viewed.count("vase")) == (1, 0)
    assert [found.user_id for found in online.sessions()] == ["7"]
    assert online.sessions(user_ids=["7", "8"]) == online.sessions()
    assert online.count() == 1
    assert [ended.user_id for ended in online.end(session.sid)] == ["7"]
    assert SessionStore(session.session_key).load() == {}


@pytest.mark.slow
def test_each_node_gets_one_pipeline(four, cluster, settings, new_session, sent) -> None:
    settings.CACHES = cluster_caches(cluster)
    for user in USERS:
        new_session(user)
    online.sessions()
    assert len(pool().nodes()) == 3
    for read, pipelines in ((online.count, 3), (online.sessions, 6), (viewed.total, 3), (online.samples, 3)):
        read()
        sent.clear()
        read()
        assert len([name for name in sent if name != "agreement"]) == pipelines, read
