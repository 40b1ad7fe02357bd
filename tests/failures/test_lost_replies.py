"""The server has done what it was asked, and the reply is lost: the client asks again, and all is as if asked once."""

import itertools
from typing import Any

import pytest

from django_redsess import online, viewed
from tests.helpers.outages import OURS
from tests.helpers.store import keyspace, sid_of, stored
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("known_scripts"), pytest.mark.both_servers]


@pytest.mark.parametrize(
    ("path", "saves", "hang"),
    [*(("/write/colour/red/", 1, hang) for hang in (False, True)), ("/write-and-save/colour/red/", 2, False)],
)
def test_each_save_is_done_once(browser, alice, redis, each_loss, commands, path: str, saves: int, hang: bool) -> None:
    for _ in each_loss(lambda: browser.sign_in(alice, colour="blue"), hang=hang):
        commands()
        assert browser.post(browser.views + path).status_code == 200
        assert commands()["hset"] == saves
        assert browser.get("/read/colour/").content == b"red"
        assert browser.get("/who/").content == b"alice"
        assert (stored(redis), online.count()) == (1, 1)


def created(redis: Any) -> int:
    """How many sessions the store has counted as new."""
    return sum(int(redis.hget(partition.totals, "created") or 0) for partition in keyspace().partitions)


@pytest.mark.parametrize("path", ["/write/colour/red/", "/sign-in/alice/", "/items/plain/lamp"])
def test_a_new_session_is_created_once(browser, alice, partitions: int, redis, each_loss, settings, path: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "VIEWED_GUESTS": True}
    for _ in each_loss(lambda: None):
        ask = browser.get if "items" in path else browser.post
        assert ask(path if "items" in path else browser.views + path).status_code == 200
        assert (stored(redis), created(redis)) == (1, 1)
        if "items" in path:
            # Where the item is counted in another partition, that may be lost.
            assert len(viewed.recent(browser.sid)) == 1
            assert viewed.count("lamp") <= 1
            assert viewed.count("lamp") == 1 or partitions > 1
        elif "write" in path:
            assert browser.get("/read/colour/").content == b"red"
        else:
            assert browser.get("/who/").content == b"alice"
            assert online.count() == 1


def assert_moved(browser: Browser, redis: Any, old_sid: str | None) -> None:
    """There is one session, which is alice's, with all that was in it, under another key."""
    assert browser.get("/who/").content == b"alice"
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.sid != old_sid
    assert (stored(redis), online.count()) == (1, 1)
    assert [found.item for found in viewed.recent(browser.sid)] == ["lamp"]


@pytest.mark.parametrize(("partitions", "home"), [(1, True), (4, True), (4, False)], indirect=["partitions"])
def test_a_guest_signs_in_once(browser, alice, redis, each_loss, partitions: int, home: bool) -> None:
    """From the only partition, from the user's home partition, and from another one into that."""

    def guest() -> None:
        while True:
            browser.post("/write/colour/blue/")
            space = keyspace()
            if (space.of_sid(browser.sid) == space.of_user(str(alice.pk))) is home:
                break
            online.end(browser.sid)
            browser.client.cookies.clear()
        browser.get("/items/plain/lamp")

    for _ in each_loss(guest):
        old_sid = browser.sid
        assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
        assert_moved(browser, redis, old_sid)
        assert [found.sid for found in online.of_user(alice)] == [browser.sid]


def test_a_key_is_changed_once(browser, alice, partitions: int, redis, each_loss) -> None:
    def signed_in() -> None:
        browser.sign_in(alice, colour="blue")
        browser.get("/items/plain/lamp")

    for _ in each_loss(signed_in):
        old_sid, created_at = browser.sid, online.get(browser.sid).created_at
        assert browser.post(f"{browser.views}/cycle/").status_code == 200
        assert_moved(browser, redis, old_sid)
        assert online.get(browser.sid).created_at == created_at


def test_a_session_is_ended_once(browser, alice, partitions: int, redis, each_loss) -> None:
    for _ in each_loss(lambda: browser.sign_in(alice)):
        response = browser.post(f"{browser.views}/sign-out/")
        assert response.status_code == 200
        assert response.cookies["sessionid"].value == ""
        assert browser.get("/who/").content == b"nobody"
        assert (stored(redis), online.count()) == (0, 0)


@pytest.mark.parametrize("view", ["plain", "records", "writes", "writes-and-cycles"])
def test_a_view_is_never_counted_twice(browser, alice, redis, each_loss, view: str) -> None:
    for _ in each_loss(lambda: browser.sign_in(alice)):
        # Only whoever asked for it hears that the reply was lost.
        assert browser.get(f"/items/{view}/lamp").status_code in ((200, 503) if view == "records" else (200,))
        assert viewed.count("lamp") == 1
        assert [found.item for found in viewed.recent(browser.sid)] == ["lamp"]
        assert browser.get("/who/").content == b"alice"
        assert not view.startswith("writes") or browser.get("/read/last/").content == b"lamp"


@pytest.mark.parametrize("partitions", [4], indirect=True)
def test_a_view_counted_in_another_partition_is_not_counted_twice(browser, alice, redis, each_loss, partitions) -> None:
    space = keyspace()
    item = next(name for name in map(str, itertools.count()) if space.of_item(name) != space.of_user(str(alice.pk)))
    for _ in each_loss(lambda: browser.sign_in(alice)):
        browser.get(f"/items/plain/{item}")
        # Noted in the session first: whether it comes to counting is open, when the reply to that is lost.
        assert viewed.count(item) <= 1
        assert [found.item for found in viewed.recent(browser.sid)] == [item]


@pytest.mark.parametrize("path", ["/write/size/5/", "/cycle/", "/sign-in/alice/", "/sign-out/", "/items/plain/lamp"])
def test_two_losses_in_a_row_are_an_outage_without_half_work(browser, alice, partitions, proxy, redis, path) -> None:
    for number in range(3):
        browser.sign_in(alice, colour="blue")
        proxy.lose_reply(OURS, skip=number, times=2)
        ask = browser.get if path.startswith("/items/") else browser.post
        prefix = "" if ask == browser.get else browser.views
        assert ask(prefix + path).status_code in (200, 503)
        proxy.restore()
        assert browser.get("/who/").status_code == 200
        assert stored(redis) <= number + 1


def test_the_key_that_was_lost_is_never_in_the_answer(browser, alice, proxy, redis) -> None:
    browser.sign_in(alice)
    cookie = browser.cookie
    proxy.lose_reply(OURS, times=2)
    response = browser.post("/cycle/")
    assert (response.status_code, list(response.cookies)) == (503, [])
    assert browser.cookie == cookie
    assert not redis.hexists(keyspace().of_sid(sid_of(cookie)).login, sid_of(cookie))
