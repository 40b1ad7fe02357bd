"""Ending lists of sessions that are read first: where a rule in Python decides about each, or a search found them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from django_redsess.models import OnlineSession
from django_redsess.online import EndedList
from django_redsess.online.ending import end_batch, look_again
from django_redsess.session.operations import AT_ONCE_MAX

if TYPE_CHECKING:
    from django_redsess.querysets.sessions import SessionQuerySet


class OneByOneEnding:
    """
    End the sessions of a queryset, as :class:`django_redsess.online.ending.BulkEnding` does, but ask about each.

    ``may_end`` decides about a session. ``kept`` counts those that it has kept. A request that goes on where another
    one stopped starts with the other's ``kept``. The keyword arguments are those of :func:`end_batch`.
    """

    def __init__(
        self,
        sessions: SessionQuerySet,
        may_end: Callable[[OnlineSession], bool],
        kept: int,
        *,
        message: str,
        latest: int,
        keep_users: Collection[str],
    ) -> None:
        # In this order, a session that signs in or is seen meanwhile moves to a place that was read already, or to one
        # that will be. If a session that is kept is seen meanwhile, one other may be skipped: it is still in the list.
        self._sessions = sessions.order_by("seen_at" if sessions.session_filter.only_by_seen else "-login_at")
        self._may_end = may_end
        self._options: dict[str, Any] = {"message": message, "latest": latest, "keep_users": keep_users}
        self.kept, self.done = kept, False

    def end_batch(self) -> EndedList:
        """Read up to 250 sessions, and end those that may be ended."""
        page = list(self._sessions[self.kept : self.kept + AT_ONCE_MAX])
        self.done = not page
        if self.done:
            return look_again()
        ended = end_batch([session.sid for session in page if self._may_end(session)], **self._options)
        self.kept += len(page) - len(ended)
        return ended


class FoundEnding:
    """
    End the sessions that a search has found by looking through the newest: see ``SessionQuerySet.looked_through``.

    The search is repeated once, when this is made. At most ``limit`` sessions end, the latest first: with some of the
    newest gone, a search reaches older ones, which nobody has counted. The other arguments are those of
    :class:`OneByOneEnding`.
    """

    def __init__(
        self,
        sessions: SessionQuerySet,
        may_end: Callable[[OnlineSession], bool],
        limit: int,
        **options: Any,
    ) -> None:
        self._options, seconds = options, sessions.session_filter.active_seconds
        asked_at = datetime.fromtimestamp(options["latest"] / 1000, UTC)
        # As in BulkEnding: the last seconds are counted back from the question, and later sign-ins stay.
        since = None if seconds is None else asked_at - timedelta(seconds=seconds)
        found = [
            session
            for session in sessions.newest()
            if (since is None or session.seen_at >= since) and (session.login_at or asked_at) <= asked_at
        ]
        self._left = [session.sid for session in found if may_end(session)][:limit]
        self.done = False

    def end_batch(self) -> EndedList:
        """End up to 250 of the sessions."""
        self.done = not self._left
        if self.done:
            return look_again()
        sids, self._left = self._left[:AT_ONCE_MAX], self._left[AT_ONCE_MAX:]
        return end_batch(sids, **self._options)
