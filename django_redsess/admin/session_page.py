"""The parts of a session's page, as HTML."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.http import QueryDict
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, ngettext

from django_redsess import online, viewed
from django_redsess.admin.filters import USER
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.presentation import exactly, when
from django_redsess.querysets import items
from django_redsess.session.deadlines import slack_of

OTHERS_MAX = 20
"""How many other sessions of the same user a session's page lists."""

VALUE_MAX = 1000
"""A longer value is cut after so many characters."""

KEYS_MAX = 500
"""The most keys of a session that its page lists."""

NEVER_SHOWN = ("_auth_user_hash", "_csrftoken", "_password_reset_token")
"""Keys of Django's whose values are secrets. The setting ``HIDDEN_VALUES`` names more."""


def deadlines(session: online.Session, details: online.Details | None) -> SafeString:
    """Show each deadline of ``session``, and the first of them, when it ends."""
    rows = [(name, when(at), exactly(at)) for name, at in _deadlines_of(session, details)]
    ends = format_html("<strong>{}</strong>", gettext("It ends"))
    rows.append((ends, when(session.expires_at), exactly(session.expires_at)))
    return table((gettext("Deadline"), gettext("Time left"), gettext("Date")), rows)


def viewed_items(session: online.Session) -> str:
    """Show the items that ``session`` viewed, the newest first."""
    found = viewed.recent(session.sid, limit=conf.VIEWED_PER_SESSION)
    rows = [(items.visible(view.item), when(view.at)) for view in found]
    return table((gettext("Item"), gettext("Viewed")), rows) if rows else gettext("It has viewed no items.")


def data(details: online.Details | None, *, with_values: bool) -> str:
    """Show the keys of a session's data and the size of each value; ``with_values`` shows the values, too."""
    if details is None or details.data is None:
        return gettext("The data can't be read.")
    headings, rows = [gettext("Key"), gettext("Size")], []
    if with_values:
        headings.append(gettext("Value"))
    for key, size in islice(details.sizes.items(), KEYS_MAX):
        value = [_value_text(key, details.data[key])] if with_values else []
        rows.append([items.visible(text) for text in (str(key), filesizeformat(size), *value)])
    if not rows:
        return gettext("It has no data.")
    left = len(details.sizes) - len(rows)
    more = ngettext("And %(count)d more key.", "And %(count)d more keys.", left) % {"count": left} if left else ""
    return table(headings, rows) + paragraph(more)


def other_sessions(session: OnlineSession, site: AdminSite) -> str:
    """Show the other sessions of the user of ``session``, newest sign-in first, with links to their pages."""
    if not session.user_id:
        return gettext("It is a guest's session.")
    rows = [
        (
            format_html('<a href="{}">{}</a>', url_of("change", site, quote(other.sid)), when(other.seen_at)),
            when(other.login_at) if other.login_at else "",
            format_html("<bdi>{}</bdi>", other.address),
            presentation.browser_name(other.user_agent),
        )
        for other in session.others
    ]
    if not rows:
        return gettext("There are no others.")
    headings = (gettext("Last seen"), gettext("Signed in"), gettext("Address"), gettext("Browser"))
    link = format_html(
        '<p><a href="{}?{}">{}</a></p>',
        url_of("changelist", site),
        query_of([session.user_id]),
        gettext("All sessions of this user"),
    )
    return table(headings, rows) + link


def paragraph(text: str) -> SafeString:
    """Return ``text`` as a paragraph below a field; nothing for no text."""
    return format_html('<p class="redsess-below">{}</p>', text) if text else SafeString()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> SafeString:
    """Return a table in the style of the page."""
    return render_to_string("admin/django_redsess/onlinesession/table.html", {"headings": headings, "rows": rows})


def url_of(name: str, site: AdminSite, *args: str) -> str:
    """Return the URL of the list, or of one of its pages."""
    return reverse(f"admin:django_redsess_onlinesession_{name}", args=args, current_app=site.name)


def query_of(user_ids: Sequence[str]) -> str:
    """Return the query string with which the list shows the sessions of these users."""
    query = QueryDict(mutable=True)
    query.setlist(USER, user_ids)
    return query.urlencode()


def _deadlines_of(session: online.Session, details: online.Details | None) -> Iterator[tuple[str, datetime]]:
    if details is not None:
        django_deadline = details.django_deadline
        if conf.SLIDING and details.age_seconds:
            django_deadline = session.seen_at + timedelta(seconds=details.age_seconds)
        yield gettext("Django's: age or date"), django_deadline
    if conf.IDLE_TIMEOUT:
        slack = timedelta(milliseconds=slack_of(conf.IDLE_TIMEOUT * 1000))
        yield gettext("Idle: since it was last seen"), session.seen_at + timedelta(seconds=conf.IDLE_TIMEOUT) + slack
    if conf.ABSOLUTE_TIMEOUT and session.login_at:
        yield gettext("Absolute: since sign-in"), session.login_at + timedelta(seconds=conf.ABSOLUTE_TIMEOUT)


def _value_text(key: str, value: Any) -> str:
    if key in NEVER_SHOWN or key in conf.HIDDEN_VALUES:
        return gettext("(not shown)")
    try:
        text = json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return gettext("(nested too deep)")
    except (TypeError, ValueError):
        text = repr(value)
    return Truncator(text).chars(VALUE_MAX)
