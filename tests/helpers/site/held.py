"""
Views for users who are in no table, and for requests that are held half-way. Their paths begin with ``held/``.

Each reads the session first, waits at the gate that the request names, if any, and then does what its URL says.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.contrib import auth
from django.contrib.auth import login, logout, update_session_auth_hash
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.urls import path, re_path

from django_redsess.exceptions import SessionLimitReached
from tests.helpers.both import Ask, both, paths
from tests.helpers.site import views
from tests.helpers.site.meanwhile import meanwhile
from tests.helpers.site.people import passwords, person


def held(view: Callable[..., str | None]) -> Callable[..., HttpResponse]:
    """Make a view of ``view``: it is held once it has read the session."""

    def wrapper(request: HttpRequest, **named: Any) -> HttpResponse:
        request.session.get("colour")
        meanwhile(request)
        return HttpResponse(view(request, **named) or "done")

    return wrapper


def who(request: HttpRequest) -> str:
    return str(request.user.pk or "nobody")


def read(request: HttpRequest, key: str) -> str:
    return str(request.session.get(key))


def count(request: HttpRequest, key: str) -> str:
    """Add one; return what was there."""
    found: int = request.session.get(key, 0)
    request.session[key] = found + 1
    return str(found)


def item(request: HttpRequest, item: str) -> None:
    """View an item: the middleware records it."""


@both
async def sign_in(ask: Ask, request: HttpRequest, user_id: int) -> HttpResponse:
    await ask(request.session, "get", "colour")
    meanwhile(request)
    await ask(auth, "login", request, person(user_id))
    return HttpResponse("done")


def sign_out(request: HttpRequest) -> None:
    logout(request)


def sign_in_anew(request: HttpRequest, user_id: int) -> None:
    """Sign out, and in again."""
    logout(request)
    login(request, person(user_id))


def change_password(request: HttpRequest, password: str) -> None:
    passwords[request.user.pk] = password
    update_session_auth_hash(request, person(request.user.pk))


@both
async def sign_in_and_look(ask: Ask, request: HttpRequest, user_id: int) -> HttpResponse:
    """Say what is left to a view that has caught an error of its sign-in."""
    try:
        return await sign_in.steps(ask, request, user_id)
    except (SessionLimitReached, ImproperlyConfigured) as error:
        user = await ask(request, "user")
        left = f"{user.pk or 'nobody'}, {user.is_anonymous}, {request.user.pk or 'nobody'}"
        return HttpResponse(f"{type(error).__name__}: {left}")


def sign_in_and_fail(request: HttpRequest, user_id: int) -> None:
    login(request, person(user_id))
    raise RuntimeError("after the sign-in")


def sign_in_and_go_on(request: HttpRequest, user_id: int) -> HttpResponse:
    """Go on as a guest where the sign-in is refused. It begins without a look at the session."""
    with suppress(SessionLimitReached):
        login(request, person(user_id))
    request.session["colour"] = "red"
    return HttpResponse("done")


urlpatterns = [
    path("held/who/", held(who)),
    path("held/read/<key>/", held(read)),
    path("held/write/<key>/<value>/", views.write),
    path("held/write-and-save/<key>/<value>/", views.write_and_save),
    path("held/count/<key>/", held(count)),
    path("held/cycle/", views.cycle),
    # Whatever stands there, line ends too.
    re_path(r"^held/item/(?P<item>(?s:.*))/$", held(item), name="held-item"),
    *paths("held/sign-in/<int:user_id>/", sign_in),
    *paths("held/sign-in-and-look/<int:user_id>/", sign_in_and_look),
    path("held/sign-in-and-fail/<int:user_id>/", held(sign_in_and_fail)),
    path("held/sign-in-and-go-on/<int:user_id>/", sign_in_and_go_on),
    path("held/sign-out/", held(sign_out)),
    path("held/sign-in-anew/<int:user_id>/", held(sign_in_anew)),
    path("held/change-password/<password>/", held(change_password)),
]
