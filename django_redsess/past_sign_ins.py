"""
The source of past sign-ins for pages of the core. Public.

An app that stores sign-ins calls :func:`register`, as ``django_redsess.contrib.history`` does. Without a source, pages
show no past sign-ins.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol

from django.http import HttpRequest
from django.utils.translation import gettext, ngettext

from django_redsess.online import places
from django_redsess.signals import Reason
from django_redsess.user_messages import code_of, message_in_words

if TYPE_CHECKING:
    from django.contrib.admin.sites import AdminSite  # A site may do without the admin.

__all__ = ["PastSignIn", "SignInSource", "UserSignIns", "register"]


class PastSignIn(NamedTuple):
    """
    A sign-in, and what became of its session.

    ``user_id`` is the primary key as text. ``ended_at`` is None if no end is known: the session may live. If
    ``ended_at_is_approximate`` is set, the time is not exact. ``reason`` is a :class:`django_redsess.signals.Reason` as
    text, or a word of the app's own, ``""`` if it is not known. ``reason_text`` is its text in the reader's language.
    ``ended_by`` is the primary key as text of the user who ended it, ``""`` if no request of a user did. ``message`` is
    the message to the user in the active language, and ``message_code`` its code if it is a ready-made one:
    ``stored_message`` is that of ``EndedSession``. ``internal_note`` is the note of that user for administrators.
    ``is_new_device`` tells whether the device was new, None if that is not known. ``place`` is where the address is:
    pages set it, see :func:`with_places`. ``id`` is the sign-in's id at the source. ``unproven_at`` is when a request
    last used the session without the proof of its device, None if none did; ``unproven_address`` and
    ``unproven_user_agent`` are that request's, and ``unproven_refused`` tells whether it was refused. All times are
    aware datetimes.
    """

    user_id: str
    created_at: datetime
    last_seen_at: datetime | None = None
    ended_at: datetime | None = None
    ended_at_is_approximate: bool = False
    reason: str = ""
    reason_text: str = ""
    ended_by: str = ""
    stored_message: str = ""
    address: str = ""
    user_agent: str = ""
    is_new_device: bool | None = None
    place: str = ""
    id: str = ""
    unproven_at: datetime | None = None
    unproven_address: str = ""
    unproven_user_agent: str = ""
    unproven_refused: bool | None = None
    internal_note: str = ""

    @property
    def message(self) -> str:
        return message_in_words(self.stored_message)

    @property
    def message_code(self) -> str:
        return code_of(self.stored_message)


class UserSignIns(NamedTuple):
    """The latest sign-ins of a user, and the URL of the page in the admin that lists all."""

    sign_ins: list[PastSignIn]
    url: str


class SignInSource(Protocol):
    """An app that stores sign-ins. It handles the errors of its database itself."""

    def ended_sign_ins(self, user_id: str, *, limit: int) -> list[PastSignIn]:
        """Return the user's latest sign-ins whose sessions have ended, the newest first: for the user's own page."""

    def sign_ins_for_admin(
        self, request: HttpRequest, site: AdminSite, user_id: str, *, limit: int
    ) -> UserSignIns | None:
        """Return the user's latest sign-ins, the newest first, or None if the administrator may not see them."""


_source: SignInSource | None = None


def register(source: SignInSource | None) -> None:
    """Make ``source`` the source of past sign-ins, in place of an earlier one. With None, pages show none."""
    global _source
    _source = source


def ended_sign_ins(user_id: str, *, limit: int) -> list[PastSignIn]:
    """Call :meth:`SignInSource.ended_sign_ins` of the source. Return an empty list without a source."""
    found = _source.ended_sign_ins(user_id, limit=limit) if _source else []
    # The user reads these, and no internal note.
    return [each._replace(internal_note="") for each in found]


def sign_ins_for_admin(request: HttpRequest, site: AdminSite, user_id: str, *, limit: int) -> UserSignIns | None:
    """Call :meth:`SignInSource.sign_ins_for_admin` of the source. Return None without a source."""
    return _source.sign_ins_for_admin(request, site, user_id, limit=limit) if _source else None


def with_places(sign_ins: Iterable[PastSignIn]) -> list[PastSignIn]:
    """Return the sign-ins with the places of their addresses, looked up in one query: call this once a page."""
    sign_ins = list(sign_ins)
    found = places.find_places(each.address for each in sign_ins)
    return [each._replace(place=found.get(each.address, "")) for each in sign_ins] if found else sign_ins


def end_text(sign_in: PastSignIn) -> str:
    """
    Return the text for administrators that says why the session has ended, and by whom. ``""`` if no end is known.

    The text has the placeholder ``%(name)s`` for the name of the user who ended it, if that is not the session's user.
    """
    if sign_in.ended_at is None:
        return ""
    if not sign_in.reason:
        return gettext("ended, and nobody recorded why")
    is_own = sign_in.ended_by == sign_in.user_id
    if sign_in.reason == Reason.KICKED:
        if is_own:
            return gettext("ended by the user, on another device")
        return gettext("ended by %(name)s (staff)") if sign_in.ended_by else gettext("ended by a command")
    if sign_in.reason == Reason.INVALIDATED and sign_in.ended_by and not is_own:
        return gettext("ended by the site, for %(name)s (staff)")
    return sign_in.reason_text.replace("%", "%%")


def unproven_text(sign_in: PastSignIn) -> str:
    """Return the text that says that the session was used without the proof of its device. ``""`` if it was not."""
    if sign_in.unproven_at is None:
        return ""
    return gettext("refused without proof") if sign_in.unproven_refused else gettext("used without proof")


def own_end_text(sign_in: PastSignIn, *, maximum: int | None = None) -> str:
    """
    Return the text for the user that says why the session has ended; ``""`` if that is not known.

    It names no administrator.

    ``maximum`` is how many sessions the user may have, if known.
    """
    if sign_in.reason == Reason.KICKED:
        is_own = sign_in.ended_by == sign_in.user_id
        if is_own:
            return gettext("signed out by you, on another device")
        return gettext("signed out by an administrator")
    if sign_in.reason == Reason.REPLACED and maximum is not None:
        text = ngettext(
            "signed out because you reached the limit of %(maximum)d device",
            "signed out because you reached the limit of %(maximum)d devices",
            maximum,
        )
        return text % {"maximum": maximum}
    if sign_in.reason == Reason.REPLACED:
        return gettext("signed out because you signed in on another device")
    return sign_in.reason_text
