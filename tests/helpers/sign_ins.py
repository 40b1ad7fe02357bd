"""Sign-ins of users who are in no table, and the sessions that they have."""

from collections.abc import Callable

import redis as redis_py
from django.contrib.auth import login
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.site.people import person
from tests.helpers.store import make_older

ENDING = ["end_oldest", "end_least_recent"]
POLICIES = [*ENDING, "refuse"]

SetLimit = Callable[..., None]


def request_of(session: SessionStore) -> HttpRequest:
    request = HttpRequest()
    request.session = session
    request.user = AnonymousUser()
    return request


def sign_in(user_id: str, session: SessionStore | None = None) -> SessionStore:
    """Sign in as a request does that brings ``session``, or none."""
    session = SessionStore(session.session_key if session is not None else None)
    login(request_of(session), person(user_id))
    if session.modified:
        session.save()
    return session


def sign_in_before(redis: redis_py.Redis, user_id: str, *seconds: int) -> list[SessionStore]:
    """Sign the user in once for each of ``seconds``, so long ago."""
    sessions = []
    for each in seconds:
        sessions.append(sign_in(user_id))
        make_older(redis, sessions[-1].sid, each)
    return sessions


def sids_of(user_id: str) -> set[str]:
    return {session.sid for session in online.sessions(user_ids=[user_id])}


def named(*sessions: SessionStore) -> set[str]:
    return {str(session.sid) for session in sessions}
