"""What a process of child.py can be told to do with sessions. Takes and returns what JSON can say."""

import os
import signal
import time
from pathlib import Path
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse
from django.test import RequestFactory
from django.utils import timezone

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.locking import one_at_a_time
from django_redsess.middleware import SessionMiddleware
from tests.helpers.both import Ask, twins


async def create(ask: Ask, data: dict[str, Any]) -> str:
    """Store a new session, and return its key."""
    session = SessionStore()
    await ask(session, "update", data)
    await ask(session, "save")
    return str(session.session_key)


async def change(ask: Ask, session_key: str, data: dict[str, Any]) -> None:
    session = SessionStore(session_key)
    await ask(session, "update", data)
    await ask(session, "save")


async def rotate(ask: Ask, session_key: str) -> None:
    session = SessionStore(session_key)
    await ask(session, "cycle_key")
    await ask(session, "save")


async def sign_in(ask: Ask, session_key: str, user_id: str) -> None:
    session = SessionStore(session_key)
    await ask(session, "cycle_key")
    session[SESSION_KEY] = user_id
    session.signed_in()
    await ask(session, "save")


async def flush(ask: Ask, session_key: str) -> None:
    await ask(SessionStore(session_key), "flush")


create, acreate = twins(create)
change, achange = twins(change)
rotate, arotate = twins(rotate)
sign_in, asign_in = twins(sign_in)
flush, aflush = twins(flush)


def sign_in_again(session_key: str) -> None:
    """Sign the user in who is signed in already."""
    session = SessionStore(session_key)
    session.load()
    session[SESSION_KEY] = session[SESSION_KEY]
    session.signed_in()
    session.save()


def take_user_out(session_key: str) -> None:
    """Make it a guest's session without ending it."""
    session = SessionStore(session_key)
    del session[SESSION_KEY]
    session.save()


def end(sid: str) -> int:
    """End a session as an administrator does; return how many were there."""
    return len(online.end(sid))


def view(session_key: str, item: str) -> bool:
    return viewed.record(SessionStore(session_key), item)


def clean(batch_size: int = cleaning.BATCH_SIZE) -> int:
    """End what is due; return how many that were."""
    return sum(cleaning.expire_sessions(batch_size=batch_size))


def evict(maximum: int, batch_size: int) -> int:
    """End what is too much; return how many that were."""
    return sum(cleaning.evict_sessions(maximum=maximum, batch_size=batch_size))


def request(session_key: str, data: dict[str, Any], *, passive: bool = False) -> dict[str, Any]:
    """Answer a request that changes its session by ``data``; return the data there was, and the cookie that is set."""
    found: dict[str, Any] = {}

    def view(request: HttpRequest) -> HttpResponse:
        found.update(request.session.items())
        if data:
            request.session.update(data)
        return HttpResponse()

    headers = {"X-Session-Passive": "1"} if passive else {}
    asked = RequestFactory().get("/", headers=headers)
    asked.COOKIES["sessionid"] = session_key
    response = SessionMiddleware(view)(asked)
    cookie = response.cookies.get("sessionid")
    return {"data": found, "cookie": cookie.value if cookie else None, "max_age": cookie["max-age"] if cookie else None}


def add_one(session_key: str, hold: float) -> int:
    """Answer a request that adds one to a number in its session, one at a time; return its status."""

    @one_at_a_time(hold=hold)
    def view(request: HttpRequest) -> HttpResponse:
        request.session["number"] = request.session["number"] + 1
        return HttpResponse()

    asked = RequestFactory().get("/")
    asked.COOKIES["sessionid"] = session_key
    return int(SessionMiddleware(view)(asked).status_code)


def stop_with_the_lock(session_key: str, hold: float, told: str) -> int:
    """Answer a request that has the lock, and whose process stops meanwhile. The file ``told`` gets its number."""

    @one_at_a_time(hold=hold)
    def view(request: HttpRequest) -> HttpResponse:
        request.session["thawed"] = request.session["number"]
        Path(told).write_text(str(os.getpid()))
        os.kill(os.getpid(), signal.SIGSTOP)
        return HttpResponse()

    asked = RequestFactory().get("/")
    asked.COOKIES["sessionid"] = session_key
    return int(SessionMiddleware(view)(asked).status_code)


def count() -> int:
    """Count who is online, as the admin does."""
    return online.count()


def clock() -> tuple[float, float]:
    """Tell what time it is, by Python and by Django."""
    return time.time(), timezone.now().timestamp()
