"""
A cluster under load: nodes die, give way, come, and give slots away; scripts are forgotten.

Each test sees what visitors were told, and what they had been promised. How many requests that were and how long they
took is printed (``-rP``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client
from django.urls import reverse
from redis.crc import key_slot

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import keyspace
from testproject.clusters import Cluster
from testproject.nodes import Node
from testproject.shop.catalogue import load_catalogue
from tests.helpers.behind import faults, have_partitions
from tests.helpers.cluster_load import Load
from tests.helpers.clusters import cluster_caches
from tests.helpers.oracle import disagreements
from tests.helpers.running import wait_until
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.slow
both_servers = pytest.mark.both_servers


@pytest.fixture
def load(own_cluster: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Visitors of a site whose sessions are in 16 partitions on a cluster. Afterwards all keys agree."""
    have_partitions(monkeypatch, 16)
    settings.CACHES = cluster_caches(own_cluster)
    load = Load()
    with load.running():
        yield load
    print(load)
    load.assert_sound()
    client: Any = own_cluster.client
    assert disagreements(client) == []


def slots_of(node: Node) -> list[int]:
    """Return the slots of partitions that ``node`` serves."""
    slots = [key_slot(partition.tag.encode()) for partition in keyspace().partitions]
    return [slot for slot in slots if any(first <= slot <= last for first, last in node.own.slots)]


def wait_promoted(cluster: Cluster, replica: Node) -> None:
    wait_until(lambda: "master" in replica.own.flags)
    cluster.wait_ok()


@both_servers
def test_a_primary_is_killed_that_has_told_all_to_its_replica(own_cluster: Cluster, load: Load) -> None:
    node = own_cluster.primaries[0]
    replica = own_cluster.replica_of(node)
    with load.held():
        node.ask("WAIT", 1, 5000)
        own_cluster.kill(node)
    wait_promoted(own_cluster, replica)
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_primary_is_killed_at_any_moment(own_cluster: Cluster, load: Load) -> None:
    # Replication does not wait for the replica: what the primary had just promised may be lost. All else stays.
    for node in own_cluster.primaries[:2]:
        replica = own_cluster.replica_of(node)
        own_cluster.kill(node)
        wait_promoted(own_cluster, replica)
        load.go_on_for(500)
        with load.held():
            load.assert_sound()


@both_servers
def test_a_replica_takes_over_as_planned(own_cluster: Cluster, load: Load) -> None:
    for node in own_cluster.primaries:
        own_cluster.promote(own_cluster.replica_of(node))
        load.go_on_for(200)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_primary_is_frozen_and_thawed_after_its_replica_took_over(own_cluster: Cluster, load: Load) -> None:
    node = own_cluster.primaries[0]
    replica = own_cluster.replica_of(node)
    with load.held():
        node.ask("WAIT", 1, 5000)
        own_cluster.freeze(node)
    wait_promoted(own_cluster, replica)
    load.go_on_for(500)
    own_cluster.thaw(node)
    own_cluster.wait_ok()
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


def test_slots_move_at_once(own_cluster: Cluster, load: Load) -> None:
    one, other, _ = own_cluster.primaries
    for source, target in ((one, other), (other, one)):
        first, second, *_ = slots_of(source)
        own_cluster.move_slots_atomic((first, first), (second, second), to=target)
        load.go_on_for(200)
    with load.held():
        load.assert_nothing_lost()
        assert load.refused == 0


@both_servers
def test_a_slot_moves_key_by_key(own_cluster: Cluster, load: Load) -> None:
    source, target, _ = own_cluster.primaries
    for slot in slots_of(source)[:2]:
        for _ in own_cluster.move_slot_classic(slot, target):
            load.go_on_for(20)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_a_new_node_gets_slots(own_cluster: Cluster, load: Load, request: pytest.FixtureRequest) -> None:
    olds = own_cluster.primaries
    new = own_cluster.add_node()
    for node in olds:
        for slot in slots_of(node)[:1]:
            if "valkey" in request.node.name:
                own_cluster.move_slots_atomic((slot, slot), to=new)
            else:
                for _ in own_cluster.move_slot_classic(slot, new, keys_at_once=10):
                    load.go_on_for(20)
    assert len(slots_of(new)) == 3
    load.go_on_for(500)
    with load.held():
        load.assert_nothing_lost()


@both_servers
def test_scripts_are_forgotten(own_cluster: Cluster, load: Load) -> None:
    own_cluster.flush_scripts(own_cluster.primaries[0])
    load.go_on_for(200)
    for _ in range(50):
        for node in own_cluster.primaries:
            own_cluster.flush_scripts(node)
        load.go_on_for(10)
    with load.held():
        load.assert_nothing_lost()
        assert load.refused == 0


@both_servers
def test_a_demoted_primary_shows_no_session_that_was_ended_since(
    own_cluster: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch, new_session: Callable[..., SessionStore]
) -> None:
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
    nodes._take(before)
    own_cluster.thaw(node)
    # It answers until it hears from the others: a moment, and longer on a busy machine.
    wait_until(lambda: SessionStore(session.session_key).load() == {})
    for _ in range(200):
        assert SessionStore(session.session_key).load() == {}
    own_cluster.wait_ok()
    assert nodes.of(keyspace().of_sid(session.sid or "").tag).connection_kwargs["port"] == replica.port
    assert faults() == []


@both_servers
@pytest.mark.django_db
@pytest.mark.parametrize("client", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_a_shopper_and_an_administrator_see_pages_or_503_while_a_primary_is_killed(
    own_cluster: Cluster, settings: Any, monkeypatch: pytest.MonkeyPatch, client: Callable[[], Any]
) -> None:
    have_partitions(monkeypatch, 16)
    settings.CACHES = cluster_caches(own_cluster)
    load_catalogue()
    shopper, admin = Browser(client()), Browser(client())
    shopper.sign_in(User.objects.create_user("alice"))
    admin.sign_in(User.objects.create_superuser("root"))
    node = own_cluster.node_of(keyspace().of_sid(shopper.sid or "").tag)
    replica = own_cluster.replica_of(node)
    cookies = [shopper.cookie, admin.cookie]

    def look() -> list[int]:
        """Ask for pages as both do, the list of all sessions last."""
        pages = (
            (shopper, shopper.get, reverse("shop:home")),
            (shopper, shopper.post, reverse("shop:add", args=["slow-heron"])),
            (shopper, shopper.get, reverse("shop:basket")),
            (admin, admin.get, reverse("admin:index")),
            (admin, admin.get, reverse("admin:django_redsess_onlinesession_changelist")),
        )
        answers = []
        for browser, ask, path in pages:
            answers.append(ask(path, follow=True).status_code)
            longest[0] = max(longest[0], browser.seconds)
        return answers

    longest = [0.0]
    assert look() == [200] * 5
    node.ask("WAIT", 1, 5000)
    own_cluster.kill(node)
    seen, began = list[int](), time.monotonic()
    while (answers := look()) != [200] * 5 or "master" not in replica.own.flags:
        seen += answers
        assert time.monotonic() < began + 60
    seconds = time.monotonic() - began
    print(f"{len(seen)} pages, {seen.count(503)} with 503 within {seconds:.1f} s, longest {longest[0]:.2f} s")
    assert set(seen) == {200, 503}
    assert [shopper.cookie, admin.cookie] == cookies
    own_cluster.wait_ok()
    assert look() == [200] * 5
    assert faults() == []
