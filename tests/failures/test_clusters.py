"""A cluster under load: nodes die, give way, come, and give slots away; scripts are forgotten; clocks differ."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import reverse
from redis.crc import key_slot

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from testproject.clusters import Cluster
from testproject.nodes import Node
from testproject.shop.catalogue import load_catalogue
from tests.helpers import clocks, every_operation
from tests.helpers.cluster_load import Load
from tests.helpers.clusters import cluster_caches
from tests.helpers.oracle import disagreements
from tests.helpers.running import wait_until
from tests.helpers.store import faults, have_partitions, keyspace, pool
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.slow
both_servers = pytest.mark.both_servers


@pytest.fixture
def load(own_cluster, settings, monkeypatch) -> Iterator[Load]:
    """Visitors of a site with 16 partitions on a cluster. Afterwards all keys agree. Figures are printed (``-rP``)."""
    have_partitions(monkeypatch, 16)
    settings.CACHES = cluster_caches(own_cluster)
    load = Load()
    with load.running():
        yield load
    print(load)
    load.assert_sound()
    assert disagreements(own_cluster.client) == []


def slots_of(node: Node) -> list[int]:
    """Return the slots of partitions that ``node`` serves."""
    slots = [key_slot(partition.tag.encode()) for partition in keyspace().partitions]
    return [slot for slot in slots if any(first <= slot <= last for first, last in node.own.slots)]


def wait_promoted(cluster: Cluster, replica: Node) -> None:
    wait_until(lambda: "master" in replica.own.flags)
    cluster.wait_ok()


@both_servers
def test_primaries_are_frozen_and_killed(own_cluster, load) -> None:
    frozen, killed, third = own_cluster.primaries
    for node, stop in ((frozen, own_cluster.freeze), (killed, own_cluster.kill)):
        replica = own_cluster.replica_of(node)
        with load.held():
            # It has told all to its replica.
            node.ask("WAIT", 1, 5000)
            stop(node)
        wait_promoted(own_cluster, replica)
        load.go_on_for(500)
        with load.held():
            load.assert_nothing_lost()
    own_cluster.thaw(frozen)
    own_cluster.wait_ok()
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()
    # At any moment: what the primary had just promised may be lost. All else stays.
    replica = own_cluster.replica_of(third)
    own_cluster.kill(third)
    wait_promoted(own_cluster, replica)
    load.go_on_for(500)
    with load.held():
        load.assert_sound()


@both_servers
def test_scripts_are_forgotten_and_replicas_take_over_as_planned(own_cluster, load) -> None:
    own_cluster.flush_scripts(own_cluster.primaries[0])
    load.go_on_for(200)
    for _ in range(30):
        for node in own_cluster.primaries:
            own_cluster.flush_scripts(node)
        load.go_on_for(10)
    with load.held():
        load.assert_nothing_lost()
        assert load.refused == 0
    for node in own_cluster.primaries:
        own_cluster.promote(own_cluster.replica_of(node))
        load.go_on_for(200)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_slots_move(own_cluster, load, request) -> None:
    at_once = "valkey" in request.node.name
    olds = one, other, _ = own_cluster.primaries
    if at_once:
        for source, target in ((one, other), (other, one)):
            first, second, *_ = slots_of(source)
            own_cluster.move_slots_atomic((first, first), (second, second), to=target)
            load.go_on_for(200)
        with load.held():
            load.assert_nothing_lost()
            assert load.refused == 0
    # Key by key.
    for _ in own_cluster.move_slot_classic(slots_of(one)[0], other):
        load.go_on_for(20)
    with load.held():
        load.assert_nothing_lost()
    # To a new node.
    new = own_cluster.add_node()
    for slot in [slots_of(node)[0] for node in olds]:
        if at_once:
            own_cluster.move_slots_atomic((slot, slot), to=new)
        else:
            for _ in own_cluster.move_slot_classic(slot, new, keys_at_once=10):
                load.go_on_for(20)
    assert len(slots_of(new)) == 3
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_demoted_primary_shows_no_session_that_ended_since(own_cluster, settings, monkeypatch, new_session) -> None:
    have_partitions(monkeypatch, 16)
    settings.CACHES = cluster_caches(own_cluster)
    session = new_session("7", colour="blue")
    node = own_cluster.node_of(keyspace().of_sid(session.sid or "").tag)
    replica = own_cluster.replica_of(node)
    node.ask("WAIT", 1, 5000)
    nodes = pool()
    before = nodes._owners
    own_cluster.freeze(node)
    wait_promoted(own_cluster, replica)
    nodes.refresh().result()
    assert len(online.end(session.sid or "")) == 1
    # As in a process that has asked nothing meanwhile.
    nodes._use_map(before)
    own_cluster.thaw(node)
    # It answers until it hears from the others: a moment, and longer on a busy machine.
    wait_until(lambda: SessionStore(session.session_key).load() == {})
    for _ in range(200):
        assert SessionStore(session.session_key).load() == {}
    own_cluster.wait_ok()
    assert nodes.server_of_tag(keyspace().of_sid(session.sid or "").tag).connection_kwargs["port"] == replica.port
    assert faults() == []


@both_servers
@pytest.mark.django_db
def test_shoppers_and_staff_see_pages_or_503_while_a_primary_is_killed(own_cluster, settings, monkeypatch) -> None:
    have_partitions(monkeypatch, 16)
    settings.CACHES = cluster_caches(own_cluster)
    load_catalogue()
    shopper, admin = Browser(Client()), Browser(AsyncClient())
    shopper.sign_in(User.objects.create_user("alice"))
    admin.sign_in(User.objects.create_superuser("root"))
    node = own_cluster.node_of(keyspace().of_sid(shopper.sid or "").tag)
    replica = own_cluster.replica_of(node)
    cookies = [shopper.cookie, admin.cookie]

    def look() -> list[int]:
        """Ask for pages as both do, the list of all sessions last."""
        pages = (
            (shopper.get, reverse("shop:home")),
            (shopper.post, reverse("shop:add", args=["slow-heron"])),
            (shopper.get, reverse("shop:basket")),
            (admin.get, reverse("admin:index")),
            (admin.get, reverse("admin:django_redsess_onlinesession_changelist")),
        )
        return [ask(path, follow=True).status_code for ask, path in pages]

    assert look() == [200] * 5
    node.ask("WAIT", 1, 5000)
    own_cluster.kill(node)
    seen, began = list[int](), time.monotonic()
    while (answers := look()) != [200] * 5 or "master" not in replica.own.flags:
        seen += answers
        assert time.monotonic() < began + 60
    assert set(seen) == {200, 503}
    assert [shopper.cookie, admin.cookie] == cookies
    own_cluster.wait_ok()
    assert look() == [200] * 5
    assert faults() == []


NEARLY_AN_HOUR = 3550


@pytest.fixture(params=[NEARLY_AN_HOUR, -NEARLY_AN_HOUR], ids=["ahead", "behind"])
def fail_over(request, server, tmp_path, settings) -> Iterator[Callable[[], None]]:
    """Sessions on a cluster whose replicas have another clock. Returns a function: replica and primary swap roles."""

    def fail_over() -> None:
        node = cluster.node_of(keyspace().partitions[0].tag)
        replica = cluster.replica_of(node)
        assert abs(abs(replica.client.time()[0] - node.client.time()[0]) - NEARLY_AN_HOUR) < 30
        cluster.promote(replica)

    other = clocks.stepped(tmp_path / "clock", request.param)
    with closing(Cluster(server.binary, environments={3: other, 4: other, 5: other})) as cluster:
        settings.CACHES = cluster_caches(cluster)
        yield fail_over
        assert (faults(), disagreements(cluster.client)) == ([], [])


def colours(sessions: list[SessionStore]) -> list[Any]:
    """Return what requests find in these sessions. They change them, too."""
    answers = [every_operation.request(each.session_key or "", {"changed": True}) for each in sessions]
    return [each["data"].get("colour") for each in answers]


def test_a_failover_to_another_clock_and_back_ends_nobody(fail_over, new_session) -> None:
    sessions = [new_session(user, colour="blue") for user in ("1", "2", "", "")]
    for number in range(3):
        assert colours(sessions) == ["blue"] * len(sessions)
        fail_over()
        assert colours(sessions) == ["blue"] * len(sessions)
        sessions += [new_session(user, colour="blue") for user in (f"{10 + number}", "")]
        viewed.record(sessions[0], f"item {number}")
        assert sum(cleaning.expire_sessions()) == 0
        in_lists = {each.sid for each in online.sessions(guests=True, limit=50)}
        assert in_lists == {each.sid for each in sessions}
        assert online.count() == sum("_auth_user_id" in each for each in sessions)
    assert [each.item for each in viewed.recent(sessions[0])] == ["item 2", "item 1", "item 0"]


def test_at_the_cap_a_failover_to_another_clock_keeps_who_has_just_come(fail_over, settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS": 10}
    for number in range(10):
        new_session(f"{number}", colour="blue")
    for _ in range(2):
        fail_over()
        newcomers = [new_session(f"{number}", colour="blue") for number in range(5)]
        assert colours(newcomers) == ["blue"] * 5
        assert online.count() == 10
