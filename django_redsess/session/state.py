"""The state of a session object, in four values: the visit, the cookie, what is stored, and what is pending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from django_redsess.session.limits import Limit
from django_redsess.session.notice import Notice
from django_redsess.session.record import Client, Record


@dataclass(slots=True)
class Visit:
    """
    The request that opened the session.

    Only a session with a visit is touched when it is loaded. If a user is signed in, each save calls ``client``, and
    stores the address and user agent that it returns; with ``INDEX_ADDRESSES``, a guest's address, too. ``on_notice``
    is called with the notice when a load finds out why the session is gone, and with a text when the session has a
    message about another one. It returns whether the user is told by this request. It is called with None when a
    sign-in or ``flush()`` makes that obsolete.
    """

    client: Callable[[], Client]
    on_notice: Callable[[Notice | str | None], bool] | None = None
    passive: bool = False
    """Whether the request is passive: made by a page itself. It prolongs nothing."""
    begins_by_view: bool = True
    """Whether viewing an item may start a session for a guest, if ``VIEWED_GUESTS`` is True."""


class Cookie(NamedTuple):
    """
    What this request knows about the session that the cookie names.

    - ``notice``: why the session is gone, as a notice to its user
    - ``late``: the session has another key now, which this request does not know
    - ``was_guest``: that session had no user when it got its new key
    - ``refresh``: the cookie must be sent again, because the session's deadline has moved
    """

    notice: Notice | None = None
    late: bool = False
    was_guest: bool = False
    refresh: bool = False


class Known(NamedTuple):
    """
    What is stored, as far as this object knows from its last load or save.

    ``record`` is None if no record is known. A save writes only over a record that has this ``revision``. An empty
    revision fits any record: then the save replaces data that were not loaded. ``due`` is the deadline in milliseconds,
    or a time before it. ``gone`` says that a save found no session. A session that is gone is not stored again.
    """

    record: Record | None = None
    revision: bytes = b""
    due: int = 0
    gone: bool = False


class SignIn(NamedTuple):
    """A user has signed in. Other sessions above ``limit`` end, or the sign-in is refused."""

    limit: Limit | None = None


class Pending(NamedTuple):
    """
    The work that is still to be done.

    By the next save, besides writing the data:

    - ``sign_in``: store a new login time, and enforce the limit
    - ``rotates_from``: move the session from this old key to its new one
    - ``own_key``: create the session under this key, which is new and certainly unused
    - ``item``: record that the visitor views this item; without a save, the middleware does so

    After that save:

    - ``uncounted``: count the view of this item, which a save has recorded, in another partition
    - ``signs_out``: report the next end as a sign-out
    """

    sign_in: SignIn | None = None
    rotates_from: str | None = None
    own_key: str | None = None
    item: str = ""
    uncounted: str = ""
    signs_out: bool = False


# Each request has its own session object. The objects share these values until they know something else.
COOKIE_UNCHANGED = Cookie()
NOTHING_KNOWN = Known()
GONE = Known(gone=True)
NOTHING_PENDING = Pending()
