"""What the admin says of sessions that have ended: how many, and whose they were."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, ngettext

from django_redsess.admin import pages
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.signals import EndedSession

NAMES_MAX = 3  # A message names so many users.


def count_text(count: int) -> SafeString:
    """Say how many sessions have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session was ended.", "%(count)s sessions were ended.", count)
    return pages.filled(text, count=pages.shown_number(count))


def user_text(count: int, name: SafeString) -> SafeString:
    """Say how many sessions of one user have ended; nothing for none."""
    if not count:
        return SafeString()
    text = ngettext("%(count)s session of %(user)s was ended.", "%(count)s sessions of %(user)s were ended.", count)
    return pages.filled(text, count=pages.shown_number(count), user=name)


def ended_text(ended: Sequence[EndedSession], rows: Mapping[str, OnlineSession] | None = None) -> SafeString:
    """
    Say how many sessions have ended, and whose they were, as HTML.

    Names are as the list shows them. ``rows`` are the sessions by sid: if one has ended, it says of which browser.
    """
    if len(ended) == 1 and (row := (rows or {}).get(ended[0].sid)) is not None:
        client = ", ".join(filter(None, (labels.browser_name(row.user_agent), row.address)))
        if client:
            text = gettext("The session of a guest was ended: %(client)s.")
            if row.user_id:
                text = gettext("The session of %(user)s was ended: %(client)s.")
            return pages.filled(text, user=pages.name_html(str(row)), client=pages.name_html(client))
    user_ids = list(dict.fromkeys(session.user_id for session in ended if session.user_id))
    if len(user_ids) == 1 and all(session.user_id for session in ended):
        return user_text(len(ended), pages.names_of(*user_ids))
    if not user_ids:
        return count_text(len(ended))
    names, more = pages.names_of(*user_ids[:NAMES_MAX]), len(user_ids) - NAMES_MAX
    if more > 0:
        text = ngettext("Users: %(users)s and %(count)s more.", "Users: %(users)s and %(count)s more.", more)
        users = pages.filled(text, users=names, count=pages.shown_number(more))
    else:
        users = pages.filled(gettext("Users: %(users)s."), users=names)
    return format_html("{} {}", count_text(len(ended)), users)
