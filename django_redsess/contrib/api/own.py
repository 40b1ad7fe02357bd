"""The user's own sessions, for a front end: list them, end them, and give the password again."""

from __future__ import annotations

from typing import Any

from django.contrib.auth import logout
from ninja import Path, Query, Router

from django_redsess import online
from django_redsess.accounts import reauthentication
from django_redsess.accounts.views import find_own
from django_redsess.contrib.api.authentication import for_asker, own_sid
from django_redsess.contrib.api.problems import ProblemError
from django_redsess.contrib.api.schemas import (
    Ended,
    ListQuery,
    OwnSession,
    OwnSessionList,
    Password,
    SessionId,
    answers,
)
from django_redsess.online.fields import OWN_SESSION, describe_sessions
from django_redsess.online.listing import Position, SessionFilter, page_after
from django_redsess.problems import (
    AUTHENTICATION_REQUIRED,
    NO_SUCH_SESSION,
    PASSWORD_REQUIRED,
    TOO_MANY_PASSWORDS,
    WRONG_PASSWORD,
)
from django_redsess.session.store import user_id_of
from django_redsess.user_messages import ENDED_BY_USER, ready_message

router = Router(tags=["Your own sessions"])
router.add_decorator(for_asker)

NO_SESSION = "You have no session with this id."


@router.get("me/sessions", response=answers(OwnSessionList))
def list_own_sessions(request: Any, asked: Query[ListQuery]) -> Any:
    """List your sessions. The newest sign-ins come first. `next_cursor` is null on the last page."""
    position = asked.read_cursor(2, "me")
    of_user = SessionFilter((user_id_of(request.user),))
    after = Position(*position) if position else None
    found, last = page_after(of_user, after, asked.limit, by_seen=False, latest_first=True)
    return {"sessions": _describe_own(request, found), "next_cursor": asked.make_cursor(last, "me")}


@router.delete("me/sessions", response=answers(Ended, 403))
def end_own_sessions(request: Any) -> Any:
    """
    End all your other sessions.

    The present session goes on, with a new key in its cookie. The password may be asked for again first: the answer is
    then 403 with the type `password-required`, or `authentication-required` where django-allauth asks.
    """
    require_password(request)
    ended = online.end_user(request.user, keep=own_sid(request), message=ready_message(ENDED_BY_USER))
    return {"ended": ended, "may_return": ended.may_return}


@router.get("me/sessions/{id}", response=answers(OwnSession, 404))
def get_own_session(request: Any, id: Path[SessionId]) -> Any:
    """Show one of your sessions. Another user's session is 404, as is an ended one."""
    return _describe_own(request, _find_own_session(request, id))[0]


@router.delete("me/sessions/{id}", response=answers(None, 403, 404))
def end_own_session(request: Any, id: Path[SessionId]) -> None:
    """
    End one of your sessions.

    The present session is signed out. For another one, the password may be asked for again first: the answer is then
    403 with the type `password-required`, or `authentication-required` where django-allauth asks.
    """
    if id == own_sid(request):
        logout(request)
        return
    _find_own_session(request, id)
    require_password(request)
    if not online.end(id, message=ready_message(ENDED_BY_USER)):
        raise ProblemError(NO_SUCH_SESSION, NO_SESSION)


@router.post("me/reauthenticate", response=answers(None, 403, 413, 415, 429))
def reauthenticate(request: Any, body: Password) -> None:
    """Give your password again. For five minutes, it is not asked for again. The session may have a new cookie."""
    if url := reauthentication.allauths_url(request.user):
        raise _authentication_required(url)
    if own_sid(request) is None:
        return
    form = reauthentication.give_password(request, request.user, body.password.get_secret_value())
    if form is not None and form.is_locked:
        wait = {"Retry-After": str(reauthentication.RECENT_SECONDS)}
        raise ProblemError(TOO_MANY_PASSWORDS, "There were too many wrong passwords. Wait.", headers=wait)
    if form is not None:
        raise ProblemError(WRONG_PASSWORD, "This is not your password.")


def _describe_own(request: Any, sessions: list[online.Session]) -> list[dict[str, Any]]:
    users = {user_id_of(request.user): request.user}
    return describe_sessions(sessions, users, own_sid(request), OWN_SESSION)


def _find_own_session(request: Any, sid: str) -> list[online.Session]:
    found = find_own(request.user, sid)
    if not found:
        raise ProblemError(NO_SUCH_SESSION, NO_SESSION)
    return found


def require_password(request: Any) -> None:
    """Raise ProblemError if the user must first give the password. Call it before ending own sessions."""
    # Without a session of the user, each request has a password or a token.
    if own_sid(request) is None or not reauthentication.needs_password(request, request.user):
        return
    if url := reauthentication.allauths_url(request.user):
        raise _authentication_required(url)
    raise ProblemError(PASSWORD_REQUIRED, "Give your password first, by POST to me/reauthenticate.")


def _authentication_required(url: str) -> ProblemError:
    return ProblemError(AUTHENTICATION_REQUIRED, f"Authenticate again first, at {url}.", url=url)
