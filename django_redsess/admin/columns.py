"""The columns of the admin's list of sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any
from urllib.parse import urlencode

from django.contrib import admin
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.admin.views.main import SEARCH_VAR
from django.forms import CheckboxInput
from django.http import HttpRequest
from django.template.defaultfilters import filesizeformat
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.text import Truncator
from django.utils.translation import gettext, gettext_lazy

from django_redsess.admin import links
from django_redsess.admin.endings import EndSessionsMixin
from django_redsess.admin.filters import WHO
from django_redsess.admin.returning import end_url
from django_redsess.admin.session_page import url_of
from django_redsess.models import OnlineSession
from django_redsess.online import presentation
from django_redsess.online.presentation import exactly, when
from django_redsess.querysets import items

BROWSER_MAX = 60
"""Labels cut a longer name of a browser. If a browser is unknown, its name is the whole user agent."""


class ColumnsMixin(EndSessionsMixin):
    """The part of ``OnlineSessionAdmin`` that shows rows. ``list_display`` of a subclass chooses the columns."""

    list_display = ("user", "client", "signed_in", "seen", "end")

    class Media:
        css = {"all": ("django_redsess/admin-list.css",)}

    def get_list_display(self, request: HttpRequest) -> Any:
        columns = super().get_list_display(request)
        return columns if self.has_end_permission(request) else [column for column in columns if column != "end"]

    def complete(self, request: HttpRequest, rows: Iterable[OnlineSession], columns: Iterable[Any]) -> None:
        """Set what columns show and a session does not have: links, names of items, and words that tell rows apart."""
        rows, columns = list(rows), set(columns)
        _describe(rows)
        if "end" in columns:
            for row in rows:
                if self.has_end_permission(request, row):
                    row.end_url = end_url(request, self.admin_site, sid=row.sid)
        if newest := {row.session.newest_item for row in rows} - {""} if "newest_item" in columns else None:
            found = links.links_of(request, self.admin_site, newest)
            for row in rows:
                row.newest = found.get(row.session.newest_item)

    @admin.display(description=gettext_lazy("user"))
    def user(self, session: OnlineSession) -> str:
        """Name the user, and mark the administrator's own session. What tells rows apart is there to be heard."""
        apart = format_html(' <span class="redsess-heard">{}</span>', session.described) if session.described else ""
        return format_html("<bdi>{}</bdi>{}{}", session, _mark(session), apart)

    @admin.display(description=gettext_lazy("user"))
    def account(self, session: OnlineSession) -> str:
        """Link to the user's page, if there is one, and mark the administrator's own session."""
        url = links.admin_url(session.user, self.admin_site) if session.links_user and session.user else ""
        name = format_html('<a href="{}">{}</a>', url, session) if url else str(session)
        return format_html("{}{}", name, _mark(session))

    @admin.display(description=gettext_lazy("where from"))
    def client(self, session: OnlineSession) -> str:
        """Show the browser, and the address as a link to its sessions."""
        return format_html("{}<br>{}", self.browser(session), self.address_link(session))

    @admin.display(description=gettext_lazy("address"))
    def address_link(self, session: OnlineSession) -> str:
        if not session.address:
            return ""
        query = {SEARCH_VAR: session.address, **({} if session.user_id else {WHO: "everyone"})}
        url = f"{url_of('changelist', self.admin_site)}?{urlencode(query)}"
        return format_html('<a href="{}"><bdi>{}</bdi></a>', url, session.address)

    @admin.display(description=gettext_lazy("browser"))
    def browser(self, session: OnlineSession) -> str:
        """Name the browser and its system, with the whole user agent on hover."""
        return format_html(
            '<span title="{}">{}</span>', session.user_agent, presentation.browser_name(session.user_agent)
        )

    @admin.display(description=gettext_lazy("signed in"), ordering="login_at")
    def signed_in(self, session: OnlineSession) -> str | None:
        return _labelled(gettext("Signed in"), when(session.login_at)) if session.login_at else None

    @admin.display(description=gettext_lazy("last seen"), ordering="seen_at")
    def seen(self, session: OnlineSession) -> str:
        return _labelled(gettext("Last seen"), when(session.seen_at))

    @admin.display(description=gettext_lazy("expires"))
    def expires(self, session: OnlineSession) -> str:
        return _labelled(gettext("Expires"), when(session.expires_at))

    @admin.display(description=gettext_lazy("size"))
    def size(self, session: OnlineSession) -> str:
        # A plain space lets the line break.
        return filesizeformat(session.session.size).replace("\xa0", " ")

    @admin.display(description=gettext_lazy("viewed"))
    def newest_item(self, session: OnlineSession) -> str:
        """Name the item that was viewed last, with a link to its page."""
        item = items.visible(session.session.newest_item)
        return links.name_html(session.newest or links.ItemLink(item, "")) if item else ""

    @admin.display(description=gettext_lazy("end"))
    def end(self, session: OnlineSession) -> str:
        """Link to the page that asks whether to end the session."""
        if not session.end_url:
            return ""
        label = gettext("End the session of %(session)s") % {"session": _named(session)}
        return format_html(
            '<a class="redsess-end" href="{}" aria-label="{}">{}</a>', session.end_url, label, gettext("End")
        )

    @admin.display(description=admin.ModelAdmin.action_checkbox.short_description)  # type: ignore[attr-defined]
    def action_checkbox(self, session: OnlineSession) -> SafeString:
        label = gettext("Select the session of %(session)s") % {"session": _named(session)}
        box = CheckboxInput({"class": "action-select", "aria-label": label}, lambda value: False)
        return box.render(ACTION_CHECKBOX_NAME, session.pk)


def _describe(rows: Iterable[OnlineSession]) -> None:
    # A user may have two sessions in the same browser: those are told apart by when they were last seen.
    for row in rows:
        browser = Truncator(presentation.browser_name(row.user_agent)).chars(BROWSER_MAX)
        row.described = ", ".join(filter(None, (browser, row.address)))
    same = Counter((str(row), row.described) for row in rows)
    for row in rows:
        if same[str(row), row.described] > 1:
            row.described = ", ".join(filter(None, (row.described, exactly(row.login_at or row.seen_at))))


def _named(session: OnlineSession) -> str:
    return f"{session}: {session.described}" if session.described else str(session)


def _mark(session: OnlineSession) -> str:
    return format_html(' <strong class="redsess-own">{}</strong>', gettext("you")) if session.is_own else ""


def _labelled(label: str, value: str) -> SafeString:
    # On a phone a row is a card, without the table's head.
    return format_html('<span class="redsess-label">{} </span>{}', label, value)
