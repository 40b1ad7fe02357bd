"""An outage or a lost reply while a user signs in who may have only so many sessions: no more and no fewer are left."""

import pytest
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User

from benchmarks.fill import fill
from django_redsess.backend import SessionStore
from tests.helpers.sign_ins import ENDING, sids_of
from tests.helpers.store import Limit, keyspace, make_older, scripts, stored
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "site", "known_scripts")]

MANY = 300
"""More sessions of a user than a script ends."""


@pytest.fixture
def alice(db) -> User:
    """A user whose sessions ``fill`` makes."""
    user: User = User.objects.create_user("alice", pk=1)
    return user


def begin(browser: Browser, user: User, redis, *seconds: int, brings: bool = True) -> list[str]:
    """Have so many sessions of ``user``, which are so old; return their sids. ``browser`` brings a guest's, or none."""
    sids = []
    for each in seconds:
        session = SessionStore()
        session[SESSION_KEY] = str(user.pk)
        session.save()
        make_older(redis, session.sid, each)
        sids.append(str(session.sid))
    if brings:
        browser.post("/write/colour/blue/")
    return sids


def signed_in(browser: Browser) -> tuple[int, str]:
    """Sign alice in; return the status of the answer, and who is signed in afterwards."""
    status = browser.post(f"{browser.views}/sign-in/alice/").status_code
    return status, browser.get("/who/").content.decode()


def replaced(redis) -> int:
    """Count the sessions that were ended for a limit."""
    return sum(int(redis.hget(partition.totals, "replaced") or 0) for partition in keyspace().partitions)


@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
@pytest.mark.parametrize("policy", ENDING)
def test_a_lost_reply_ends_no_further_sessions(browser, alice, redis, set_limit, each_loss, policy, brings) -> None:
    set_limit(3, policy)
    for sids in each_loss(lambda: begin(browser, alice, redis, 300, 200, 100, brings=brings)):
        assert signed_in(browser) == (200, "alice")
        assert browser.get("/read/colour/").content == (b"blue" if brings else b"")
        assert sids_of(str(alice.pk)) == {*sids[1:], browser.sid}
        assert (stored(redis), replaced(redis)) == (3, 1)


def test_a_lost_reply_leaves_the_limit_where_scripts_go_on(browser, alice, redis, set_limit, each_loss) -> None:
    def start() -> None:
        fill(redis, MANY, users=1, viewed=0)
        begin(browser, alice, redis)

    set_limit(2)
    for _ in each_loss(start):
        assert signed_in(browser) == (200, "alice")
        assert len(sids_of(str(alice.pk))) == stored(redis) == 2
        assert replaced(redis) == MANY - 1


@pytest.mark.parametrize("policy", ENDING)
def test_a_sign_in_replaced_before_its_repetition_ends_none(browser, alice, proxy, redis, set_limit, policy) -> None:
    """It was done, its reply was lost, and before the client repeats it the same user signs in elsewhere."""

    def sign_in_elsewhere() -> None:
        session = SessionStore()
        session[SESSION_KEY] = str(alice.pk)
        session.signed_in(Limit(1, policy))
        session.save()

    set_limit(1, policy)
    browser.post("/write/colour/blue/")
    proxy.lose_reply(scripts.ROTATE.digest)
    # At the first one nothing; at the second, which repeats it, something.
    proxy.before(scripts.ROTATE.digest, lambda: proxy.before(scripts.ROTATE.digest, sign_in_elsewhere))
    browser.post(f"{browser.views}/sign-in/alice/")
    proxy.restore()
    assert proxy.lost == 1
    assert len(sids_of(str(alice.pk))) == stored(redis) == 1


@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
@pytest.mark.parametrize("room", [True, False], ids=["room", "full"])
def test_a_lost_reply_refuses_only_who_finds_no_room(browser, alice, redis, set_limit, each_loss, room, brings) -> None:
    set_limit(2, "refuse")
    for sids in each_loss(lambda: begin(browser, alice, redis, *([100] if room else [200, 100]), brings=brings)):
        assert signed_in(browser) == ((200, "alice") if room else (403, "nobody"))
        assert sids_of(str(alice.pk)) == ({*sids, browser.sid} if room else set(sids))
        assert stored(redis) == 2


@pytest.mark.parametrize("full", [True, False], ids=["full", "with room"])
def test_an_outage_at_a_sign_in_leaves_it_undone(
    browser, alice, proxy, redis, set_limit, meanwhile, full: bool
) -> None:
    sids = begin(browser, alice, redis, 100)
    set_limit(1 if full else 2, "refuse")
    cookie = browser.cookie
    meanwhile(proxy.refuse)
    assert_unavailable(browser.post(f"{browser.views}/sign-in/alice/"))
    proxy.restore()
    assert browser.cookie == cookie
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content == b"nobody"
    assert (sids_of(str(alice.pk)), stored(redis)) == (set(sids), 2)
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code == (403 if full else 200)


@pytest.mark.parametrize("lowered", [True, False], ids=["while a lowered limit is met", "saved at once"])
def test_an_outage_after_a_saved_sign_in_signs_nobody_out(browser, alice, proxy, redis, set_limit, lowered) -> None:
    if lowered:
        fill(redis, MANY, users=1, viewed=0)
    begin(browser, alice, redis)
    set_limit(2, "end_oldest" if lowered else "refuse")
    # The sign-in is saved by then. Whatever the answer is, the visitor has a cookie that opens what is there.
    proxy.before((scripts.END_ABOVE if lowered else scripts.SAVE).digest, proxy.refuse)
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code in (200, 503)
    proxy.restore()
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content in (b"alice", b"nobody")
