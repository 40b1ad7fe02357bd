"""The page of a session in the admin: its fields, when it ends, the user's other sessions, and viewed items."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import islice
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.contrib.admin.views.main import SEARCH_VAR
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.timesince import TIME_STRINGS
from django.utils.translation import gettext, ngettext

from django_redsess import online, viewed
from django_redsess.admin import links
from django_redsess.admin.deactivation import missing
from django_redsess.admin.filters import EVERYONE, WHO, limit_of_user, users_admin
from django_redsess.admin.links import ItemLink, end_url, query_of, return_page_of, url_of
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.labels import exactly, when
from django_redsess.querysets import visible
from django_redsess.session.deadlines import SLACK_MAX, slack_of

UNITS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60}


class Deadline(NamedTuple):
    """A deadline: ``text`` says what it follows from, ``at`` when it is, ``moves`` whether requests make it later."""

    text: str
    at: datetime
    moves: bool = False


def deadlines_of(session: online.Session, details: online.Details | None) -> list[Deadline]:
    """Return the deadlines of ``session``, the first to come first."""
    deadlines = sorted(_deadlines_of(session, details), key=lambda deadline: deadline.at)
    # The store ends a session a little later, so that not every request has to move the deadline. Nor does every
    # request move the time when the session was last seen.
    slack = timedelta(milliseconds=SLACK_MAX, seconds=conf.TOUCH_INTERVAL)
    if deadlines and session.expires_at - deadlines[0].at <= slack:
        # A passive request moves that time, but no deadline. Then the store ends a session earlier.
        is_late = deadlines[0].at - session.expires_at > timedelta(seconds=1)
        first = next((deadline for deadline in deadlines if is_late and deadline.moves), deadlines[0])
        deadlines.remove(first)
        deadlines.insert(0, first._replace(at=session.expires_at))
    return deadlines


def ends_with_browser(details: online.Details | None) -> bool:
    """Tell whether the browser forgets the session when it closes. False if the data can't be read."""
    if details is None or details.data is None:
        return False
    expiry = details.data.get("_session_expiry")
    return settings.SESSION_EXPIRE_AT_BROWSER_CLOSE if expiry is None else expiry == 0


def duration(seconds: float) -> str:
    """Return ``seconds`` as text, in the largest unit that needs no fraction: "2 weeks", "90 minutes"."""
    whole = round(seconds)
    for unit, length in UNITS.items():
        if whole >= length and whole % length == 0:
            return TIME_STRINGS[unit] % {"num": whole // length}
    return ngettext("%(num)d second", "%(num)d seconds", whole) % {"num": whole}


def _deadlines_of(session: online.Session, details: online.Details | None) -> Iterator[Deadline]:
    if details is not None:
        yield _django_deadline(session, details)
    if conf.IDLE_TIMEOUT:
        slack = timedelta(milliseconds=slack_of(conf.IDLE_TIMEOUT * 1000))
        at = session.seen_at + timedelta(seconds=conf.IDLE_TIMEOUT) + slack
        yield Deadline(_after_last_request(conf.IDLE_TIMEOUT), at, moves=True)
    if conf.ABSOLUTE_TIMEOUT and session.login_at:
        text = gettext("%(time)s after the sign-in") % {"time": duration(conf.ABSOLUTE_TIMEOUT)}
        yield Deadline(text, session.login_at + timedelta(seconds=conf.ABSOLUTE_TIMEOUT))


def _django_deadline(session: online.Session, details: online.Details) -> Deadline:
    age = details.age_seconds
    if not age:
        return Deadline(gettext("At the date that the site has set"), details.django_deadline)
    if conf.SLIDING:
        return Deadline(_after_last_request(age), session.seen_at + timedelta(seconds=age), moves=True)
    return Deadline(gettext("%(time)s after the last change") % {"time": duration(age)}, details.django_deadline)


def _after_last_request(seconds: float) -> str:
    return gettext("%(time)s after the last request") % {"time": duration(seconds)}


OTHERS_MAX = 20
"""How many other sessions of the same user a session's page lists."""

VALUE_MAX = 1000
"""A longer value is cut after so many characters."""

KEYS_MAX = 500
"""The most keys of a session that its page lists."""

NEVER_SHOWN = ("_auth_user_hash", "_csrftoken", "_password_reset_token")
"""Keys of Django's whose values are secrets. The setting ``HIDDEN_VALUES`` names more."""


@dataclass(frozen=True)
class SessionPage:
    """What the page of ``session`` shows, read for ``request``. The methods return its parts as HTML."""

    request: HttpRequest
    site: AdminSite
    session: OnlineSession
    details: online.Details | None
    views: list[viewed.ViewedItem]
    items: dict[str, ItemLink]
    """The names of viewed items."""
    others: list[tuple[OnlineSession, bool]]
    """Other sessions of the user, newest sign-in first, and whether the administrator may end them."""

    def owner(self) -> str:
        """Show whose session it is: with links for those who may see the user."""
        name, url = format_html("<bdi>{}</bdi>", self.session), self._url_of_user("change")
        if not url:
            return format_html("{}{}", name, own_mark(self.session))
        account = format_html('<a href="{}">{}</a>{}', url, name, own_mark(self.session))
        history = format_html('<a href="{}">{}</a>', self.history_url(), gettext("History of this user"))
        return _beside([account, history])

    def history_url(self) -> str:
        """Return the URL of the user's history, where ends are noted. ``""`` for those who may not see it."""
        return self._url_of_user("history")

    def origin(self) -> str:
        """Show browser, system and address, with a link to all sessions from this address."""
        parts = [part for part in (self._browser(self.session), self._address(self.session)) if part]
        return _beside(parts or [labels.stored("")])

    def times(self) -> str:
        """Show when the user signed in, was last seen, and when and why the session ends."""
        session, times = self.session, []
        if session.login_at:
            times.append(format_html(gettext("Signed in: {time}"), time=moment(session.login_at)))
        times.append(format_html(gettext("Last seen: {time}"), time=moment(session.seen_at)))
        ends = format_html(gettext("Ends: {time}"), time=moment(session.expires_at))
        times.append(format_html_join("\xa0· ", "{}", [(ends,), *((first.text,) for first in self._deadlines[:1])]))
        if ends_with_browser(self.details):
            times.append(format_html("{}", gettext("Its user is signed out when the browser closes.")))
        return _lines(times)

    @property
    def has_deadlines(self) -> bool:
        """Whether there are several deadlines. A single one is told by :meth:`times`."""
        return len(self._deadlines) > 1

    def deadlines(self) -> str:
        """Show each deadline. The first one is marked."""
        lines = [format_html("{}: {}", deadline.text, moment(deadline.at)) for deadline in self._deadlines]
        lines[:1] = [format_html("<strong>{}</strong> ({})", line, gettext("comes first")) for line in lines[:1]]
        return _lines(lines)

    def viewed_items(self) -> str:
        """Show the viewed items, the newest first."""
        if not self.views:
            return gettext("It has viewed no items.")
        rows = [(links.item_html(view.item, self.items.get(view.item)), moment(view.at)) for view in self.views]
        return table((gettext("Item"), gettext("Viewed")), rows)

    def other_sessions(self) -> str:
        """Show the other sessions of the user, with a link to the page of each, and one that ends it."""
        limit = paragraph(limit_of_user(self.request, self.site, self.session.user_id))
        if not self.others:
            return format_html("{}{}", gettext("There are no others."), limit)
        headings = [gettext("Where from"), gettext("Signed in"), gettext("Last seen")]
        if any(may_end for _, may_end in self.others):
            headings.append(gettext("End"))
        rows = [self._row(other, may_end)[: len(headings)] for other, may_end in self.others]
        url = f"{url_of('changelist', self.site)}?{query_of([self.session.user_id])}"
        link = format_html(
            '<p class="redsess-below"><a href="{}">{}</a></p>', url, gettext("All sessions of this user")
        )
        return table(headings, rows) + link + limit

    def data(self) -> str:
        """Show the keys of the data, and the values to those who may see them."""
        may_see = self.request.user.has_perm("django_redsess.view_session_data")
        shown = data(self.details, with_values=may_see)
        has_values = self.details is not None and bool(self.details.data)
        return (
            shown if may_see or not has_values else format_html("{}{}", shown, paragraph(missing("view_session_data")))
        )

    @cached_property
    def _deadlines(self) -> list[Deadline]:
        return deadlines_of(self.session.session, self.details)

    def _url_of_user(self, page: str) -> str:
        user, of_users = self.session.user, users_admin(self.request, self.site)
        if user is None or of_users is None or not of_users.has_view_or_change_permission(self.request, user):
            return ""
        return links.admin_url(user, self.site, page)

    def _row(self, other: OnlineSession, may_end: bool) -> list[str]:
        browser = labels.stored(self._browser(other))
        url = page_url(self.request, self.site, other.sid)
        where = format_html('<a href="{}">{}</a>{}<br>{}', url, browser, own_mark(other), self._address(other))
        signed_in = when(other.login_at) if other.login_at else ""
        return [where, signed_in, when(other.seen_at), self._end(other) if may_end else ""]

    def _end(self, other: OnlineSession) -> str:
        # A screen reader may read the links without their rows.
        browser, address = labels.stored(self._browser(other)), labels.stored(other.address)
        name = gettext("End: %(browser)s, %(address)s") % {"browser": browser, "address": address}
        url = end_url(self.request, self.site, sid=other.sid)
        return format_html('<a class="redsess-end" href="{}" aria-label="{}">{}</a>', url, name, gettext("End"))

    def _browser(self, session: OnlineSession) -> str:
        return labels.browser_name(session.user_agent)

    def _address(self, session: OnlineSession) -> str:
        return address_link(session, self.site)


def address_link(session: OnlineSession, site: AdminSite) -> str:
    """Return the address as HTML: a link to all sessions from it. ``""`` if there is none."""
    if not session.address:
        return ""
    query = {SEARCH_VAR: session.address, **({} if session.user_id else {WHO: EVERYONE})}
    url = f"{url_of('changelist', site)}?{urlencode(query)}"
    # An address is written from left to right, wherever it stands.
    return format_html('<a href="{}"><bdi dir="ltr">{}</bdi></a>', url, session.address)


def own_mark(session: OnlineSession) -> SafeString:
    """Return what marks the administrator's own session, as HTML. Nothing for another one."""
    return format_html(' <strong class="redsess-own">{}</strong>', gettext("you")) if session.is_own else SafeString()


def data(details: online.Details | None, *, with_values: bool) -> str:
    """Show the keys of a session's data and the size of each value; ``with_values`` shows the values, too."""
    if details is None or details.data is None:
        return gettext("The data can't be read.")
    headings, rows = [gettext("Key"), gettext("Size")], []
    if with_values:
        headings.append(gettext("Value"))
    for key, size in islice(details.sizes.items(), KEYS_MAX):
        value = [_value_text(key, details.data[key])] if with_values else []
        rows.append([visible(text) for text in (str(key), filesizeformat(size), *value)])
    if not rows:
        return gettext("It has no data.")
    left = len(details.sizes) - len(rows)
    more = ngettext("And %(count)d more key.", "And %(count)d more keys.", left) % {"count": left} if left else ""
    return table(headings, rows) + paragraph(more)


def moment(at: datetime) -> SafeString:
    """Return ``at`` as HTML: date, time of day and zone, and how long ago or ahead that is."""
    return format_html('<span class="redsess-moment">{} ({})</span>', exactly(at), when(at))


def page_url(request: HttpRequest, site: AdminSite, sid: str) -> str:
    """Return the URL of the page of a session. It returns to the same list as ``request``."""
    url, parameters = url_of("change", site, quote(sid)), return_page_of(request).parameters
    return f"{url}?{urlencode(parameters)}" if parameters else url


def paragraph(text: str) -> SafeString:
    """Return ``text`` as a paragraph below a field; nothing for no text."""
    return format_html('<p class="redsess-below">{}</p>', text) if text else SafeString()


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> SafeString:
    """Return a table in the style of the page."""
    # On a phone, each cell has its heading beside it.
    cells = [list(zip(headings, row, strict=True)) for row in rows]
    return render_to_string("admin/django_redsess/onlinesession/table.html", {"headings": headings, "rows": cells})


def _beside(parts: Iterable[str]) -> SafeString:
    spans = format_html_join(" ", "<span>{}</span>", ((part,) for part in parts))
    return format_html('<span class="redsess-beside">{}</span>', spans)


def _lines(lines: Iterable[str]) -> SafeString:
    return format_html_join("", '<div class="redsess-line">{}</div>', ((line,) for line in lines))


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
