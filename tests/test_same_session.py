"""Who is signed in changes within a session: every list says so, and names nobody twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, alogin, login
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.behind import faults, make_older, stored
from tests.faults.conftest import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"
REMOTE_BACKEND = "django.contrib.auth.backends.RemoteUserBackend"
AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"


# The site.


def nothing() -> None:
    """What happens between a view's reading and changing, if a test does not say otherwise."""


between: Callable[[], object] = nothing


def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username() or "nobody")


def views(request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(str(viewed.record(request.session, item)))


def signs_in(request: HttpRequest, names: str) -> HttpResponse:
    """Sign in all of these users, one after the other."""
    request.session.get("colour")
    between()
    for name in names.split("+"):
        login(request, User.objects.get(username=name), MODEL_BACKEND)
    return HttpResponse("in")


async def asigns_in(request: HttpRequest, names: str) -> HttpResponse:
    await request.session.aget("colour")
    between()
    for name in names.split("+"):
        await alogin(request, await User.objects.aget(username=name), MODEL_BACKEND)
    return HttpResponse("in")


def edits(request: HttpRequest, how: str) -> HttpResponse:
    request.session.get("colour")
    between()
    EDITS[how](request.session)
    return HttpResponse("done")


def id_of(name: str) -> int:
    pk: int = User.objects.get(username=name).pk
    return pk


def to_bob(session: Any) -> None:
    session[SESSION_KEY] = str(id_of("bob"))


def to_carol(session: Any) -> None:
    session[SESSION_KEY] = str(id_of("carol"))


def to_bob_as_a_number(session: Any) -> None:
    session[SESSION_KEY] = id_of("bob")


def to_a_number(session: Any) -> None:
    session[SESSION_KEY] = id_of("alice")


def to_none(session: Any) -> None:
    session[SESSION_KEY] = None


def deleted(session: Any) -> None:
    del session[SESSION_KEY]


def another_hash(session: Any) -> None:
    session[HASH_SESSION_KEY] = "another"


EDITS = {
    each.__name__: each for each in (to_bob, to_carol, to_bob_as_a_number, to_a_number, to_none, deleted, another_hash)
}

urlpatterns = [
    path("who/", who),
    path("view/<item>/", views),
    path("in/<names>/", signs_in),
    path("async/in/<names>/", asigns_in),
    path("edit/<how>/", edits),
]


@pytest.fixture(autouse=True)
def site(partitions: int, settings: Any) -> Any:
    """This module's views, in place of the shop's."""
    settings.ROOT_URLCONF = __name__
    return settings


@pytest.fixture(autouse=True)
def nothing_to_repair(partitions: int) -> Iterator[None]:
    """Whatever a test did: ``cleansessions --check`` finds nothing afterwards."""
    yield
    assert faults() == []


@pytest.fixture(params=[None, 1], ids=["no limit", "limit of 1"])
def limit(request: pytest.FixtureRequest, site: Any) -> int | None:
    maximum: int | None = request.param
    site.REDSESS = {**site.REDSESS, "MAX_SESSIONS_PER_USER": maximum}
    return maximum


@pytest.fixture(autouse=True)
def users(db: None) -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request: pytest.FixtureRequest, site: Any) -> Browser:
    """A visitor, over WSGI and over ASGI."""
    return Browser(request.param())


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Return a function that says what happens, once, between a view's reading the session and changing it."""

    def set_meanwhile(action: Callable[[], object]) -> None:
        def once() -> None:
            globals()["between"] = nothing
            action()

        monkeypatch.setitem(globals(), "between", once)

    return set_meanwhile


def sign_in(browser: Browser, names: str) -> int:
    return browser.get(f"{browser.views}/in/{names}/").status_code


def name_in(browser: Browser) -> str:
    return browser.get("/who/").content.decode()


def items_of(browser: Browser) -> list[str]:
    return [item for item, _ in viewed.recent(browser.sid or "")]


def listed(redis: redis_py.Redis) -> list[str]:
    """Who is signed in, once for each session; see that all lists agree on it, and that there is no other session."""
    everybody = {str(user.pk): user.username for user in User.objects.all()}
    sessions = online.sessions()
    assert len({session.sid for session in sessions}) == len(sessions) == online.count()
    for user in User.objects.all():
        sids = sorted(session.sid for session in sessions if session.user_id == str(user.pk))
        assert sorted(session.sid for session in online.of_user(user)) == sids
        assert online.count(user_ids=[str(user.pk)]) == len(sids)
    assert stored(redis) == len(sessions)
    return sorted(everybody[session.user_id] for session in sessions)


# Sign-ins.


def test_a_guest_who_signs_in_takes_what_was_viewed_along(browser, redis, limit) -> None:
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    browser.cookie = guest.session_key
    browser.get("/view/lamp/")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])


def test_another_user_who_signs_in_takes_the_place_and_nothing_that_was_viewed(browser, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/view/lamp/")
    old_sid, old_cookie = browser.sid, browser.cookie
    assert sign_in(browser, "bob") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("bob", ["bob"], [])
    assert [item for item, _ in viewed.recent(old_sid)] == []
    browser.cookie = old_cookie
    assert name_in(browser) == "nobody"


def test_another_user_who_signs_in_where_that_user_is_signed_in_elsewhere(browser, users, redis, limit) -> None:
    elsewhere = Browser(Client())
    sign_in(elsewhere, "bob")
    sign_in(browser, "alice")
    assert sign_in(browser, "bob") == 200
    assert listed(redis) == ["bob"] * (1 if limit else 2)
    assert (name_in(browser), name_in(elsewhere)) == ("bob", "nobody" if limit else "bob")


def test_the_same_user_who_signs_in_again_has_one_session_and_all_that_was_viewed(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/view/lamp/")
    make_older(redis, browser.sid, 60)
    before = online.get(browser.sid).login_at
    for _ in range(2):
        assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])
    assert online.get(browser.sid).login_at > before


def test_the_same_user_who_signs_in_again_takes_the_place_of_the_others_only_with_a_limit(
    browser, redis, limit
) -> None:
    elsewhere = Browser(Client())
    sign_in(browser, "alice")
    sign_in(elsewhere, "alice")
    if limit:
        assert (name_in(browser), listed(redis)) == ("nobody", ["alice"])
    assert sign_in(browser, "alice") == 200
    assert listed(redis) == ["alice"] * (1 if limit else 2)
    assert (name_in(browser), name_in(elsewhere)) == ("alice", "nobody" if limit else "alice")


@pytest.mark.parametrize("names", ["alice+alice", "alice+alice+alice"])
def test_two_sign_ins_of_one_user_in_one_request_make_one_session(browser, redis, limit, names: str) -> None:
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis)) == ("alice", ["alice"])
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis)) == ("alice", ["alice"])


@pytest.mark.parametrize("names", ["alice+bob", "bob+alice+bob", "alice+carol+bob", "carol+alice+bob+bob"])
@pytest.mark.parametrize("first", ["", "alice", "bob"])
def test_of_several_users_who_sign_in_in_one_request_the_last_one_is_signed_in(
    browser, redis, limit, first: str, names: str
) -> None:
    if first:
        sign_in(browser, first)
        browser.get("/view/lamp/")
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("bob", ["bob"], [])


def test_a_sign_in_that_another_follows_in_the_request_ends_nobodys_session(browser, redis, limit) -> None:
    elsewhere = Browser(Client())
    sign_in(elsewhere, "alice")
    assert sign_in(browser, "alice+bob") == 200
    assert (name_in(browser), name_in(elsewhere), listed(redis)) == ("bob", "alice", ["alice", "bob"])


def test_who_signs_in_again_with_another_password_gets_a_new_session(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/view/lamp/")
    User.objects.filter(username="alice").update(password="another")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], [])


@pytest.mark.parametrize("names", [("alice", "bob"), ("alice", "alice")])
def test_two_sign_ins_of_one_guest_at_once_get_a_session_each(redis, limit, meanwhile, names) -> None:
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    one, other = Browser(Client()), Browser(Client())
    one.cookie = other.cookie = guest.session_key
    meanwhile(lambda: sign_in(other, names[1]))
    assert sign_in(one, names[0]) == 200
    replaced = limit is not None and names[0] == names[1]
    assert (name_in(one), name_in(other)) == (names[0], "nobody" if replaced else names[1])
    assert listed(redis) == sorted(names[:1] if replaced else names)


@pytest.mark.parametrize("names", [("bob", "carol"), ("bob", "bob")])
def test_two_other_users_who_sign_in_at_once_get_a_session_each(redis, limit, meanwhile, names) -> None:
    one, other = Browser(Client()), Browser(Client())
    sign_in(one, "alice")
    other.cookie = one.cookie
    meanwhile(lambda: sign_in(other, names[1]))
    assert sign_in(one, names[0]) == 200
    replaced = limit is not None and names[0] == names[1]
    assert (name_in(one), name_in(other)) == (names[0], "nobody" if replaced else names[1])
    assert listed(redis) == sorted(names[:1] if replaced else names)


def test_the_same_user_who_signs_in_again_twice_at_once_has_one_session(redis, limit, meanwhile) -> None:
    one, other = Browser(Client()), Browser(Client())
    sign_in(one, "alice")
    other.cookie = one.cookie
    meanwhile(lambda: sign_in(other, "alice"))
    assert sign_in(one, "alice") == 200
    assert (name_in(one), name_in(other), listed(redis)) == ("alice", "alice", ["alice"])


# Users that the web server names.


def remote(browser: Browser, name: str = "") -> str:
    """Have the web server say who it is; return who the site takes it for."""
    if not name:
        return browser.get("/who/").content.decode()
    if browser.views:
        return browser.get("/who/", headers={"remote-user": name}).content.decode()
    return browser.get("/who/", REMOTE_USER=name).content.decode()


@pytest.fixture(params=["RemoteUserMiddleware", "PersistentRemoteUserMiddleware"])
def middleware(request: pytest.FixtureRequest, site: Any) -> str:
    """One of Django's two, in the site."""
    at = site.MIDDLEWARE.index(AUTH) + 1
    added = f"django.contrib.auth.middleware.{request.param}"
    site.MIDDLEWARE = [*site.MIDDLEWARE[:at], added, *site.MIDDLEWARE[at:]]
    site.AUTHENTICATION_BACKENDS = [REMOTE_BACKEND, MODEL_BACKEND]
    name: str = request.param
    return name


def test_the_web_server_may_name_another_user_with_each_request(browser, middleware, redis, limit) -> None:
    for name in ("alice", "alice", "bob", "bob", "carol", "alice", "bob"):
        assert remote(browser, name) == name
        assert listed(redis) == [name]


def test_another_user_whom_the_web_server_names_gets_nothing_that_was_viewed(browser, middleware, redis, limit) -> None:
    remote(browser, "alice")
    viewed.record(SessionStore(browser.cookie), "lamp")
    remote(browser, "alice")
    assert items_of(browser) == ["lamp"]
    remote(browser, "bob")
    assert (items_of(browser), listed(redis)) == ([], ["bob"])


def test_whom_the_web_server_no_longer_names_is_signed_out_unless_that_persists(
    browser, middleware, redis, limit
) -> None:
    persists = middleware.startswith("Persistent")
    remote(browser, "alice")
    assert remote(browser) == ("alice" if persists else "nobody")
    assert listed(redis) == ["alice"] * persists
    assert remote(browser, "bob") == "bob"
    assert listed(redis) == ["bob"]


def test_a_user_whom_the_web_server_names_in_two_browsers(middleware, redis, limit) -> None:
    browsers = [Browser(Client()), Browser(Client())]
    for _ in range(2):
        for browser in browsers:
            assert remote(browser, "alice") == "alice"
    assert listed(redis) == ["alice"] * (1 if limit else 2)


def test_whom_the_web_server_names_takes_the_session_of_who_signed_in_with_a_password(middleware, redis, limit) -> None:
    browser = Browser(Client())
    sign_in(browser, "alice")
    assert remote(browser, "bob") == "bob"
    assert listed(redis) == ["bob"]


# Data that is edited by hand.

AFTER_EDIT = {
    "to_bob": ["bob"],
    "to_bob_as_a_number": ["bob"],
    "to_a_number": ["alice"],
    "to_none": [],
    "deleted": [],
}


def data_of(user: User) -> dict[str, str]:
    return {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: MODEL_BACKEND,
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }


@pytest.fixture
def of_alice(users: dict[str, User]) -> SessionStore:
    """A session in which alice is signed in, who has viewed a lamp."""
    session = SessionStore()
    session.update({**data_of(users["alice"]), "colour": "blue"})
    session.save()
    viewed.record(session, "lamp")
    return SessionStore(session.session_key)


def listed_with_guests(redis: redis_py.Redis) -> tuple[list[str], int]:
    """Who is signed in, and how many guests there are."""
    everybody = {str(user.pk): user.username for user in User.objects.all()}
    names = sorted(everybody[session.user_id] for session in online.sessions())
    for user in User.objects.all():
        assert len(online.of_user(user)) == names.count(user.username)
    assert online.count() == len(names)
    return names, stored(redis) - len(names)


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_id_that_is_edited_by_hand_is_in_every_list(of_alice, redis, how: str) -> None:
    EDITS[how](of_alice)
    of_alice.save()
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    session = SessionStore(of_alice.session_key)
    assert session["colour"] == "blue"
    assert [item for item, _ in viewed.recent(session)] == ["lamp"]


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_id_that_is_edited_and_awaited_is_in_every_list(of_alice, redis, how: str) -> None:
    of_alice.get("colour")
    EDITS[how](of_alice)
    asyncio.run(of_alice.asave())
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    assert [item for item, _ in viewed.recent(SessionStore(of_alice.session_key))] == ["lamp"]


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_view_may_edit_the_user_id(of_alice, redis, how: str) -> None:
    browser = Browser(Client())
    browser.cookie = of_alice.session_key
    assert browser.get(f"/edit/{how}/").status_code == 200
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    assert SessionStore(browser.cookie)["colour"] == "blue"
    assert items_of(browser) == ["lamp"]
    # The hash is alice's: whom Django takes for signed in is another question.
    assert name_in(browser) == ("alice" if how == "to_a_number" else "nobody")


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_id_may_be_edited_back_and_forth(of_alice, users, redis, how: str) -> None:
    for _ in range(2):
        EDITS[how](of_alice)
        of_alice.save()
        of_alice[SESSION_KEY] = str(users["alice"].pk)
        of_alice.save()
    assert listed_with_guests(redis) == (["alice"], 0)
    assert [item for item, _ in viewed.recent(SessionStore(of_alice.session_key))] == ["lamp"]


def test_a_session_without_its_user_ends_no_more_with_that_user(of_alice, users, redis) -> None:
    deleted(of_alice)
    of_alice.save()
    assert online.end_user(users["alice"]) == 0
    assert listed_with_guests(redis) == ([], 1)


# Edited by two requests at once: the first of a pair saves before the second does.

PAIRS = [
    ("to_bob", "to_carol"),
    ("to_bob", "deleted"),
    ("deleted", "to_bob"),
    ("to_none", "deleted"),
    ("to_bob", "another_hash"),
    ("another_hash", "to_bob"),
    ("deleted", "another_hash"),
    ("to_a_number", "to_bob"),
    ("to_bob_as_a_number", "to_bob"),
]

USER_AFTER = {
    "to_bob": ["bob"],
    "to_carol": ["carol"],
    "to_bob_as_a_number": ["bob"],
    "to_a_number": ["alice"],
    "to_none": [],
    "deleted": [],
    "another_hash": ["alice"],
}


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_who_edit_the_user_at_once_the_later_one_holds_unless_the_session_has_moved(
    of_alice, redis, first: str, second: str
) -> None:
    later = SessionStore(of_alice.session_key)
    later.get("colour")
    EDITS[first](of_alice)
    of_alice.save()
    moved = of_alice.session_key != later.session_key
    EDITS[second](later)
    if moved:
        with pytest.raises(UpdateError):
            later.save()
    else:
        later.save()
    after = USER_AFTER[first if moved else second]
    assert listed_with_guests(redis) == (after, 0 if after else 1)
    session = (of_alice if moved else later).session_key
    assert [item for item, _ in viewed.recent(SessionStore(session))] == ["lamp"]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_requests_that_edit_the_user_at_once_one_holds(of_alice, redis, meanwhile, first, second) -> None:
    early, late = Browser(Client()), Browser(Client())
    early.cookie = late.cookie = of_alice.session_key
    meanwhile(lambda: early.get(f"/edit/{first}/"))
    status = late.get(f"/edit/{second}/").status_code
    moved = early.cookie != of_alice.session_key
    assert status == (400 if moved else 200)
    after = USER_AFTER[first if moved else second]
    assert listed_with_guests(redis) == (after, 0 if after else 1)
    assert items_of(early if moved else late) == ["lamp"]


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_edited_while_another_request_writes_something_else_keeps_both(of_alice, redis, how: str) -> None:
    later = SessionStore(of_alice.session_key)
    later["colour"] = "red"
    EDITS[how](of_alice)
    of_alice.save()
    moved = of_alice.session_key != later.session_key
    if moved:
        with pytest.raises(UpdateError):
            later.save()
    else:
        later.save()
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    assert SessionStore(of_alice.session_key)["colour"] == ("blue" if moved else "red")
