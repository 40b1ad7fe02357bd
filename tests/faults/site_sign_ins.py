"""The site of site_concurrency.py with more sign-ins: some that look at what is left, fail afterwards, or go on."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.contrib.auth import alogin, login
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_redsess.limits import SessionLimitReached
from tests.faults import site_concurrency
from tests.faults.site_concurrency import person


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
