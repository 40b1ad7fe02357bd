"""
A request that brings the key of a bound session and no proof: whatever a view does, nothing opens and nothing moves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import iscoroutinefunction
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpResponse
from django.test import AsyncClient, Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.session import binding as binding_module
from django_redsess.session.record import data_of, unpack
from django_redsess.transport.keys import keyspace
from tests.helpers.proving import (
    BINDING,
    PATHS,
    PROOF,
    REFUSED,
    WAYS,
    HeaderGuard,
    contents,
    contents_of,
)
from tests.helpers.site import MIDDLEWARE, TEMPLATES
from tests.helpers.store import make_older, server_of, stored
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.django_db

Ask = Callable[..., HttpResponse]


@pytest.fixture(autouse=True)
def guard(monkeypatch) -> HeaderGuard:
    found = HeaderGuard()
    monkeypatch.setattr(binding_module, "guard", found)
    return found


@pytest.fixture(autouse=True)
def site(settings) -> None:
    settings.ROOT_URLCONF, settings.TEMPLATES = "tests.helpers.proving", TEMPLATES
    settings.MIDDLEWARE = [MIDDLEWARE[0], "tests.helpers.proving.FindsByHeader", *MIDDLEWARE[1:]]
    settings.REDSESS = {**settings.REDSESS, "VIEWED_GUESTS": True, "SLIDING": True, "IDLE_TIMEOUT": 300_000}
    User.objects.create_user("bob")


@pytest.fixture
def bound(redis, new_session) -> SessionStore:
    """A bound session of a day ago: any touch would move its times."""
    session: SessionStore = new_session("7", colour="blue")
    viewed.record(session, "chair")
    session.bind(BINDING)
    session.save()
    make_older(redis, str(session.sid), 86_400)
    return session


def copy_of(session: SessionStore, brings: str, **more: str) -> Ask:
    """Return a function that makes a request with a copy of the session key, which it brings by cookie or header."""

    def ask(name: str, query: str = "", *, client: Any = None, **headers: str) -> HttpResponse:
        # As a process that has not touched the session before.
        server_of(keyspace().of_sid(str(session.sid))).invalidate_reads()
        browser = Browser((client or (AsyncClient if iscoroutinefunction(WAYS.get(name)) else Client))())
        headers = {**more, **headers}
        if brings == "cookie":
            browser.cookie = str(session.session_key)
        else:
            headers["X-Session"] = str(session.session_key)
        return browser.get(f"/{PATHS.get(name, name)}{query}", headers=headers)

    return ask


@pytest.fixture(
    params=[
        ("cookie", {}),
        pytest.param(("header", {}), marks=pytest.mark.slow),
        pytest.param(("cookie", {"X-Session-Passive": "1"}), marks=pytest.mark.slow),
    ],
    ids=["cookie", "header", "passive"],
)
def thief(request, bound) -> Ask:
    brings, headers = request.param
    return copy_of(bound, brings, **headers)


def assert_refused(answer: HttpResponse) -> None:
    assert (answer.status_code, answer.content) == (401, REFUSED)
    assert answer["Cache-Control"] == "no-store"
    assert not answer.cookies


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("name", WAYS)
def test_a_request_without_a_proof_opens_and_moves_nothing(redis, thief, name: str) -> None:
    before = contents(redis)
    assert_refused(thief(name))
    assert contents(redis) == before


@pytest.mark.on_cluster
@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("thief", [("cookie", {}), ("header", {})], indirect=True, ids=["cookie", "header"])
def test_the_answer_is_the_same_if_the_view_lets_the_exception_pass(redis, thief) -> None:
    before = contents(redis)
    for name in WAYS:
        assert_refused(thief(name, "?raises"))
    assert contents(redis) == before


@pytest.mark.slow
@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("name", WAYS)
def test_a_request_with_a_proof_may_do_all_that(thief, name: str) -> None:
    answer = thief(name, "?raises", **PROOF)
    # After "clears, deletes", the middleware finds no session to save any more.
    assert answer.status_code == (400 if name == "clears, deletes" else 200)


@pytest.mark.on_cluster
@pytest.mark.both_servers
@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("is_known", [True, False], ids=["the server knows the script", "it does not"])
@pytest.mark.parametrize("thief", [("cookie", {})], indirect=True)
def test_a_request_with_a_proof_is_a_visit(redis, thief, bound, is_known: bool) -> None:
    before = contents_of(redis, str(bound.sid))
    if not is_known:
        redis.script_flush()
    assert thief("reads", **PROOF).content == b"done"
    after = contents_of(redis, str(bound.sid))
    assert before.keys() == after.keys()
    moved = {name.rpartition(b":")[2] for name, value in before.items() if after[name] != value}
    assert moved == {b"recent", b"expire"}


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("thief", [("cookie", {})], indirect=True)
def test_a_request_that_goes_on_as_nobody_leaves_the_bound_session_alone(redis, thief, bound) -> None:
    """Its session is neither read nor changed, and its cookie not deleted. A new session has nothing of it."""
    sid = str(bound.sid)
    before = contents_of(redis, sid)
    for name in WAYS:
        answer = thief(name, "?as-nobody")
        assert answer.status_code == 200, name
        assert all(morsel.value for morsel in answer.cookies.values()), name
        assert contents_of(redis, sid) == before, name
    for partition in keyspace().partitions:
        for each, packed in redis.hgetall(partition.login).items():
            record = unpack(each.decode(), packed)
            if each.decode() != sid:
                assert record.binding == b""
                assert data_of(record).get("colour") != "blue"


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("thief", [("cookie", {})], indirect=True)
@pytest.mark.parametrize("always", [False, True])
def test_a_page_without_a_session_is_shown_unless_each_request_saves(redis, settings, thief, always: bool) -> None:
    settings.SESSION_SAVE_EVERY_REQUEST = always
    before = contents(redis)
    # A view that is recorded is no reason to refuse the page, and is not recorded.
    for name in ("nothing/", "notes_a_view/"):
        for client in (Client, AsyncClient):
            answer = thief(name, client=client)
            if always:
                assert_refused(answer)
            else:
                assert (answer.status_code, list(answer.cookies)) == (200, [])
    assert contents(redis) == before


def test_a_view_that_is_recorded_makes_no_page_depend_on_the_cookie(settings, new_session) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": False, "IDLE_TIMEOUT": None}
    session = new_session("7", colour="blue")
    assert "Cookie" not in copy_of(session, "cookie")("notes_a_view/").get("Vary", "")
    assert [item for item, _ in viewed.recent(session)] == ["lamp"]


def test_a_new_session_beside_the_bound_one_needs_no_proof(redis, thief, bound) -> None:
    before = contents_of(redis, str(bound.sid))
    for name in ("creates/", "saves_anew/", "exists/"):
        assert thief(name, "?raises").status_code == 200
    assert contents_of(redis, str(bound.sid)) == before


def test_no_proof_is_asked_for_without_a_request(bound, guard) -> None:
    assert SessionStore(bound.session_key)["colour"] == "blue"
    assert viewed.recent(str(bound.sid))
    SessionStore(bound.session_key).flush()
    assert not SessionStore().exists(str(bound.session_key))


def test_an_end_of_all_sessions_of_a_user_reaches_that_of_its_request_without_a_proof(new_session) -> None:
    user = User.objects.get(username="bob")
    session, other = new_session(str(user.pk)), new_session(str(user.pk))
    session.bind(BINDING)
    session.save()
    answer = copy_of(session, "cookie")("signs_out_everywhere/", "?raises")
    assert answer.status_code == 401
    assert online.count(user_ids=[str(user.pk)]) == 0
    assert not SessionStore().exists(str(other.session_key))


@pytest.mark.parametrize("thief", [("cookie", {})], indirect=True)
def test_a_sign_in_as_nobody_that_is_refused_leaves_the_cookie(thief, set_limit) -> None:
    set_limit(1, "refuse")
    assert thief("signs_in", "?as-nobody&raises").status_code == 200
    answer = thief("signs_in_by_api/", "?as-nobody&raises")
    assert (answer.status_code, list(answer.cookies)) == (403, [])


def test_a_session_that_this_request_has_ended_is_not_stored_as_a_new_one(redis, bound) -> None:
    bound.delete()
    with pytest.raises(UpdateError):
        bound.save()
    assert stored(redis) == 0


def test_an_interruption_while_the_guard_is_asked_loses_nothing(redis, bound) -> None:
    session = SessionStore(bound.session_key)
    session.clear()
    session["size"] = "L"
    steps = session.saving()
    next(steps)
    # As the event loop does when a task is cancelled.
    steps.close()
    assert dict(session.items()) == {"size": "L"}
    session.save()
    assert SessionStore(bound.session_key).load() == {"size": "L"}
