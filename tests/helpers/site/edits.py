"""Edits of the user id in a session's data, by hand, and a view that makes one."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse

from tests.helpers.site.meanwhile import meanwhile


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
