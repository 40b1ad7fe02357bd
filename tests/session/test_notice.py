"""What the user of a session that has ended is told at the next request, and who is told nothing."""

import asyncio
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from html import unescape
from threading import Thread
from typing import Any
from urllib.parse import unquote

import pytest
import redis as redis_py
from django.contrib import messages
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.core.management import call_command
from django.http import HttpRequest, HttpResponse
from django.middleware.locale import LocaleMiddleware
from django.test import AsyncClient, Client
from django.utils import translation
from django.utils.deprecation import MiddlewareMixin

from django_redsess import accounts, cleaning, online
from django_redsess.backend import SessionStore
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import SessionFilter
from django_redsess.session import operations
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.notice import Notice
from django_redsess.session.record import revision_of
from django_redsess.signals import Reason
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import drive
from tests.helpers.accounts import is_gone
from tests.helpers.site.middleware import ReadsOnTheWayIn, ReadsOnTheWayOut
from tests.helpers.site.urls import urlpatterns as site_urls
from tests.helpers.store import have_agreed, make_due, now_of
from tests.helpers.visitors import Browser, cookie_header

pytestmark = pytest.mark.usefixtures("nothing_to_repair")

HOUR, DAY = 3_600_000, 86_400_000
HEADER = "X-Session-Ended"
OURS = "django_redsess.middleware.SessionMiddleware"

EXT_VALUE = re.compile(r"UTF-8''((?:%[0-9A-Fa-f]{2}|[A-Za-z0-9!#$&+.^_`|~-])*)")
"""RFC 8187, 3.2.1."""

HOSTILE = {
    "CRLF": "Bye.\r\nSet-Cookie: sessionid=forged\r\n\r\n[ERROR] forged",
    "other line ends": "Bye.\x85\u2028\u2029[ERROR] forged\x0b\x0c\x1c",
    "escape": "\x1b[2J\x1b[31mforged\x07",
    "markup": "<script>alert('\"forged&\"')</script>",
    "header syntax": "a; message*=UTF-8''b, \"c\" %0d%0a / (d) [e] {f} <g> @ : ? = \\",
    "from right to left": "Bye \u202eegrof\u202c \u2066x\u2069 שלום",
    "a surrogate": "Bye \ud800\udcff.",
    "a template": "{{ request.user }} {% now 'Y' %} %(count)d %s {0}",
}
"""What an administrator, or somebody who writes into Redis, may leave as a text."""


# The error pages of the shop stay, which show messages.
urlpatterns = site_urls


class Answers(MiddlewareMixin):
    """A middleware that reads the session, and answers in place of the view where the query says so."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        request.session.get("colour")
        return HttpResponse("closed") if "closed" in request.GET else None


class Visitor(Browser):
    """A browser that no longer sends a cookie once an answer has deleted it; Django's test clients do."""

    def _ask(self, method: Callable[..., Any], *args: Any, **options: Any) -> HttpResponse:
        response = super()._ask(method, *args, **options)
        for name in [name for name, morsel in self.client.cookies.items() if morsel["max-age"] == 0]:
            del self.client.cookies[name]
        return response


@pytest.fixture
def site(settings) -> Any:
    """The settings of the site, to change more of them."""
    settings.ROOT_URLCONF = __name__
    return settings


@pytest.fixture
def between_our_middleware_and_that_of_messages(site) -> Callable[[type], None]:
    """Return a function that puts a middleware there."""

    def put(added: type) -> None:
        at = site.MIDDLEWARE.index(OURS) + 1
        site.MIDDLEWARE = [*site.MIDDLEWARE[:at], f"{added.__module__}.{added.__qualname__}", *site.MIDDLEWARE[at:]]

    return put


@pytest.fixture(params=[Client, AsyncClient], ids=["wsgi", "asgi"])
def browser(request, site, alice) -> Visitor:
    """A visitor who is signed in as alice, over WSGI and over ASGI."""
    signed_in = Visitor(request.param())
    signed_in.sign_in(alice)
    return signed_in


@pytest.fixture
def visitor(site, alice) -> Visitor:
    """One over WSGI, for what is the same over ASGI."""
    signed_in = Visitor(Client())
    signed_in.sign_in(alice)
    return signed_in


def view(browser: Visitor, name: str) -> str:
    return f"{browser.views}/{name}/"


def shown(browser: Visitor, name: str = "shows") -> list[str]:
    """The messages on the page that the visitor opens now."""
    response = browser.get(view(browser, name))
    assert response.status_code == 200
    return re.findall(r"\[(.+?)\]", response.content.decode())


def text_of(header: str) -> str:
    """What the header's text says, read as RFC 8187 wants it."""
    assert header.isascii()
    assert header.isprintable()
    reason, _, rest = header.partition("; message*=")
    assert reason in list(Reason)
    encoded = EXT_VALUE.fullmatch(rest)
    assert encoded, f"{rest} is no ext-value"
    return unquote(encoded[1], errors="strict")


def expire(redis: redis_py.Redis, sid: str) -> None:
    make_due(redis, sid)
    assert sum(cleaning.expire_sessions()) == 1


# How sessions end, why, and how many milliseconds that is told. Whoever finds them: see test_signals.py.
WAYS: dict[str, tuple[Callable[[redis_py.Redis, str], object], Reason, int]] = {
    "kicked": (lambda redis, sid: online.end(sid), Reason.KICKED, DAY),
    "expired": (expire, Reason.EXPIRED, HOUR),
    "evicted": (lambda redis, sid: list(cleaning.evict_sessions(maximum=0)), Reason.EVICTED, HOUR),
    "replaced": (
        lambda redis, sid: drive(operations.end_by_sid([sid], operations.Ending(Reason.REPLACED))),
        Reason.REPLACED,
        HOUR,
    ),
}


def note_of(redis: redis_py.Redis, sid: str) -> tuple[bytes | None, int]:
    """The note about the end of ``sid``, and for how many milliseconds it stays."""
    name = keyspace().of_sid(sid).ended_of(sid)
    return redis.get(name), redis.pttl(name)


def notes(redis: redis_py.Redis) -> list[bytes]:
    return [redis.get(name) for name in redis.keys() if b":ended:" in name]


# What the session knows of its end.


@pytest.mark.parametrize(("end", "reason", "lasts"), WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize("user_id", ["7", ""], ids=["user", "guest"])
def test_the_next_load_tells_a_user_why_and_when_for_an_hour_or_a_day_and_a_guest_nothing(
    redis, new_session, partitions, end, reason, lasts, user_id: str
) -> None:
    session, before = new_session(user_id, colour="blue"), now_of(redis)
    end(redis, session.sid)
    assert not redis.hexists(keyspace().of_sid(session.sid).login, session.sid)
    note, milliseconds = note_of(redis, session.sid)
    ended = SessionStore(session.session_key).ended
    if user_id:
        assert lasts - 20_000 < milliseconds <= lasts
        assert (ended.reason, ended.message) == (reason, "")
        assert before - timedelta(seconds=1) <= ended.ended_at <= now_of(redis)
    else:
        assert (ended, notes(redis)) == (None, [])
    assert asyncio.run(SessionStore(session.session_key).aended()) == ended
    # To ask leaves no trace.
    assert note_of(redis, session.sid)[0] == note


@pytest.mark.parametrize("seconds", [1_772_366_400.123, 1_500_000_000, 1_700_000_000])
def test_a_session_that_is_due_has_expired_though_nobody_took_it_out(
    redis, new_session, partitions, seconds: float
) -> None:
    # A server might write a round score as 1.5e+12.
    session, guest = new_session("7"), new_session(colour="blue")
    for each in (session, guest):
        redis.zadd(keyspace().of_sid(each.sid).expire, {each.sid: seconds * 1000})
    assert SessionStore(session.session_key).ended == (Reason.EXPIRED, "", datetime.fromtimestamp(seconds, UTC))
    assert SessionStore(guest.session_key).ended is None
    assert notes(redis) == []


def test_a_session_ended_under_its_old_sid_is_told_of_under_its_new_key(new_session, partitions) -> None:
    session = new_session("7")
    old_key, old_sid = session.session_key, session.sid
    session.cycle_key()
    session.save()
    assert len(online.end(old_sid, message="Bye.")) == 1
    assert SessionStore(session.session_key).ended.message == "Bye."
    assert SessionStore(old_key).ended is None


def sign_out(session: SessionStore) -> None:
    session.signed_out()
    session.flush()


OWN_ENDS = {
    "sign-out": sign_out,
    "flush": SessionStore.flush,
    "aflush": lambda session: asyncio.run(session.aflush()),
    "delete": SessionStore.delete,
    "adelete": lambda session: asyncio.run(session.adelete()),
    "invalidated": lambda session: drive(operations.end_by_sid([session.sid], operations.Ending(Reason.INVALIDATED))),
}


@pytest.mark.parametrize("end", OWN_ENDS.values(), ids=OWN_ENDS.keys())
def test_an_end_of_the_users_own_making_is_not_told(redis, new_session, partitions, end) -> None:
    session = SessionStore(new_session("7").session_key)
    key = session.session_key
    assert session[SESSION_KEY] == "7"
    end(session)
    assert SessionStore(key).load() == {}
    assert SessionStore(key).ended is None
    assert notes(redis) == []


@pytest.mark.parametrize("loaded", [False, True])
def test_asking_takes_a_load_and_a_question_and_none_once_loaded(
    new_session, round_trips, partitions, loaded: bool
) -> None:
    alive, over = new_session("7"), new_session("7")
    online.end(over.sid)
    have_agreed()
    for key, reason, needed in ((alive.session_key, None, 1), (over.session_key, Reason.KICKED, 2)):
        session = SessionStore(key)
        round_trips()
        if loaded:
            session.get("colour")
            assert round_trips() == needed
        told = session.ended
        assert round_trips() == (0 if loaded else needed)
        assert (told.reason if told else None) == reason
        assert (session.ended, session.get("colour"), asyncio.run(session.aended())) == (told, None, told)
        assert round_trips() == 0


SECOND_ENDS = {
    "kicked": lambda session: online.end(session.sid, message="Second."),
    "replaced": lambda session: drive(operations.end_by_sid([session.sid], operations.Ending(Reason.REPLACED))),
    "cleaned up": lambda session: call_command("clearsessions"),
    "signed out": sign_out,
}


@pytest.mark.parametrize("again", SECOND_ENDS.values(), ids=SECOND_ENDS.keys())
def test_a_second_end_changes_nothing_of_what_was_told_first(redis, new_session, partitions, again) -> None:
    session = SessionStore(new_session("7").session_key)
    session.load()
    key, sid = session.session_key, session.sid
    online.end(sid, message="First.")
    note, _ = note_of(redis, sid)
    redis.pexpire(keyspace().of_sid(sid).ended_of(sid), 5000)
    assert not again(session)
    after, milliseconds = note_of(redis, sid)
    assert (after, SessionStore(key).ended.message) == (note, "First.")
    assert milliseconds <= 5000


@pytest.mark.parametrize(
    "text",
    [
        "Änderung um 12:30, “bitte” neu anmelden: https://example.org/?a=b&c; 100 % 日本",
        # Joiners that a script needs: Persian, Hindi, a family.
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0915\u094d\u200d\u0937 👩\u200d👩\u200d👧",
        *("x" * 200, "👋" * 200, "%" * 200),
    ],
    ids=["signs", "joiners", "letters", "emojis", "percent signs"],
)
def test_a_text_of_up_to_200_characters_is_told_as_it_was_given(new_session, partitions, text: str) -> None:
    session = new_session("7")
    with pytest.raises(ValueError, match="200"):
        online.end(session.sid, message=f"{text:x<201}")
    assert SessionStore(session.session_key).ended is None
    online.end(session.sid, message=text)
    ended = SessionStore(session.session_key).ended
    assert text_of(ended.header) == ended.message == text


def test_a_text_of_nothing_is_none(new_session) -> None:
    for text in ("", " ", "\r\n", "\0\x1b", "\u202e"):
        session = new_session("7")
        online.end(session.sid, message=text)
        ended = SessionStore(session.session_key).ended
        assert (ended.message, ended.header) == ("", "kicked")


# What stands in Redis in place of a note, None for a list; and what is told of it, None for nothing.
FORGED: dict[str, tuple[bytes | None, str | None]] = {
    "empty": (b"", None),
    "no UTF-8": (b"\xff\xfe\x80", None),
    "an unknown reason": (b"arrested 1700000000000 Bye.", None),
    "a reason that is not told": (b"logout 1700000000000 Bye.", None),
    "no time": (b"kicked", None),
    "a time that is none": (b"kicked yesterday Bye.", None),
    "infinity": (b"kicked inf", None),
    "other digits": (("kicked " + "\u0661" * 13).encode(), None),
    "a line feed behind the time": (b"kicked 1700000000000\n", None),
    "a huge reason": (b"kicked" + b"x" * 5_000_000, None),
    "rotated, to nowhere": (b"rotated ", None),
    "of another type": (None, None),
    "line ends": (b"kicked 1700000000000 a\r\nb\x1b[31m\0c", "a b [31m c"),
    "a huge text": (b"kicked 1700000000000 " + b"x" * 1_000_000, "x" * 200),
    "a text that is not UTF-8": (b"kicked 1700000000000 caf\xe9\xff", "caf\ufffd\ufffd"),
    "far in the future": (b"kicked 999999999999999 late", "late"),
    "in 1970": (b"kicked 0 early", "early"),
}


@pytest.mark.parametrize(("note", "text"), FORGED.values(), ids=FORGED.keys())
def test_a_forged_note_tells_nothing_or_a_text_that_is_cut_and_cleaned(
    site, db, redis, new_session, note: bytes | None, text: str | None
) -> None:
    session = new_session("7")
    online.end(session.sid)
    name = keyspace().of_sid(session.sid).ended_of(session.sid)
    redis.delete(name)
    if note is None:
        redis.rpush(name, "kicked 1700000000000")
    else:
        redis.set(name, note)
    redis.expire(name, 60)
    ended = SessionStore(session.session_key).ended
    assert (ended and ended.message) == text
    browser = Visitor(Client())
    browser.cookie = session.session_key
    response = browser.get("/asks/")
    assert (response.status_code, HEADER in response) == (200, text is not None)
    if text is None:
        assert (response.content, shown(browser)) == (b"nothing", [])
    else:
        assert response.content.decode() == f"kicked|{text}"
        assert text_of(response[HEADER]) == text


# What the visitor is told.


def test_the_next_page_tells_once_in_words_of_each_reason(redis, browser, alice) -> None:
    said = set()
    # The last one is due, and still there.
    for end, reason, _ in (*WAYS.values(), (make_due, "expired", HOUR)):
        browser.sign_in(alice)
        end(redis, browser.sid)
        response = browser.get(view(browser, "shows"))
        assert (response[HEADER], is_gone(response)) == (reason, True)
        assert "Cookie" in response["Vary"]
        [message] = re.findall(r"\[(.+?)\]", response.content.decode())
        said.add(message)
        after = browser.get(view(browser, "shows"))
        assert (after.content, HEADER in after, list(after.cookies)) == (b"", False, [])
    assert len(said) == 4


def test_a_session_that_the_limit_has_ended_names_it_where_all_users_have_the_same(settings) -> None:
    notice = Notice(Reason.REPLACED, "", datetime.now(UTC))
    for limit, said in (
        (3, "because you reached the limit of 3 devices."),
        (1, "because you reached the limit of 1 device."),
        ("shop.people.sessions_of", "because you signed in elsewhere."),
        (None, "because you signed in elsewhere."),
    ):
        settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": limit}
        assert str(notice).endswith(said)


@pytest.mark.parametrize("key", [None, "", "a\r\nb" * 9, "x" * 100_000, "unknown" * 5])
def test_who_has_no_session_is_told_nothing(site, db, partitions, key: str | None) -> None:
    assert SessionStore(key).ended is None
    assert asyncio.run(SessionStore(key).aended()) is None
    client = Client() if key is None else Client(headers={"cookie": cookie_header("sessionid", key)})
    browser = Visitor(client)
    response = browser.get("/asks/")
    assert (response.status_code, response.content, HEADER in response) == (200, b"nothing", False)
    assert shown(browser) == []


def change_password(visitor: Visitor) -> None:
    user = User.objects.get()
    user.set_password("another")
    user.save()


def cycle_elsewhere(visitor: Visitor) -> None:
    session = SessionStore(visitor.cookie)
    session.cycle_key()
    session.save()


@pytest.mark.parametrize("leave", [lambda visitor: visitor.post("/logout/"), change_password, cycle_elsewhere])
def test_who_comes_with_a_cookie_of_before_is_told_nothing(visitor, leave) -> None:
    key = visitor.cookie
    leave(visitor)
    visitor.cookie = key
    response = visitor.get("/asks/")
    assert (response.content, HEADER in response) == (b"nothing", False)
    assert visitor.get("/").wsgi_request.user.is_anonymous
    assert shown(visitor) == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_no_text_forges_anything_in_its_line_the_header_or_the_page(visitor, text: str) -> None:
    online.end(visitor.sid, message=text)
    ended = SessionStore(visitor.cookie).ended
    assert ended.message.isprintable()
    # Letters and signs are all still there, in their order.
    assert re.sub(r"\W", "", ended.message) == re.sub(r"\W", "", text)
    response = visitor.get("/")
    assert text_of(response[HEADER]) == text_of(ended.header) == ended.message
    assert list(response.cookies) == ["sessionid"]
    content = response.content.decode()
    [message] = re.findall(r'<li class="warning">(.*)</li>', content)
    assert "<" not in message
    assert unescape(message) == f"Your session was ended. {ended.message}"


STORAGES = [f"django.contrib.messages.storage.{name}" for name in ("cookie.CookieStorage", "session.SessionStorage")]

storages = pytest.mark.parametrize("storage", STORAGES, ids=["cookie", "session"])


SITES: dict[str, tuple[type | None, dict[str, Any]]] = {
    "usual": (None, {}),
    "messages in sessions": (None, {"MESSAGE_STORAGE": STORAGES[1]}),
    "messages in both": (None, {"MESSAGE_STORAGE": "django.contrib.messages.storage.fallback.FallbackStorage"}),
    "reads early": (ReadsOnTheWayIn, {}),
    "reads early and answers": (Answers, {"MESSAGE_STORAGE": STORAGES[1]}),
    "reads on the way out": (ReadsOnTheWayOut, {"MESSAGE_STORAGE": STORAGES[1]}),
    "saves every request": (None, {"SESSION_SAVE_EVERY_REQUEST": True}),
    "passive": (None, {"REDSESS": {"PASSIVE_PATHS": ["/"]}}),
}

PAGES = {
    "/shows/": (200, True),
    "/shows-first/": (200, True),
    "/asks/": (200, True),
    # A view that leaves the session alone, or reads it once the answer has begun, tells nothing. The next one does.
    "/plain/": (200, False),
    "/stream/colour/": (200, False),
    "/passive/": (200, True),
    "/fails/": (500, True),
    "/answers-500/": (500, True),
    "/nothing-here/": (404, True),
    "/shows": (301, True),
    "/account/sessions/": (302, True),
    "/admin/": (302, True),
    "/async/shows/": (200, True),
    "/async/plain/": (200, False),
    "/async/fails/": (500, True),
}


# A page of each kind on every site; all others too where the site is the usual one.
FIRST = {"/shows/", "/plain/", "/async/fails/"}


# Where nothing else reads, the shop's own page for what is not found shows the message, and a redirect takes its place.
@pytest.mark.parametrize(
    ("site_is", "path"),
    [
        pytest.param(each, path, marks=[] if each == "usual" or path in FIRST | {"/shows"} else pytest.mark.slow)
        for each in SITES
        for path in PAGES
        if path != "/shows" or each == "reads early and answers"
    ],
)
def test_whatever_the_first_request_is_the_message_is_shown_exactly_once(
    site, alice, between_our_middleware_and_that_of_messages, site_is: str, path: str
) -> None:
    added, changes = SITES[site_is]
    for name, value in changes.items():
        setattr(site, name, {**site.REDSESS, **value} if name == "REDSESS" else value)
    if added is not None:
        between_our_middleware_and_that_of_messages(added)
    visitor = Visitor(AsyncClient() if path.startswith("/async/") else Client())
    visitor.sign_in(alice)
    online.end(visitor.sid, message="Bye 👋 & <b>.")
    response = visitor.get(f"{path}?closed")
    told = HEADER in response
    if site_is in ("usual", "passive"):
        assert (response.status_code, told) == PAGES[path]
        assert not told or response[HEADER].startswith("kicked; ")
        assert is_gone(response) == told
    pages = [b"".join(response.streaming_content) if response.streaming else response.content]
    pages += [visitor.get(response.get("Location", "/login/")).content]
    pages += [visitor.get(view(visitor, "shows")).content for _ in range(2)]
    words = "Your session was ended. Bye 👋 &amp; &lt;b&gt;."
    assert [page.decode().count(words) for page in pages].count(1) == 1
    assert "".join(page.decode() for page in pages).count(words) == 1


def test_after_a_head_request_the_next_page_tells(visitor) -> None:
    online.end(visitor.sid)
    response = visitor.client.head("/asks/")
    assert (response.content, response[HEADER], is_gone(response)) == (b"", "kicked", True)
    assert shown(visitor) == ["warning: Your session was ended."]


@pytest.mark.parametrize("reads_early", [False, True], ids=["", "where another middleware reads first"])
@pytest.mark.parametrize("has", ["none", "errors only"])
def test_a_site_that_shows_no_messages_has_the_header(
    browser, site, between_our_middleware_and_that_of_messages, reads_early: bool, has: str
) -> None:
    if reads_early:
        between_our_middleware_and_that_of_messages(ReadsOnTheWayIn)
    if has == "none":
        site.MIDDLEWARE = [name for name in site.MIDDLEWARE if "messages" not in name]
        site.INSTALLED_APPS = [name for name in site.INSTALLED_APPS if name != "django.contrib.messages"]
    else:
        site.MESSAGE_LEVEL = messages.ERROR
    online.end(browser.sid)
    response = browser.get(view(browser, "asks"))
    assert (response.status_code, response.content, response[HEADER]) == (200, b"kicked|", "kicked")
    assert is_gone(response)


@pytest.mark.parametrize("reads_early", [False, True], ids=["", "where another middleware reads first"])
def test_it_is_told_in_the_language_of_the_visitor(
    visitor, site, alice, between_our_middleware_and_that_of_messages, reads_early: bool
) -> None:
    # The demo's own follows the browser in the admin only.
    site.MIDDLEWARE = [name for name in site.MIDDLEWARE if not name.endswith("LocaleMiddleware")]
    between_our_middleware_and_that_of_messages(LocaleMiddleware)
    if reads_early:
        between_our_middleware_and_that_of_messages(ReadsOnTheWayIn)
    for language in ("de", "fr", "en"):
        with translation.override(language):
            said = translation.gettext("Your session was ended.")
        assert (said == "Your session was ended.") == (language == "en")
        visitor.sign_in(alice)
        online.end(visitor.sid, message="Bye.")
        response = visitor.get("/shows/", headers={"Accept-Language": language})
        assert response.content.decode() == f"[warning: {said} Bye.]"


def test_with_djangos_middleware_the_session_tells_and_there_is_no_message(browser, site) -> None:
    site.MIDDLEWARE = [
        name.replace(OURS, "django.contrib.sessions.middleware.SessionMiddleware") for name in site.MIDDLEWARE
    ]
    online.end(browser.sid, message="Bye.")
    response = browser.get(view(browser, "asks"))
    assert (response.content, HEADER in response, is_gone(response)) == (b"kicked|Bye.", False, True)
    assert shown(browser) == []


@pytest.mark.parametrize("told_first", [False, True])
def test_who_signs_in_with_the_cookie_of_an_ended_session_gets_a_new_one(
    visitor, partitions, alice, told_first: bool
) -> None:
    visitor.sign_in(alice)
    key = visitor.cookie
    online.end(visitor.sid)
    if told_first:
        assert "Your session was ended." in visitor.get("/login/").content.decode()
    response = visitor.post("/login/", {"username": "alice", "password": "secret"})
    assert (response.status_code, HEADER in response, visitor.cookie == key) == (302, False, False)
    response = visitor.get("/asks/")
    assert (response.content, HEADER in response) == (b"nothing", False)
    assert SessionStore(visitor.cookie).ended is None
    assert [session.user_id for session in online.sessions()] == [str(alice.pk)]
    assert shown(visitor) == []


@storages
@pytest.mark.parametrize("ended", ["this session", "one elsewhere"])
def test_another_user_who_signs_in_over_the_cookie_is_not_told(visitor, site, alice, storage: str, ended: str) -> None:
    site.MESSAGE_STORAGE = storage
    User.objects.create_user("bob", password="secret")
    online.end(visitor.sid if ended == "this session" else another(visitor, alice).sid, message="Alice, call me.")
    response = visitor.post("/login/", {"username": "bob", "password": "secret"})
    assert (response.status_code, HEADER in response) == (302, False)
    response = visitor.get("/asks/")
    assert (response.content, HEADER in response) == (b"nothing", False)
    assert shown(visitor) == []


def test_a_guest_who_writes_after_being_told_gets_a_session_of_a_guest(browser) -> None:
    online.end(browser.sid)
    response = browser.get(view(browser, "write/colour/red"))
    assert (response.status_code, response[HEADER]) == (200, "kicked")
    session = SessionStore(browser.cookie)
    assert (session.get("colour"), SESSION_KEY in session, session.ended) == ("red", False, None)
    assert shown(browser) == ["warning: Your session was ended."]
    assert browser.get(view(browser, "asks")).content == b"nothing"


# What the user is told elsewhere: in other sessions, and at the next sign-in.


ELSEWHERE = "warning: One of your sessions was ended. Call us."


def another(browser: Visitor, user: User | None = None) -> Visitor:
    """A visitor over the same interface, signed in as this user if one is given."""
    visitor = Visitor(type(browser.client)())
    if user is not None:
        visitor.sign_in(user)
    return visitor


@pytest.mark.on_cluster
def test_other_sessions_of_the_user_and_the_next_sign_in_are_told_once_and_nobody_else(
    browser, alice, redis, partitions
) -> None:
    other, bob = another(browser, alice), another(browser, User.objects.create_user("bob"))
    assert len(online.end(browser.sid, message="Call us.")) == 1
    assert [shown(other) for _ in range(2)] == [[ELSEWHERE], []]
    assert shown(bob) == []
    assert shown(browser) == ["warning: Your session was ended. Call us."]
    # A new key for a session that goes on is no sign-in.
    assert other.get(view(other, "cycle")).status_code == 200
    for expected in ([ELSEWHERE], []):
        later = another(browser)
        for name, told in (("bob", [[], []]), ("alice", [expected, []])):
            assert later.post(view(later, f"sign-in/{name}")).status_code == 200
            assert [shown(later) for _ in range(2)] == told


KICKS = {
    "end": lambda sid, user, kept: online.end(sid, message="Call us."),
    "aend": lambda sid, user, kept: asyncio.run(online.aend(sid, message="Call us.")),
    "end_user": lambda sid, user, kept: online.end_user(user, keep=kept, message="Call us."),
    "end_all": lambda sid, user, kept: online.end_all(keep=kept, message="Call us."),
    "aend_all": lambda sid, user, kept: asyncio.run(online.aend_all(keep=kept, message="Call us.")),
    "end_in_batches": lambda sid, user, kept: list(online.end_in_batches(keep_sids=[kept], message="Call us.")),
    "one by one": lambda sid, user, kept: BulkEnding(
        SessionFilter(), message="Call us.", choose=lambda sessions: [sid]
    ).end_within(),
}


@pytest.mark.parametrize("end", KICKS.values(), ids=KICKS.keys())
def test_each_kick_with_a_message_tells_here_and_elsewhere(visitor, alice, redis, partitions, end) -> None:
    other = another(visitor, alice)
    end(visitor.sid, alice, other.sid)
    assert SessionStore(visitor.cookie).ended[:2] == (Reason.KICKED, "Call us.")
    left = 0 < redis.pttl(keyspace().of_user(str(alice.pk)).message_of(str(alice.pk))) <= DAY
    assert (shown(other), left) == ([ELSEWHERE], True)


@pytest.mark.parametrize(
    "end",
    [
        lambda visitor, other, user: online.end(visitor.sid),
        lambda visitor, other, user: accounts.logout_everywhere(user, keep=other.sid, message="Call us."),
        # Who ends a session of one's own knows it.
        lambda visitor, other, user: other.post(f"/account/sessions/{visitor.sid}/end/"),
    ],
    ids=["no message", "no kick", "one's own"],
)
def test_other_ends_tell_nothing_elsewhere(visitor, alice, redis, end) -> None:
    other = another(visitor, alice)
    end(visitor, other, alice)
    assert online.count() == 1
    assert "One of your" not in "".join(shown(other))
    assert redis.keys("*:message:*") == []


def test_a_message_does_not_reach_a_session_that_has_another_user(redis, new_session, partitions) -> None:
    ended, kept, stranger = new_session("7"), new_session("7"), new_session("9")
    # What another program has put into a user's list.
    name = keyspace().of_user("7").online_user_of("7")
    redis.zadd(name, {stranger.sid: 1})
    online.end(ended.sid, message="Call us.")
    redis.zrem(name, stranger.sid)
    assert MESSAGE_KEY in dict(SessionStore(kept.session_key).items())
    assert MESSAGE_KEY not in dict(SessionStore(stranger.session_key).items())


def test_neither_the_message_nor_a_save_at_the_same_time_is_lost(browser, alice, meanwhile, monkeypatch) -> None:
    other = another(browser, alice)

    def kick_in_a_thread() -> None:
        # In this request, it would be one's own end.
        thread = Thread(target=online.end, args=[browser.sid], kwargs={"message": "Call us."})
        thread.start()
        thread.join()

    # The message comes while a request of the other session is under way.
    meanwhile(kick_in_a_thread)
    assert other.get(view(other, "write/colour/red")).status_code == 200
    assert (SessionStore(other.cookie).get("colour"), shown(other)) == ("red", [ELSEWHERE])
    # A save comes while the message is put into the session.
    colours = ["blue", "green"]

    def saving_first(record: bytes) -> bytes:
        if colours:
            session = SessionStore(other.cookie)
            session["colour"] = colours.pop(0)
            session.save()
        return revision_of(record)

    monkeypatch.setattr("django_redsess.session.messages.revision_of", saving_first)
    online.end(another(browser, alice).sid, message="Call us.")
    assert (SessionStore(other.cookie).get("colour"), ELSEWHERE in shown(other)) == ("green", True)


@storages
@pytest.mark.parametrize("added", [ReadsOnTheWayIn, ReadsOnTheWayOut, Answers, None])
def test_what_is_told_elsewhere_is_not_lost_wherever_the_session_is_read(
    browser, site, alice, between_our_middleware_and_that_of_messages, added: type | None, storage: str
) -> None:
    site.MESSAGE_STORAGE = storage
    site.SESSION_SAVE_EVERY_REQUEST = added is None
    if added is not None:
        between_our_middleware_and_that_of_messages(added)
    other = another(browser, alice)
    online.end(browser.sid, message="Call us.")
    other.get(f"{view(other, 'plain')}?closed")
    assert [shown(other) for _ in range(2)] == [[ELSEWHERE], []]


def test_an_end_in_the_middle_of_a_request_is_told_to_the_next(browser, meanwhile) -> None:
    sid = browser.sid
    meanwhile(lambda: online.end(sid, message="Bye."))
    response = browser.get(view(browser, "write/colour/red"))
    assert (response.status_code, HEADER in response, list(response.cookies)) == (400, False, [])
    assert shown(browser) == ["warning: Your session was ended. Bye."]
    assert shown(browser) == []
