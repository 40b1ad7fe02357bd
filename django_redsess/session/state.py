"""
The state of a session object: its visit, its cookie, its knowledge of the stored session, and its pending work.

These are values. :class:`~django_redsess.session.store.SessionStore` keeps and changes them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.session.client import Client
from django_redsess.session.notice import Notice
from django_redsess.session.record import Record
from django_redsess.session.user_limit import Limit
from django_redsess.signals import request_scope

if TYPE_CHECKING:
    from django_redsess.session.store import SessionStore


@dataclass(slots=True)
class Visit:
    """
    The request that opened the session, or to which the site has given it: see :class:`VisitOfRequest`.

    Only a session with a visit is touched when it is loaded. If a user is signed in, each save calls ``client``, and
    stores the address and user agent that it returns. ``on_notice`` is called with the notice when a load finds out
    why the session is gone, and with a text when the session has a message about another one. It returns whether the
    user is told by this request. It is called with None when a sign-in or ``flush()`` makes that obsolete.
    """

    client: Callable[[], Client]
    on_notice: Callable[[Notice | str | None], bool] | None = None
    passive: bool = False
    """Whether the request is passive: made by a page itself. It prolongs nothing."""
    begins_by_view: bool = True
    """Whether viewing an item may start a session for a guest, if ``VIEWED_GUESTS`` is True."""
    with_cookie: tuple[Callable[[HttpResponseBase], None], ...] = ()
    """Each is called with the response that gets the session's cookie, to add another one."""
    key: str | None = None
    """The session key that the request brought otherwise than by our cookie."""
    is_late: bool = False
    """Whether the session was loaded before the request had it. Then the middleware touches it."""


class VisitOfRequest:
    """
    The visit of a session that our middleware has not opened. It is looked for until one is found.

    The visit is that of the request that is being answered, if the session is its ``request.session``, or if a header
    other than ``Cookie`` has the session's key, alone or after a word such as ``Bearer``.
    """

    def __get__(self, session: SessionStore | None, owner: type | None = None) -> Visit | None:
        scope = request_scope()
        if session is None or scope is None:
            return None
        request = scope.request
        found = request.__dict__.get("session")
        # A site may have put a SimpleLazyObject around the session.
        is_its_own = getattr(found, "_wrapped", found) is session
        if not is_its_own and not _has_in_header(request, session.session_key):
            return None
        visit: Visit = scope.visit_of(request)
        if not is_its_own:
            # A client of an API. A site that shows messages to people has the session as request.session.
            visit.on_notice = None
        visit.key, visit.is_late = session.saved_key, session.snapshot.record is not None
        session.visit = visit
        return visit


def _has_in_header(request: HttpRequest, key: str | None) -> bool:
    sent = (value for name, value in request.headers.items() if name != "Cookie")
    return key is not None and any(key in str(value).split() for value in sent)


class Cookie(NamedTuple):
    """
    What this request has found out about the session of the cookie.

    - ``notice``: why the session is gone, as a notice to its user
    - ``late``: the session has another key now, which this request does not know
    - ``was_guest``: that session had no user when it got its new key
    - ``refresh``: the cookie must be sent again, because the session's deadline has moved
    """

    notice: Notice | None = None
    late: bool = False
    was_guest: bool = False
    refresh: bool = False


class Snapshot(NamedTuple):
    """
    The stored session, as far as this object knows it from its last load or save.

    ``record`` is None if no record is known. A save writes only over a record that has this ``revision``. An empty
    revision fits any record: then the save replaces data that were not loaded. ``due`` is the deadline in milliseconds,
    or a time before it. ``gone`` says that a save found no session. A session that is gone is not stored again.
    """

    record: Record | None = None
    revision: bytes = b""
    due: int = 0
    gone: bool = False


class PendingSignIn(NamedTuple):
    """A user has signed in. Other sessions above ``limit`` end, or the sign-in is refused."""

    limit: Limit | None = None


class Pending(NamedTuple):
    """
    The work that is still to be done.

    By the next save, besides writing the data:

    - ``sign_in``: store a new login time, and enforce the limit
    - ``rotates_from``: move the session from this old key to its new one
    - ``ends_copies``: sockets and streams that watch the session under its old key close: see ``end_copies()``
    - ``own_key``: create the session under this key, which is new and certainly unused
    - ``binding``: store this binding to a device, packed, unless another request has stored one since the load

    After that save:

    - ``signs_out``: report the next end as a sign-out
    """

    sign_in: PendingSignIn | None = None
    rotates_from: str | None = None
    own_key: str | None = None
    signs_out: bool = False
    ends_copies: bool = False
    binding: bytes | None = None


# Each request has its own session object. The objects share these values until they know something else.
COOKIE_UNCHANGED = Cookie()
NO_SNAPSHOT = Snapshot()
GONE = Snapshot(gone=True)
NOTHING_PENDING = Pending()

ENDED = "the session was ended, or has expired, since it was loaded. The user has to sign in again"
ROTATED = "the session has got another key since it was loaded, as at a sign-in. The browser has that key"
OF_ANOTHER = "another user has signed in to the session since it was loaded"
UNREADABLE = "another request has written the session, and this process can't read that. The log says why"


def not_saved(why: str) -> UpdateError:
    """Return the error of a save that came too late. ``why`` is one of the texts above. A traceback has the note."""
    error = UpdateError(f"Nothing was saved: {why}.")
    error.add_note(
        "In a view, let this error pass: the middleware answers with 400. Code without a view, such as a task, catches "
        "UpdateError of django.contrib.sessions.backends.base."
    )
    return error
