"""The page of a session in the admin."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, NamedTuple

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy, ngettext, npgettext_lazy

from django_redsess import online, viewed
from django_redsess.admin import pages
from django_redsess.admin.access import Access, users_admin
from django_redsess.admin.pages import moment_html, table_html
from django_redsess.admin.users import limit_of_user, recent_sign_ins, sign_ins_table
from django_redsess.conf import conf
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from django_redsess.online.browsers import browser_name, device_icon
from django_redsess.online.labels import when
from django_redsess.online.listing import rounded_size
from django_redsess.past_sign_ins import UserSignIns
from django_redsess.permissions import rules
from django_redsess.querysets import visible
from django_redsess.session.deadlines import SLACK_MAX, slack_of

UNITS = {
    604_800: npgettext_lazy("a time after", "1 week", "%(num)d weeks", "num"),
    86_400: npgettext_lazy("a time after", "1 day", "%(num)d days", "num"),
    3_600: npgettext_lazy("a time after", "1 hour", "%(num)d hours", "num"),
    60: npgettext_lazy("a time after", "1 minute", "%(num)d minutes", "num"),
    1: npgettext_lazy("a time after", "1 second", "%(num)d seconds", "num"),
}
"""How long each unit is, in seconds, and its text within "2 weeks after the sign-in"."""


class Deadline(NamedTuple):
    """A deadline at the time ``at``: ``text`` is its reason. ``moves``: requests make it later."""

    text: str
    at: datetime
    moves: bool = False


def deadlines_of(session: online.Session, details: online.Details | None) -> list[Deadline]:
    """Return the deadlines of ``session``, the earliest first."""
    deadlines = sorted(_deadlines_of(session, details), key=lambda deadline: deadline.at)
    # The stored deadline may be a little later than the earliest one, so that not every request has to move it. Not
    # every request moves the time when the session was last seen, either.
    slack = timedelta(milliseconds=SLACK_MAX, seconds=conf.TOUCH_INTERVAL)
    if deadlines and session.expires_at - deadlines[0].at <= slack:
        # A passive request moves that time, but no deadline. Then the stored deadline is earlier.
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
    length = next((each for each in UNITS if whole >= each and whole % each == 0), 1)
    return UNITS[length] % {"num": whole // length}


def _deadlines_of(session: online.Session, details: online.Details | None) -> Iterator[Deadline]:
    if details is not None:
        age, at = details.age_seconds, details.django_deadline
        if not age:
            yield Deadline(gettext("At the date that the site has set"), at)
        elif conf.SLIDING:
            yield Deadline(_after_last_request(age), session.last_seen_at + timedelta(seconds=age), moves=True)
        else:
            yield Deadline(gettext("%(time)s after the last change") % {"time": duration(age)}, at)
    if conf.IDLE_TIMEOUT:
        slack = timedelta(milliseconds=slack_of(conf.IDLE_TIMEOUT * 1000))
        at = session.last_seen_at + timedelta(seconds=conf.IDLE_TIMEOUT) + slack
        yield Deadline(_after_last_request(conf.IDLE_TIMEOUT), at, moves=True)
    if conf.ABSOLUTE_TIMEOUT and session.created_at:
        text = gettext("%(time)s after the sign-in") % {"time": duration(conf.ABSOLUTE_TIMEOUT)}
        yield Deadline(text, session.created_at + timedelta(seconds=conf.ABSOLUTE_TIMEOUT))


def _after_last_request(seconds: float) -> str:
    return gettext("%(time)s after the last request") % {"time": duration(seconds)}


OTHERS_MAX = 20  # How many other sessions of the same user a session's page lists.
VALUE_MAX = 1000  # A longer value is cut after so many characters.
KEYS_MAX = 500  # The most keys of a session that its page lists.

NEVER_SHOWN = ("_auth_user_hash", "_csrftoken", "_password_reset_token")
"""Django's keys whose values are secrets. The setting ``HIDDEN_VALUES`` names more."""


class PageData(NamedTuple):
    """The content of the page of a session, for the administrator of ``access``."""

    access: Access
    details: online.Details | None
    deadlines: list[Deadline]
    views: list[viewed.ViewedItem]
    items: dict[str, pages.ItemLink]
    """The names of viewed items."""
    others: list[tuple[OnlineSession, bool]]
    """Other sessions of the user, newest sign-in first, and whether the administrator may end them."""
    past: UserSignIns | None
    """The last sign-ins of the user, if the administrator may see them."""


def read_for_page(access: Access, sid: str) -> OnlineSession | None:
    """Read a session, and set its ``page``: what its page shows. None if the administrator may not see the session."""
    found = access.look_up(sid)
    if not found:
        return None
    [session] = found
    request, site, user_id = access.request, access.site, session.user_id
    details = online.details(session.sid)
    views = viewed.recent(session.sid, limit=conf.VIEWED_PER_SESSION)
    # The lookup may add a message. It has to do so before the page is drawn.
    names = pages.item_links(request, site, {view.item for view in views}) if views else {}
    others = [(other, access.may_end(other)) for other in _others_of(access, session)]
    past = recent_sign_ins(request, site, user_id) if user_id else None
    pages.set_places([session, *(other for other, _ in others)])
    ends = deadlines_of(session.session, details)
    session.page = PageData(access, details, ends, views, names, others, past)
    return session


def _others_of(access: Access, session: OnlineSession) -> list[OnlineSession]:
    if not session.user_id:
        return []
    of_user = access.sessions().of_users([session.user_id])[: OTHERS_MAX + 1]
    return [other for other in of_user if other.sid != session.sid and access.may_see(other)][:OTHERS_MAX]


def hidden_fields(session: OnlineSession) -> list[Any]:
    """Return the fields that the page of this session leaves out because they would be empty."""
    page: PageData = session.page
    # A guest has no other sessions. The field of times has the first deadline.
    hidden = {
        device_binding: page.details is None or page.details.bound_at is None,
        other_sessions: not session.user_id,
        deadlines: len(page.deadlines) < 2,
        last_sign_ins: page.past is None,
    }
    return [field for field, is_hidden in hidden.items() if is_hidden]


def page_context(access: Access, session: OnlineSession) -> dict[str, Any]:
    """Return what the page shows beside its fields: the title, and links to the questions that end sessions."""
    named = gettext("Session of %(user)s") % {"user": session}
    context = {
        "has_end_permission": access.may_end(session),
        "end_url": pages.end_url(access.request, access.site, sid=session.sid),
        "title": named if session.user_id else gettext("Session of a guest"),
        "subtitle": None,
    }
    if session.user_id:
        query = pages.users_query([session.user_id])
        context["end_user_url"] = pages.end_url(access.request, access.site, query=query)
    return context


def history_url(session: OnlineSession) -> str:
    """Return the URL of the history of the session's user; else that of the session's page."""
    access: Access = session.page.access
    return _url_of_user(session, "history") or page_url(access.request, access.site, session.sid)


def redirect_from_gone(access: Access, sid: str) -> HttpResponse:
    """Redirect from the page of an unknown sid: to the page of the session's new sid, or back to the list."""
    present = online.find([sid], follow=True)
    for session in access.look_up(*(found.sid for found in present)):
        return HttpResponseRedirect(page_url(access.request, access.site, session.sid))
    messages.warning(access.request, gettext("There is no session with this id: it is over, or the id is wrong."))
    return HttpResponseRedirect(pages.return_page_of(access.request).url(access.site))


@admin.display(description=gettext_lazy("user"))
def owner(session: OnlineSession) -> str:
    """Show the user of the session, with links for administrators who may see the user."""
    name, url = format_html("<bdi>{}</bdi>", session), _url_of_user(session, "change")
    if not url:
        return format_html("{}{}", name, pages.own_mark_html(session))
    # The history names who has ended sessions of the user.
    history = pages.link_html(_url_of_user(session, "history"), gettext("History of this user"))
    return _beside([pages.link_html(url, name) + pages.own_mark_html(session), history])


@admin.display(description=gettext_lazy("where from"))
def origin(session: OnlineSession) -> str:
    """Show browser, system, address and place, with a link to all sessions from this address."""
    parts = [pages.client_html(session.user_agent), pages.address_link_html(session, session.page.access.site)]
    return _beside([part for part in parts if part] or [labels.or_not_stored("")])


@admin.display(description=gettext_lazy("times"))
def times(session: OnlineSession) -> str:
    """Show when the user signed in, was last seen, and when and why the session ends."""
    page: PageData = session.page
    times = []
    if session.created_at:
        times.append(format_html(gettext("Signed in: {time}"), time=moment_html(session.created_at)))
    times.append(format_html(gettext("Last seen: {time}"), time=moment_html(session.last_seen_at)))
    ends = format_html(gettext("Ends: {time}"), time=moment_html(session.expires_at))
    times.append(format_html_join("\xa0· ", "{}", [(ends,), *((first.text,) for first in page.deadlines[:1])]))
    if ends_with_browser(page.details):
        times.append(format_html("{}", gettext("Its user is signed out when the browser closes.")))
    return _lines(times)


@admin.display(description=gettext_lazy("when it ends"))
def deadlines(session: OnlineSession) -> str:
    """Show each deadline. The first one is marked."""
    lines = [format_html("{}: {}", deadline.text, moment_html(deadline.at)) for deadline in session.page.deadlines]
    lines[:1] = [format_html("<strong>{}</strong> ({})", line, gettext("comes first")) for line in lines[:1]]
    return _lines(lines)


@admin.display(description=gettext_lazy("bound to its device"))
def device_binding(session: OnlineSession) -> str:
    """Show when the session was bound to its user's device, and when the device has proved it last."""
    details: online.Details | None = session.page.details
    if details is None or details.bound_at is None or details.proved_at is None:
        return ""
    lines = [format_html(gettext("Since: {time}"), time=moment_html(details.bound_at))]
    if details.proved_at > details.bound_at:
        lines.append(format_html(gettext("Last proof: {time}"), time=moment_html(details.proved_at)))
    else:
        lines.append(format_html("{}", gettext("The device has not proved it again since.")))
    return _lines(lines)


@admin.display(description=gettext_lazy("viewed items"))
def viewed_items(session: OnlineSession) -> str:
    """Show the viewed items, the newest first."""
    page: PageData = session.page
    if not page.views:
        return gettext("It has viewed no items.")
    rows = [(pages.item_html(view.item, page.items.get(view.item)), moment_html(view.at)) for view in page.views]
    return table_html((gettext("Item"), gettext("Viewed")), rows)


@admin.display(description=gettext_lazy("other sessions"))
def other_sessions(session: OnlineSession) -> str:
    """Show the other sessions of the user. Each has a link to its page, and a link that ends it."""
    page: PageData = session.page
    limit = pages.paragraph_html(limit_of_user(page.access.request, page.access.site, session.user_id))
    if not page.others:
        return format_html("{}{}", gettext("There are no others."), limit)
    headings = [gettext("Where from"), gettext("Signed in"), gettext("Last seen")]
    if any(may_end for _, may_end in page.others):
        headings.append(gettext("End"))
    rows = [_other_row(page.access, other, may_end)[: len(headings)] for other, may_end in page.others]
    url = pages.sessions_url("changelist", page.access.site, query={pages.USER: session.user_id})
    return (
        table_html(headings, rows)
        + pages.paragraph_html(pages.link_html(url, gettext("All sessions of this user")))
        + limit
    )


def _other_row(access: Access, other: OnlineSession, may_end: bool) -> list[str]:
    browser, end = labels.or_not_stored(browser_name(other.user_agent)), ""
    icon, marks = device_icon(other.user_agent), pages.own_mark_html(other) + pages.bound_mark_html(other)
    page = pages.link_html(page_url(access.request, access.site, other.sid), browser)
    where = format_html("{}{}{}<br>{}", icon, page, marks, pages.address_link_html(other, access.site))
    if may_end:
        # A screen reader may read the links without their rows.
        name = gettext("End: %(browser)s, %(address)s")
        name %= {"browser": browser, "address": labels.or_not_stored(other.address)}
        url = pages.end_url(access.request, access.site, sid=other.sid)
        end = pages.end_link_html(url, name)
    return [where, when(other.created_at) if other.created_at else "", when(other.last_seen_at), end]


@admin.display(description=gettext_lazy("last sign-ins"))
def last_sign_ins(session: OnlineSession) -> str:
    """Show the last sign-ins of the user, including this one, with a link to all."""
    page: PageData = session.page
    return sign_ins_table(page.access.request, page.access.site, page.past) if page.past else SafeString()


@admin.display(description=gettext_lazy("data"))
def data(session: OnlineSession) -> str:
    """Show the keys of the data with the rounded size of each value, and the values if they may be seen."""
    page: PageData = session.page
    details, with_values = page.details, rules().may_see_data(page.access.request.user, session)
    if details is None or details.data is None:
        return gettext("The data can't be read.")
    headings, rows = [gettext("Key"), gettext("Size")], []
    if with_values:
        headings.append(gettext("Value"))
    for key, size in islice(details.sizes.items(), KEYS_MAX):
        value = [_value_text(key, details.data[key])] if with_values else []
        rows.append([visible(text) for text in (str(key), size_text(rounded_size(size)), *value)])
    if not rows:
        return gettext("It has no data.")
    left = len(details.sizes) - len(rows)
    more = ngettext("And %(count)d more key.", "And %(count)d more keys.", left) % {"count": left} if left else ""
    lacking = "" if with_values else pages.missing_permission("view_session_data")
    return table_html(headings, rows) + pages.paragraph_html(more) + pages.paragraph_html(lacking)


def _url_of_user(session: OnlineSession, page: str) -> str:
    # "" if the administrator may not see the user.
    request, site, user = session.page.access.request, session.page.access.site, session.user
    of_users = users_admin(request, site)
    if user is None or of_users is None or not of_users.has_view_or_change_permission(request, user):
        return ""
    return pages.admin_url(user, site, page)


def page_url(request: HttpRequest, site: AdminSite, sid: str) -> str:
    """Return the URL of the page of a session. It returns to the same list as ``request``."""
    return pages.sessions_url("change", site, quote(sid), query=pages.return_page_of(request).parameters)


def _beside(parts: Iterable[str]) -> SafeString:
    spans = format_html_join(" ", "<span>{}</span>", ((part,) for part in parts))
    return format_html('<span class="redsess-beside">{}</span>', spans)


def _lines(lines: Iterable[str]) -> SafeString:
    return format_html_join("", '<div class="redsess-line">{}</div>', ((line,) for line in lines))


def size_text(size: int) -> str:
    """Return the text of a size in bytes that was rounded up. A plain space lets the line break."""
    return f"≤ {filesizeformat(size)}".replace("\xa0", " ")


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


SUMMARY: Any = (owner, origin, times, deadlines, device_binding, viewed_items, other_sessions, last_sign_ins)
"""The fields that a session's page shows first. The others are folded."""

FIELDSETS: Any = (
    (None, {"fields": SUMMARY}),
    # Django folds this one without a script.
    (gettext_lazy("Data and details"), {"fields": (data, "size", "user_agent", "sid"), "classes": ("collapse",)}),
)

READONLY_FIELDS: Any = (*SUMMARY, data, "size")
