"""
The other store while sessions move, and the operations on many sessions that reach it.

An engine that moves sessions names it by its class attribute ``other_store``. Without one, nothing is asked.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from importlib import import_module
from typing import NamedTuple, Protocol

from django.conf import settings

from django_redsess.transport.keys import Store
from django_redsess.transport.steps import Steps


class EndBefore(NamedTuple):
    """
    An end of all sessions that began before now, or before ``latest`` (milliseconds of the server's clock).

    It is for the sessions of ``user_ids``. If these are None, it is for those of all ``users``, of ``guests``, or both.
    The sids ``keep`` and the sessions of ``keep_user_ids`` stay.
    """

    user_ids: Sequence[str] | None
    users: bool = True
    guests: bool = False
    latest: int | None = None
    keep: Collection[str] = ()
    keep_user_ids: Collection[str] = ()


class Watched(NamedTuple):
    """A session that was used in the other store: its sid, its user's id, and when it began, in milliseconds."""

    sid: str
    user_id: str
    began_at: int


class OtherStore(Protocol):
    """The questions of the engine's operations to the other store."""

    @property
    def display_name(self) -> str:
        """The name of the store for pages and commands. ``""`` if no session is there."""

    def own_stores(self) -> Sequence[Store | None]:
        """
        Return the stores of this engine: first the one from which sessions move. None stands for that of the settings.

        Operations on many sessions are done in each, in this order: a session that moves meanwhile must be met. The
        store of another engine is not among them: its sessions can't be listed by user.
        """

    def note_end_before(self, which: EndBefore) -> Steps[None]:
        """Note the end of sessions of another engine, as :class:`EndBefore` describes them."""

    def note_ends(self, sids: Sequence[str]) -> Steps[None]:
        """Note that the sessions of another engine with these sids are over."""

    def find_living(self, watched: Sequence[Watched]) -> Steps[list[bool]]:
        """Tell of each session that is not here whether it lives in the other store, as far as that is known here."""


def other_store() -> OtherStore | None:
    """Return the other store. None unless sessions move."""
    try:
        engine = import_module(settings.SESSION_ENGINE).SessionStore
    except Exception:  # Importing an engine may raise anything. Django reports it.
        return None
    found: OtherStore | None = getattr(engine, "other_store", None)
    return found


def stores_of_site() -> Sequence[Store | None]:
    """Return all stores of this engine that the site uses: see :meth:`OtherStore.own_stores`."""
    other = other_store()
    return (None,) if other is None else other.own_stores()


def sibling_stores() -> list[Store]:
    """Return the other store if it is one of this engine."""
    return [store for store in stores_of_site() if store is not None]
