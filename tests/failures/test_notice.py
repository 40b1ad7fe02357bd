"""What is left to tell when something fails: a full server, one that takes no writes, an outage, a process killed."""

import itertools
from collections.abc import Callable
from contextlib import nullcontext

import pytest

from django_redsess import cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.signals import Reason
from tests.helpers import every_operation
from tests.helpers.child import MOMENTS
from tests.helpers.oracle import disagreements
from tests.helpers.outages import full, replica
from tests.helpers.store import drive, faults, make_due, operations, scripts, stored
from tests.helpers.visitors import assert_unavailable

pytestmark = pytest.mark.both_servers

HEADER = "X-Session-Ended"


# Each says how many sessions it has ended.
WAYS: dict[str, Callable[[str], int]] = {
    "kicked": lambda sid: len(online.end(sid, message="x" * 200)),
    "expired": lambda sid: sum(cleaning.expire_sessions()),
    "evicted": lambda sid: sum(cleaning.evict_sessions(maximum=0)),
    "replaced": lambda sid: len(drive(operations.end_by_sid([sid], operations.Ending(Reason.REPLACED)))),
}


@pytest.mark.django_db
@pytest.mark.parametrize("reason", WAYS)
def test_a_full_server_ends_sessions_whether_it_takes_the_note_or_not(browser, alice, redis, reason: str) -> None:
    browser.sign_in(alice)
    if reason == "expired":
        make_due(redis, str(browser.sid))
    with full(redis):
        assert WAYS[reason](str(browser.sid)) == 1
        assert (stored(redis), online.count()) == (0, 0)
        response = browser.get(f"{browser.views}/who/")
    assert (response.status_code, response.content) == (200, b"nobody")
    assert response.get(HEADER, reason).startswith(reason)
    assert faults() == []


@pytest.mark.django_db
def test_where_no_note_can_be_written_sessions_are_ended_all_the_same(browser, alice, own_server, use_server) -> None:
    use_server(own_server)
    for reason in ("kicked", "evicted", "replaced"):
        browser.sign_in(alice)
        own_server.client.acl_setuser("default", enabled=True, commands=["-set"])
        assert WAYS[reason](str(browser.sid)) == 1
        assert (stored(own_server.client), online.count(), faults()) == (0, 0, [])
        own_server.client.acl_setuser("default", enabled=True, commands=["+set"])
        response = browser.get(f"{browser.views}/who/")
        assert (response.status_code, response.content, HEADER in response) == (200, b"nobody", False)


@pytest.mark.django_db
@pytest.mark.parametrize("fault", [full, replica, None], ids=["full", "replica", "outage"])
def test_an_end_before_a_fault_is_told_in_it_or_after_it(browser, alice, own_server, use_server, proxy, fault) -> None:
    if fault:
        use_server(own_server)
    browser.sign_in(alice)
    cookie = browser.cookie
    online.end(browser.sid)
    if fault is full:
        with full(own_server.client):
            response = browser.get(f"{browser.views}/who/")
    else:
        with replica(own_server) if fault else nullcontext(proxy.refuse()):
            response = browser.get(f"{browser.views}/who/")
        assert_unavailable(response)
        assert (HEADER in response, browser.cookie) == (False, cookie)
        proxy.restore()
        response = browser.get(f"{browser.views}/who/")
    assert (response.status_code, response.content, response[HEADER]) == (200, b"nobody", "kicked")


@pytest.mark.django_db
def test_an_end_whose_reply_was_lost_is_told_as_it_was_first(browser, alice, proxy) -> None:
    browser.sign_in(alice)
    proxy.lose_reply(scripts.END_SIDS.digest)
    # Repeated, it finds nothing any more.
    assert online.end(browser.sid, message="Bye.") == []
    assert proxy.lost == 1
    response = browser.get(f"{browser.views}/who/")
    assert (response.content, response[HEADER]) == (b"nobody", "kicked; message*=UTF-8''Bye.")
    assert faults() == []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("way", ["kicked", "expired", "evicted"])
def test_a_process_killed_at_any_step_leaves_the_session_or_its_note(partitions, child, redis, way, moment) -> None:
    outcomes = []
    for number in itertools.count(1):
        redis.flushall()
        session = SessionStore()
        session["_auth_user_id"] = "7"
        session.save()
        if way == "expired":
            make_due(redis, str(session.sid))
        operation, args = {
            "kicked": (every_operation.end, (session.sid,)),
            "expired": (every_operation.clean, ()),
            "evicted": (every_operation.evict, (0, 10)),
        }[way]
        ran = child.run(operation, *args, settings={"REDSESS": {"PARTITIONS": partitions}}, die=(number, moment))
        assert (disagreements(redis), faults()) == ([], [])
        is_there = stored(redis) == 1
        ended = SessionStore(session.session_key).ended
        # One that is due is over for its visitor, whether it has been taken out or not.
        assert (ended is None) == (is_there and way != "expired")
        assert ended is None or ended.reason == way
        outcomes.append(is_there)
        if not ran.killed:
            break
    assert (outcomes[0], outcomes[-1]) == (True, False)
