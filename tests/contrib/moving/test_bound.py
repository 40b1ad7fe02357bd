"""Sessions that are bound to a device, while sessions move: each stays bound, and each step asks for a proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync, iscoroutinefunction
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpResponse
from django.test import AsyncClient, Client

from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from tests.contrib.moving.conftest import grow, session_of
from tests.contrib.moving.test_ends import OWN, sign_in, the_store_before
from tests.helpers.proving import BINDING, PATHS, PROOF, REFUSED, WAYS, HeaderGuard, contents
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import (
    Binding,
    BindingChanged,
    Record,
    Store,
    keyspace,
    make_older,
    server_of,
    session_binding,
    sid_of,
    unpack,
    using,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "moving", "left_alone")]


@pytest.fixture(autouse=True)
def guard(monkeypatch) -> HeaderGuard:
    found = HeaderGuard()
    monkeypatch.setattr(session_binding, "guard", found)
    return found


@pytest.fixture(autouse=True)
def site(moving: Any) -> None:
    moving.ROOT_URLCONF, moving.MIDDLEWARE = "tests.helpers.proving", MIDDLEWARE
    User.objects.create_user("bob")


@pytest.fixture
def grows(moving: Any) -> None:
    grow(moving, **OWN)


def in_own_store(redis: Any) -> str:
    """Save a bound session of the user 7 in the store before, a day ago. Return its key."""
    with using(the_store_before()):
        session = SessionStore()
        session.update({"_auth_user_id": "7", "colour": "blue"})
        session.bind(BINDING)
        session.save()
        viewed.record(session, "chair")
        make_older(redis, str(session.sid), 86_400)
        return str(session.session_key)


def stored(redis: Any, key: str, store: Store | None) -> tuple[Record, list[Any], list[Any]] | None:
    """Return what a store has of a session: record, times, and what it viewed."""
    sid = sid_of(key)
    with using(store):
        names = keyspace().of_sid(sid)
        if (packed := redis.hget(names.login, sid)) is None:
            return None
        lists = (names.expire, names.recent, names.online_user, names.online_user_of("7"))
        items = redis.zrange(names.viewed_by(sid), 0, -1, withscores=True)
        return unpack(sid, packed), [redis.zscore(name, sid) for name in lists], items


@pytest.fixture
def where(redis, partitions) -> Callable[[str], dict[str, Any]]:
    """Return a function that tells what each store has of a session, by name."""
    stores = {"before": the_store_before(), "next": Store(settings.SESSION_CACHE_ALIAS, conf.PREFIX, conf.PARTITIONS)}

    def look(key: str) -> dict[str, Any]:
        return {name: found for name, store in stores.items() if (found := stored(redis, key, store)) is not None}

    return look


def ask(key: str, name: str, query: str = "?raises", **headers: str) -> HttpResponse:
    server_of(keyspace().of_sid(sid_of(key))).invalidate_reads()
    client = (AsyncClient if iscoroutinefunction(WAYS[name]) else Client)(raise_request_exception=False)
    client.cookies["sessionid"] = key
    get = async_to_sync(client.get) if isinstance(client, AsyncClient) else client.get
    return get(f"/{PATHS[name]}{query}", headers=headers)


def move_by_a_request(key: str) -> None:
    assert ask(key, "reads", **PROOF).status_code == 200


def move_with_the_user(key: str) -> None:
    sign_in("7")


def move_in_bulk(key: str) -> None:
    call_command("movesessions")


MOVES: list[Callable[[str], None]] = [move_by_a_request, move_with_the_user, move_in_bulk]


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize("move", MOVES)
def test_a_session_that_moves_to_the_next_store_stays_bound(redis, where, step, move: Callable[[str], None]) -> None:
    key = in_own_store(redis)
    before = where(key)["before"]
    with step(2):
        move(key)
    after = where(key)
    assert after.keys() == {"next"}
    assert after["next"][0] == before[0]
    for number in (1, 2):
        with step(number):
            answer = ask(key, "reads")
            assert (answer.status_code, answer.content) == (401, REFUSED)
            assert ask(key, "saves", **PROOF).status_code == 200
    assert where(key)["next"][0].binding == BINDING.pack()


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize(
    "has_moved",
    [False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["in the store before", "in the next store"],
)
@pytest.mark.parametrize("number", [1, 2])
def test_each_step_of_growing_asks_for_a_proof(redis, where, step, number: int, has_moved: bool) -> None:
    """A refused request may have moved the session to the next store, as it is."""
    key = in_own_store(redis)
    if has_moved:
        with step(2):
            call_command("movesessions")
    [before] = where(key).values()
    with step(number):
        for name in WAYS:
            answer = ask(key, name)
            assert (answer.status_code, answer.content, list(answer.cookies)) == (401, REFUSED, []), name
            [after] = where(key).values()
            assert after == before, name
        for name in WAYS:
            assert ask(key, name, "?as-nobody").status_code == 200, name
            [after] = where(key).values()
            assert after == before, name
        assert ask(key, "reads", **PROOF).status_code == 200
        [after] = where(key).values()
        assert after[1][1] > before[1][1]


@pytest.mark.parametrize("number", [1, 2])
def test_each_step_from_another_engine_asks_for_a_proof_of_what_is_here(redis, step, old_session, number: int) -> None:
    there = old_session("7", colour="blue")
    with step(2):
        session = session_of(there.session_key)
        assert session["colour"] == "blue"
        session.bind(BINDING)
        session.save()
        key = str(session.session_key)
        make_older(redis, sid_of(key), 86_400)
    before = contents(redis)
    with step(number):
        for name in WAYS:
            for each in {key, str(there.session_key)}:
                answer = ask(each, name)
                assert (answer.status_code, answer.content, list(answer.cookies)) == (401, REFUSED, []), name
            assert contents(redis) == before, name
        assert ask(key, "reads", **PROOF).status_code == 200
        assert contents(redis) != before


def test_a_session_that_is_used_in_the_other_engine_is_not_bound_and_needs_no_proof(step, old_session) -> None:
    there = old_session("7", colour="blue")
    with step(1):
        session = session_of(there.session_key)
        assert session["colour"] == "blue"
        session.bind(BINDING)
        session["size"] = 5
        session.save()
        assert ask(str(session.session_key), "reads").status_code == 200
    with step(2):
        again = session_of(there.session_key)
        assert (again["colour"], again["size"]) == ("blue", 5)
        record = again.snapshot.record
        assert record is not None
        assert record.binding == b""


@pytest.mark.usefixtures("grows")
@pytest.mark.parametrize("first", [BINDING, None], ids=["bound meanwhile", "not bound"])
def test_a_session_that_moves_while_it_is_bound_is_bound_once(where, step, first: Binding | None) -> None:
    other = BINDING._replace(id=b"another ")
    with using(the_store_before()):
        session = SessionStore()
        session["_auth_user_id"] = "7"
        session.save()
        key = str(session.session_key)
    with step(1):
        late = session_of(key)
        assert late["_auth_user_id"] == "7"
    with step(2):
        moves = session_of(key)
        assert moves["_auth_user_id"] == "7"
        if first:
            moves.bind(first)
            moves.save()
    with step(1):
        late.bind(other)
        if first:
            with pytest.raises(BindingChanged):
                late.save()
        else:
            late.save()
    [(record, *_)] = where(key).values()
    assert Binding.unpack(record.binding) == (first or other)
