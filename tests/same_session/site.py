"""A small site whose views sign users in, and edit who is signed in. What a test has ``meanwhile`` do happens between a
view's reading the session and changing it."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, alogin, login
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse
from django.urls import path

from django_redsess import viewed
from tests.support.meanwhile import Meanwhile

MODEL_BACKEND = "django.contrib.auth.backends.ModelBackend"


meanwhile = Meanwhile()


def who(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.user.get_username() or "nobody")


def views(request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(str(viewed.record(request.session, item)))


def signs_in(request: HttpRequest, names: str) -> HttpResponse:
    """Sign in all of these users, one after the other."""
    request.session.get("colour")
    meanwhile()
    for name in names.split("+"):
        login(request, User.objects.get(username=name), MODEL_BACKEND)
    return HttpResponse("in")


async def asigns_in(request: HttpRequest, names: str) -> HttpResponse:
    await request.session.aget("colour")
    meanwhile()
    for name in names.split("+"):
        await alogin(request, await User.objects.aget(username=name), MODEL_BACKEND)
    return HttpResponse("in")


def edits(request: HttpRequest, how: str) -> HttpResponse:
    request.session.get("colour")
    meanwhile()
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
