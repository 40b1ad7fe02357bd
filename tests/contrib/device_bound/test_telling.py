"""Who is told of a request without proof: the log, observers, and receivers of the signal. None gets a secret."""

import asyncio
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.http import HttpRequest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound import telling
from django_redsess.exceptions import SessionNotProven
from django_redsess.observers import Server
from django_redsess.signals import UnprovenRequest, session_not_proven
from tests.contrib.device_bound.test_refusals import FROM_ELSEWHERE, FROM_US, SKIPPED

AGENT = "Mozilla/5.0 (of a thief)"

events: list[tuple[str, dict[str, object]]] = []


class Observer:
    def operation(self, name: str, server: Server, seconds: float, error: BaseException | None) -> None:
        pass

    def event(self, name: str, **facts: object) -> None:
        if name == "session_not_proven":
            events.append((name, facts))


@pytest.fixture
def told(settings) -> Iterator[list[tuple[UnprovenRequest, HttpRequest | None]]]:
    """What receivers of the signal are told: each request that was not proven, with the request of the signal."""
    settings.REDSESS = {**settings.REDSESS, "OBSERVERS": [f"{__name__}.Observer"]}
    events.clear()
    found: list[tuple[UnprovenRequest, HttpRequest | None]] = []

    def receive(sender: Any, sessions: list[UnprovenRequest], request: HttpRequest | None, **kwargs: Any) -> None:
        assert sender is UnprovenRequest
        found.extend((each, request) for each in sessions)

    session_not_proven.connect(receive)
    yield found
    session_not_proven.disconnect(receive)


@pytest.fixture
def lost(device: Any) -> Any:
    device.proof = None
    return device


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "django.security.DeviceBound"]


def test_a_refused_request_is_told_to_all(lost, told, caplog) -> None:
    assert lost.send("get", "/held/who/", user_agent=AGENT, **FROM_US).status_code == 401
    sid, session = str(lost.sid), online.get(str(lost.sid))
    [(unproven, request)] = told
    assert session is not None
    assert request is not None
    assert unproven == UnprovenRequest(sid, "1", session.created_at, "127.0.0.1", AGENT, "", True, True)
    assert lines(caplog) == [
        f"A request without proof for the device-bound session {sid} was refused: address 127.0.0.1, skipped nothing, "
        f"user agent {AGENT!r}"
    ]
    assert events == [("session_not_proven", {"outcome": "refused"})]


def test_a_device_that_has_proved_itself_since_is_told_apart(device, told) -> None:
    device.proof = None
    assert device.get("/held/who/").content == b"1"
    device.proof = None
    device.send("get", "/held/who/", **FROM_US)
    assert [unproven.never_refreshed for unproven, _ in told] == [False]


def test_nobody_is_told_a_secret(device, told, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    key, proof = str(device.cookie), "a proof that was made up"
    device.proof = proof
    secrets = {"secure_session_response": '"a.jws.of"', "authorization": "Bearer token", "x_other": "header"}
    device.send("get", "/held/who/?code=secret", secure_session_skipped="words of a stranger", **secrets)
    [(unproven, _)] = told
    assert unproven.skipped == "other"
    for text in (*lines(caplog), repr(events), repr(unproven)):
        for each in (key, proof, "a.jws.of", "token", "header", "code", "words", "stranger"):
            assert each not in text
    assert not [each for each in caplog.records if key in each.getMessage() or proof in each.getMessage()]


def test_a_user_agent_forges_no_line(lost, told, caplog) -> None:
    lost.send("get", "/held/who/", user_agent="Mozilla\x85\x1b[2J" + "x" * 900)
    [line] = lines(caplog)
    assert line.isprintable()
    assert len(line) < 450


def test_log_and_signal_are_told_once_a_minute_and_observers_each_time(lost, told, caplog, monkeypatch) -> None:
    for _ in range(3):
        assert lost.send("get", "/held/who/", **FROM_US).status_code == 401
    assert (len(told), len(lines(caplog)), len(events)) == (1, 1, 3)
    later = telling.monotonic() + 61
    monkeypatch.setattr(telling, "monotonic", lambda: later)
    lost.send("get", "/held/who/", **FROM_US)
    assert (len(told), len(lines(caplog)), len(events)) == (2, 2, 4)


def test_each_session_is_told(lost, new_device, told, later) -> None:
    other = new_device()
    other.sign_in_as(2)
    other.proof = None
    later(60)
    for each in (lost, other):
        each.send("get", "/held/who/", **FROM_US)
    assert [unproven.user_id for unproven, _ in told] == ["1", "2"]


@pytest.mark.unit
def test_a_process_remembers_no_more_than_a_thousand_sessions(monkeypatch) -> None:
    monkeypatch.setattr(telling, "_told", {})
    assert all(telling._is_due(f"sid {number}") for number in range(3000))
    assert len(telling._told) == telling.TOLD_MAX
    assert not telling._is_due("sid 2999")
    assert telling._is_due("sid 0")


@pytest.mark.parametrize(
    "headers",
    [FROM_ELSEWHERE, SKIPPED, {"sec_fetch_site": "cross-site", "sec_fetch_mode": "no-cors"}],
    ids=["from another site", "skipped", "image on another site"],
)
@pytest.mark.parametrize("mode", ["refuse", "observe"])
def test_a_browser_that_had_no_chance_is_only_counted(lost, told, caplog, settings, headers, mode: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND": mode}
    lost.send("get", "/held/who/", **headers)
    assert (told, lines(caplog)) == ([], [])
    assert events == [("session_not_proven", {"outcome": "excused"})]


@pytest.mark.parametrize("word", ["unreachable", "server_error", "quota_exceeded"])
def test_a_call_of_a_browser_that_could_not_prove_itself_is_told_with_the_reason(lost, told, word: str) -> None:
    lost.send("get", "/held/who/", accept="*/*", secure_session_skipped=f' {word} ;session_identifier="x", other')
    assert [unproven.skipped for unproven, _ in told] == [word]


def test_who_goes_on_as_nobody_is_told(lost, told) -> None:
    assert lost.send("get", "/login/", **FROM_US).status_code == 200
    assert [unproven.refused for unproven, _ in told] == [True]


def test_proven_requests_are_not_told(device, told, caplog) -> None:
    device.get("/held/who/", **FROM_US)
    device.refresh()
    assert (told, lines(caplog), events) == ([], [], [])


def test_a_session_that_should_be_bound_is_not_told(new_device, users_in_no_table, later, told, settings) -> None:
    required = "tests.contrib.device_bound.test_required.everybody"
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_REQUIRED": required}
    device = new_device(registers=False)
    device.sign_in_as(1)
    later(90)
    assert device.send("get", "/held/who/", **FROM_US).status_code == 401
    assert told == []


def test_observing_tells_and_opens(lost, told, caplog, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND": "observe"}
    response = lost.send("get", "/held/who/", **FROM_US)
    assert (response.content, list(response.cookies)) == (b"1", [])
    assert [unproven.refused for unproven, _ in told] == [False]
    assert "was opened all the same: address 127.0.0.1" in lines(caplog)[0]
    assert events == [("session_not_proven", {"outcome": "opened"})]


def test_receivers_are_called_after_the_response(lost, told, monkeypatch) -> None:
    seen: list[str] = []
    hold = telling.hold_events
    monkeypatch.setattr(telling, "hold_events", lambda held: [hold(held), seen.append(f"told {len(told)}")][0])
    lost.send("get", "/held/who/", **FROM_US)
    assert (seen, len(told)) == (["told 0"], 1)


def request_with(device: Any) -> HttpRequest:
    request = HttpRequest()
    request.method, request.path, request.path_info = "GET", "/socket/", "/socket/"
    request.COOKIES = {"sessionid": device.cookie}
    return request


def test_without_our_middleware_they_are_called_at_once(lost, told) -> None:
    session = SessionStore(lost.cookie)
    session.brought_by = request_with(lost)
    with pytest.raises(SessionNotProven):
        session.load()
    assert [unproven.user_id for unproven, _ in told] == ["1"]


def test_in_an_event_loop_they_are_called_by_a_task(lost, told) -> None:
    async def load() -> int:
        session = SessionStore(lost.cookie)
        session.brought_by = request_with(lost)
        with pytest.raises(SessionNotProven):
            await session.aload()
        before = len(told)
        while telling._sending:
            await asyncio.sleep(0.01)
        return before

    assert asyncio.run(load()) == 0
    assert [unproven.user_id for unproven, _ in told] == ["1"]


def test_a_receiver_that_fails_changes_nothing(lost, told) -> None:
    def fail(**kwargs: Any) -> None:
        raise RuntimeError("The receiver fails.")

    session_not_proven.connect(fail)
    try:
        assert lost.send("get", "/held/who/", **FROM_US).status_code == 401
    finally:
        session_not_proven.disconnect(fail)
