"""Views that read the session, change it, or sign users in who are in the table; sync and async side by side."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, alogin, alogout, get_user_model, login, logout
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.views.decorators.csrf import csrf_exempt

from django_redsess.forms import SessionLimitAuthenticationForm
from django_redsess.middleware import passive
from django_redsess.session.notice import Notice
from tests.helpers.site.meanwhile import meanwhile

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


# Reading.


def page(source: str, request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, engines["django"].from_string(source))


def plain(request: HttpRequest) -> HttpResponse:
    """An answer that has nothing to do with the session."""
    return HttpResponse("plain")


async def aplain(request: HttpRequest) -> HttpResponse:
    return HttpResponse("plain")


def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username() or "nobody")


@passive
def passive_who(request: HttpRequest) -> HttpResponse:
    return who(request)


async def awho(request: HttpRequest) -> HttpResponse:
    user = await request.auser()
    return HttpResponse(user.get_username() or "nobody")


def user_id(request: HttpRequest) -> HttpResponse:
    """Who is signed in, without a look into the user table."""
    return HttpResponse(request.session.get(SESSION_KEY, "nobody"))


async def auser_id(request: HttpRequest) -> HttpResponse:
    return HttpResponse(await request.session.aget(SESSION_KEY, "nobody"))


def deferred(request: HttpRequest) -> HttpResponse:
    return page("{{ user.username|default:'nobody' }}", request)


def condition(request: HttpRequest) -> HttpResponse:
    """A page that takes an error in a condition for a no, as templates do where there is an operator."""
    return page("{% if user.is_authenticated and user.username %}alice{% else %}nobody{% endif %}", request)


def swallowed(request: HttpRequest) -> HttpResponse:
    """A view that takes any error for a no."""
    try:
        return HttpResponse(request.user.get_username() or "nobody")
    except Exception:
        return HttpResponse("nobody")


def fails_by_it(request: HttpRequest) -> HttpResponse:
    """A view that makes an error of its own of any error."""
    try:
        return HttpResponse(request.user.get_username() or "nobody")
    except Exception as error:
        raise RuntimeError from error


def stream(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """Read the session after the answer has begun."""

    def parts() -> Iterator[str]:
        yield "begun, "
        yield request.session.get(key, "nothing")

    return StreamingHttpResponse(parts())


def read(request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(str(request.session.get(key, "")))


async def aread(request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(str(await request.session.aget(key, "")))


def late(request: HttpRequest) -> HttpResponse:
    """Look who is signed in, and take long for the answer."""
    request.user.get_username()
    meanwhile(request)
    return HttpResponse("late")


def waits(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    return HttpResponse("done")


def fails(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    raise RuntimeError("as the test wants it")


async def afails(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    raise RuntimeError("as the test wants it")


def answers_500(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    return HttpResponse("broken", status=500)


# Writing.


def form(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        request.session["colour"] = request.POST["colour"]
        return HttpResponse("done")
    return page("<form>{% csrf_token %}</form>", request)


@csrf_exempt
def write(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and leave the saving to the middleware."""
    request.session.get(key)
    meanwhile(request)
    request.session[key] = value
    return HttpResponse("done")


@csrf_exempt
async def awrite(request: HttpRequest, key: str, value: str) -> HttpResponse:
    await request.session.aget(key)
    meanwhile(request)
    await request.session.aset(key, value)
    return HttpResponse("done")


@csrf_exempt
def nest(request: HttpRequest, depth: int) -> HttpResponse:
    """Put lists into the session, so many in each other."""
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    request.session["nested"] = nested
    return HttpResponse("done")


@csrf_exempt
async def anest(request: HttpRequest, depth: int) -> HttpResponse:
    return nest(request, depth)


@csrf_exempt
def write_and_save(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and save it at once."""
    request.session.get(key)
    meanwhile(request)
    request.session[key] = value
    request.session.save()
    return HttpResponse("done")


@csrf_exempt
async def awrite_and_save(request: HttpRequest, key: str, value: str) -> HttpResponse:
    await request.session.aget(key)
    meanwhile(request)
    await request.session.aset(key, value)
    await request.session.asave()
    return HttpResponse("done")


@csrf_exempt
def write_and_swallow(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, save it at once, and take any error for a success."""
    request.session.get(key)
    meanwhile(request)
    request.session[key] = value
    with suppress(Exception):
        request.session.save()
    return HttpResponse("done")


def swap(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session; return what was there."""
    before = request.session.get(key, "nothing")
    request.session[key] = value
    return HttpResponse(before)


def synchronous(request: HttpRequest) -> HttpResponse:
    """Write, and say who is signed in."""
    request.session["by a synchronous view"] = 1
    return HttpResponse(request.user.get_username())


async def aboth(request: HttpRequest) -> HttpResponse:
    """Write by index and awaited, and say who is signed in."""
    request.session["by index"] = 1
    await request.session.aset("awaited", 1)
    return HttpResponse((await request.auser()).get_username())


@csrf_exempt
def cycle(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    request.session.cycle_key()
    return HttpResponse("done")


@csrf_exempt
async def acycle(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    meanwhile(request)
    await request.session.acycle_key()
    return HttpResponse("done")


# Signing in and out.


def users(names: str) -> list[Any]:
    return [get_user_model().objects.get(username=name) for name in names.split("+")]


@csrf_exempt
@login_not_required
def sign_in(request: HttpRequest, names: str) -> HttpResponse:
    """Sign in all of these users, one after the other."""
    found = users(names)
    request.session.get("colour")
    meanwhile(request)
    for user in found:
        login(request, user, MODEL_BACKEND)
    return HttpResponse("in")


@csrf_exempt
async def asign_in(request: HttpRequest, names: str) -> HttpResponse:
    found = await sync_to_async(users)(names)
    await request.session.aget("colour")
    meanwhile(request)
    for user in found:
        await alogin(request, user, MODEL_BACKEND)
    return HttpResponse("in")


@csrf_exempt
def sign_in_by_form(request: HttpRequest) -> HttpResponse:
    form = SessionLimitAuthenticationForm(request, request.POST)
    if form.is_valid():
        login(request, form.get_user())
        return HttpResponse("done")
    return HttpResponse(" ".join(form.non_field_errors()))


@csrf_exempt
def sign_out(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    logout(request)
    return HttpResponse("out")


@csrf_exempt
async def asign_out(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    meanwhile(request)
    await alogout(request)
    return HttpResponse("out")


def rendered(source: str, request: HttpRequest) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(source).render({}, request))


def who_and_messages(request: HttpRequest) -> HttpResponse:
    """Who is signed in, and all messages."""
    return rendered(
        "{{ user.username|default:'nobody' }}{% for message in messages %}|{{ message }}{% endfor %}", request
    )


def shows(request: HttpRequest) -> HttpResponse:
    """A page that knows its user, and shows the messages."""
    request.session.get("colour")
    return rendered("{% for message in messages %}[{{ message.level_tag }}: {{ message }}]{% endfor %}", request)


async def ashows(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    return rendered("{% for message in messages %}[{{ message.level_tag }}: {{ message }}]{% endfor %}", request)


def shows_first(request: HttpRequest) -> HttpResponse:
    """A page that shows the messages before it knows its user."""
    return rendered("{% for message in messages %}[{{ message }}]{% endfor %}{{ request.session.colour }}", request)


def text_of(notice: Notice | None) -> str:
    return f"{notice.reason}|{notice.message}" if notice else "nothing"


def asks(request: HttpRequest) -> HttpResponse:
    """Show what the session knows of its end."""
    return HttpResponse(text_of(request.session.ended))


async def aasks(request: HttpRequest) -> HttpResponse:
    return HttpResponse(text_of(await request.session.aended()))


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


def edits(request: HttpRequest, how: str) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    EDITS[how](request.session)
    return HttpResponse("done")
