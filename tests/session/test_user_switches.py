"""Users change within a session: by a sign-in, by the web server, by hand. Every list says so, names nobody twice."""

import asyncio
import itertools
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.test import AsyncClient, Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers.site.views import EDITS, MODEL_BACKEND, deleted
from tests.helpers.store import make_older, stored
from tests.helpers.visitors import Browser, items_of, listed, name_in, sign_in

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "nothing_to_repair")]


@pytest.fixture(autouse=True)
def site(partitions: int, settings) -> Any:
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    return settings


@pytest.fixture(params=[None, 1], ids=["no limit", "limit of 1"])
def limit(request, site) -> int | None:
    maximum: int | None = request.param
    site.REDSESS = {**site.REDSESS, "MAX_SESSIONS_PER_USER": maximum}
    return maximum


@pytest.fixture(autouse=True)
def users(db) -> dict[str, User]:
    return {name: User.objects.create_user(name) for name in ("alice", "bob", "carol")}


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site) -> Browser:
    return Browser(request.param())


def test_a_guest_who_signs_in_takes_what_was_viewed_along(browser, new_session, redis, limit) -> None:
    browser.cookie = new_session(colour="blue").session_key
    browser.get("/items/records/lamp")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])


def test_the_same_user_who_signs_in_again_has_one_session_and_all_that_was_viewed(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/items/records/lamp")
    make_older(redis, browser.sid, 60)
    before = online.get(browser.sid).created_at
    for _ in range(2):
        assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])
    assert online.get(browser.sid).created_at > before


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


@pytest.mark.parametrize("names", ["bob", "bob+bob+bob", "alice+bob", "bob+alice+bob", "carol+alice+bob+bob"])
@pytest.mark.parametrize("first", ["", "alice", "bob"])
def test_of_the_sign_ins_in_one_request_the_last_one_counts_once_in_place_of_who_was_there(
    browser, redis, limit, first: str, names: str
) -> None:
    if first:
        sign_in(browser, first)
        browser.get("/items/records/lamp")
    old_sid, old_cookie = browser.sid, browser.cookie
    assert sign_in(browser, names) == 200
    # Who signs in again, and nobody else in between, goes on with all that was viewed.
    items = ["lamp"] if first == "bob" and set(names.split("+")) == {"bob"} else []
    assert (name_in(browser), listed(redis), items_of(browser)) == ("bob", ["bob"], items)
    if first:
        assert viewed.recent(old_sid or "") == []
        browser.cookie = old_cookie
        assert name_in(browser) == "nobody"


def test_a_sign_in_that_another_follows_in_the_request_ends_nobodys_session(browser, redis, limit) -> None:
    elsewhere = Browser(Client())
    sign_in(elsewhere, "alice")
    assert sign_in(browser, "alice+bob") == 200
    assert (name_in(browser), name_in(elsewhere), listed(redis)) == ("bob", "alice", ["alice", "bob"])


def test_who_signs_in_again_with_another_password_gets_a_new_session(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/items/records/lamp")
    User.objects.filter(username="alice").update(password="another")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], [])


@pytest.mark.parametrize(
    ("before", "names"),
    [
        ("", ("alice", "bob")),
        ("", ("alice", "alice")),
        ("alice", ("alice", "alice")),
        ("alice", ("bob", "carol")),
        ("alice", ("bob", "bob")),
    ],
)
def test_two_sign_ins_at_once_over_one_session_get_a_session_each(
    redis, new_session, limit, meanwhile, before: str, names: tuple[str, str]
) -> None:
    one, other = Browser(Client()), Browser(Client())
    if before:
        sign_in(one, before)
    else:
        one.cookie = new_session(colour="blue").session_key
    other.cookie = one.cookie
    meanwhile(lambda: sign_in(other, names[1]))
    assert sign_in(one, names[0]) == 200
    replaced = limit is not None and names[0] == names[1]
    assert (name_in(one), name_in(other)) == (names[0], "nobody" if replaced else names[1])
    assert listed(redis) == sorted(names[:1] if replaced else names)


REMOTE_BACKEND = "django.contrib.auth.backends.RemoteUserBackend"
AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"


def remote(browser: Browser, name: str = "") -> str:
    """Have the web server say who it is; return who the site takes it for."""
    if not name:
        return browser.get("/who/").content.decode()
    if browser.views:
        return browser.get("/who/", headers={"remote-user": name}).content.decode()
    return browser.get("/who/", REMOTE_USER=name).content.decode()


@pytest.fixture(params=["RemoteUserMiddleware", "PersistentRemoteUserMiddleware"])
def middleware(request, site) -> str:
    """One of Django's two, in the site."""
    at = site.MIDDLEWARE.index(AUTH) + 1
    added = f"django.contrib.auth.middleware.{request.param}"
    site.MIDDLEWARE = [*site.MIDDLEWARE[:at], added, *site.MIDDLEWARE[at:]]
    site.AUTHENTICATION_BACKENDS = [REMOTE_BACKEND, MODEL_BACKEND]
    name: str = request.param
    return name


def test_the_web_server_may_name_another_user_who_gets_nothing_that_was_viewed(
    browser, middleware, redis, limit
) -> None:
    # The first one has signed in with a password.
    sign_in(browser, "carol")
    for before, name in itertools.pairwise(("carol", "alice", "alice", "bob", "bob", "carol", "alice", "bob")):
        viewed.record(SessionStore(browser.cookie), f"of {before}")
        assert remote(browser, name) == name
        assert (listed(redis), items_of(browser)) == ([name], [f"of {name}"] if name == before else [])


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


AFTER_EDIT = {
    "to_bob": ["bob"],
    "to_bob_as_a_number": ["bob"],
    "to_a_number": ["alice"],
    "to_none": [],
    "deleted": [],
}
USER_AFTER = {**AFTER_EDIT, "to_carol": ["carol"], "another_hash": ["alice"]}


def data_of(user: User) -> dict[str, str]:
    return {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: MODEL_BACKEND,
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }


@pytest.fixture
def of_alice(users) -> SessionStore:
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


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_id_that_is_edited_by_hand_back_and_forth_is_in_every_list(
    of_alice, users, redis, how: str, is_async: bool
) -> None:
    def save() -> None:
        if is_async:
            asyncio.run(of_alice.asave())
        else:
            of_alice.save()

    of_alice.get("colour")
    for _ in range(2):
        EDITS[how](of_alice)
        save()
        assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
        session = SessionStore(of_alice.session_key)
        assert session["colour"] == "blue"
        assert [item for item, _ in viewed.recent(session)] == ["lamp"]
        of_alice[SESSION_KEY] = str(users["alice"].pk)
        save()
        assert listed_with_guests(redis) == (["alice"], 0)
    # Without its user, it ends no more with that user.
    deleted(of_alice)
    save()
    assert online.end_user(users["alice"]) == 0
    assert listed_with_guests(redis) == ([], 1)


PAIRS = [
    ("to_bob", "to_carol"),
    ("to_bob", "deleted"),
    ("deleted", "to_bob"),
    ("to_bob", "another_hash"),
    ("another_hash", "to_bob"),
    ("deleted", "another_hash"),
    ("to_a_number", "to_bob"),
]


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
