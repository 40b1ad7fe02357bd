"""What receivers may do, and what becomes of one that raises."""

import asyncio
import logging

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.signals import EndedSession
from tests.helpers.behind import make_due
from tests.helpers.ends import WAYS_TO_DELETE, Told, ends
from tests.helpers.visitors import Browser


@pytest.mark.django_db(transaction=True)
def test_a_receiver_may_use_the_database(site, connect, redis, new_session) -> None:
    def receive(sid, **named) -> None:
        User.objects.create(username=sid)

    connect(receive)
    sids = {new_session("8").sid for _ in range(5)}
    make_due(redis, *sids)
    Browser(Client()).get("/create/")
    assert set(User.objects.values_list("username", flat=True)) == sids


@pytest.mark.django_db(transaction=True)
def test_a_synchronous_receiver_of_an_asynchronous_end_may_use_the_database(connect, new_session) -> None:
    def receive(sid, **named) -> None:
        User.objects.create(username=sid)

    connect(receive)
    session = new_session("7")
    sid = session.sid
    async_to_sync(session.adelete)()
    assert User.objects.get().username == sid


def test_an_asynchronous_receiver_is_told(browser, told, connect, redis, new_session) -> None:
    heard = []

    async def receive(sid, **named) -> None:
        await asyncio.sleep(0)
        heard.append(sid)

    connect(receive)
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    browser.get(f"{browser.views}/create/")
    assert len(heard) == 5
    assert heard == [each.sid for each in told]


@pytest.mark.parametrize("way", ["delete", "adelete"])
def test_an_asynchronous_receiver_is_told_before_the_call_returns(connect, new_session, way: str) -> None:
    heard = []

    async def receive(sid, **named) -> None:
        await asyncio.sleep(0)
        heard.append(sid)

    connect(receive)
    session = new_session("7")
    sid = session.sid
    WAYS_TO_DELETE[way](session.session_key)
    assert heard == [sid]


def test_an_acreate_tells_what_it_removed(told, redis, new_session) -> None:
    make_due(redis, sid := new_session("7").sid)
    async_to_sync(SessionStore().acreate)()
    assert ends(told) == [(sid, "7", "expired")]


class BrokenReceiverError(Exception):
    pass


@pytest.fixture
def broken(connect, told) -> None:
    """Receivers that raise, connected between others."""

    def fails(**named) -> None:
        raise BrokenReceiverError

    async def fails_too(**named) -> None:
        raise BrokenReceiverError

    connect(fails)
    connect(fails_too)


@pytest.fixture
def told_last(broken, connect) -> Told:
    """What a receiver is told that was connected after those that raise."""
    heard: Told = []

    def receive(signal, sender, **named) -> None:
        heard.append(EndedSession(**named))

    connect(receive)
    return heard


def failures(caplog) -> int:
    """How many failures of receivers were logged."""
    lines = [line for line in caplog.records if line.name == "django.dispatch" and line.levelno == logging.ERROR]
    assert all(line.exc_info and line.exc_info[0] is BrokenReceiverError for line in lines)
    return len(lines)


def test_a_receiver_that_raises_is_logged_and_does_not_stop_the_cleaner(
    redis, new_session, told, told_last, caplog
) -> None:
    sids = [new_session("7").sid for _ in range(5)]
    make_due(redis, *sids)
    assert sum(cleaning.expired(batch_size=2)) == 5
    assert len(told) == len(told_last) == 5
    assert failures(caplog) == 10


def test_a_receiver_that_raises_does_not_stop_a_request(
    browser, alice, redis, new_session, told, told_last, caplog
) -> None:
    browser.sign_in(alice)
    make_due(redis, *(new_session("8").sid for _ in range(5)))
    told.clear(), told_last.clear(), caplog.clear()
    assert browser.get(f"{browser.views}/create/").status_code == 200
    assert browser.get(f"{browser.views}/sign-out/").status_code == 200
    assert [each.reason for each in told_last] == [each.reason for each in told]
    assert told[-1].reason == "logout"
    assert failures(caplog) == 2 * len(told)


@pytest.mark.parametrize("way", WAYS_TO_DELETE)
def test_a_receiver_that_raises_does_not_stop_code_that_ends(new_session, told_last, way: str) -> None:
    key = new_session("7").session_key
    WAYS_TO_DELETE[way](key)
    assert len(told_last) == 1


@pytest.mark.usefixtures("partitions")
def test_a_receiver_may_end_other_sessions(told, connect, new_session) -> None:
    sids = [new_session("7").sid for _ in range(3)]

    def end_all(user_id, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[user_id])))

    connect(end_all)
    online.end(sids[0])
    assert sorted(ends(told)) == sorted((sid, "7", "kicked") for sid in sids)


def test_a_receiver_may_end_other_sessions_after_a_request(browser, alice, told, connect, new_session) -> None:
    others = [new_session(str(alice.pk)).sid for _ in range(2)]
    browser.sign_in(alice)
    own = browser.sid

    def end_all(user_id, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[user_id])))

    connect(end_all)
    browser.get(f"{browser.views}/sign-out/")
    assert ends(told)[0] == (own, str(alice.pk), "logout")
    assert sorted(ends(told)[1:]) == sorted((sid, str(alice.pk), "kicked") for sid in others)
