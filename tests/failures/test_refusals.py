"""A sign-in that is refused, fails afterwards, or can't be judged for a wrong setting: what the visitor has then."""

from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.sign_ins import ENDING, named, sids_of, sign_in_before
from tests.helpers.store import keyspace, stored, traces
from tests.helpers.visitors import Browser

pytestmark = pytest.mark.both_servers

FUNCTION = f"{__name__}.as_the_test_says"

answer: Any = None
"""What the function that the settings name says."""


def as_the_test_says(user: User) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def visitor(request, sign_ins_site) -> Browser:
    """A guest whose session holds a colour, over WSGI and over ASGI."""
    browser = Browser(request.param())
    browser.get("/held/write/colour/blue/")
    return browser


@pytest.fixture
def there(redis, set_limit) -> SessionStore:
    """The one session of user 1, who may have no other: a further sign-in is refused."""
    set_limit(1, "refuse")
    return sign_in_before(redis, "1", 100)[0]


@pytest.mark.parametrize("look", [False, True], ids=["not caught", "caught by the view"])
def test_a_refused_sign_in_ends_the_visitors_session_and_signs_nobody_in(visitor, redis, there, look: bool) -> None:
    guest = str(visitor.cookie)
    response = visitor.get(f"{visitor.views}/held/sign-in{'-and-look' if look else ''}/1/")
    if look:
        assert response.content == b"SessionLimitReached: nobody, True, nobody"
    else:
        assert response.status_code == 403
        assert response.content.decode().startswith("You are already signed in on 1 device,")
    assert (response.cookies["sessionid"].value, response.cookies["sessionid"]["max-age"]) == ("", 0)
    assert traces(redis, guest) == []
    assert SessionStore(guest).load() == {}
    assert (sids_of("1"), stored(redis)) == (named(there), 1)
    assert visitor.get("/held/who/").content == b"nobody"
    # Once there is room, the visitor can sign in.
    SessionStore(there.session_key).flush()
    assert visitor.get(f"{visitor.views}/held/sign-in/1/").status_code == 200
    assert visitor.get("/held/who/").content == b"1"
    assert sids_of("1") == {visitor.sid}


def test_after_a_refusal_a_view_can_go_on_with_a_new_guest(visitor, redis, there) -> None:
    guest = visitor.cookie
    assert visitor.get("/held/sign-in-and-go-on/1/").status_code == 200
    assert visitor.cookie not in ("", guest)
    assert dict(SessionStore(visitor.cookie).items()) == {"colour": "red"}
    assert visitor.get("/held/who/").content == b"nobody"
    assert (online.count(), stored(redis)) == (1, 2)


def test_another_user_who_is_refused_leaves_nothing_of_either(visitor, redis, there) -> None:
    assert visitor.get(f"{visitor.views}/held/sign-in/2/").status_code == 200
    before = str(visitor.cookie)
    assert visitor.get(f"{visitor.views}/held/sign-in/1/").status_code == 403
    assert traces(redis, before) == []
    assert visitor.get("/held/who/").content == b"nobody"
    assert (sids_of("1"), sids_of("2"), stored(redis)) == (named(there), set(), 1)


def test_a_view_that_fails_after_a_sign_in_sends_the_cookie_of_what_is_stored(visitor, redis, set_limit) -> None:
    set_limit(2, "refuse")
    guest = str(visitor.cookie)
    response = visitor.get("/held/sign-in-and-fail/1/")
    assert response.status_code == 500
    assert response.cookies["sessionid"].value == visitor.cookie
    assert visitor.get("/held/who/").content == b"1"
    assert visitor.get("/held/read/colour/").content == b"blue"
    assert (sids_of("1"), stored(redis)) == ({visitor.sid}, 1)
    assert traces(redis, guest) == []


@pytest.mark.parametrize("policy", ENDING)
def test_a_view_that_fails_after_a_sign_in_over_the_limit_changes_nothing(visitor, redis, set_limit, policy) -> None:
    set_limit(1, policy)
    [there] = sign_in_before(redis, "1", 100)
    cookie = visitor.cookie
    assert visitor.get("/held/sign-in-and-fail/1/").status_code == 500
    assert visitor.cookie == cookie
    assert visitor.get("/held/read/colour/").content == b"blue"
    assert (sids_of("1"), stored(redis)) == (named(there), 2)


def everything(redis: redis_py.Redis) -> dict[str, Any]:
    """Return what is stored, all but when a session was last seen."""
    found: dict[str, Any] = {}
    for number, partition in enumerate(keyspace().partitions):
        for name in ("login", "expire", "online_user", "recent", "guests"):
            key = getattr(partition, name)
            found[f"{number} {name}"] = redis.hgetall(key) if name == "login" else redis.zrange(key, 0, -1)
    return found


@pytest.mark.parametrize(
    ("function_says", "setting"),
    [
        *((wrong, (FUNCTION, "refuse")) for wrong in (LookupError("no such plan"), 0, True, "3")),
        *((None, setting) for setting in (("no.such.function", "refuse"), (1, "end_newest"))),
        (0, (FUNCTION, "end_oldest")),
    ],
    ids=repr,
)
def test_a_wrong_setting_leaves_a_guest_a_guest(visitor, redis, set_limit, monkeypatch, function_says, setting) -> None:
    monkeypatch.setattr(f"{__name__}.answer", function_says)
    set_limit(*setting)
    before = everything(redis)
    assert visitor.get(f"{visitor.views}/held/sign-in/1/").status_code == 500
    response = visitor.get(f"{visitor.views}/held/sign-in-and-look/1/")
    assert (response.status_code, response.content) == (200, b"ImproperlyConfigured: nobody, True, nobody")
    assert everything(redis) == before
    assert visitor.get("/held/read/colour/").content == b"blue"
    assert visitor.get("/held/who/").content == b"nobody"
    assert SessionStore(visitor.cookie).get(SESSION_KEY) is None
    assert (online.count(), stored(redis)) == (0, 1)


def test_a_wrong_setting_changes_nothing_for_who_is_signed_in_or_has_no_session(visitor, redis, set_limit) -> None:
    visitor.get(f"{visitor.views}/held/sign-in/1/")
    before = everything(redis)
    set_limit("no.such.function")
    visitor.get(f"{visitor.views}/held/sign-in-and-look/1/")
    assert visitor.get("/held/who/").content == b"1"
    assert visitor.get("/held/read/colour/").content == b"blue"
    visitor.client.cookies.clear()
    response = visitor.get(f"{visitor.views}/held/sign-in-and-look/1/")
    assert (response.status_code, "sessionid" in response.cookies) == (200, False)
    assert everything(redis) == before
