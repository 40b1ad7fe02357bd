"""Views that are answered one at a time, where something goes wrong: killed workers, outages, visitors who go."""

import asyncio
import itertools
import os
import signal
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest
from django.test import AsyncClient, Client

from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session.lock import SessionLock
from django_redsess.transport import connections
from django_redsess.transport.connections import Pause, Send
from tests.helpers import every_operation
from tests.helpers.child import MOMENTS, Moment
from tests.helpers.outages import BUDGET, TIMEOUT, caches, end_outage, frozen, full
from tests.helpers.running import wait_until
from tests.helpers.serving import SECONDS, serving
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import Steps, drive, keyspace, sid_of
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.both_servers]

HOLD = 0.5


def locks(redis) -> list[bytes]:
    return [name for name in redis.keys() if b":lock:" in name]


@pytest.fixture
def cookie(new_session) -> str:
    return str(new_session(number=0).session_key)


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.usefixtures("known_scripts", "partitions")
def test_a_worker_that_is_killed_holds_nobody_up_for_long(child, redis, new_session, moment: Moment) -> None:
    settings = {"REDSESS": {"PARTITIONS": keyspace().count}}
    left_locked = 0
    for number in itertools.count(1):
        cookie = new_session(number=0).session_key
        ran = child.run(every_operation.add_one, cookie, HOLD, settings=settings, die=(number, moment))
        before = SessionStore(cookie)["number"]
        found = locks(redis)
        left_locked += bool(found)
        assert [name for name in found if not 0 < redis.pttl(name) <= HOLD * 1000] == []
        # The next one waits until the lock has run out.
        assert every_operation.add_one(cookie, HOLD) == 200
        assert (SessionStore(cookie)["number"], locks(redis)) == (before + 1, [])
        if not ran.killed:
            break
    assert left_locked


@pytest.mark.usefixtures("known_scripts")
def test_a_worker_that_is_frozen_loses_the_lock_and_its_save_merges(child, redis, new_session, tmp_path) -> None:
    cookie, told = new_session(number=0).session_key, tmp_path / "process"
    lock = keyspace().of_sid(sid_of(cookie)).lock_of(sid_of(cookie))
    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(child.run, every_operation.stop_with_the_lock, cookie, HOLD, str(told), settings={})
        wait_until(lambda: told.exists() and told.read_text())
        assert every_operation.add_one(cookie, HOLD) == 200
        # When it goes on, somebody else has the lock.
        redis.set(lock, "another's", px=20_000)
        os.kill(int(told.read_text()), signal.SIGCONT)
        assert ran.result(20) == (False, 200)
    assert redis.get(lock) == b"another's"
    redis.delete(lock)
    found = SessionStore(cookie)
    assert (found["number"], found["thawed"]) == (1, 0)


@pytest.mark.django_db
@pytest.mark.usefixtures("known_scripts")
def test_a_lost_reply_changes_nothing(browser, alice, redis, each_loss) -> None:
    for _ in each_loss(lambda: browser.sign_in(alice, number=0)):
        assert browser.get(f"/locks{browser.views}/count/").content == b"0"
        assert (SessionStore(browser.cookie)["number"], locks(redis)) == (1, [])
        assert browser.get(f"/locks{browser.views}/count/").content == b"1"


@pytest.mark.django_db
def test_a_frozen_server_is_a_503_and_all_goes_on_afterwards(browser, alice, own_server, use_server, meanwhile) -> None:
    use_server(own_server, timeout=TIMEOUT)
    browser.sign_in(alice, number=0)
    path = f"/locks{browser.views}/count/"
    assert browser.get(path).content == b"0"
    with frozen(own_server):
        assert_unavailable(browser.get(path))
        assert browser.seconds < BUDGET
    # What it was sent, the server does once it can: then the failed request has the lock. The next one gives it back.
    assert browser.get(path).content == b"1"
    stopped = frozen(own_server)
    # Neither the save nor the end of the lock get there in time.
    meanwhile(stopped.__enter__)
    response = browser.get(path)
    stopped.__exit__(None, None, None)
    assert_unavailable(response)
    assert browser.seconds < BUDGET
    number = SessionStore(browser.cookie)["number"]
    assert browser.get(path).content == str(number).encode()


@pytest.mark.django_db
def test_who_stands_in_line_when_the_server_freezes_gets_a_503(alice, own_server, use_server, settings) -> None:
    use_server(own_server, timeout=TIMEOUT)
    browser = Browser(Client())
    browser.sign_in(alice, number=0)
    names, sid = keyspace().of_sid(str(browser.sid)), str(browser.sid)
    own_server.client.set(names.lock_of(sid), "another's", px=20_000)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(browser.get, "/locks/count/")
        wait_until(lambda: own_server.client.zcard(names.waiting_of(sid)) == 1)
        with frozen(own_server):
            assert_unavailable(answer.result(20))
    own_server.client.delete(names.lock_of(sid))
    # Its last question may have come late. Then it is in line, or has the lock. The next one leaves both.
    assert browser.get("/locks/count/").content == b"0"


def until_pause(steps: Steps[Any]) -> Any:
    """Take the steps up to the next pause, and return None; or what they return if that comes first."""
    reply = None
    try:
        while not isinstance(wanted := steps.send(reply), Pause):
            assert isinstance(wanted, Send)
            reply = connections.send(wanted.to, wanted.packed, wanted.replies, wanted.follow_up)
    except StopIteration as end:
        return end.value
    return None


@pytest.mark.usefixtures("site")
def test_who_waits_gives_back_what_is_left_over_meanwhile(proxy, redis, cookie) -> None:
    lost, late, *waiting = (SessionLock(SessionStore(cookie), sid_of(cookie), 3600) for _ in range(4))
    assert drive(lost.taking(0)) == "locked"
    in_line = [each.taking(3600) for each in waiting]
    assert [until_pause(steps) for steps in in_line] == [None] * 2
    # Nobody but these hears of what follows.
    proxy.refuse()
    lost.give_back()
    proxy.restore()
    assert until_pause(in_line[0]) == "locked"
    assert until_pause(in_line[1]) is None
    assert drive(late.taking(0)) == "late"
    waiting[0].give_back()
    assert until_pause(in_line[1]) == "locked"
    waiting[1].give_back()
    assert locks(redis) == []


@pytest.mark.usefixtures("site")
def test_what_can_not_be_given_back_yet_stays_left_over(proxy, redis, cookie) -> None:
    lost, waiting = (SessionLock(SessionStore(cookie), sid_of(cookie), 3600) for _ in range(2))
    assert drive(lost.taking(0)) == "locked"
    in_line = waiting.taking(3600)
    until_pause(in_line)
    proxy.refuse()
    lost.give_back()
    with pytest.raises(SessionStoreUnavailable):
        drive(in_line)
    proxy.restore()
    assert drive(waiting.taking(0)) == "locked"
    waiting.give_back()
    assert locks(redis) == []


@pytest.mark.django_db
def test_after_a_stall_nobody_waits_for_those_who_gave_up(held_site, own_server, settings, new_session) -> None:
    settings.CACHES = caches(own_server.url, timeout=TIMEOUT)
    end_outage()
    cookie = new_session(number=0).session_key
    names, sid = keyspace().of_sid(sid_of(cookie)), sid_of(cookie)
    with serving() as site:
        let_on = site.ask_held("/locks/long/count/", cookie)
        answers = [site.ask_meanwhile("/locks/long/count/", cookie) for _ in range(35)]
        wait_until(lambda: own_server.client.zcard(names.waiting_of(sid)) == 35)
        with frozen(own_server):
            # Its lock can't be given back, and some of those in line give up.
            let_on()
            wait_until(lambda: any(answer.done() for answer in answers))
        statuses = [answer.result(SECONDS).status for answer in answers]
        assert set(statuses) <= {200, 503}
        # One more may have to give back what the last ones left over.
        wait_until(lambda: site.ask("/locks/long/count/", cookie).status == 200 and not locks(own_server.client))
    assert SessionStore(cookie)["number"] >= statuses.count(200)


@pytest.mark.django_db
def test_a_server_that_is_full_gives_no_lock_and_takes_one_back(browser, alice, redis, meanwhile) -> None:
    browser.sign_in(alice, number=0)
    path = f"/locks{browser.views}/count/"
    with full(redis):
        assert_unavailable(browser.get(path))
    assert browser.get(path).content == b"0"
    with ExitStack() as until_the_end:
        # Whether there is room for the number depends on what the server can throw away.
        meanwhile(lambda: until_the_end.enter_context(full(redis)))
        browser.get(path)
        assert locks(redis) == []
    assert browser.get(path).status_code == 200


@pytest.fixture
def held_site(settings, users_in_no_table) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = MIDDLEWARE


def run(steps: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
    asyncio.run(asyncio.wait_for(steps(*args), 20))


async def until(is_true: Callable[[], object]) -> None:
    while not await asyncio.to_thread(is_true):
        await asyncio.sleep(0.01)


def visit(path: str, cookie: str) -> asyncio.Task[Any]:
    client = AsyncClient()
    client.cookies["sessionid"] = cookie
    return asyncio.create_task(client.get(path))


async def cancel(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.usefixtures("held_site")
def test_a_visitor_who_goes_leaves_the_lock_and_the_line(redis, cookie) -> None:
    names = keyspace().of_sid(sid_of(cookie))
    waiting = names.waiting_of(sid_of(cookie))

    async def steps() -> None:
        holder = visit("/locks/async/wait/", cookie)
        await until(lambda: locks(redis))
        waiter = visit("/locks/async/count/", cookie)
        await until(lambda: redis.zcard(waiting) == 1)
        await cancel(waiter)
        assert redis.zcard(waiting) == 0
        waiter = visit("/locks/async/count/", cookie)
        await until(lambda: redis.zcard(waiting) == 1)
        await cancel(holder)
        assert (await waiter).content == b"0"
        assert locks(redis) == []

    run(steps)


@pytest.mark.usefixtures("held_site")
def test_a_synchronous_view_whose_visitor_goes_keeps_the_lock_until_its_end(redis, cookie, meanwhile) -> None:
    at_work, may_end = threading.Event(), threading.Event()

    def work() -> None:
        at_work.set()
        assert may_end.wait(20)

    meanwhile(work)

    async def steps() -> None:
        holder = visit("/locks/count/", cookie)
        await until(at_work.is_set)
        holder.cancel()
        await asyncio.sleep(0.1)
        assert len(locks(redis)) == 1
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await holder
        await until(lambda: locks(redis) == [])
        assert (await visit("/locks/count/", cookie)).content == b"0"

    run(steps)
