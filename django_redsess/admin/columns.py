"""The columns of the admin's list of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import wraps
from typing import Any, NamedTuple

from django.contrib import admin
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext, gettext_lazy

from django_redsess.admin import links
from django_redsess.admin.endings import EndSessionsMixin
from django_redsess.admin.returning import end_url
from django_redsess.admin.session_page import address_link, own_mark
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.presentation import when
from django_redsess.querysets import items

BROWSER_MAX = 60
"""Labels cut a longer name of a browser. If a browser is unknown, its name is the whole user agent."""


class ColumnsMixin(EndSessionsMixin):
    """The part of ``OnlineSessionAdmin`` that shows rows. ``list_display`` of a subclass chooses the columns."""

    list_display = ("user", "client", "signed_in", "seen", "end")

    class Media:
        css = {"all": ("django_redsess/admin-list.css",)}

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        box = super().action_checkbox

        # Django's box, or that of a theme. Its label names the user, who may have several rows.
        @wraps(box)
        def action_checkbox(session: OnlineSession) -> SafeString:
            return box(_Labelled(session.pk, _named(session)))

        self.action_checkbox = action_checkbox  # type: ignore[assignment, method-assign]

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = super().get_list_display(request)
        return columns if self.has_end_permission(request) else [column for column in columns if column != "end"]

    def complete(self, request: HttpRequest, rows: Iterable[OnlineSession], columns: Iterable[Any]) -> None:
        """Set what columns show and sessions lack: links, names of items, and words that tell rows apart."""
        rows, columns = list(rows), set(columns)
        _describe(rows)
        if "end" in columns:
            for row in rows:
                if self.has_end_permission(request, row):
                    row.end_url = end_url(request, self.admin_site, sid=row.sid)
        viewed = {row.session.newest_item for row in rows} - {""}
        if viewed and columns & {"seen", "newest_item"}:
            found = links.links_of(request, self.admin_site, viewed)
            for row in rows:
                item = row.session.newest_item
                row.newest = found.get(item, links.ItemLink(items.visible(item), "")) if item else None
                row.shows_newest_below = "newest_item" not in columns

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Name the user, and mark the administrator's own session. Screen readers also read what tells rows apart."""
        apart = (
            format_html(' <span class="redsess-heard"><bdi>{}</bdi></span>', session.described)
            if session.described
            else ""
        )
        return format_html("<bdi>{}</bdi>{}{}", session, own_mark(session), apart)

    @admin.display(description=gettext_lazy("user"))
    def account(self, session: OnlineSession) -> str:
        """Link to the user's page, if there is one, and mark the administrator's own session."""
        url = links.admin_url(session.user, self.admin_site) if session.links_user and session.user else ""
        name = format_html('<a href="{}">{}</a>', url, session) if url else str(session)
        return format_html("{}{}", name, own_mark(session))

    @admin.display(description=gettext_lazy("where from"))
    def client(self, session: OnlineSession) -> str:
        """Show the browser, and the address as a link to its sessions."""
        browser, address = self.browser(session), self.address_link(session)
        if not (session.user_agent and session.address):
            shown = browser if session.user_agent else address
            return shown if session.user_agent or session.address else _labelled(gettext("where from"), shown)
        return format_html("<div>{}<br>{}</div>", browser, address)

    @admin.display(description=gettext_lazy("address"))
    def address_link(self, session: OnlineSession) -> str:
        """Show the address as a link to all sessions from it."""
        return address_link(session, self.admin_site) or presentation.stored("")

    @admin.display(description=gettext_lazy("browser"))
    def browser(self, session: OnlineSession) -> str:
        """Name the browser and its system, with the whole user agent on hover."""
        return format_html(
            '<span title="{}">{}</span>',
            session.user_agent,
            presentation.stored(presentation.browser_name(session.user_agent)),
        )

    @admin.display(description=gettext_lazy("signed in"), ordering="login_at")
    def signed_in(self, session: OnlineSession) -> str:
        return _labelled(gettext("signed in"), when(session.login_at) if session.login_at else "-")

    @admin.display(description=gettext_lazy("last seen"), ordering="seen_at")
    def seen(self, session: OnlineSession) -> str:
        """Show when it was last seen, and the item that was viewed last unless a column does."""
        time = _labelled(gettext("last seen"), when(session.seen_at))
        if not (session.newest and session.shows_newest_below):
            return time
        item = _labelled(gettext("viewed"), links.name_html(session.newest))
        return format_html(
            '<div>{}<br><span class="redsess-newest" title="{}">{}</span></div>', time, session.newest.name, item
        )

    @admin.display(description=gettext_lazy("expires"))
    def expires(self, session: OnlineSession) -> str:
        return _labelled(gettext("expires"), when(session.expires_at))

    @admin.display(description=gettext_lazy("size in the store"))
    def size(self, session: OnlineSession) -> str:
        # A plain space lets the line break.
        return filesizeformat(session.session.size).replace("\xa0", " ")

    @admin.display(description=gettext_lazy("viewed"), empty_value="-")
    def newest_item(self, session: OnlineSession) -> str:
        """Name the item that was viewed last, with a link to its page."""
        return links.name_html(session.newest) if session.newest else ""

    @admin.display(description=gettext_lazy("end"), empty_value="-")
    def end(self, session: OnlineSession) -> str:
        """Link to the page that asks whether to end the session."""
        if not session.end_url:
            return ""
        label = gettext("End the session of %(session)s") % {"session": _named(session)}
        return format_html(
            '<a class="redsess-end" href="{}" aria-label="{}">{}</a>', session.end_url, label, gettext("End")
        )


class _Labelled(NamedTuple):
    """A row, for a check box that takes its label from ``str()``."""

    pk: str
    text: str

    def __str__(self) -> str:
        return self.text


def _describe(rows: Iterable[OnlineSession]) -> None:
    seen: Counter[tuple[str, str]] = Counter()
    for row in rows:
        browser = Truncator(presentation.browser_name(row.user_agent)).chars(BROWSER_MAX)
        row.described = ", ".join(filter(None, (browser, row.address)))
        # A user may have two sessions in the same browser: they are numbered.
        same = (str(row), row.described)
        seen[same] += 1
        if seen[same] > 1:
            row.described = f"{row.described} ({seen[same]})".strip()


def _named(session: OnlineSession) -> str:
    return f"{session}: {session.described}" if session.described else str(session)


def _labelled(label: str, value: str) -> SafeString:
    # On a phone a row is a card, without the table's head.
    return format_html('<span class="redsess-label">{} </span>{}', capfirst(label), value)
