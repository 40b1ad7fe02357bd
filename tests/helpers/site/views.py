"""Views that read the session, change it, or sign users in who are in the table."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from django.contrib import auth
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.template import engines
from django.template.response import TemplateResponse
from django.views.decorators.csrf import csrf_exempt

from django_redsess.accounts.forms import SessionLimitAuthenticationForm
from django_redsess.middleware import passive
from tests.helpers.both import Ask, both
from tests.helpers.site.meanwhile import meanwhile

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


# Reading.


def page(source: str, request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, engines["django"].from_string(source))


@both
async def plain(ask: Ask, request: HttpRequest) -> HttpResponse:
    """An answer that has nothing to do with the session."""
    return HttpResponse("plain")


@both
async def who(ask: Ask, request: HttpRequest) -> HttpResponse:
    return HttpResponse((await ask(request, "user")).get_username() or "nobody")


@passive
def passive_who(request: HttpRequest) -> HttpResponse:
    return who(request)


@both
async def user_id(ask: Ask, request: HttpRequest) -> HttpResponse:
    """Who is signed in, without a look into the user table."""
    return HttpResponse(await ask(request.session, "get", SESSION_KEY, "nobody"))


def deferred(request: HttpRequest) -> HttpResponse:
    return page("{{ user.username|default:'nobody' }}", request)


def condition(request: HttpRequest) -> HttpResponse:
    """A page that takes an error in a condition for a no, as templates do where there is an operator."""
    return page("{% if user.is_authenticated and user.username %}alice{% else %}nobody{% endif %}", request)


def swallowed(request: HttpRequest) -> HttpResponse:
    """A view that takes any error for a no."""
    with suppress(Exception):
        return who(request)
    return HttpResponse("nobody")


def fails_by_it(request: HttpRequest) -> HttpResponse:
    """A view that makes an error of its own of any error."""
    try:
        return who(request)
    except Exception as error:
        raise RuntimeError from error


def stream(request: HttpRequest, key: str) -> StreamingHttpResponse:
    """Read the session after the answer has begun."""

    def parts() -> Iterator[str]:
        yield "begun, "
        yield request.session.get(key, "nothing")

    return StreamingHttpResponse(parts())


@both
async def read(ask: Ask, request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(str(await ask(request.session, "get", key, "")))


def late(request: HttpRequest) -> HttpResponse:
    """Look who is signed in, and take long for the answer."""
    request.user.get_username()
    meanwhile(request)
    return HttpResponse("late")


def waits(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    return HttpResponse("done")


@both
async def fails(ask: Ask, request: HttpRequest) -> HttpResponse:
    await ask(request.session, "get", "colour")
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


@both
async def write(ask: Ask, request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and leave the saving to the middleware."""
    await ask(request.session, "get", key)
    meanwhile(request)
    await ask(request.session, "update", {key: value})
    return HttpResponse("done")


@both
async def nest(ask: Ask, request: HttpRequest, depth: int) -> HttpResponse:
    """Put lists into the session, so many in each other."""
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    request.session["nested"] = nested
    return HttpResponse("done")


@both
async def write_and_save(ask: Ask, request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and save it at once."""
    await ask(request.session, "get", key)
    meanwhile(request)
    await ask(request.session, "update", {key: value})
    await ask(request.session, "save")
    return HttpResponse("done")


@csrf_exempt
def write_and_swallow(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, save it at once, and take any error for a success."""
    with suppress(Exception):
        write_and_save(request, key=key, value=value)
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


@both
async def cycle(ask: Ask, request: HttpRequest) -> HttpResponse:
    await ask(request.session, "get", "colour")
    meanwhile(request)
    await ask(request.session, "cycle_key")
    return HttpResponse("done")


# Signing in and out.


@both
@login_not_required
async def sign_in(ask: Ask, request: HttpRequest, names: str) -> HttpResponse:
    """Sign in all of these users, one after the other."""
    found = [await ask(get_user_model().objects, "get", username=name) for name in names.split("+")]
    await ask(request.session, "get", "colour")
    meanwhile(request)
    for user in found:
        await ask(auth, "login", request, user, MODEL_BACKEND)
    return HttpResponse("in")


@csrf_exempt
def sign_in_by_form(request: HttpRequest) -> HttpResponse:
    form = SessionLimitAuthenticationForm(request, request.POST)
    if form.is_valid():
        auth.login(request, form.get_user())
        return HttpResponse("done")
    return HttpResponse(" ".join(form.non_field_errors()))


@both
async def sign_out(ask: Ask, request: HttpRequest) -> HttpResponse:
    await ask(request.session, "get", "colour")
    meanwhile(request)
    await ask(auth, "logout", request)
    return HttpResponse("out")


def rendered(source: str, request: HttpRequest) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(source).render({}, request))


def who_and_messages(request: HttpRequest) -> HttpResponse:
    """Who is signed in, and all messages."""
    return rendered(
        "{{ user.username|default:'nobody' }}{% for message in messages %}|{{ message }}{% endfor %}", request
    )


@both
async def shows(ask: Ask, request: HttpRequest) -> HttpResponse:
    """A page that knows its user, and shows the messages."""
    await ask(request.session, "get", "colour")
    return rendered("{% for message in messages %}[{{ message.level_tag }}: {{ message }}]{% endfor %}", request)


def shows_first(request: HttpRequest) -> HttpResponse:
    """A page that shows the messages before it knows its user."""
    return rendered("{% for message in messages %}[{{ message }}]{% endfor %}{{ request.session.colour }}", request)


@both
async def asks(ask: Ask, request: HttpRequest) -> HttpResponse:
    """Show what the session knows of its end."""
    notice = await ask(request.session, "ended")
    return HttpResponse(f"{notice.reason}|{notice.message}" if notice else "nothing")


def id_of(name: str) -> int:
    pk: int = User.objects.get(username=name).pk
    return pk


def to(value: Callable[[], Any], key: str = SESSION_KEY) -> Callable[[Any], None]:
    return lambda session: session.update({key: value()})


def deleted(session: Any) -> None:
    del session[SESSION_KEY]


EDITS: dict[str, Callable[[Any], None]] = {
    "to_bob": to(lambda: str(id_of("bob"))),
    "to_carol": to(lambda: str(id_of("carol"))),
    "to_bob_as_a_number": to(lambda: id_of("bob")),
    "to_a_number": to(lambda: id_of("alice")),
    "to_none": to(lambda: None),
    "deleted": deleted,
    "another_hash": to(lambda: "another", HASH_SESSION_KEY),
}


def edits(request: HttpRequest, how: str) -> HttpResponse:
    request.session.get("colour")
    meanwhile(request)
    EDITS[how](request.session)
    return HttpResponse("done")
