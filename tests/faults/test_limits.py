"""The limit of sessions per user: a hundred sign-ins at once, refusals, wrong settings, outages, and lost replies."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth import SESSION_KEY, alogin, login
from django.contrib.auth.models import User, update_last_login
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.test import AsyncClient, Client
from django.urls import path

from django_redsess import online, scripts, store
from django_redsess.backend import SessionStore
from django_redsess.keys import keyspace, sid_of
from django_redsess.limits import SessionLimitReached
from tests.behind import make_older, stored
from tests.faults import site_concurrency
from tests.faults.conftest import Browser, assert_unavailable, one_kind_of_server
from tests.faults.proxy import Proxy
from tests.faults.site import urlpatterns as site_urls
from tests.faults.site_concurrency import Answer, Site, person, serving
from tests.faults.test_concurrency import traces

CROWD = 100
LIMIT = 3

ENDING = ["end_oldest", "end_least_recent"]
POLICIES = [*ENDING, "refuse"]

FUNCTION = f"{__name__}.as_the_test_says"

SetLimit = Callable[..., None]

answer: Any = None
"""What the function that the settings name says."""


def as_the_test_says(user: User) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


def look(request: HttpRequest, user: Any, error: str) -> HttpResponse:
    """Say what is left to a view that has caught an error of its sign-in."""
    return HttpResponse(f"{error}: {user.pk or 'nobody'}, {user.is_anonymous}, {request.user.pk or 'nobody'}")


def sign_in_and_look(request: HttpRequest, user_id: int) -> HttpResponse:
    request.session.get("colour")
    try:
        login(request, person(user_id))
    except (SessionLimitReached, ImproperlyConfigured) as error:
        return look(request, request.user, type(error).__name__)
    return HttpResponse("done")


async def asign_in_and_look(request: HttpRequest, user_id: int) -> HttpResponse:
    await request.session.aget("colour")
    try:
        await alogin(request, person(user_id))
    except (SessionLimitReached, ImproperlyConfigured) as error:
        return look(request, await request.auser(), type(error).__name__)
    return HttpResponse("done")


async def asign_in(request: HttpRequest, user_id: int) -> HttpResponse:
    await request.session.aget("colour")
    await alogin(request, person(user_id))
    return HttpResponse("done")


def sign_in_and_fail(request: HttpRequest, user_id: int) -> HttpResponse:
    request.session.get("colour")
    login(request, person(user_id))
    raise RuntimeError("after the sign-in")


def sign_in_and_go_on(request: HttpRequest, user_id: int) -> HttpResponse:
    """Go on as a guest where the sign-in is refused."""
    with suppress(SessionLimitReached):
        login(request, person(user_id))
    request.session["colour"] = "red"
    return HttpResponse("done")


urlpatterns = [
    *site_concurrency.urlpatterns,
    path("sign-in-and-look/<int:user_id>/", sign_in_and_look),
    path("sign-in-and-fail/<int:user_id>/", sign_in_and_fail),
    path("sign-in-and-go-on/<int:user_id>/", sign_in_and_go_on),
    path("async/sign-in/<int:user_id>/", asign_in),
    path("async/sign-in-and-look/<int:user_id>/", asign_in_and_look),
]

handler404 = site_concurrency.handler404


def handler403(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Do without the shop's page, which names URLs of the shop."""
    return HttpResponse(str(exception), status=403)


def handler500(request: HttpRequest) -> HttpResponse:
    return HttpResponse(status=500)


@pytest.fixture
def set_limit(settings: Any) -> SetLimit:
    """Return a function that says how many sessions a user may have."""

    def set_limit(maximum: Any, policy: str = "end_oldest") -> None:
        settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": maximum, "SESSION_LIMIT_POLICY": policy}

    return set_limit


@pytest.fixture
def views(settings: Any, partitions: int) -> Iterator[None]:
    """The views of this file, and users in no table."""
    settings.ROOT_URLCONF = __name__
    settings.MIDDLEWARE = site_concurrency.MIDDLEWARE
    settings.AUTHENTICATION_BACKENDS = ["tests.faults.site_concurrency.InMemory"]
    site_concurrency.passwords.clear()
    user_logged_in.disconnect(dispatch_uid="update_last_login")
    yield
    user_logged_in.connect(update_last_login, dispatch_uid="update_last_login")


@pytest.fixture
def served(views: None) -> Iterator[Site]:
    """The same, served by real threads."""
    with serving(CROWD) as site:
        yield site


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def visitor(request: pytest.FixtureRequest, views: None) -> Browser:
    """A guest whose session holds a colour, over WSGI and over ASGI."""
    browser = Browser(request.param())
    browser.get("/write/colour/blue/")
    return browser


def have(redis: redis_py.Redis, user_id: str, *seconds: int) -> list[str]:
    """Have so many sessions of a user, which are so old; return their keys."""
    keys = []
    for each in seconds:
        session = SessionStore()
        request = HttpRequest()
        request.session = session
        login(request, person(user_id))
        if session.modified:
            session.save()
        make_older(redis, str(session.sid), each)
        keys.append(str(session.session_key))
    return keys


def sids_of(user_id: str) -> set[str]:
    return {session.sid for session in online.sessions(user_ids=[user_id], limit=CROWD)}


def who(site: Site, cookies: list[str]) -> list[Answer]:
    return [site.ask("/who/", cookie) for cookie in cookies]


# A hundred at once


def asked_by(site: Site, guests: int) -> list[tuple[str, str | None]]:
    """Prepare so many guests with a session, and visitors without up to a hundred, who all sign in as user 1."""
    cookies = [site.ask("/write/colour/blue/").cookie for _ in range(guests)]
    return [("/sign-in/1/", cookie) for cookie in [*cookies, *[None] * (CROWD - guests)]]


@pytest.mark.parametrize("guests", [0, CROWD // 2], ids=["visitors", "guests and visitors"])
@pytest.mark.parametrize("policy", ENDING)
def test_of_a_hundred_sign_ins_at_once_as_many_are_left_as_the_limit_allows(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, policy: str, guests: int
) -> None:
    set_limit(LIMIT, policy)
    bystander = served.ask("/sign-in/2/").cookie
    answers = served.ask_together(*asked_by(served, guests))
    assert {answer.status for answer in answers} == {200}
    assert len(sids_of("1")) == LIMIT
    assert stored(redis) == LIMIT + 1
    seen = who(served, [str(answer.cookie) for answer in answers])
    assert sorted(answer.text for answer in seen) == ["1"] * LIMIT + ["nobody"] * (CROWD - LIMIT)
    assert {answer.ended for answer in seen if answer.text == "nobody"} == {"replaced"}
    assert {answer.ended for answer in seen if answer.text == "1"} == {""}
    assert served.ask("/who/", bystander).text == "2"


@pytest.mark.parametrize("guests", [0, CROWD // 2], ids=["visitors", "guests and visitors"])
def test_of_a_hundred_sign_ins_at_once_all_above_the_limit_are_refused(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, guests: int
) -> None:
    set_limit(LIMIT, "refuse")
    bystander = served.ask("/sign-in/2/").cookie
    asked = asked_by(served, guests)
    answers = served.ask_together(*asked)
    assert sorted(answer.status for answer in answers) == [200] * LIMIT + [403] * (CROWD - LIMIT)
    cookies = [str(answer.cookie) for answer in answers if answer.status == 200]
    assert sids_of("1") == {sid_of(cookie) for cookie in cookies}
    assert [answer.text for answer in who(served, cookies)] == ["1"] * LIMIT
    # Nobody else has a cookie that works, a guest's of before included.
    assert {answer.cookie for answer in answers if answer.status == 403} <= {None, ""}
    old = [str(cookie) for _, cookie in asked if cookie]
    assert {answer.text for answer in who(served, old)} <= {"nobody"}
    assert stored(redis) == LIMIT + 1
    assert served.ask("/who/", bystander).text == "2"


@pytest.mark.parametrize("policy", POLICIES)
def test_sign_ins_while_others_of_the_user_sign_out_never_leave_too_many(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, policy: str
) -> None:
    set_limit(LIMIT, policy)
    members = have(redis, "1", *range(300, 300 - LIMIT, -1))
    sign_outs = [("/sign-out/", member) for member in members]
    answers = served.ask_together(*sign_outs, *asked_by(served, 10)[: CROWD - LIMIT])
    signed_in = [answer for answer in answers[LIMIT:] if answer.status == 200]
    assert {answer.status for answer in answers[LIMIT:]} <= {200, 403}
    left = sids_of("1")
    if policy == "refuse":
        # None that was let in goes again.
        assert left == {sid_of(str(answer.cookie)) for answer in signed_in}
        assert len(left) <= LIMIT
    else:
        assert len(signed_in) == CROWD - LIMIT
        assert len(left) == LIMIT
    assert stored(redis) == len(left)
    assert [answer.text for answer in who(served, members)] == ["nobody"] * LIMIT
    if policy == "refuse":
        # There is room up to the limit, and no more.
        later = [served.ask("/sign-in/1/").status for _ in range(LIMIT + 1)]
        assert later == [200] * (LIMIT - len(left)) + [403] * (len(left) + 1)


@pytest.mark.parametrize("policy", ENDING)
def test_sign_ins_at_once_after_a_limit_was_lowered_leave_as_many_as_it_allows(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, new_session: Callable[..., SessionStore], policy: str
) -> None:
    # More than a script takes out: each of the sign-ins may find that it has to go on.
    for _ in range(700):
        new_session("1")
    set_limit(LIMIT, policy)
    answers = served.ask_together(*asked_by(served, 10)[:20])
    assert {answer.status for answer in answers} == {200}
    seen = who(served, [str(answer.cookie) for answer in answers])
    assert [answer.text for answer in seen].count("1") == LIMIT
    assert len(sids_of("1")) == stored(redis) == LIMIT


# Refused


def test_a_refused_sign_in_is_a_403_that_ends_the_visitors_session(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(1, "refuse")
    [there] = have(redis, "1", 100)
    guest = str(visitor.cookie)
    response = visitor.get(f"{visitor.views}/sign-in/1/")
    assert response.status_code == 403
    assert response.content.decode().startswith("You are signed in with 1 session already")
    assert (response.cookies["sessionid"].value, response.cookies["sessionid"]["max-age"]) == ("", 0)
    assert traces(redis, guest) == []
    assert SessionStore(guest).load() == {}
    assert (sids_of("1"), stored(redis)) == ({sid_of(there)}, 1)
    assert visitor.get("/who/").content == b"nobody"


def test_after_a_refusal_the_view_finds_nobody_signed_in(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(1, "refuse")
    have(redis, "1", 100)
    guest = str(visitor.cookie)
    response = visitor.get(f"{visitor.views}/sign-in-and-look/1/")
    assert response.content == b"SessionLimitReached: nobody, True, nobody"
    assert response.cookies["sessionid"].value == ""
    assert traces(redis, guest) == []
    assert stored(redis) == 1


def test_after_a_refusal_a_view_can_go_on_with_a_new_guest(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(1, "refuse")
    have(redis, "1", 100)
    guest = visitor.cookie
    assert visitor.get("/sign-in-and-go-on/1/").status_code == 200
    assert visitor.cookie not in ("", guest)
    assert dict(SessionStore(visitor.cookie).items()) == {"colour": "red"}
    assert visitor.get("/who/").content == b"nobody"
    assert (online.count(), stored(redis)) == (1, 2)


def test_after_a_sign_out_elsewhere_a_refused_visitor_can_sign_in(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(2, "refuse")
    first, second = have(redis, "1", 200, 100)
    assert visitor.get(f"{visitor.views}/sign-in/1/").status_code == 403
    SessionStore(first).flush()
    assert visitor.get(f"{visitor.views}/sign-in/1/").status_code == 200
    assert visitor.get("/who/").content == b"1"
    assert sids_of("1") == {sid_of(second), visitor.sid}


def test_another_user_who_is_refused_leaves_nothing_of_either(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(1, "refuse")
    [there] = have(redis, "1", 100)
    assert visitor.get(f"{visitor.views}/sign-in/2/").status_code == 200
    before = str(visitor.cookie)
    assert visitor.get(f"{visitor.views}/sign-in/1/").status_code == 403
    assert traces(redis, before) == []
    assert visitor.get("/who/").content == b"nobody"
    assert (sids_of("1"), sids_of("2"), stored(redis)) == ({sid_of(there)}, set(), 1)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_double_click_with_room_for_one_never_leaves_two_and_who_is_let_in_stays(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, policy: str
) -> None:
    set_limit(1, policy)
    # Guests in every partition.
    for _ in range(8):
        guest = served.ask("/write/colour/blue/").cookie
        answers = served.ask_together(*[("/sign-in/1/", guest)] * 2)
        good = [answer for answer in answers if answer.status == 200]
        assert {answer.status for answer in answers} <= {200, 400, 403}
        signed_in = [answer for answer in who(served, [str(answer.cookie) for answer in good]) if answer.text == "1"]
        # Who is refused ends the guest's session, and so the other click may find that gone.
        assert len(signed_in) in ([len(good)] if policy == "refuse" else [1])
        assert len(signed_in) <= 1
        assert len(sids_of("1")) == stored(redis) == len(signed_in)
        online.end_user(person(1))


@pytest.mark.parametrize("late", [False, True], ids=["read before", "read after"])
def test_the_second_of_a_double_click_is_refused_and_the_first_stays_signed_in(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, late: bool
) -> None:
    set_limit(1, "refuse")
    for _ in range(8):
        guest = served.ask("/write/colour/blue/").cookie
        let_on = None if late else served.ask_held("/sign-in/1/", guest)
        winner = served.ask("/sign-in/1/", guest)
        loser = let_on() if let_on else served.ask("/sign-in/1/", guest)
        assert (winner.status, loser.status) == (200, 403)
        assert served.ask("/who/", winner.cookie).text == "1"
        assert (sids_of("1"), stored(redis)) == ({sid_of(str(winner.cookie))}, 1)
        # The browser has the winner's cookie by now, or will have it.
        assert loser.cookie is None
        online.end_user(person(1))


@pytest.mark.parametrize("full", [True, False], ids=["full", "with room"])
def test_a_sign_in_whose_guest_was_ended_meanwhile_is_answered_400_or_403(
    served: Site, redis: redis_py.Redis, set_limit: SetLimit, full: bool
) -> None:
    set_limit(1, "refuse")
    there = have(redis, "1", 100) if full else []
    for _ in range(8):
        guest = served.ask("/write/colour/blue/").cookie
        let_on = served.ask_held("/sign-in/1/", guest)
        online.end(sid_of(guest))
        answer = let_on()
        assert answer.status in (400, 403)
        assert answer.cookie in (None, "")
        assert sids_of("1") == {sid_of(key) for key in there}
        assert stored(redis) == len(there)


def test_a_view_that_fails_after_a_sign_in_sends_the_cookie_of_what_is_stored(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    set_limit(2, "refuse")
    guest = str(visitor.cookie)
    response = visitor.get("/sign-in-and-fail/1/")
    assert response.status_code == 500
    assert response.cookies["sessionid"].value == visitor.cookie
    assert visitor.get("/who/").content == b"1"
    assert visitor.get("/read/colour/").content == b"blue"
    assert (sids_of("1"), stored(redis)) == ({visitor.sid}, 1)
    assert traces(redis, guest) == []


@pytest.mark.parametrize("policy", ENDING)
def test_a_view_that_fails_after_a_sign_in_that_would_end_others_leaves_all_as_it_was(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit, policy: str
) -> None:
    set_limit(1, policy)
    [there] = have(redis, "1", 100)
    cookie = visitor.cookie
    assert visitor.get("/sign-in-and-fail/1/").status_code == 500
    assert visitor.cookie == cookie
    assert visitor.get("/read/colour/").content == b"blue"
    assert (sids_of("1"), stored(redis)) == ({sid_of(there)}, 2)


# Settings that make no sense


@pytest.mark.parametrize("wrong", [LookupError("no such plan"), 0, -1, True, "3", 2.5], ids=repr)
@pytest.mark.parametrize("caught", [True, False], ids=["caught by the view", "not caught"])
@pytest.mark.parametrize("policy", ["end_oldest", "refuse"])
def test_a_wrong_number_signs_nobody_in_and_leaves_the_guest(
    visitor: Browser,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    monkeypatch: pytest.MonkeyPatch,
    wrong: Any,
    caught: bool,
    policy: str,
) -> None:
    monkeypatch.setattr(f"{__name__}.answer", wrong)
    set_limit(FUNCTION, policy)
    before = everything(redis)
    response = visitor.get(f"{visitor.views}/sign-in{'-and-look' if caught else ''}/1/")
    assert response.status_code == (200 if caught else 500)
    if caught:
        assert response.content == b"ImproperlyConfigured: nobody, True, nobody"
    assert_guest(visitor, redis, before)


@pytest.mark.parametrize("caught", [True, False], ids=["caught by the view", "not caught"])
@pytest.mark.parametrize("setting", [("no.such.function", "refuse"), (1, "end_newest")], ids=["path", "policy"])
def test_a_wrong_setting_signs_nobody_in_and_leaves_the_guest(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit, setting: Any, caught: bool
) -> None:
    set_limit(*setting)
    before = everything(redis)
    response = visitor.get(f"{visitor.views}/sign-in{'-and-look' if caught else ''}/1/")
    assert response.status_code == (200 if caught else 500)
    assert_guest(visitor, redis, before)


def test_a_wrong_setting_leaves_who_is_signed_in_already(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    visitor.get(f"{visitor.views}/sign-in/1/")
    before = everything(redis)
    set_limit("no.such.function")
    response = visitor.get(f"{visitor.views}/sign-in-and-look/1/")
    assert response.content == b"ImproperlyConfigured: nobody, True, nobody"
    assert everything(redis) == before
    assert visitor.get("/who/").content == b"1"
    assert visitor.get("/read/colour/").content == b"blue"


def test_a_wrong_setting_gives_a_visitor_without_a_session_none(
    visitor: Browser, redis: redis_py.Redis, set_limit: SetLimit
) -> None:
    visitor.client.cookies.clear()
    before = everything(redis)
    set_limit("no.such.function")
    response = visitor.get(f"{visitor.views}/sign-in-and-look/1/")
    assert (response.status_code, "sessionid" in response.cookies) == (200, False)
    assert everything(redis) == before


def everything(redis: redis_py.Redis) -> dict[str, Any]:
    """Return what is stored, all but when a session was last seen."""
    found: dict[str, Any] = {}
    for number, partition in enumerate(keyspace().partitions):
        for name in ("login", "expire", "online_user", "online_seen"):
            key = getattr(partition, name)
            found[f"{number} {name}"] = redis.hgetall(key) if name == "login" else redis.zrange(key, 0, -1)
    return found


def assert_guest(visitor: Browser, redis: redis_py.Redis, before: dict[str, Any]) -> None:
    """The visitor is the guest of before, and nothing has changed."""
    assert everything(redis) == before
    assert visitor.get("/read/colour/").content == b"blue"
    assert visitor.get("/who/").content == b"nobody"
    assert SessionStore(visitor.cookie).get(SESSION_KEY) is None
    assert (online.count(), stored(redis)) == (0, 1)


# Outages and lost replies: the site of site.py, behind the proxy


class BehindTheProxy:
    """URLs of that site, with a page of its own for what is not allowed."""

    urlpatterns = site_urls
    handler403 = staticmethod(handler403)


@pytest.fixture
def known_scripts(redis: redis_py.Redis) -> None:
    """Else the first reply to each is that it is not known: nothing is lost with that one."""
    for script in vars(scripts).values():
        if isinstance(script, scripts.Script):
            redis.script_load(script.text)


@pytest.fixture
def behind(site: None, settings: Any, known_scripts: None) -> None:
    settings.ROOT_URLCONF = BehindTheProxy


def each_loss(
    browser: Browser, proxy: Proxy, redis: redis_py.Redis, start: Callable[[], object], *, times: int = 1
) -> Iterator[None]:
    """
    Loop: in each round, on an empty store, one more reply (or so many) of the request is the lost one.

    ``start`` is called before each round, without losses. It goes on until a round had no such reply.
    """
    for number in itertools.count():
        for name in redis.keys():
            if not name.endswith(b":meta"):
                redis.delete(name)
        browser.client.cookies.clear()
        start()
        before = proxy.lost
        proxy.lose_reply("EVALSHA", skip=number, times=times)
        yield
        proxy.restore()
        if proxy.lost == before:
            # At least the first was lost, else this has shown nothing.
            assert number > 0
            return


def have_of(user: User, redis: redis_py.Redis, *seconds: int, **data: str) -> list[str]:
    """Have so many sessions of a user who is stored, which are so old; return their sids."""
    sids = []
    for each in seconds:
        browser = Browser(Client())
        browser.sign_in(user, **data)
        sids.append(str(browser.sid))
        make_older(redis, sids[-1], each)
    return sids


def replaced(redis: redis_py.Redis) -> int:
    """Count the sessions that were ended for a limit."""
    return sum(int(redis.hget(partition.totals, "replaced") or 0) for partition in keyspace().partitions)


@pytest.mark.django_db
@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
@pytest.mark.parametrize("policy", ENDING)
def test_a_sign_in_whose_reply_was_lost_ends_no_further_sessions(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
    policy: str,
    brings: bool,
) -> None:
    sids: list[str] = []

    def start() -> None:
        sids[:] = have_of(alice, redis, 300, 200, 100)
        if brings:
            browser.post("/write/colour/blue/")

    set_limit(3, policy)
    for _ in each_loss(browser, proxy, redis, start):
        assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
        assert browser.get("/who/").content == b"alice"
        assert browser.get("/read/colour/").content == (b"blue" if brings else b"")
        assert sids_of(str(alice.pk)) == {*sids[1:], browser.sid}
        assert (stored(redis), replaced(redis)) == (3, 1)


@pytest.mark.django_db
@one_kind_of_server
def test_a_lost_reply_leaves_as_many_as_the_limit_allows_where_one_script_was_not_enough(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
) -> None:
    def start() -> None:
        set_limit(None)
        have_of(alice, redis, *range(1000, 400, -100), colour="x" * 400_000)
        browser.post("/write/colour/blue/")
        set_limit(2)

    for _ in each_loss(browser, proxy, redis, start):
        assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
        assert browser.get("/who/").content == b"alice"
        assert len(sids_of(str(alice.pk))) == stored(redis) == 2
        assert replaced(redis) == 5


@pytest.mark.django_db
@pytest.mark.parametrize("policy", ENDING)
def test_a_sign_in_that_was_replaced_before_it_was_repeated_ends_no_further_sessions(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
    policy: str,
) -> None:
    """It was done, its reply was lost, and before the client repeats it the same user signs in elsewhere."""

    def sign_in_elsewhere() -> None:
        session = SessionStore()
        session[SESSION_KEY] = str(alice.pk)
        session.signed_in(store.Limit(1, policy))
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


@pytest.mark.django_db
@pytest.mark.parametrize("brings", [True, False], ids=["guest with a session", "visitor without"])
def test_a_refusal_whose_reply_was_lost_stays_one_and_leaves_nothing(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
    brings: bool,
) -> None:
    sids: list[str] = []

    def start() -> None:
        sids[:] = have_of(alice, redis, 200, 100)
        if brings:
            browser.post("/write/colour/blue/")

    set_limit(2, "refuse")
    for _ in each_loss(browser, proxy, redis, start):
        assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 403
        assert browser.get("/who/").content == b"nobody"
        assert sids_of(str(alice.pk)) == set(sids)
        assert stored(redis) == 2


@pytest.mark.django_db
def test_a_sign_in_with_room_whose_reply_was_lost_is_not_refused(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
) -> None:
    sids: list[str] = []

    def start() -> None:
        sids[:] = have_of(alice, redis, 100)
        browser.post("/write/colour/blue/")

    set_limit(2, "refuse")
    for _ in each_loss(browser, proxy, redis, start):
        assert browser.post(f"{browser.views}/sign-in/alice/").status_code == 200
        assert browser.get("/who/").content == b"alice"
        assert sids_of(str(alice.pk)) == {*sids, browser.sid}
        assert stored(redis) == 2


@pytest.mark.django_db
@one_kind_of_server
@pytest.mark.parametrize("full", [True, False], ids=["full", "with room"])
def test_an_outage_at_the_save_of_a_sign_in_that_may_be_refused_leaves_the_visitor_a_guest(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    meanwhile: Callable[[Callable[[], object]], None],
    behind: None,
    full: bool,
) -> None:
    sids = have_of(alice, redis, 100)
    set_limit(1 if full else 2, "refuse")
    browser.post("/write/colour/blue/")
    cookie = browser.cookie
    meanwhile(proxy.refuse)
    assert_unavailable(browser.post(f"{browser.views}/sign-in/alice/"))
    proxy.restore()
    assert browser.cookie == cookie
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content == b"nobody"
    assert (sids_of(str(alice.pk)), stored(redis)) == (set(sids), 2)
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code == (403 if full else 200)


@pytest.mark.django_db
@one_kind_of_server
def test_an_outage_while_a_lowered_limit_is_met_does_not_sign_the_visitor_out(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
) -> None:
    have_of(alice, redis, *range(1000, 400, -100), colour="x" * 400_000)
    browser.post("/write/colour/blue/")
    set_limit(2)
    proxy.before(scripts.LIMIT.digest, proxy.refuse)
    # The sign-in is saved by then. Whatever the answer is, the visitor has a cookie that opens what is there.
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code in (200, 503)
    proxy.restore()
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content in (b"alice", b"nobody")


@pytest.mark.django_db
@one_kind_of_server
def test_an_outage_after_a_sign_in_that_was_saved_at_once_does_not_sign_the_visitor_out(
    browser: Browser,
    alice: User,
    partitions: int,
    proxy: Proxy,
    redis: redis_py.Redis,
    set_limit: SetLimit,
    behind: None,
) -> None:
    browser.post("/write/colour/blue/")
    set_limit(2, "refuse")
    # The next save after that of the sign-in.
    proxy.before(scripts.SAVE.digest, proxy.refuse)
    assert browser.post(f"{browser.views}/sign-in/alice/").status_code in (200, 503)
    proxy.restore()
    assert browser.get("/read/colour/").content == b"blue"
    assert browser.get("/who/").content in (b"alice", b"nobody")
