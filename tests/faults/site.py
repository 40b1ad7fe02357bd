"""
A small site for the tests of faults: its URLs, views and middleware. The fixture ``site`` puts it in place.

Plain text answers, nothing but the session and the user; what needs no user table says so. Each view that changes the
session calls ``meanwhile`` between reading and changing it: a test puts there what happens in the meantime (fixture
``meanwhile``). Below ``async/`` is the same as asynchronous views.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from asgiref.sync import sync_to_async
from django.contrib.auth import SESSION_KEY, alogin, alogout, get_user_model, login, logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.response import HttpResponseBase
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.deprecation import MiddlewareMixin
from django.views.decorators.csrf import csrf_exempt

from django_redsess import viewed
from tests.support.meanwhile import Meanwhile

meanwhile = Meanwhile()


class ReadsOnTheWayIn(MiddlewareMixin):
    """A middleware that reads the session before the view."""

    def process_request(self, request: HttpRequest) -> None:
        request.session.get("colour")


class ReadsOnTheWayOut(MiddlewareMixin):
    """A middleware that reads the session after the view."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        request.session.get("colour")
        return response


def page(source: str, request: HttpRequest) -> TemplateResponse:
    return TemplateResponse(request, engines["django"].from_string(source))


def plain(request: HttpRequest) -> HttpResponse:
    """An answer that has nothing to do with the session."""
    return HttpResponse("plain")


def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username() or "nobody")


def user_id(request: HttpRequest) -> HttpResponse:
    """Who is signed in, without a look into the user table."""
    return HttpResponse(request.session.get(SESSION_KEY, "nobody"))


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


def stream(request: HttpRequest) -> StreamingHttpResponse:
    """Read the session after the answer has begun."""

    def parts() -> Iterator[str]:
        yield "begun, "
        yield request.session.get(SESSION_KEY, "nobody")

    return StreamingHttpResponse(parts())


def form(request: HttpRequest) -> HttpResponse:
    if request.method == "POST":
        request.session["colour"] = request.POST["colour"]
        return HttpResponse("done")
    return page("<form>{% csrf_token %}</form>", request)


def read(request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(str(request.session.get(key, "")))


@csrf_exempt
def write(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and leave the saving to the middleware."""
    request.session.get(key)
    meanwhile()
    request.session[key] = value
    return HttpResponse("done")


@csrf_exempt
def write_and_save(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, and save it at once."""
    request.session.get(key)
    meanwhile()
    request.session[key] = value
    request.session.save()
    return HttpResponse("done")


@csrf_exempt
def write_and_swallow(request: HttpRequest, key: str, value: str) -> HttpResponse:
    """Change the session, save it at once, and take any error for a success."""
    request.session.get(key)
    meanwhile()
    request.session[key] = value
    with suppress(Exception):
        request.session.save()
    return HttpResponse("done")


@csrf_exempt
@login_not_required
def sign_in(request: HttpRequest, name: str) -> HttpResponse:
    user = get_user_model().objects.get(username=name)
    request.session.get("colour")
    meanwhile()
    login(request, user)
    return HttpResponse("done")


@csrf_exempt
def sign_out(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile()
    logout(request)
    return HttpResponse("done")


@csrf_exempt
def cycle(request: HttpRequest) -> HttpResponse:
    request.session.get("colour")
    meanwhile()
    request.session.cycle_key()
    return HttpResponse("done")


def item_for_somebody(request: HttpRequest, slug: str) -> HttpResponse:
    """View an item, on a page that takes an error for nobody being signed in. The middleware records it."""
    return condition(request)


def item(request: HttpRequest, slug: str) -> HttpResponse:
    """View an item: the middleware records it (``REDSESS["VIEWED_VIEWS"]``)."""
    return HttpResponse(slug)


def item_and_write(request: HttpRequest, slug: str) -> HttpResponse:
    """View an item, and change the session."""
    request.session["last"] = slug
    return HttpResponse(slug)


def item_and_cycle(request: HttpRequest, slug: str) -> HttpResponse:
    """View an item, change the session and give it another key."""
    request.session["last"] = slug
    request.session.cycle_key()
    return HttpResponse(slug)


def item_by_view(request: HttpRequest, slug: str) -> HttpResponse:
    """View an item that the view itself records."""
    return HttpResponse(str(viewed.record(request.session, slug)))


async def awho(request: HttpRequest) -> HttpResponse:
    user = await request.auser()
    return HttpResponse(user.get_username() or "nobody")


async def auser_id(request: HttpRequest) -> HttpResponse:
    return HttpResponse(await request.session.aget(SESSION_KEY, "nobody"))


async def aread(request: HttpRequest, key: str) -> HttpResponse:
    return HttpResponse(str(await request.session.aget(key, "")))


@csrf_exempt
async def awrite(request: HttpRequest, key: str, value: str) -> HttpResponse:
    await request.session.aget(key)
    meanwhile()
    await request.session.aset(key, value)
    return HttpResponse("done")


@csrf_exempt
async def awrite_and_save(request: HttpRequest, key: str, value: str) -> HttpResponse:
    await request.session.aget(key)
    meanwhile()
    await request.session.aset(key, value)
    await request.session.asave()
    return HttpResponse("done")


@csrf_exempt
async def asign_in(request: HttpRequest, name: str) -> HttpResponse:
    user = await sync_to_async(get_user_model().objects.get)(username=name)
    await request.session.aget("colour")
    meanwhile()
    await alogin(request, user)
    return HttpResponse("done")


@csrf_exempt
async def asign_out(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    meanwhile()
    await alogout(request)
    return HttpResponse("done")


@csrf_exempt
async def acycle(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    meanwhile()
    await request.session.acycle_key()
    return HttpResponse("done")


urlpatterns = [
    path("plain/", plain),
    path("who/", who),
    path("user-id/", user_id),
    path("deferred/", deferred),
    path("condition/", condition),
    path("swallowed/", swallowed),
    path("stream/", stream),
    path("form/", form),
    path("read/<key>/", read),
    path("write/<key>/<value>/", write),
    path("write-and-save/<key>/<value>/", write_and_save),
    path("write-and-swallow/<key>/<value>/", write_and_swallow),
    path("sign-in/<name>/", sign_in, name="sign-in"),
    path("sign-out/", sign_out),
    path("cycle/", cycle),
    path("item/<slug>/", item, name="item"),
    path("item-for-somebody/<slug>/", item_for_somebody, name="item-for-somebody"),
    path("item-and-write/<slug>/", item_and_write, name="item-and-write"),
    path("item-and-cycle/<slug>/", item_and_cycle, name="item-and-cycle"),
    path("item-by-view/<slug>/", item_by_view),
    path("async/who/", awho),
    path("async/user-id/", auser_id),
    path("async/read/<key>/", aread),
    path("async/write/<key>/<value>/", awrite),
    path("async/write-and-save/<key>/<value>/", awrite_and_save),
    path("async/sign-in/<name>/", login_not_required(asign_in)),
    path("async/sign-out/", asign_out),
    path("async/cycle/", acycle),
]
