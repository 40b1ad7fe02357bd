"""A copied cookie is worth nothing once its owner signs in again, or ends all others. A planted one does no harm."""

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.store import stored
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.usefixtures("partitions")


def copy_of(browser: Browser) -> Browser:
    """Return another browser that sends the same cookie."""
    other = Browser(type(browser.client)())
    other.cookie = str(browser.cookie)
    return other


def who(browser: Browser) -> str:
    return browser.get(f"{browser.views}/who/").content.decode()


def test_signing_in_again_as_the_same_user(browser, alice, redis) -> None:
    browser.sign_in(alice, colour="blue")
    thief, [before] = copy_of(browser), online.sessions()
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
    assert (who(browser), who(thief)) == ("alice", "nobody")
    [after] = online.sessions()
    assert (after.sid, SessionStore(browser.cookie)["colour"]) == (browser.sid, "blue")
    assert after.created_at > before.created_at
    assert thief.post(f"{browser.views}/write/colour/red/").status_code == 400
    assert stored(redis) == 1


@pytest.mark.parametrize("path", ["/account/sessions/end-others/", "/ends-all-but-this/", "/ends-everyone-but-this/"])
def test_ending_all_others(browser, alice, redis, path: str) -> None:
    browser.sign_in(alice, colour="blue")
    thief, elsewhere = copy_of(browser), Browser(type(browser.client)())
    elsewhere.sign_in(alice)
    [before] = [session for session in online.sessions() if session.sid == browser.sid]
    browser.post(path)
    assert [who(each) for each in (browser, thief, elsewhere)] == ["alice", "nobody", "nobody"]
    assert SessionStore(browser.cookie)["colour"] == "blue"
    # It is no sign-in: ABSOLUTE_TIMEOUT goes on.
    assert [(session.sid, session.created_at) for session in online.sessions()] == [(browser.sid, before.created_at)]
    assert stored(redis) == 1


def test_ending_all_of_another_user_leaves_the_own_key(browser, alice) -> None:
    browser.sign_in(alice)
    before, bob = browser.cookie, Browser(type(browser.client)())
    bob.sign_in(User.objects.create_user("bob"))
    browser.post("/ends-another/bob/")
    assert (who(browser), browser.cookie, who(bob)) == ("alice", before, "nobody")


# Of a planted cookie both have the key, before the victim signs in.


@pytest.mark.parametrize("ends", [lambda late: late.flush(), lambda late: async_to_sync(late.aflush)()])
def test_a_guest_who_flushes_does_not_sign_out_who_signed_in_meanwhile(browser, alice, new_session, ends) -> None:
    planted = new_session(colour="blue").session_key
    late = SessionStore(planted)
    late.get("colour")
    browser.cookie = planted
    browser.post(f"{browser.views}/sign-in/alice/")
    ends(late)
    assert who(browser) == "alice"


@pytest.mark.parametrize("before", ["alice", "nobody"])
def test_who_writes_with_a_cookie_that_was_rotated(browser, alice, new_session, redis, before: str) -> None:
    """A guest's cookie may be somebody else's by now: a new session. A user's belongs to the user: 400."""
    planted = new_session(colour="blue").session_key
    browser.cookie = planted
    if before == "alice":
        browser.sign_in(alice)
    late = copy_of(browser)
    browser.post(f"{browser.views}/sign-in/alice/")
    # To read is no reason for a session, and takes no newer cookie away.
    assert list(late.get(f"{late.views}/read/colour/").cookies) == []
    answers = [late.post(f"{late.views}/write/colour/red/") for _ in range(2)]
    if before == "alice":
        assert [(answer.status_code, list(answer.cookies)) for answer in answers] == [(400, [])] * 2
    else:
        assert [answer.status_code for answer in answers] == [200, 200]
        assert late.cookie not in (planted, browser.cookie)
        assert SessionStore(late.cookie)["colour"] == "red"
    assert (who(browser), SessionStore(browser.cookie)["colour"]) == ("alice", "blue")
    assert stored(redis) == (1 if before == "alice" else 2)
