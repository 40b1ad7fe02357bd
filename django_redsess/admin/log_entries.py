"""Actions of administrators, as entries in the history pages of Django's admin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime

from django.conf import settings
from django.contrib.admin.models import CHANGE, LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db.models import Model
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext, override

from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.labels import printable
from django_redsess.querysets import users_by_id
from django_redsess.signals import AdministratorActions, EndedSession, collect_actions
from django_redsess.user_messages import message_in_words

ENTRIES_MAX = 1000
"""Up to so many users of a request get an entry each. For more users, the list gets an entry per thousand users."""

IDS_IN_ENTRY = 1000


@contextmanager
def in_language_of_site() -> Iterator[None]:
    """
    Return a context for texts of a history, in the language of ``LANGUAGE_CODE``.

    Their readers may have many languages, and Django stores the text of an entry as it is.
    """
    with override(settings.LANGUAGE_CODE):
        yield


def make_entry(request: HttpRequest, model: type[Model], object_id: str | None, name: object, text: str) -> LogEntry:
    """
    Return an entry, not yet saved, for the history of an object of ``model``.

    ``object_id`` None stands for the history of the whole list. ``name`` is the object's name in the entry. ``text`` is
    in the language of :func:`in_language_of_site`.
    """
    return LogEntry(
        user_id=request.user.pk,  # type: ignore[misc]  # somebody is signed in here
        content_type=ContentType.objects.get_for_model(model),
        object_id=object_id,
        object_repr=str(name)[:200],
        action_flag=CHANGE,
        change_message=text,
    )


# In all functions below, users read ``message``, in its stored form. ``note`` is for administrators.


@in_language_of_site()
def save_deactivation(request: HttpRequest, user: Model, message: str, note: str = "") -> None:
    """Save in the user's history that ``request`` has deactivated the account."""
    entry = make_entry(request, get_user_model(), str(user.pk), user, gettext("Deactivated the account."))
    _add_words(entry, message, note)
    entry.save()


@in_language_of_site()
def save_block(request: HttpRequest, user: Model, until: datetime, message: str, note: str = "") -> None:
    """Save in the user's history that ``request`` has blocked the user."""
    text = gettext("Blocked until %(time)s.") % {"time": labels.exactly(until)}
    entry = make_entry(request, get_user_model(), str(user.pk), user, text)
    _add_words(entry, message, note)
    entry.save()


@in_language_of_site()
def save_lift(request: HttpRequest, user_id: str, name: object) -> None:
    """Save in the user's history that ``request`` has lifted the block. ``name`` is the user's name."""
    make_entry(request, get_user_model(), user_id, name, gettext("Lifted the block.")).save()


@contextmanager
def saving_ends(request: HttpRequest, message: str, note: str = "") -> Iterator[AdministratorActions]:
    """
    Return a context that saves the ends in it by :func:`save_ends`, also those before an error, such as an outage.

    The value of the context is filled as sessions end: each reply of a script that ends sessions passes through
    :func:`django_redsess.signals.hold_events`.
    """
    with collect_actions(note) as done:
        try:
            yield done
        finally:
            save_ends(request, done.kicked, message, note)


@in_language_of_site()
def save_ends(request: HttpRequest, ended: Sequence[EndedSession], message: str, note: str = "") -> None:
    """
    Save which sessions ``request`` has ended, in the history of each user: an ended session has no page.

    The history of the list has an entry for sessions of guests, who have no page either.
    """
    # A forged record may have any text as its user id.
    users = Counter(printable(session.user_id) for session in ended)
    guests = users.pop("", 0)
    entries = []
    if guests:
        text = ngettext("Ended %(count)d session of a guest.", "Ended %(count)d sessions of guests.", guests)
        entries.append(_list_entry(request, text % {"count": guests}))
    entries += _list_entries(request, users) if len(users) > ENTRIES_MAX else _user_entries(request, users)
    for each in entries:
        _add_words(each, message, note)
    LogEntry.objects.bulk_create(entries)


@in_language_of_site()
def save_export(request: HttpRequest, count: int, file_format: str, query: str) -> None:
    """Save in the history of the list that ``request`` has exported ``count`` sessions, with its query string."""
    text = ngettext("Exported %(count)d session as %(format)s.", "Exported %(count)d sessions as %(format)s.", count)
    save_list_entry(request, OnlineSession, text % {"count": count, "format": file_format.upper()}, query)


@in_language_of_site()
def save_list_entry(request: HttpRequest, model: type[Model], text: str, query: str) -> None:
    """Save ``text`` in the history of the list of ``model``, with the query string ``query``."""
    if query:
        text += " " + gettext("Query: %s") % printable(query)
    make_entry(request, model, None, model._meta.verbose_name_plural, text).save()


def _add_words(entry: LogEntry, message: str, note: str) -> None:
    told = message_in_words(message)
    words = [gettext("Message: %s") % told] if told else []
    if note:
        words.append(gettext("Internal note: %s") % note)
    entry.change_message = " ".join(filter(None, (entry.change_message, " · ".join(words))))


def _user_entries(request: HttpRequest, counts: Mapping[str, int]) -> list[LogEntry]:
    users = users_by_id(set(counts))
    entries = []
    for user_id, count in counts.items():
        text = ngettext("Ended %(count)d session.", "Ended %(count)d sessions.", count) % {"count": count}
        name = users.get(user_id, gettext("deleted user %s") % user_id)
        entries.append(make_entry(request, get_user_model(), user_id, name, text))
    return entries


def _list_entries(request: HttpRequest, counts: Mapping[str, int]) -> list[LogEntry]:
    text = gettext("Ended sessions: %(count)d, of users: %(users)d. Ids of users: %(ids)s.")
    user_ids = list(counts)
    entries = []
    for start in range(0, len(user_ids), IDS_IN_ENTRY):
        some = user_ids[start : start + IDS_IN_ENTRY]
        count = sum(counts[user_id] for user_id in some)
        entries.append(_list_entry(request, text % {"count": count, "users": len(some), "ids": ", ".join(some)}))
    return entries


def _list_entry(request: HttpRequest, text: str) -> LogEntry:
    return make_entry(request, OnlineSession, None, OnlineSession._meta.verbose_name_plural, text)
