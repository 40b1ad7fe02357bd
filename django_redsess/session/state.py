"""What a session object knows, in four small values: the visit, the cookie, what is stored, and what is pending."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from django_redsess.session.notice import Notice
from django_redsess.session.operations import Limit
from django_redsess.session.record import Client, Record


@dataclass(slots=True)
class Visit:
    """
    The request that opened the session.

    Only such a session is touched when it is loaded. If somebody is signed in, each save calls ``client``, and stores
    the address and user agent that it returns. ``on_notice`` is called with the notice when loading finds why the
    session is gone, and with None when a sign-in makes that notice obsolete.
    """

    client: Callable[[], Client]
    on_notice: Callable[[Notice | None], None] | None = None
    passive: bool = False
    """Whether a page made the request by itself: it prolongs nothing."""
    begins_by_view: bool = True
    """Whether a guest who views an item may get a session for it, if ``VIEWED_GUESTS`` is on."""


class Cookie(NamedTuple):
    """
    What has become of the session that the cookie names.

    - ``notice``: why it is gone, for its user to read
    - ``late``: it lives on under another key, which this request does not know
    - ``refresh``: the cookie is to be sent again, so that it lasts as long as the session, whose deadline has moved
    """

    notice: Notice | None = None
    late: bool = False
    refresh: bool = False


class Known(NamedTuple):
    """
    What is stored, as far as this object knows: what it has loaded, or saved last.

    ``record`` is None if it knows of none. A save writes only over a record that has this ``revision``. An empty one
    fits any record: nobody has looked at the data, and the save replaces them. ``due`` is the deadline in milliseconds,
    or a time before it. ``gone`` says that a save found no session any more. What is gone does not come back.
    """

    record: Record | None = None
    revision: bytes = b""
    due: int = 0
    gone: bool = False


class SignIn(NamedTuple):
    """Somebody has signed in. Other sessions above ``limit`` end, or the sign-in is refused."""

    limit: Limit | None = None


class Pending(NamedTuple):
    """
    What is still to be done.

    By the next save, besides writing the data:

    - ``sign_in``: store a new login time, and keep to the limit
    - ``rotates_from``: move the session from this old key to its new one
    - ``own_key``: create the session under this key, which was just made and which nobody can have had
    - ``item``: record that the visitor views this item; without a save, the middleware does so

    After it:

    - ``uncounted``: count the view of this item, which a save has recorded, in another partition
    - ``signs_out``: report the next end as a sign-out
    """

    sign_in: SignIn | None = None
    rotates_from: str | None = None
    own_key: str | None = None
    item: str = ""
    uncounted: str = ""
    signs_out: bool = False


# A session object is made for each request. Until there is something to know, all of them share these.
COOKIE_UNCHANGED = Cookie()
NOTHING_KNOWN = Known()
GONE = Known(gone=True)
NOTHING_PENDING = Pending()
