"""
All ways in which a view may use the session of its request: each a view of ``urlpatterns``, which swallows any error.

``HeaderGuard`` takes a header for a proof. What a real proof is, tests of ``contrib/device_bound`` say.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import redis as redis_py
from asgiref.sync import iscoroutinefunction
from django.contrib.auth import alogin, login
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import CreateError
from django.http import HttpRequest, HttpResponse
from django.template import engines
from django.urls import path

from django_redsess import online, viewed
from django_redsess.accounts import logout_everywhere
from django_redsess.backend import SessionStore
from django_redsess.contrib.sockets import ends
from django_redsess.exceptions import SessionNotProven
from django_redsess.locking import one_at_a_time
from django_redsess.responses import with_problem_details
from django_redsess.session.binding import Binding
from tests.helpers.store import sid_of

BINDING = Binding(b"\x00binding", 1_790_000_001_000, 1_790_000_601_000, b"\x02" + b"\x7f" * 32)
PROOF = {"X-Proof": BINDING.id.hex()}
REFUSED = b"Prove that this is your device."


def refuse(request: HttpRequest) -> HttpResponse:
    return HttpResponse(REFUSED, status=401)


class HeaderGuard:
    """Takes the id of the binding in the header ``X-Proof`` for a proof. Without it, a sign-in page is for nobody."""

    def prepare(self, request: HttpRequest, session: SessionStore) -> None:
        pass

    def claim(self, request: Any) -> bytes:
        return bytes.fromhex(request.headers.get("X-Proof", ""))

    def admits(self, session: SessionStore, request: Any, sid: str, record: Any, now: int) -> bool:
        if Binding.unpack(record.binding).id == self.claim(request):
            return True
        if "as-nobody" in request.GET:
            return False
        error = SessionNotProven("no proof")
        error.respond = refuse
        raise error


View = Callable[[HttpRequest], Any]
WAYS: dict[str, View] = {}


def way(view: View) -> View:
    """Add a way in which a view may use the session of its request."""
    WAYS[view.__name__] = view
    return view


def key_of(request: HttpRequest) -> str:
    """The session key that the request brings."""
    return request.COOKIES.get("sessionid") or request.headers["X-Session"]


def own_sid(request: HttpRequest) -> str:
    return sid_of(key_of(request))


def made(request: HttpRequest) -> SessionStore:
    """A session object that the view has made for the key."""
    engine: type[SessionStore] = type(request.session)
    return engine(key_of(request))


SIMPLE: dict[str, Callable[[Any], Any]] = {
    "reads": lambda session: session.get("colour"),
    "writes": lambda session: session.update({"colour": "red"}),
    "looks for a key": lambda session: "colour" in session,
    "lists": lambda session: list(session.items()),
    "removes": lambda session: session.pop("colour", None),
    "sets an expiry": lambda session: session.set_expiry(300),
    "asks for the expiry": lambda session: session.get_expiry_age(),
    "loads": lambda session: session.load(),
    "saves": lambda session: session.save(),
    "rotates": lambda session: session.cycle_key(),
    "ends copies": lambda session: session.end_copies(),
    "flushes": lambda session: session.flush(),
    "deletes": lambda session: session.delete(),
    "asks why it ended": lambda session: session.ended,
    "clears, saves": lambda session: (session.clear(), session.save()),
    "clears, rotates, saves": lambda session: (session.clear(), session.cycle_key(), session.save()),
    "clears, ends copies, saves": lambda session: (session.clear(), session.end_copies(), session.save()),
    "clears, flushes": lambda session: (session.clear(), session.flush()),
    "clears, deletes": lambda session: (session.clear(), session.delete()),
    "clears, binds, saves": lambda session: (session.clear(), session.bind(BINDING), session.save()),
    "clears, becomes another": lambda session: (
        session.clear(),
        session.update({"_auth_user_id": "8"}),
        session.save(),
    ),
    "signs out, flushes": lambda session: (session.signed_out(), session.flush()),
    "abandons, reads": lambda session: (session.abandon(), session.get("colour")),
    "views": lambda session: viewed.record(session, "lamp"),
    "lists views": lambda session: viewed.recent(session),
    "forgets views": lambda session: viewed.forget(session),
}
"""Of a session object: that of the request, and one that the view has made."""

AWAITED: dict[str, Callable[[Any], list[Awaitable[Any]]]] = {
    "reads": lambda session: [session.aget("colour")],
    "writes": lambda session: [session.aset("colour", "red")],
    "loads": lambda session: [session.aload()],
    "saves": lambda session: [session.asave()],
    "rotates": lambda session: [session.acycle_key()],
    "ends copies": lambda session: [session.aend_copies()],
    "flushes": lambda session: [session.aflush()],
    "deletes": lambda session: [session.adelete()],
    "asks why it ended": lambda session: [session.aended()],
    "views": lambda session: [viewed.arecord(session, "lamp")],
    "lists views": lambda session: [viewed.arecent(session)],
    "forgets views": lambda session: [viewed.aforget(session)],
}
"""The same, awaited. Each is tried with a session whose data were cleared before, too."""


def _add_ways() -> None:
    for name, use in SIMPLE.items():
        WAYS[name] = lambda request, use=use: use(request.session)
        WAYS[f"{name}, made"] = lambda request, use=use: use(made(request))
    for name, awaited in AWAITED.items():

        async def of_request(request: HttpRequest, awaited: Any = awaited) -> None:
            [each] = awaited(request.session)
            await each

        async def of_made(request: HttpRequest, awaited: Any = awaited) -> None:
            [each] = awaited(made(request))
            await each

        WAYS[f"async, {name}"], WAYS[f"async, {name}, made"] = of_request, of_made


_add_ways()


@way
def changes_without_reading(request: HttpRequest) -> None:
    request.session.modified = True


@way
def clears(request: HttpRequest) -> None:
    request.session.clear()
    request.session["colour"] = "red"


@way
def deletes_own_key(request: HttpRequest) -> None:
    request.session.delete(key_of(request))


@way
def deletes_own_key_by_another_object(request: HttpRequest) -> None:
    type(request.session)().delete(key_of(request))


@way
async def deletes_own_key_async(request: HttpRequest) -> None:
    await type(request.session)().adelete(key_of(request))


@way
def lists_views_by_sid(request: HttpRequest) -> None:
    viewed.recent(own_sid(request))


@way
async def lists_views_by_sid_async(request: HttpRequest) -> None:
    await viewed.arecent(own_sid(request))


@way
def forgets_views_by_sid(request: HttpRequest) -> None:
    viewed.forget(own_sid(request))


@way
async def forgets_views_by_sid_async(request: HttpRequest) -> None:
    await viewed.aforget(own_sid(request), "lamp")


@way
def is_found(request: HttpRequest) -> None:
    online.find([own_sid(request)])


@way
async def is_found_async(request: HttpRequest) -> None:
    await online.afind([own_sid(request)])


@way
def is_got(request: HttpRequest) -> None:
    online.get(own_sid(request))


@way
async def is_got_async(request: HttpRequest) -> None:
    await online.aget(own_sid(request))


@way
def tells_details(request: HttpRequest) -> None:
    online.details(own_sid(request))


@way
async def tells_details_async(request: HttpRequest) -> None:
    await online.adetails(own_sid(request))


@way
def kicks_itself(request: HttpRequest) -> None:
    online.end(own_sid(request), message="Bye")


@way
async def kicks_itself_async(request: HttpRequest) -> None:
    await online.aend(own_sid(request))


@way
@one_at_a_time()
def waits_for_its_turn(request: HttpRequest) -> None:
    """The session is not used."""


@way
@one_at_a_time()
async def waits_for_its_turn_async(request: HttpRequest) -> None:
    """The session is not used."""


@way
async def watches(request: HttpRequest) -> None:
    async with ends(request.session):
        pass


@way
async def watches_made(request: HttpRequest) -> None:
    async with ends(made(request)):
        pass


@way
async def watches_by_sid(request: HttpRequest) -> None:
    async with ends(own_sid(request)) as watched:
        watched.used()


@way
def renders(request: HttpRequest) -> None:
    template = engines["django"].from_string("{{ request.session.colour }}{{ request.user.username }}")
    with suppress(SessionNotProven):
        template.render({"request": request}, request)


@way
def signs_in(request: HttpRequest) -> None:
    login(request, User.objects.get(username="bob"), "django.contrib.auth.backends.ModelBackend")


@way
def clears_and_signs_in(request: HttpRequest) -> None:
    request.session.clear()
    signs_in(request)


@way
async def signs_in_async(request: HttpRequest) -> None:
    user = await User.objects.aget(username="bob")
    await alogin(request, user, "django.contrib.auth.backends.ModelBackend")


def swallowed(request: HttpRequest) -> tuple[type[Exception], ...]:
    return () if "raises" in request.GET else (Exception,)


def answer_to(use: View) -> View:
    """Return the view that uses its session in this way, and swallows exceptions, unless its URL says raises."""
    if iscoroutinefunction(use):

        async def aview(request: HttpRequest) -> HttpResponse:
            with suppress(*swallowed(request)):
                await use(request)
            return HttpResponse("done")

        return aview

    def view(request: HttpRequest) -> HttpResponse:
        with suppress(*swallowed(request)):
            use(request)
        return HttpResponse("done")

    return view


PATHS = {name: f"{name.replace(' ', '-').replace(',', '')}/" for name in WAYS}


def nothing(request: HttpRequest) -> None:
    """A page without a session."""


def notes_a_view(request: HttpRequest) -> None:
    request.session.note_view("lamp")  # type: ignore[attr-defined]


def creates(request: HttpRequest) -> None:
    request.session.create()


def saves_anew(request: HttpRequest) -> None:
    with suppress(CreateError):
        made(request).save(must_create=True)


def exists(request: HttpRequest) -> None:
    assert request.session.exists(key_of(request))


def signs_out_everywhere(request: HttpRequest) -> None:
    """By a link in a mail, say: the session is not used."""
    logout_everywhere(User.objects.get(username="bob"))


OTHERS = (nothing, notes_a_view, creates, saves_anew, exists, signs_out_everywhere)

urlpatterns = [
    *(path(PATHS[name], answer_to(use)) for name, use in WAYS.items()),
    *(path(f"{use.__name__}/", answer_to(use)) for use in OTHERS),
    path("signs_in_by_api/", with_problem_details(answer_to(signs_in))),
]


class FindsByHeader:
    """A middleware of the site: the header X-Session has the key."""

    def __init__(self, get_response: Any) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> Any:
        if key := request.headers.get("X-Session"):
            request.session = type(request.session)(key)
        return self.get_response(request)


def contents(redis: redis_py.Redis) -> dict[bytes, Any]:
    """Everything that is stored, and when it expires."""
    return {name: (redis.dump(name), redis.pexpiretime(name)) for name in redis.keys()}


def contents_of(redis: redis_py.Redis, sid: str) -> dict[bytes, Any]:
    """Everything that is stored about one session."""
    readers = {
        b"hash": lambda name: redis.hget(name, sid),
        b"zset": lambda name: redis.zscore(name, sid),
    }
    found = {name: readers.get(redis.type(name), lambda name: None)(name) for name in redis.keys()}
    named = {name: redis.dump(name) for name in redis.keys() if sid.encode() in name}
    return {name: value for name, value in found.items() if value is not None} | named
