"""
The other store while sessions move: what operations on many sessions have to do there, too.

An engine that moves sessions names it by its class attribute ``elsewhere``. Without one, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from django.conf import settings

from django_redsess.transport.keys import Store
from django_redsess.transport.round_trips import Steps


class EndedBefore(NamedTuple):
    """
    Which sessions are over that began before now, or before ``latest`` (milliseconds of the server's clock).

    Those of ``user_ids``; without these, of all ``users`` and of ``guests``. The sids ``keep`` and the sessions of
    ``keep_users`` stay.
    """

    user_ids: Sequence[str] | None
    users: bool = True
    guests: bool = False
    latest: int | None = None
    keep: Collection[str] = ()
    keep_users: Collection[str] = ()


class Elsewhere(Protocol):
    """What the engine's operations ask of the store that sessions are moved from."""

    @property
    def name(self) -> str:
        """What pages and commands call it."""

    def stores(self) -> list[Store]:
        """
        Return it if it is a store of this engine: then operations are repeated there.

        Of others, nobody can list whose the sessions are: then this is empty.
        """

    def end_before(self, which: EndedBefore) -> Steps[None]:
        """Note which sessions are over there."""

    def end(self, sids: Sequence[str]) -> Steps[None]:
        """Note that the sessions with these sids are over there."""

    def lives(self, sid: str, user_id: str, began_at: int) -> Steps[bool]:
        """Tell whether a session that was used there lives in either store, as far as that is known here."""


def elsewhere() -> Elsewhere | None:
    """Return the other store. None unless sessions move."""
    try:
        engine = import_module(settings.SESSION_ENGINE).SessionStore
    except Exception:  # Importing an engine may raise anything. Django reports it.
        return None
    found: Elsewhere | None = getattr(engine, "elsewhere", None)
    return found


def other_stores() -> list[Store]:
    """Return the other store if it is one of this engine."""
    other = elsewhere()
    return [] if other is None else other.stores()
