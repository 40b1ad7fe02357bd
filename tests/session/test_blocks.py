"""Users who may not sign in for a time: no session of theirs begins, whatever signs in, and none is left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth import SESSION_KEY, alogin, login
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone

from django_redsess import online
from django_redsess.accounts import without_limit
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SignInRefused
from django_redsess.session import blocks
from django_redsess.session.blocks import Block
from django_redsess.signals import user_blocked, user_unblocked
from django_redsess.transport import connections
from django_redsess.transport.keys import keyspace
from tests.helpers.online import ends
from tests.helpers.sign_ins import request_of, sids_of, sign_in
from tests.helpers.site.people import person
from tests.helpers.store import stored

pytestmark = [
    pytest.mark.usefixtures("partitions", "users_in_no_table"),
    pytest.mark.both_servers,
    pytest.mark.on_cluster,
]

HOUR = timedelta(hours=1)


def in_an_hour() -> datetime:
    return timezone.now() + HOUR


def block(user_id: str = "7", **words: Any) -> int:
    return online.block(person(user_id), until=in_an_hour(), **words)


@pytest.fixture
def guest(new_session) -> SessionStore:
    return new_session(basket="lamp")


def by_login(session: SessionStore) -> None:
    login(request_of(session), person("7"))


def by_alogin(session: SessionStore) -> None:
    asyncio.run(alogin(request_of(session), person("7")))


def by_hand(session: SessionStore) -> None:
    session[SESSION_KEY] = "7"


def by_hand_with_another_key(session: SessionStore) -> None:
    session.cycle_key()
    session[SESSION_KEY] = "7"


def without_a_limit(session: SessionStore) -> None:
    with without_limit():
        by_login(session)


def under_a_limit_that_refuses(session: SessionStore) -> None:
    limits = {"MAX_SESSIONS_PER_USER": 3, "SESSION_LIMIT_POLICY": "refuse"}
    with override_settings(REDSESS={**settings.REDSESS, **limits}):
        by_login(session)


def signs_in(way: Callable[[SessionStore], None], session: SessionStore, *, is_again: bool) -> None:
    way(session)
    if is_again:
        # Only a new key or another user is a sign-in.
        session.cycle_key()
    session.save()


WAYS = [by_login, by_alogin, by_hand, by_hand_with_another_key, without_a_limit, under_a_limit_that_refuses]


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("before", ["", "guest", "8", "7"])
def test_no_session_of_a_blocked_user_begins(redis, new_session, way: Callable[[SessionStore], None], before) -> None:
    # The session of the user is one that an end has not reached yet.
    there = new_session(before.removeprefix("guest"), colour="blue") if before else SessionStore()
    blocks.set_block(Block("7", in_an_hour(), "Call us.")).run()
    session = SessionStore(there.session_key)
    session.load()
    with pytest.raises(SignInRefused) as caught:
        signs_in(way, session, is_again=before == "7")
    assert str(caught.value).endswith(" Call us.")
    assert caught.value.message == "Call us."
    assert abs(caught.value.until - in_an_hour()) < timedelta(minutes=1)
    assert sids_of("7") <= {there.sid}
    assert sids_of("8") <= {there.sid}
    assert stored(redis) <= bool(before)


def test_a_program_without_urls_is_refused_in_words(settings) -> None:
    block()
    del settings.ROOT_URLCONF
    with pytest.raises(SignInRefused) as caught:
        sign_in("7")
    assert caught.value.until is not None


def test_others_sign_in_and_guests_come(guest) -> None:
    block()
    assert {sign_in("8").sid, sign_in("8", guest).sid} == sids_of("8")
    assert SessionStore(guest.session_key).load() == {}


def test_all_sessions_end_and_their_users_are_told(redis, told) -> None:
    sessions = [sign_in("7") for _ in range(3)]
    other = sign_in("8")
    assert block(message="Call us.") == 3
    assert sorted(ends(told)) == sorted((session.sid, "7", "kicked") for session in sessions)
    assert {SessionStore(session.session_key).ended.message for session in sessions} == {"Call us."}
    assert sids_of("8") == {other.sid}


def test_who_is_unblocked_or_whose_time_is_over_signs_in(redis) -> None:
    block()
    with pytest.raises(SignInRefused):
        sign_in("7")
    assert online.unblock(person("7"))
    assert {sign_in("7").sid} == sids_of("7")
    assert not online.unblock(person("7"))
    block()
    home = keyspace().of_user("7")
    # The time is over.
    redis.zadd(home.blocked, {"7": datetime.now(UTC).timestamp() * 1000 - 1})
    assert online.block_of(person("7")) is None
    assert online.blocked() == []
    assert {sign_in("7").sid} == sids_of("7")
    assert not online.unblock(person("7"))
    assert redis.exists(home.blocked) == 0


def test_blocks_that_are_over_go_with_the_next_one(redis) -> None:
    home = keyspace().of_user("7")
    over = [user_id for user_id in map(str, range(1000)) if keyspace().of_user(user_id) == home][:60]
    redis.zadd(home.blocked, dict.fromkeys(over, 1000))
    block()
    assert redis.zrange(home.blocked, 0, -1) == [b"7"]


def at_send(number: int, action: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let something happen before the next message to the server but ``number``. Return a list that says when."""
    counted, done, send = itertools.count(), list[int](), connections.send

    def sends(*args: Any) -> Any:
        if not done and (at := next(counted)) == number:
            done.append(at)
            action()
        return send(*args)

    monkeypatch.setattr(connections, "send", sends)
    return done


@pytest.mark.parametrize("brings", ["", "guest", "8"])
@pytest.mark.parametrize("first", ["the sign-in", "the block"])
def test_whenever_one_comes_between_the_other_no_session_is_left(new_session, monkeypatch, brings, first) -> None:
    for number in itertools.count():
        there = new_session(brings.removeprefix("guest"), colour="blue") if brings else None
        sign_in("7")

        def signs_in(there: SessionStore | None = there) -> None:
            with suppress(SignInRefused):
                sign_in("7", there)

        before, between = (signs_in, block) if first == "the sign-in" else (block, signs_in)
        with monkeypatch.context() as patched:
            done = at_send(number, between, patched)
            before()
        if not done:
            break
        assert sids_of("7") == set()
        assert [each.user_id for each in online.blocked()] == ["7"]
        assert online.unblock(person("7"))
    assert number > 1


def test_of_two_who_block_and_lift_at_once_one_lifts(redis) -> None:
    with ThreadPoolExecutor(8) as administrators:
        for _ in range(5):
            list(administrators.map(lambda number: block(message=f"No. {number}"), range(8)))
            [found] = online.blocked()
            assert found == online.block_of(person("7"))
            assert found.message.startswith("No. ")
            assert sum(administrators.map(lambda _: online.unblock(person("7")), range(8))) == 1
            assert {sign_in("7").sid} == sids_of("7")


@pytest.fixture
def heard(connect) -> list[dict[str, Any]]:
    """What the two signals told."""
    told: list[dict[str, Any]] = []
    connect(lambda signal, sender, **named: told.append(named), user_blocked, user_unblocked)
    return told


def test_the_last_block_holds_and_each_is_told(heard) -> None:
    later = datetime.now(UTC).replace(microsecond=123000) + 2 * HOUR
    block(message="Call us.", by=person("1"))
    online.block(person("7"), until=later)
    assert online.block_of(person("7")) == Block("7", later, "", "")
    assert Block(**{name: heard[1][name] for name in Block._fields}) == online.block_of(person("7"))
    assert (heard[0]["message"], heard[0]["by"]) == ("Call us.", "1")
    # Also where there is none: a copy of it may be somewhere.
    for _ in range(2):
        online.unblock(person("7"))
    assert heard[2:] == [{"user_id": "7"}] * 2


def test_blocks_are_listed_the_first_to_end_before_others(redis) -> None:
    expected = []
    for number in range(40):
        until = datetime.now(UTC).replace(microsecond=0) + HOUR * (1 + number * 7 % 40)
        online.block(person(number), until=until, message=f"No. {number}", by=person(1))
        expected.append(Block(str(number), until, f"No. {number}", "1"))
    expected.sort(key=lambda each: each.until)
    assert online.blocked() == expected
    assert online.blocked(offset=3, limit=10) == expected[3:13]
    assert online.blocked(limit=0) == online.blocked(offset=40) == []
    for wrong in ({"offset": -1}, {"offset": 4_999, "limit": 2}):
        with pytest.raises(ValueError, match=r"offset|5000"):
            online.blocked(**wrong)


def test_the_async_variants_do_the_same() -> None:
    async def visit() -> None:
        session = SessionStore()
        await alogin(request_of(session), person("7"))
        await session.asave()
        until = datetime.now(UTC).replace(microsecond=0) + HOUR
        assert await online.ablock(person("7"), until=until, message="Call us.") == 1
        assert [await online.ablock_of(person("7"))] == await online.ablocked() == [Block("7", until, "Call us.")]
        with pytest.raises(SignInRefused):
            await alogin(request_of(SessionStore()), person("7"))
        assert await online.aunblock(person("7"))
        assert await online.ablocked() == []

    asyncio.run(visit())
    assert sids_of("7") == set()


def test_what_can_not_be_a_block_is_none(redis) -> None:
    past, naive = timezone.now() - HOUR, datetime(2999, 1, 1)
    session = sign_in("7")
    for until, words in ((past, ""), (naive, ""), (in_an_hour(), "x" * 201)):
        with pytest.raises(ValueError, match=r"until|200"):
            online.block(person("7"), until=until, message=words)
    with pytest.raises(ValueError, match="primary key"):
        online.block(User(), until=in_an_hour())
    assert online.blocked() == []
    assert sids_of("7") == {session.sid}


def test_of_words_that_somebody_else_has_stored_only_the_first_are_shown(redis) -> None:
    block()
    redis.set(keyspace().of_user("7").block_of("7"), "x" * 1_000_000 + "\n" + "9" * 1_000_000)
    [found] = online.blocked()
    assert (len(found.message), len(found.by)) == (200, 255)
    assert online.block_of(person("7")) == found
    with pytest.raises(SignInRefused) as refused:
        sign_in("7")
    assert len(str(refused.value)) < 300
    redis.flushall()


def test_a_sign_in_asks_once(round_trips, new_session, partitions) -> None:
    there = new_session(colour="blue")
    sign_in("8")
    round_trips()
    sign_in("8", there)
    # Load, ask, save. Or the session moves to another partition: see test_rotation.
    assert round_trips() in ({3} if partitions == 1 else {3, 5})
    # A visitor without a session: ask, save.
    sign_in("8")
    assert round_trips() == 2


def test_a_sign_in_that_is_saved_at_once_does_not_ask(sent, set_limit, new_session) -> None:
    set_limit(5, "refuse")
    there = new_session(colour="blue")
    sign_in("8")
    sent.clear()
    # The save after the view has nothing new to say, and Django's login() does not know that.
    sign_in("8", there)
    assert sent[0] == "read"
    assert sent[-1] == "save_fast"
    assert "block" not in sent
    sent.clear()
    sign_in("8")
    assert sent == ["create", "save_fast"]
