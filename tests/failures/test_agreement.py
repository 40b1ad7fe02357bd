"""What a store's processes agree on is kept: while a node stalls, and when the data have gone."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import AsyncClient, Client, override_settings

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.transport import agreement
from django_redsess.transport.keys import keyspace, sid_of
from testproject.clusters import Cluster
from testproject.servers import Server
from tests.helpers.on_clusters import begin_anew, use_cluster
from tests.helpers.outages import TIMEOUT, caches
from tests.helpers.site import MIDDLEWARE
from tests.helpers.visitors import Browser

NewSession = Callable[..., SessionStore]


@pytest.fixture
def site(settings) -> Any:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    return settings


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


def test_a_process_that_starts_while_the_node_of_the_agreement_stalls(server, site, new_session) -> None:
    with closing(Cluster(server.binary, replicas=0)) as cluster:
        use_cluster(site, cluster.urls, timeout=TIMEOUT)
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
                for key in others[:2]:
                    begin_anew()
                    if tag_of(key) not in lost:
                        assert statuses(key) == [500, 500]
        begin_anew()
        assert statuses(others[0]) == [200, 200]


def lose_data(server: Server) -> None:
    server.client.flushall()


def restart_empty(server: Server) -> None:
    server.stop()
    server.start()
    assert server.client.dbsize() == 0


def visit(key: str) -> None:
    assert SessionStore(key).load() == {}


def sign_in(key: str) -> None:
    session = SessionStore()
    session["_auth_user_id"] = "7"
    session.save()


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize(("loses", "does"), [(lose_data, visit), (restart_empty, visit), (restart_empty, sign_in)])
def test_running_processes_write_the_agreement_anew_when_the_data_have_gone(
    own_server, settings, new_session, partitions: int, loses, does
) -> None:
    settings.CACHES = caches(own_server.url)
    settings.REDSESS = {"PARTITIONS": partitions}
    key = str(new_session("7").session_key)
    loses(own_server)
    does(key)
    for wrong in ({"REDSESS": {"PARTITIONS": 64}}, {"REDSESS": {"PARTITIONS": 2}}, {"SECRET_KEY": "another"}):
        with override_settings(**wrong):
            agreement.forget()
            with pytest.raises(ImproperlyConfigured):
                online.count()
    agreement.forget()
    assert SessionStore(key).load() == {}
    sign_in(key)
