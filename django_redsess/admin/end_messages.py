"""What an administrator reads after sessions were ended: how many, and whose they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.formats import number_format
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.querysets import users_by_id
from django_redsess.session import notice
from django_redsess.signals import EndedSession

NAMES_MAX = 3
"""A message names so many users."""

NAME_MAX = 100
"""A longer name is cut after so many characters."""


def count_text(count: int) -> SafeString:
    """Say how many sessions have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
    return filled(text, count=number_format(count, force_grouping=True))


def ended_text(ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession] | None = None) -> SafeString:
    """
    Say how many sessions have ended, and whose they were, as HTML.

    Names are as the list shows them. ``rows`` are the sessions by sid: if one has ended, it says of which browser.
    """
    if len(ended) == 1 and (row := (rows or {}).get(ended[0].sid)) is not None:
        client = ", ".join(filter(None, (labels.browser_name(row.user_agent), row.address)))
        if client and row.user_id:
            text = gettext("The session of %(user)s was ended: %(client)s.")
            return filled(text, user=name_html(str(row)), client=name_html(client))
        if client:
            return filled(gettext("The session of a guest was ended: %(client)s."), client=name_html(client))
    user_ids = list(dict.fromkeys(session.user_id for session in ended if session.user_id))
    if not user_ids:
        return count_text(len(ended))
    names, shown = names_of(*user_ids[:NAMES_MAX]), number_format(len(ended), force_grouping=True)
    if len(user_ids) == 1 and all(session.user_id for session in ended):
        text = ngettext(
            "%(count)s session of %(user)s was ended.", "%(count)s sessions of %(user)s were ended.", len(ended)
        )
        return filled(text, count=shown, user=names)
    more = len(user_ids) - NAMES_MAX
    if more > 0:
        text = ngettext("Users: %(users)s and %(count)s more.", "Users: %(users)s and %(count)s more.", more)
        users = filled(text, users=names, count=number_format(more, force_grouping=True))
    else:
        users = filled(gettext("Users: %(users)s."), users=names)
    return format_html("{} {}", count_text(len(ended)), users)


def filled(text: str, **values: str) -> SafeString:
    """Return the translated ``text`` as HTML, with its placeholders filled."""
    escaped = {name: conditional_escape(value) for name, value in values.items()}
    return mark_safe(conditional_escape(text) % escaped)  # noqa: S308  # all parts are escaped


def names_of(*user_ids: str) -> SafeString:
    """Return the names of these users as the list shows them, as HTML."""
    users, names = users_by_id(set(user_ids)), []
    for user_id in user_ids:
        row = OnlineSession(user_id=user_id)
        row.user = users.get(user_id)
        names.append((name_html(str(row)),))
    return format_html_join(", ", "{}", names)


def name_html(name: str) -> SafeString:
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    return format_html("<bdi>{}</bdi>", Truncator(notice.clean(name)).chars(NAME_MAX))
