"""
The class of a session object: Django's session API, loading, sign-in, key rotation and end. Saving is in ``saving.py``.

The work is written as steps: see :mod:`django_redsess.transport.steps`.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, ClassVar

from django.conf import settings
from django.contrib.auth import SESSION_KEY, get_user_model
from django.contrib.sessions.backends.base import CreateError, SessionBase
from django.contrib.sessions.serializers import JSONSerializer
from django.core.management.base import CommandError
from django.http import HttpRequest

from django_redsess.clock import monotonic
from django_redsess.conf import conf
from django_redsess.exceptions import SessionNotProven, SessionStoreUnavailable
from django_redsess.session import binding, blocks, deadlines, notice, operations, reading
from django_redsess.session.binding import Binding
from django_redsess.session.messages import MESSAGE_KEY
from django_redsess.session.notice import Notice
from django_redsess.session.operations import Ending, Outcome
from django_redsess.session.other_store import OtherStore
from django_redsess.session.reading import Loaded, Touch
from django_redsess.session.record import ROUNDED_UP, Record, log_unusable, serializer_named, unpack, user_of
from django_redsess.session.saving import SaveAttempts
from django_redsess.session.state import (
    COOKIE_UNCHANGED,
    ENDED,
    GONE,
    NO_SNAPSHOT,
    NOTHING_PENDING,
    ROTATED,
    PendingSignIn,
    Snapshot,
    VisitOfRequest,
    not_saved,
)
from django_redsess.session.user_limit import Limit
from django_redsess.signals import Reason, request_scope
from django_redsess.transport.keys import bucket_of, bucket_of_user, is_session_key, keyspace, new_key, sid_of
from django_redsess.transport.outages import is_moving
from django_redsess.transport.steps import Steps, T, adrive, drive

if TYPE_CHECKING:
    from django.contrib.auth.base_user import AbstractBaseUser


OUTAGE_SECONDS = 5
"""For how long an object remembers an outage if no request is being answered: that of a socket may live for days."""


class ClearingError(SessionStoreUnavailable, CommandError):
    """An outage during Django's ``manage.py clearsessions``. The command prints a CommandError in one line."""


class SessionStore(SessionBase):
    """
    Django's session API for sessions in Redis.

    Each pair, such as ``save`` and ``asave``, shares its work as steps, which :meth:`run_steps` or :meth:`arun_steps`
    takes.
    """

    other_store: ClassVar[OtherStore | None] = None
    """The other store, in an engine that moves sessions."""
    cleared_user_id = ""
    """The id of a user whom this object has found to be not blocked, at a sign-in."""
    user_written = False
    """Whether ``login()`` has written a user's id into the data, and its signal has not been received yet."""
    visit = VisitOfRequest()
    """The request that opened the session. None in a shell or a command."""
    cookie = COOKIE_UNCHANGED
    snapshot = NO_SNAPSHOT
    pending = NOTHING_PENDING
    viewed_item = ""
    """The item that the request views, until the view is recorded: after the save, if there is one."""
    brought_by: Any = None
    """The request that has brought the session key, as far as the middleware knows: see :meth:`bringing_request`."""
    unproven_sid = ""
    """The sid of the session without which the request goes on, because it has brought its key and no proof."""
    unavailable: SessionStoreUnavailable | None = None
    """The outage of an earlier operation. Later operations fail at once: a request waits for the server only once."""
    _outage_met_at = 0.0
    _session_cache: dict[str, Any]
    _validate_session_key = staticmethod(is_session_key)

    @property
    def sid(self) -> str | None:
        """The name of this session in Redis, the admin and the logs. None without a session key."""
        return sid_of(self.session_key) if self.session_key else None

    @property
    def saved_key(self) -> str | None:
        """The session key under which the session was saved last. None for a new session, even if its key is chosen."""
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
        """How the next read touches the session: not at all if no request opened the session, or if it is loaded."""
        if self.visit is None or "_session_cache" in self.__dict__:
            return Touch.NOTHING
        return Touch.SEEN if self.visit.passive else Touch.ACTIVE

    @property
    def bringing_request(self) -> Any:
        """
        The request that has brought the session key. It is asked for a proof if the session is bound to a device.

        None if no request has: in a shell, a command or a task. A view may make a session object for its own cookie.
        """
        if self.brought_by is not None or (scope := request_scope()) is None:
            return self.brought_by
        request = scope.request
        is_own = self.brought_key == request.COOKIES.get(settings.SESSION_COOKIE_NAME) or self.visit is not None
        return request if is_own else None

    @property
    def brought_key(self) -> str | None:
        """The session key by which a request brings this session."""
        return self.session_key

    @property
    def loaded_user_id(self) -> str:
        """The user id in the data that this object holds. ``""`` for a guest, and if nothing is loaded."""
        return user_of(self.__dict__.get("_session_cache", {}))

    @property
    def ended(self) -> Notice | None:
        """
        Why the cookie's session has ended: a notice with ``reason``, ``message`` and ``ended_at``, or None.

        A notice is kept for a day if the session was kicked or ended with a message, and otherwise for an hour. Guests'
        sessions, sign-outs and invalidations without a message leave none. Reading this property loads the session,
        unless it is loaded. Raises SessionStoreUnavailable in an outage.
        """
        self.run_steps(self.opening())
        return self.cookie.notice

    async def aended(self) -> Notice | None:
        """Await what :attr:`ended` returns."""
        await self.arun_steps(self.opening())
        return self.cookie.notice

    def exists(self, session_key: str) -> bool:
        """Tell whether a live session has this key. The session is not touched."""
        return self.run_steps(self.existing(session_key))

    async def aexists(self, session_key: str) -> bool:
        return await self.arun_steps(self.existing(session_key))

    def load(self) -> dict[str, Any]:
        """
        Return the session's data as a dict. If there is no such session, the dict is empty, and the object loses its
        key.

        Data that this site did not write for this session, or can't read, count as no session. This is logged.
        """
        return self.run_steps(self.loading())

    async def aload(self) -> dict[str, Any]:
        return await self.arun_steps(self.loading())

    def create(self) -> None:
        """Store a new session under a new key, with the data that this object already holds."""
        self.run_steps(self.creating())

    async def acreate(self) -> None:
        await self.arun_steps(self.creating())

    def save(self, must_create: bool = False) -> None:
        """
        Store the session's data.

        If another request has changed the session since it was loaded, only the top-level keys that this request
        changed are written.

        ``must_create`` stores a new session, and raises CreateError if the key is taken. Without it, UpdateError is
        raised if the session was ended, has expired or got another key. Such a session is not stored again. Raises
        SessionLimitReached if a sign-in exceeds the user's limit.
        """
        self.run_steps(self.saving(must_create))

    async def asave(self, must_create: bool = False) -> None:
        await self.arun_steps(self.saving(must_create))

    def cycle_key(self) -> None:
        """
        Choose a new key for the same session. The next save moves the session to it.

        Until that save, the session is stored under its old key. Sockets and streams that watch the session go on,
        unless its user signs in or has a new password: see :meth:`end_copies`.
        """
        self.run_steps(self.cycling())

    async def acycle_key(self) -> None:
        await self.arun_steps(self.cycling())

    def end_copies(self) -> None:
        """
        Choose a new key, as :meth:`cycle_key` does, because somebody may have a copy of the cookie.

        Sockets and streams that watch the session under the old key are closed. After ``cycle_key()``, they stay.
        """
        self.run_steps(self.cycling(ends_copies=True))

    async def aend_copies(self) -> None:
        """Await what :meth:`end_copies` does."""
        await self.arun_steps(self.cycling(ends_copies=True))

    def delete(self, session_key: str | None = None) -> None:
        """End the session with this key. None stands for this session. A missing session is no error."""
        steps = self.deleting if binding.guard is None else self._deleting_proven
        self.run_steps(steps(session_key))

    async def adelete(self, session_key: str | None = None) -> None:
        steps = self.deleting if binding.guard is None else self._deleting_proven
        await self.arun_steps(steps(session_key))

    @classmethod
    def clear_expired(cls) -> None:
        """End every session whose deadline has passed. ``manage.py clearsessions`` calls this."""
        # The cleaner is a layer above, and nothing but this command needs it.
        from django_redsess import cleaning

        try:
            for _ in cleaning.expire_sessions():
                pass
        except SessionStoreUnavailable as error:
            raise ClearingError(str(error)) from error

    def __setitem__(self, key: str, value: Any) -> None:
        self._session[key] = value
        self.modified = True
        if key == SESSION_KEY:
            self.user_written = True

    async def aset(self, key: str, value: Any) -> None:
        (await self._aget_session())[key] = value
        self.modified = True
        if key == SESSION_KEY:
            self.user_written = True

    def _get_session(self, no_load: bool = False) -> dict[str, Any]:
        self.accessed = True
        try:
            return self._session_cache
        except AttributeError:
            # Another thread may have loaded it meanwhile.
            loaded: dict[str, Any] = self.__dict__.setdefault("_session_cache", {} if no_load else self.load())
            return loaded

    async def _aget_session(self, no_load: bool = False) -> dict[str, Any]:
        self.accessed = True
        try:
            return self._session_cache
        except AttributeError:
            return await self.arun_steps(self.opening(no_load))

    _session = property(_get_session)

    def opening(self, no_load: bool = False) -> Steps[dict[str, Any]]:
        """Return the data. Load them first, unless they are loaded already, or ``no_load`` says that they are empty."""
        self.accessed = True
        if not hasattr(self, "_session_cache"):
            empty = no_load or self.session_key is None
            data = {} if empty else (yield from self.loading())
            # Another task of the request may have loaded it meanwhile, and changed something.
            self.__dict__.setdefault("_session_cache", data)
        return self._session_cache

    def loading(self) -> Steps[dict[str, Any]]:
        """Load the data. If there is no such session, drop the key and return an empty dict."""
        # Until a new key is saved, the session is stored under the old one.
        key = self.pending.rotates_from or self.session_key
        if key is None:
            return {}
        loaded = yield from reading.read_session(sid_of(key), self.touch, self.claim)
        if loaded.record is None:
            return (yield from self.loading_gone(loaded))
        return (yield from self.loading_live(loaded))

    def loading_gone(self, loaded: Loaded) -> Steps[dict[str, Any]]:
        """Drop the key of a session that is gone, and find out why it is. Return an empty dict."""
        self.take_note(loaded, (yield from reading.note_of(loaded.sid)))
        return {}

    def loading_live(self, loaded: Loaded) -> Steps[dict[str, Any]]:
        """
        Return the data of ``loaded``, which has a record. Keep the record, and move the deadline if it is time.

        If the record is not usable, drop the key and return an empty dict.
        """
        packed: Any
        sid, packed, due, now = loaded
        try:
            record = unpack(sid, packed)
            # Most often it is Django's own: then no function is called to find it.
            serializer = serializer_named(record.serializer) if record.serializer else JSONSerializer
            data: dict[str, Any] = serializer().loads(record.data)
        except Exception as error:  # A serializer may raise anything.
            log_unusable(sid, error)
            self._lose_key()
            return {}
        if record.binding and not self.is_admitted(sid, record, now):
            return {}
        if "_session_cache" in self.__dict__:
            # Loaded before: the save compares with the record of then.
            return data
        if MESSAGE_KEY in data:
            self._show_message(data)
        # By default, only a time-out that was removed from the settings can have left an earlier deadline.
        if due < record.deadline_seconds * 1000 - ROUNDED_UP or conf.moves_deadlines:
            active = self.visit is not None and not self.visit.passive
            new_due = deadlines.moved_by_visit(record, due, now) if active else None
            if new_due is not None:
                due = yield from self._prolonging(loaded, record, new_due)
                if "_session_cache" in self.__dict__:
                    return data
        # No step is between this and what keeps the data. As Snapshot() does, in half the time.
        self.snapshot = tuple.__new__(Snapshot, (record, record.revision, due, False))
        return data

    def is_admitted(self, sid: str, record: Record, now: int) -> bool:
        """
        Ask the guard whether the request may open the session ``sid``, which is bound to a device.

        If the request goes on without a session, drop the key. Its cookie stays, unless a new session gets another.
        """
        request = self.bringing_request
        if binding.guard is None or request is None:
            return True
        try:
            admitted = binding.guard.admits(self, request, sid, record, now)
        except SessionNotProven as error:
            # Whatever the view makes of it: the middleware looks at the session of the request, which may be lazy.
            found = request.__dict__.get("session")
            for each in (self, getattr(found, "_wrapped", found)):
                if isinstance(each, SessionStore):
                    each.remember_outage(error)
            raise
        if not admitted:
            # Data that were loaded before the request was known must not get into a new session.
            self.abandon()
            self._session_key, self.unproven_sid = None, sid
            self.cookie = self.cookie._replace(late=True, was_guest=True)
        return admitted

    def claim(self) -> bytes | None:
        """Return what the guard's ``claim()`` returns for the request that has brought the session key."""
        request = self.bringing_request
        return b"" if binding.guard is None or request is None else binding.guard.claim(request)

    def proving(self) -> Steps[None]:
        """
        Load a session that is about to be used without its data, so that the guard is asked. Keep the data there are.

        Nothing is loaded without a guard.
        """
        key, chosen = self.saved_key, self._session_key
        # If it is late, its key is a new one of its own.
        if binding.guard is None or key is None or self.snapshot.record is not None or self.cookie.late:
            return
        if self.snapshot.gone:
            # The save says so. Loading it would make this a new session.
            return
        if isinstance(self.unavailable, SessionNotProven):
            raise copy(self.unavailable)
        known, modified, accessed = self.__dict__.pop("_session_cache", None), self.modified, self.accessed
        # Until a rotation is saved, the session is stored under its old key.
        self._session_key = key
        try:
            yield from self.opening()
        except BaseException:
            # A task that was cancelled may go on with what it had.
            self._session_key = chosen
            if known is not None:
                self._session_cache = known
            raise
        self.accessed = accessed
        if known is not None:
            self._session_cache, self.modified = known, modified
        if self._session_key is None:
            self.pending = self.pending._replace(rotates_from=None, own_key=None)
        elif chosen != key:
            self.pending = self.pending._replace(rotates_from=self._session_key)
            self._session_key = chosen

    def bind(self, new: Binding) -> None:
        """
        Have the next save store the binding ``new`` of this session to a device.

        The save raises BindingChanged, and stores nothing, if another request has stored one since the session was
        loaded. A binding stays with the session until another user signs in.
        """
        self.pending = self.pending._replace(binding=new.pack())
        self.modified = True

    def _show_message(self, data: dict[str, Any]) -> None:
        if self.visit is None or self.visit.on_notice is None:
            return
        if self.visit.on_notice(notice.about_another(str(data[MESSAGE_KEY]))):
            del data[MESSAGE_KEY]
            self.modified = True

    def take_note(self, loaded: Loaded, note: str) -> None:
        """Drop the key of a session that is gone, and keep what its ``note`` tells the visitor."""
        note = note or loaded.expired_note
        self._lose_key()
        found = notice.notice_in(note)
        self.cookie = self.cookie._replace(
            notice=found, late=bool(reading.rotated_to(note)), was_guest=reading.was_guest(note)
        )
        if found and self.visit is not None and self.visit.on_notice:
            self.visit.on_notice(found)

    def _lose_key(self) -> None:
        """Drop the key of a session that is gone. If it was loaded before, its data get into no new session."""
        if self.snapshot.record is not None:
            self.abandon()
        self._session_key = None

    def _prolonging(self, loaded: Loaded, base: Record, due: int) -> Steps[int]:
        """Move the deadline to ``due``. Return the deadline that the session has then. ``base`` is its record."""
        try:
            if not (yield from operations.prolong(loaded, due)):
                return loaded.due
        except SessionStoreUnavailable as error:
            # The session can be read all the same. The next request moves the deadline.
            if is_moving(error.__cause__):
                return loaded.due
            raise
        if deadlines.sends_cookie(base, loaded.due, due, loaded.now):
            self.cookie = self.cookie._replace(refresh=True)
        return due

    def touching(self) -> Steps[None]:
        """Touch the session, which was loaded before its visit was known, and move its deadline as a load does."""
        base, sid = self.snapshot.record, self.stored_sid
        if base is None or sid is None:
            return
        loaded = yield from reading.read_session(sid, Touch.SEEN if self.passive else Touch.ACTIVE, self.claim)
        if base.binding and not self.is_admitted(sid, base, loaded.now):
            return
        due = None if self.passive or loaded.record is None else deadlines.moved_by_visit(base, loaded.due, loaded.now)
        if due is not None:
            self.snapshot = self.snapshot._replace(due=(yield from self._prolonging(loaded, base, due)))

    def still_there(self) -> Steps[bool]:
        """Return whether the session is still live under its key. The session is not touched."""
        return (yield from self.existing(self.session_key or ""))

    def existing(self, session_key: str) -> Steps[bool]:
        """Return whether a live session has this key. The session is not touched."""
        # Once a new key is chosen, the old key names no session for this request.
        if not self._validate_session_key(session_key) or session_key == self.pending.rotates_from:
            return False
        loaded = yield from reading.read_session(sid_of(session_key))
        return loaded.record is not None

    def refuse_blocked(self, user_id: str) -> None:
        """Raise SignInRefused if the user is blocked. The form and the signal of one sign-in ask once together."""
        if self.cleared_user_id != user_id:
            self.run_steps(blocks.refuse_if_blocked(user_id))
            self.cleared_user_id = user_id

    def claim_sign_in(self, user_id: str) -> bool:
        """
        Return True if ``login()`` has written this user into the data since the last call. Each sign-in counts once.

        A signal alone is no sign-in: packages send it for tokens, too.
        """
        if self.loaded_user_id != user_id:
            return False
        claimed, self.user_written = self.user_written, False
        return claimed

    def signed_in(self, limit: Limit | None = None) -> None:
        """
        Prepare the save of a sign-in, whose user is in the data already. It stores a new login time.

        The session gets a new key, unless it has one already. A copy of the old cookie is then worth nothing. If the
        user is new to this session, that save also enforces ``limit``. It ends other sessions of the user, or
        raises SessionLimitReached.
        """
        self.pending = self.pending._replace(sign_in=PendingSignIn(limit))
        # Choose the key now. Later receivers of Django's signal then find the key that the cookie will have.
        if user_id := self.loaded_user_id:
            if self.pending.rotates_from is None:
                # Django's login() keeps the key if the same user was signed in before.
                self.rotate_key()
                self.modified = True
            self.move_home(user_id)
        # The notice is about the session of the old cookie. That session may have been another user's.
        if self.cookie.notice is not None:
            if self.visit is not None and self.visit.on_notice:
                self.visit.on_notice(None)
            self.cookie = self.cookie._replace(notice=None)

    def signed_out(self) -> None:
        """Have the next end of this session reported as a sign-out: with the reason ``logout``."""
        self.pending = self.pending._replace(signs_out=True)

    def note_view(self, item: str) -> None:
        """Keep the id of the item that the request views. The middleware records the view."""
        self.viewed_item = item

    @property
    def began_in_other_store(self) -> int | None:
        """When the session began in the other store, in milliseconds, if it is used there. Else None."""
        return None

    def abandon(self) -> None:
        """Discard all changes since the last save, including a new key. The next access loads the data again."""
        self._session_key = self.saved_key
        self.snapshot = NO_SNAPSHOT
        self.pending = self.pending._replace(sign_in=None, rotates_from=None, ends_copies=False, binding=None)
        self.modified = False
        self.__dict__.pop("_session_cache", None)

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
        Give the session a key in the bucket of this user, unless its key is in that bucket.

        With ``renews``, the session gets a new key in any case, unless a new key is pending. With ``must_create``, the
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

    def saving(self, must_create: bool = False) -> Steps[None]:
        """Save as Django's ``save()`` does."""
        data: dict[str, Any] | None = self.__dict__.get("_session_cache")
        if data is None:
            data = yield from self.opening(no_load=must_create)
        if binding.guard is not None and not must_create:
            yield from self.proving()
        if self.saved_key is None:
            return (yield from self.creating())
        if self.snapshot.gone and not must_create:
            raise not_saved(ENDED)
        if self.snapshot.record is None and not must_create:
            yield from self.read_stored_sign_in()
        outcome = yield from SaveAttempts(self, data, must_create=must_create).steps()
        if outcome.status == "gone":
            yield from self._save_of_gone(data, outcome)

    def creating(self) -> Steps[None]:
        """Store a new session with the data that this object holds, under a new key."""
        data = yield from self.opening(no_load=True)
        if self.cookie.late and not user_of(data) and not self.cookie.was_guest:
            # The browser already has a newer cookie, which the cookie of a new session would replace. But an old
            # cookie of a guest is no proof: it may be planted, and then another visitor has signed in with it.
            raise not_saved(ROTATED)
        while True:
            if self.session_key is None or self.saved_key is not None:
                self.give_key(user_of(data))
            try:
                yield from SaveAttempts(self, data, must_create=True).steps()
            except CreateError:
                continue
            if self.cookie.late:
                self.cookie = self.cookie._replace(late=False)
            self.modified = True
            return

    def cycling(self, *, ends_copies: bool = False) -> Steps[None]:
        """Choose a new key. The next save moves the session to it. ``ends_copies`` is as in :meth:`end_copies`."""
        yield from self.opening()
        self.rotate_key()
        if ends_copies:
            self.pending = self.pending._replace(ends_copies=True)
        self.modified = True

    def flushing(self) -> Steps[None]:
        """End the session and empty this object, as Django's ``flush()`` does."""
        self.clear()
        yield from self.deleting(None)
        self._session_key = None

    def _deleting_proven(self, session_key: str | None) -> Steps[None]:
        if session_key is None:
            yield from self.proving()
        elif self._validate_session_key(session_key) and not (yield from proving_own([sid_of(session_key)])):
            return
        yield from self.deleting(session_key)

    def deleting(self, session_key: str | None) -> Steps[None]:
        """End the session with ``session_key``. None stands for this session."""
        pending, is_own = self.pending, session_key is None
        reason = Reason.LOGOUT if pending.signs_out else Reason.INVALIDATED
        if is_own:
            if self.snapshot.record is not None and self.visit is not None and self.visit.on_notice:
                # The next sign-in may be another user's. A message of this session is not for that user.
                self.visit.on_notice(None)
            # Until a rotation is saved, the session is stored under its old key.
            session_key = self.saved_key
        if pending != NOTHING_PENDING:
            self.pending = NOTHING_PENDING if is_own else pending._replace(signs_out=False)
        if session_key is None or not self._validate_session_key(session_key):
            return
        # Another request may have rotated the loaded session. Then the session under the new key must end, too. But
        # if it was a guest's, another visitor may have signed in with the same cookie: that session stays.
        follow = is_own and self.snapshot.record is not None and bool(self.snapshot.record.user_id)
        yield from operations.end_by_sid([sid_of(session_key)], Ending(reason), follow=follow)
        if is_own:
            # What was known of it says nothing about a session that this object begins.
            self.snapshot = GONE

    def read_stored_sign_in(self) -> Steps[None]:
        """Read the stored session's user and login time, for a save that replaces the data without loading them."""
        loaded = yield from reading.read_session(self.sid or "", Touch.NOTHING if self.visit is None else Touch.SEEN)
        if loaded.record is None:
            return
        try:
            self.snapshot = Snapshot(record=unpack(loaded.sid, loaded.record), due=loaded.due)
        except Exception as error:
            log_unusable(loaded.sid, error)

    def _save_of_gone(self, data: dict[str, Any], outcome: Outcome) -> Steps[None]:
        base, user_id = self.snapshot.record, user_of(data)
        signs_in = user_id and base is not None and (not base.user_id or self.pending.sign_in is not None)
        self.pending = self.pending._replace(rotates_from=None, own_key=None)
        if not (outcome.rotated_to and signs_in):
            self.snapshot = GONE
            raise not_saved(ROTATED if outcome.rotated_to else ENDED)
        # A double click on "sign in": the first click has moved the session. The second gets a session of its own.
        self.snapshot = NO_SNAPSHOT
        self._session_key = None
        self.cookie = self.cookie._replace(late=True)
        yield from self.creating()

    def run_steps(self, steps: Steps[T]) -> T:
        """Take ``steps``. Remember an outage: later operations fail at once, so a request waits for it only once."""
        if self.unavailable is not None:
            self.raise_outage()
        try:
            return drive(steps)
        except SessionStoreUnavailable as error:
            self.remember_outage(error)
            raise

    async def arun_steps(self, steps: Steps[T]) -> T:
        """The async variant of :meth:`run_steps`."""
        if self.unavailable is not None:
            self.raise_outage()
        try:
            return await adrive(steps)
        except SessionStoreUnavailable as error:
            self.remember_outage(error)
            raise

    def remember_outage(self, error: SessionStoreUnavailable) -> None:
        """Remember an outage, so that later operations fail at once."""
        if self.unavailable is None:
            # A copy has no traceback, which would hold the connection.
            self.unavailable, self._outage_met_at = copy(error), monotonic()

    def raise_outage(self) -> None:
        """Raise the outage that this object remembers. Without a request, it is forgotten after a while."""
        if self.unavailable is None:
            return
        is_for_good = isinstance(self.unavailable, SessionNotProven) or request_scope() is not None
        if is_for_good or monotonic() < self._outage_met_at + OUTAGE_SECONDS:
            raise copy(self.unavailable)
        self.unavailable = None


def django_request(request: Any) -> Any:
    """
    Return Django's own request, on which attributes are set that later code has to find.

    Django REST framework wraps it in a request of its own. An attribute that is set on the wrapper is not on Django's
    request.
    """
    while not isinstance(request, HttpRequest) and (inner := getattr(request, "_request", None)) is not None:
        request = inner
    return request


def session_of(request: Any) -> SessionStore | None:
    """Return the session of ``request``. None if it has no session, or one of another engine."""
    session = getattr(request, "session", None)
    return session if isinstance(session, SessionStore) else None


def proving_own(sids: list[str]) -> Steps[list[str]]:
    """
    Return ``sids`` without that of the request's own session, if the request goes on without it.

    If the session of the request that is being answered is among them, the guard is asked first: see ``proving()``.
    """
    scope = None if binding.guard is None else request_scope()
    session = None if scope is None else session_of(scope.request)
    if session is None:
        return sids
    if session.stored_sid in sids:
        yield from session.proving()
    return [sid for sid in sids if sid != session.unproven_sid]


def user_id_of(user: AbstractBaseUser) -> str:
    """Return the primary key of ``user`` as text. Raises ValueError if there is none: not saved, or deleted."""
    # The field of the user model: a derived model may have another primary key.
    key = get_user_model()._meta.pk
    if getattr(user, key.attname) is None:
        raise ValueError("This user has no primary key: not saved so far, or deleted.")
    return key.value_to_string(user)
