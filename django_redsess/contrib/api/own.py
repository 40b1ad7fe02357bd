"""A user's own sessions, for a front end: to list and end them, and to give the password again."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest

from django_redsess import online
from django_redsess.accounts import reauthentication
from django_redsess.accounts.views import find_own, message_to_own
from django_redsess.contrib.api.cursors import cursor_of, place_of
from django_redsess.contrib.api.descriptions import described
from django_redsess.contrib.api.endpoints import endpoint
from django_redsess.contrib.api.parameters import Body, Json, Parameters
from django_redsess.contrib.api.problems import AUTHENTICATION_REQUIRED, PASSWORD_REQUIRED, Problem
from django_redsess.online.cursor import Place
from django_redsess.online.listing import SessionFilter
from django_redsess.session.store import session_of


def list_own(request: HttpRequest) -> Json:
    """List the user's sessions, the newest sign-in first."""
    asked = Parameters(request, "limit", "cursor", about="me")
    limit, place = asked.limit(), place_of(asked, int, str)
    of_user = SessionFilter((online.user_id_of(_user_of(request)),))
    after = Place(*place) if place else None  # type: ignore[arg-type]  # a cursor has these types
    found, last = online.page_after(of_user, after, limit, by_seen=False, latest_first=True)
    return {"sessions": described(found, sid_of(request)), "next": cursor_of(asked, last)}


def end_others(request: HttpRequest) -> Json:
    """End all sessions of the user but the present one, which gets a new key."""
    Parameters(request)
    ask_again(request)
    return {"ended": online.end_user(_user_of(request), keep=sid_of(request), message=message_to_own())}


def describe_own(request: HttpRequest, sid: str) -> Json:
    """Describe one session of the user. Another user's sid gets the same answer as an unknown one."""
    Parameters(request)
    return described(_own(request, sid), sid_of(request))[0]


def end_own(request: HttpRequest, sid: str) -> None:
    """End one session of the user. The end of the present one signs out."""
    Parameters(request)
    if sid == sid_of(request):
        logout(request)
        return
    _own(request, sid)
    ask_again(request)
    if not online.end(sid, message=message_to_own()):
        raise _no_session()


def reauthenticate(request: HttpRequest) -> None:
    """Check the user's password. After the right one, it is not asked for during five minutes. Refused with allauth."""
    if url := reauthentication.allauths_url(_user_of(request)):
        raise _elsewhere(url)
    form = reauthentication.give(request, _user_of(request), Body(request, "password").text("password"))
    if form is not None and form.is_locked:
        wait = {"Retry-After": str(reauthentication.RECENT_SECONDS)}
        raise Problem(429, "There were too many wrong passwords. Wait.", headers=wait)
    if form is not None:
        raise Problem(403, "This is not your password.")


def _user_of(request: HttpRequest) -> AbstractBaseUser:
    user: Any = request.user
    return user  # type: ignore[no-any-return]


def sid_of(request: HttpRequest) -> str | None:
    """Return the sid of the session that ``request`` came with, None without one."""
    session = session_of(request)
    return None if session is None else session.stored_sid


def _own(request: HttpRequest, sid: str) -> list[online.Session]:
    found = find_own(_user_of(request), sid)
    if not found:
        raise _no_session()
    return found


def _no_session() -> Problem:
    return Problem(404, "You have no session with this id.")


def ask_again(request: HttpRequest) -> None:
    """Raise the error that tells the user to give the password first, if it must be given. Before own sessions end."""
    user = _user_of(request)
    if not reauthentication.is_asked(request, user):
        return
    if url := reauthentication.allauths_url(user):
        raise _elsewhere(url)
    raise Problem(403, "Give your password first, by POST to me/reauthenticate.", kind=PASSWORD_REQUIRED)


def _elsewhere(url: str) -> Problem:
    return Problem(403, f"Authenticate again first, at {url}.", kind=AUTHENTICATION_REQUIRED, url=url)


sessions = endpoint(GET=list_own, DELETE=end_others)
session = endpoint(GET=describe_own, DELETE=end_own)
password = endpoint(POST=reauthenticate)
