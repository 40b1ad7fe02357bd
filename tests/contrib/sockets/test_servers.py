"""Sockets and streams of daphne and uvicorn, whose sessions are ended by this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from django.utils.timezone import now
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection

from django_redsess import online
from django_redsess.accounts import logout_everywhere
from django_redsess.backend import SessionStore
from testproject import servers
from tests.contrib.sockets.serving import PROGRAMS, Site, said_until_closed
from tests.helpers.outages import caches, close_connections
from tests.helpers.running import wait_until
from tests.helpers.serving import SECONDS
from tests.helpers.sign_ins import sign_in
from tests.helpers.site.people import person

pytestmark = pytest.mark.usefixtures("users_in_no_table")


@pytest.fixture(scope="module")
def kept_sites(server: servers.Server, tmp_path_factory: Any) -> Iterator[Callable[[str], Site]]:
    """Return a function that starts each program for all tests here, when it is first asked for."""

    def start(program: str) -> Site:
        site = Site(tmp_path_factory.mktemp(program), program, server.url)
        started.callback(site.close)
        return site

    with ExitStack() as started:
        yield cache(start)


@pytest.fixture(params=["uvicorn", pytest.param("daphne", marks=pytest.mark.slow)])
def site(request: pytest.FixtureRequest, kept_sites: Callable[[str], Site]) -> Iterator[Site]:
    kept = kept_sites(request.param)
    yield kept
    kept.hang_up()


def answers(chat: ClientConnection, text: str = "hello") -> bool:
    chat.send(json.dumps({"text": text}))
    return json.loads(chat.recv(timeout=SECONDS)) == {"type": "said", "text": text}


def kick(session: SessionStore) -> tuple[str | None, str]:
    online.end(str(session.sid), message="We have closed for today.")
    return "kicked", "We have closed for today."


def sign_out(session: SessionStore) -> tuple[str | None, str]:
    SessionStore(session.session_key).flush()
    return None, ""


def expire(session: SessionStore) -> tuple[str | None, str]:
    session.set_expiry(1)
    session.save()
    return "expired", ""


def block(session: SessionStore) -> tuple[str | None, str]:
    online.block(person(session["_auth_user_id"]), until=now() + timedelta(days=1), message="Ask us why.")
    return "kicked", "Ask us why."


def log_out_everywhere(session: SessionStore) -> tuple[str | None, str]:
    logout_everywhere(person(session["_auth_user_id"]), message="Your password was changed.")
    return "invalidated", "Your password was changed."


def give_away(session: SessionStore) -> tuple[str | None, str]:
    """As a site does that gives the session to another user without ending it."""
    session["_auth_user_id"] = "77"
    session.cycle_key()
    session.save()
    return "invalidated", ""


WAYS = [kick, sign_out, expire, block, log_out_everywhere, give_away]


def test_a_socket_is_told_and_closed_however_its_session_ends(site: Site) -> None:
    sessions = {way: sign_in(str(number)) for number, way in enumerate(WAYS, start=1)}
    chats = {way: site.chat(str(session.session_key)) for way, session in sessions.items()}
    other = site.chat(str(sign_in("50").session_key))
    assert all(map(answers, [*chats.values(), other]))
    expected = {way: way(session) for way, session in sessions.items()}
    for way, chat in chats.items():
        reason, message = expected[way]
        told = {"type": "session_ended", "reason": reason, "message": message, "message_code": ""}
        messages, code = said_until_closed(chat)
        assert ([json.loads(each) for each in messages], code) == ([told], 4401), way.__name__
    assert answers(other)


def test_a_socket_is_for_who_is_signed_in(site: Site) -> None:
    with pytest.raises(InvalidStatus):
        site.chat("k" * 32)


def test_a_socket_follows_its_session_to_a_new_key(site: Site) -> None:
    session = sign_in("7")
    chat = site.chat(str(session.session_key))
    session.cycle_key()
    session.save()
    # A session that is ended after the look that follows the first: it has been followed by then.
    other = sign_in("8")
    witness = site.chat(str(other.session_key))
    kick(other)
    assert said_until_closed(witness)[1] == 4401
    assert answers(chat)
    kick(session)
    assert said_until_closed(chat)[1] == 4401


def test_a_socket_of_a_copied_cookie_is_closed_and_its_owner_opens_another(site: Site) -> None:
    session = sign_in("7")
    stolen = str(session.session_key)
    of_thief = site.chat(stolen)
    session.end_copies()
    session.save()
    messages, code = said_until_closed(of_thief)
    assert ([json.loads(each)["reason"] for each in messages], code) == (["invalidated"], 4401)
    with pytest.raises(InvalidStatus):
        site.chat(stolen)
    assert answers(site.chat(str(session.session_key)))


def test_a_stream_is_told_and_closed(server: servers.Server, kept_sites: Callable[[str], Site]) -> None:
    site, session = kept_sites("uvicorn"), sign_in("7")
    connection = HTTPConnection("127.0.0.1", site.port, timeout=SECONDS)
    connection.request("GET", "/stream/", headers={"Cookie": f"sessionid={session.session_key}"})
    response = connection.getresponse()
    assert (response.status, response.getheader("Content-Type")) == (200, "text/event-stream")
    assert response.readline() == b'data: {"price": 7}\n'
    expected = kick(session)
    lines = response.read().decode().split("\n")
    at = lines.index("event: session_ended")
    assert json.loads(lines[at + 1].removeprefix("data: ")) == dict(zip(("reason", "message"), expected, strict=True))
    assert lines[at + 2 :] == ["", ""]
    connection.request("GET", "/stream/", headers={"Cookie": f"sessionid={session.session_key}"})
    assert connection.getresponse().status == 401
    connection.close()


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_server_that_stops_and_starts_closes_no_socket(
    server: servers.Server, settings: Any, tmp_path: Path, program: str
) -> None:
    with closing(servers.Server(server.binary, "--appendonly", "yes")) as own:
        settings.CACHES = caches(own.url)
        sessions = [sign_in("7"), sign_in("8")]
        with closing(Site(tmp_path, program, own.url)) as site:
            chats = [site.chat(str(session.session_key)) for session in sessions]
            assert all(map(answers, chats))
            own.stop()
            wait_until(lambda: "Sessions can't be reached" in site.said)
            assert all(map(answers, chats))
            own.start()
            kick(sessions[0])
            assert said_until_closed(chats[0])[1] == 4401
            assert answers(chats[1])
            shows_key = any(str(session.session_key) in site.said for session in sessions)
            assert not shows_key
    close_connections()
