"""What the admin and ``endsessions`` say about replicas that confirm an end."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import StringIO
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client

from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin, ending
from tests.helpers.admin_pages import CONFIRM, LIST, answer, asked, have_own_rule, left, told
from tests.helpers.outages import caches, close_connections
from tests.helpers.sentinels import Replicated

TOO_FEW = (
    "Fewer replicas than CONFIRM_ENDS asks for have this (0 of 1): the sessions are ended, and may return after a "
    "failover."
)


@pytest.fixture(scope="module")
def pair(server) -> Iterator[Replicated]:
    """A server with a replica, for all tests that leave both running."""
    started = Replicated(server.binary)
    yield started
    started.close()


@pytest.fixture
def own_pair(server) -> Iterator[Replicated]:
    """One for a test that stops the server."""
    started = Replicated(server.binary)
    yield started
    started.close()


@pytest.fixture
def servers(request, settings) -> Iterator[Replicated]:
    """The site's sessions are on a server with a replica, and one replica is to confirm each end."""
    used = request.getfixturevalue("own_pair" if "own_pair" in request.fixturenames else "pair")
    used.server.client.flushall()
    settings.CACHES = caches(used.server.url)
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": (1, 300)}
    yield used
    close_connections()


@pytest.fixture
def staff(servers, sids, admin_client) -> Client:
    """An administrator, and three users whose sessions the replica has, too."""
    servers.link()
    return admin_client


def ask_about(client: Client, *sids: str) -> Any:
    """Choose these, or ask about all there are."""
    if not sids:
        return client.get(CONFIRM)
    return client.post(LIST, {"action": "end_selected", "_selected_action": sids})


def test_it_says_how_many_replicas_have_it_where_that_is_asked_for(staff, users, sids, new_session, settings) -> None:
    response = answer(staff, ask_about(staff, sids["alice"], sids["bob"]))
    assert told(response).startswith("2 sessions were ended. Users: ")
    assert told(response).endswith(". 1 replica has this.")
    assert told(answer(staff, ask_about(staff))) == "1 session of carol was ended. 1 replica has this."
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": None}
    alices, *_ = [new_session(str(user.pk)).sid for user in users.values()]
    assert told(answer(staff, ask_about(staff, alices))) == "1 session of alice was ended."
    assert "replica" not in told(answer(staff, ask_about(staff)))
    assert run("--all") == {"ended": 1}


@pytest.mark.parametrize("chosen", ["by sid", "by query", "one by one"])
def test_too_few_replicas_are_a_warning_and_what_has_returned_is_ended_by_the_same_request(
    chosen, partitions, own_pair, servers, staff, sids, settings, monkeypatch
) -> None:
    if chosen == "one by one":
        every = OnlineSessionAdmin.has_end_permission
        have_own_rule(monkeypatch, "has_end_permission", lambda self, *args: every(self, *args))
    servers.cut()
    names = sids.values() if chosen == "by sid" else ()
    for number in range(2):
        response = answer(staff, ask_about(staff, *names), message="Bye")
        assert told(response).startswith("3 sessions were ended. Users: ")
        assert told(response).endswith(TOO_FEW)
        assert response.redirect_chain
        assert len(left()) == 1
        if not number:
            settings.CACHES = caches(servers.fail_over())
            assert len(left()) == 4


def test_too_few_replicas_of_a_deactivation_are_a_warning(servers, staff, sids, users) -> None:
    servers.cut()
    second = answer(staff, ask_about(staff, sids["alice"]), deactivate=str(users["alice"].pk))
    response = answer(staff, second)
    assert TOO_FEW in told(response)
    assert not User.objects.get(username="alice").is_active
    assert sids["alice"] not in left()


def test_who_ends_the_own_session_without_replicas_is_signed_out(servers, staff) -> None:
    answer(staff, ask_about(staff))
    servers.cut()
    response = answer(staff, ask_about(staff, staff.session.sid))
    assert "/login/" in response.redirect_chain[-1][0]
    assert left() == set()


def test_each_of_several_requests_says_how_many_replicas_have_it(
    partitions, servers, staff, redis, monkeypatch
) -> None:
    monkeypatch.setattr(ending, "END_MAX", 1)
    monkeypatch.setattr("django_redsess.online.ending.AT_ONCE_MAX", 1)
    servers.cut()
    response = answer(staff, ask_about(staff))
    assert told(response).endswith(TOO_FEW)
    servers.link()
    while asked(response):
        response = answer(staff, response)
        assert told(response).endswith("1 replica has this.")


def test_the_self_service_page_waits_and_says_nothing_of_replicas(servers, staff, users) -> None:
    staff.force_login(users["alice"])
    servers.cut()
    servers.server.client.config_resetstat()
    response = staff.post("/account/sessions/end-others/", follow=True)
    assert "1 other device was signed out." in " ".join(response.text.split())
    assert "replica" not in response.text
    assert "CONFIRM_ENDS" not in response.text
    assert servers.server.client.info("commandstats")["cmdstat_wait"]["calls"] >= 1


def last_line(*arguments: str) -> str:
    """What ``endsessions`` says last."""
    out = StringIO()
    call_command("endsessions", *arguments, "--noinput", stdout=out, stderr=StringIO())
    return out.getvalue().splitlines()[-1]


def run(*arguments: str) -> Any:
    return json.loads(last_line(*arguments, "--json"))


def test_the_command_says_it_too_and_running_it_again_asks_again(servers, staff, sids) -> None:
    assert last_line("alice") == "Ended 1 session of 1 user. 1 replica has this."
    assert run("alice") == {"ended": 0, "confirmed_by": 1}
    servers.cut()
    assert run(sids["bob"]) == {"ended": 1, "confirmed_by": 0}
    for name in ("bob", sids["bob"]):
        assert last_line(name) == f"Ended 0 sessions. {TOO_FEW} Run it again to check replication again."
    servers.link()
    for name in ("bob", sids["bob"]):
        assert last_line(name) == "Ended 0 sessions. 1 replica has this."
    assert online.count() == 2
