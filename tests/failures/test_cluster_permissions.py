"""A cluster that does not let the site do what it needs: one line names the node, and nobody is signed out."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.cluster import ClusterConnectionFactory
from django_redsess.transport.connections import pool
from django_redsess.transport.keys import bucket_of_user, keyspace
from testproject.clusters import Cluster
from testproject.nodes import Node
from testproject.servers import Server
from tests.failures.test_least_permissions import OF_CLIENTS, listed
from tests.helpers.clusters import PARTITIONS, caches_at
from tests.helpers.outages import our_errors
from tests.helpers.site import MIDDLEWARE_WITH_CSRF, TEMPLATES
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.both_servers]

ALL = ("~*", "+@all")


@pytest.fixture
def site(settings: Any) -> None:
    """The site of tests/helpers/site in place of the shop. Its sessions are in no store yet."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.LOGIN_URL = "/sign-in/nobody/"
    settings.MIDDLEWARE = MIDDLEWARE_WITH_CSRF
    settings.TEMPLATES = TEMPLATES


@pytest.fixture
def use(site: None, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that keeps the site's sessions in the cluster that has nodes at these URLs."""
    # A process that has just started: it does not know where sessions are, and no outage.
    monkeypatch.setattr(ClusterConnectionFactory, "_pools", {})

    def use(*urls: str) -> None:
        settings.REDSESS = {**settings.REDSESS, "PARTITIONS": PARTITIONS}
        settings.CACHES = caches_at(urls)

    return use


@pytest.fixture
def may(cluster: Cluster, use: Callable[..., None]) -> Iterator[Callable[..., None]]:
    """Use the cluster as the user "shop", and return a function that says what that user may do from now on."""

    def may(*rules: str, at: Node | None = None) -> None:
        for node in [at] if at else cluster.nodes:
            node.ask("ACL", "SETUSER", "shop", "reset", "on", ">secret", *rules)

    may(*ALL)
    use(*(url.replace("//", "//shop:secret@") for url in cluster.urls))
    yield may
    pool().disconnect()
    for node in cluster.nodes:
        node.ask("ACL", "DELUSER", "shop")


def home(cluster: Cluster, user: User) -> Node:
    return cluster.node_of(keyspace().of_bucket(bucket_of_user(str(user.pk))).tag)


def test_what_the_user_may_not_do_on_one_node_is_a_503_there_and_nowhere_else(
    cluster: Cluster, may: Callable[..., None], browser: Browser, alice: User, log: Any
) -> None:
    node = home(cluster, alice)
    names = (f"user-{number}" for number in range(100))
    bob = next(user for name in names if home(cluster, user := User.objects.create_user(name)) is not node)
    other = Browser(Client())
    browser.sign_in(alice)
    other.sign_in(bob)
    may("~*", "+@all", "-hget", at=node)
    for _ in range(3):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
        assert other.get("/who/").content == bob.username.encode()
    [line] = our_errors(log)
    assert f"127.0.0.1:{node.port}" in line
    assert "'hget' command" in line
    assert str(browser.cookie) not in log.text
    may(*ALL)
    assert browser.get("/who/").content == b"alice"


def test_a_user_who_may_not_ask_where_sessions_are_is_a_503_that_says_so(
    may: Callable[..., None], browser: Browser, log: Any
) -> None:
    may("~*", "+@all", "-cluster")
    browser.cookie = "k" * 32
    for _ in range(2):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
    [line] = our_errors(log)
    assert "'cluster|slots' command" in line


def test_the_factory_without_a_cluster_is_a_503_that_says_so(
    server: Server, use: Callable[..., None], browser: Browser, log: Any
) -> None:
    use(server.url)
    browser.cookie = "k" * 32
    for _ in range(2):
        assert_unavailable(browser.get(f"{browser.views}/who/"))
    [line] = our_errors(log)
    assert "cluster support disabled" in line


def test_everything_works_for_a_user_who_may_do_what_is_listed_for_clusters(
    cluster: Cluster, may: Callable[..., None], alice: User, log: Any
) -> None:
    may(*(set(listed()) - {"+blpop", "+select"}), "+asking", "+cluster|slots")
    pool().disconnect()
    for node in cluster.nodes:
        node.client.acl_log_reset()
    browsers = [Browser(Client()) for _ in range(3)]
    for browser in browsers:
        assert browser.get("/who/").status_code == 200
        browser.sign_in(alice, colour="blue")
        assert browser.post("/write/colour/red/").status_code == 200
    session = SessionStore(browsers[0].cookie)
    viewed.record(session, "lamp")
    assert viewed.popular() == [("lamp", 1)]
    assert len(online.sessions(order="seen_at")) == online.count() == 3
    cleaning.sample()
    online.history()
    for option in ("--dry-run", "--check", "--repair"):
        call_command("cleansessions", option, verbosity=0)
    call_command("cleanviewed", limit=1, verbosity=0)
    assert online.end_user(alice) == 3
    assert our_errors(log) == []
    refused = {entry["object"] for node in cluster.nodes for entry in node.client.acl_log()}
    assert {re.sub(r"\s.*", "", name) for name in refused} <= OF_CLIENTS
