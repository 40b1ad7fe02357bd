"""The state of a session object: its knowledge of the stored session, its pending work, and its keys."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.contrib.sessions.backends.base import VALID_KEY_CHARS, SessionBase
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import operations, reading
from django_redsess.session.client import Client, pack_client
from django_redsess.session.deadlines import Expiry
from django_redsess.session.notice import Notice
from django_redsess.session.reading import Touch
from django_redsess.session.record import Record, log_unusable, unpack, user_of
from django_redsess.session.user_limit import Limit
from django_redsess.signals import request_scope
from django_redsess.times import to_aware
from django_redsess.transport.keys import bucket_of, bucket_of_user, keyspace, new_key, sid_of
from django_redsess.transport.steps import Steps

KEY_LENGTH_MAX = 128
KEY_CHARS = frozenset(VALID_KEY_CHARS)


def is_key(key: object) -> bool:
    """Tell whether ``key`` may be a session key. Another one names no session, and is never sent to the server."""
    # Eight is Django's own minimum length.
    return isinstance(key, str) and 8 <= len(key) <= KEY_LENGTH_MAX and KEY_CHARS.issuperset(key)


@dataclass(slots=True)
class Visit:
    """
    The request that opened the session, or that has got it from the site: see :class:`VisitOfRequest`.

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
    The visit of a session that no middleware of ours has opened, looked for each time until there is one.

    It is that of the request that is being answered, if this session is its ``request.session``, or if one of its
    headers other than ``Cookie`` has this session's key, alone or after a word such as ``Bearer``.
    """

    def __get__(self, session: SessionState | None, owner: type | None = None) -> Visit | None:
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
            # A client of an API. Who shows messages to people has the session as request.session.
            visit.on_notice = None
        visit.key, visit.is_late = session.saved_key, session.snapshot.record is not None
        session.visit = visit
        return visit


def _has_in_header(request: HttpRequest, key: str | None) -> bool:
    sent = (value for name, value in request.headers.items() if name != "Cookie")
    return key is not None and any(key in str(value).split() for value in sent)


class Cookie(NamedTuple):
    """
    The session that the cookie names, as far as this request knows it.

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

    After that save:

    - ``signs_out``: report the next end as a sign-out
    """

    sign_in: PendingSignIn | None = None
    rotates_from: str | None = None
    own_key: str | None = None
    signs_out: bool = False
    ends_copies: bool = False


# Each request has its own session object. The objects share these values until they know something else.
COOKIE_UNCHANGED = Cookie()
NO_SNAPSHOT = Snapshot()
GONE = Snapshot(gone=True)
NOTHING_PENDING = Pending()


class SessionState(SessionBase):
    """The state of a session object: its knowledge of the stored session, its pending work, and its keys."""

    visit = VisitOfRequest()
    """The request that opened the session. None in a shell or a command."""
    cookie = COOKIE_UNCHANGED
    snapshot = NO_SNAPSHOT
    pending = NOTHING_PENDING
    viewed_item = ""
    """The item that the request views, until the view is recorded: after the save, if there is one."""
    unavailable: SessionStoreUnavailable | None = None
    """The outage that an operation has met. Later ones fail at once: a request waits for the server only once."""
    _session_cache: dict[str, Any]

    @property
    def sid(self) -> str | None:
        """The name of this session in Redis, the admin and the logs. None without a session key."""
        return sid_of(self.session_key) if self.session_key else None

    @property
    def saved_key(self) -> str | None:
        """The session key of the last save, whoever saved. None for a new session, even if its key is chosen."""
        pending, key = self.pending, self.session_key
        return pending.rotates_from or (None if key == pending.own_key else key)

    @property
    def stored_sid(self) -> str | None:
        """The sid under which the session is stored. Until a new key is saved, it is the old sid."""
        key = self.saved_key
        return sid_of(key) if key else None

    @property
    def stored_key(self) -> str | None:
        """The session key under which this object has loaded or saved the session. None if it is not stored yet."""
        is_stored = self.snapshot.record is not None and self.pending.rotates_from is None
        return self.session_key if is_stored else None

    @property
    def passive(self) -> bool:
        """Whether the request is passive: made by a page itself. It prolongs nothing."""
        return self.visit is not None and self.visit.passive

    @property
    def touch(self) -> Touch:
        """How the next read touches the session. It does not if no request opened the session, or if it is loaded."""
        if self.visit is None or "_session_cache" in self.__dict__:
            return Touch.NOTHING
        return Touch.SEEN if self.visit.passive else Touch.ACTIVE

    @property
    def loaded_user_id(self) -> str:
        """The user id in the data that this object holds. ``""`` for a guest, and if nothing is loaded."""
        return user_of(self.__dict__.get("_session_cache", {}))

    def expiry(self, now: int) -> Expiry:
        """Return Django's deadline, from the methods of Django's session API. ``now`` is the server's time."""
        expiry = self._session_cache.get("_session_expiry")
        if expiry is None and type(self).get_expiry_age is SessionBase.get_expiry_age:
            # The same value as get_expiry_age(), in less time.
            return Expiry(int(self.get_session_cookie_age()) * 1000, 0)
        if isinstance(expiry, (datetime, str)):
            return Expiry(0, int(to_aware(self.get_expiry_date()).timestamp() * 1000))
        age = int(self.get_expiry_age() * 1000)
        return Expiry(age, 0) if age > 0 else Expiry(0, now + age)

    def client_part(self, user_id: str, before: Callable[[], Client] = Client) -> bytes:
        """
        Return the client part of the record: the present visitor, or else the stored one, or else the one ``before``.

        ``user_id`` is the user of that record. Nothing is stored about the sender of a guest's (``""``) requests.
        """
        if not user_id:
            return b""
        if self.visit is None and self.snapshot.record:
            return self.snapshot.record.client_packed
        return pack_client(before() if self.visit is None else self.visit.client())

    def give_key(self, user_id: str) -> None:
        """Give the session a new, unused key: in the bucket of this user, or in a random bucket for a guest."""
        self._session_key = key = new_key(bucket_of_user(user_id) if user_id else None)
        self.pending = self.pending._replace(own_key=key)

    def rotate_key(self) -> None:
        """
        Give the session another key in the same bucket. The next save moves the session to it.

        A new session gets a key if a user has signed in. A guest's gets it when it is saved: one without data never is.
        """
        old_key, user_id = self.saved_key, self.loaded_user_id
        if old_key is not None:
            self.pending = self.pending._replace(rotates_from=old_key)
            self._session_key = new_key(bucket_of(old_key))
        elif user_id:
            self.give_key(user_id)

    def move_home(self, user_id: str, *, must_create: bool = False, renews: bool = False) -> None:
        """
        Give the session a key in the bucket of this user, unless it has one there.

        With ``renews``, it gets a new key even then, unless a new key is pending already. With ``must_create``, the
        session is not stored yet, so there is no old key to move from.
        """
        sid, space, pending = self.sid or "", keyspace(), self.pending
        at_home = operations.at_home(sid, user_id)
        if must_create and self.session_key != pending.own_key:
            # The caller has chosen this key. It only needs to be in the right partition.
            at_home = space.of_sid(sid) == space.of_user(user_id)
        if at_home and not (renews and pending.rotates_from is None):
            return
        if not must_create:
            self.pending = pending._replace(rotates_from=pending.rotates_from or self.session_key)
        self.give_key(user_id)

    def read_stored_sign_in(self) -> Steps[None]:
        """Read the stored session's user and login time, for a save that replaces the data without loading them."""
        loaded = yield from reading.read_session(self.sid or "", Touch.NOTHING if self.visit is None else Touch.SEEN)
        if loaded.record is None:
            return
        try:
            self.snapshot = Snapshot(record=unpack(loaded.sid, loaded.record), due=loaded.due)
        except Exception as error:
            log_unusable(loaded.sid, error)

    _validate_session_key = staticmethod(is_key)
