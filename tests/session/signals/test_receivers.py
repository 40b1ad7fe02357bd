"""What receivers may do, and what becomes of one that raises."""

import asyncio
import logging

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import cleaning, online
from django_redsess.signals import EndedSession
from tests.helpers.behind import make_due
from tests.helpers.ends import WAYS_TO_DELETE, Told, ends
from tests.helpers.visitors import Browser


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("end", ["/create/", "delete", "adelete"])
def test_a_receiver_may_use_the_database(site, connect, redis, new_session, end: str) -> None:
    def receive(sid, **named) -> None:
        User.objects.create(username=sid)

    connect(receive)
    sessions = [new_session("8") for _ in range(5)]
    sids = {session.sid for session in sessions}
    if end in WAYS_TO_DELETE:
        for session in sessions:
            WAYS_TO_DELETE[end](session.session_key)
    else:
        make_due(redis, *sids)
        Browser(Client()).get(end)
    assert set(User.objects.values_list("username", flat=True)) == sids


@pytest.mark.parametrize("end", ["/create/", "delete", "adelete"])
def test_an_asynchronous_receiver_is_told(browser, told, connect, redis, new_session, end: str) -> None:
    heard = []

    async def receive(sid, **named) -> None:
        await asyncio.sleep(0)
        heard.append(sid)

    connect(receive)
    sessions = [new_session("8") for _ in range(5)]
    if end in WAYS_TO_DELETE:
        # Before the call returns.
        WAYS_TO_DELETE[end](sessions[0].session_key)
    else:
        make_due(redis, *(session.sid for session in sessions))
        browser.get(f"{browser.views}{end}")
    assert len(heard) == (1 if end in WAYS_TO_DELETE else 5)
    assert heard == [each.sid for each in told]


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


def test_a_receiver_that_raises_is_logged_and_does_not_stop_what_ends(
    redis, new_session, told, told_last, caplog
) -> None:
    sessions = [new_session("7") for _ in range(7)]
    make_due(redis, *(session.sid for session in sessions[2:]))
    assert sum(cleaning.expired(batch_size=2)) == 5
    for way, session in zip(("delete", "adelete"), sessions, strict=False):
        WAYS_TO_DELETE[way](session.session_key)
    assert len(told) == len(told_last) == 7
    assert failures(caplog) == 14


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


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("first", ["kicked", "logout"])
def test_a_receiver_may_end_other_sessions(browser, alice, told, connect, new_session, first: str) -> None:
    user_id = str(alice.pk)
    others = [new_session(user_id).sid for _ in range(2)]
    browser.sign_in(alice)
    own = browser.sid

    def end_all(user_id, **named) -> None:
        online.end(*(each.sid for each in online.sessions(user_ids=[user_id])))

    connect(end_all)
    if first == "kicked":
        online.end(own)
    else:
        browser.get(f"{browser.views}/sign-out/")
    assert ends(told)[0] == (own, user_id, first)
    assert sorted(ends(told)[1:]) == sorted((sid, user_id, "kicked") for sid in others)
