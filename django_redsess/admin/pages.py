"""Shared parts of the pages of the admin: lists whose rows are only viewed, links between pages, and HTML of values."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from functools import wraps
from typing import Any, NamedTuple, cast

from django.conf import settings
from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.contrib.admin.views.main import SEARCH_VAR, ChangeList
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import NoReverseMatch, URLPattern, reverse
from django.utils.formats import number_format
from django.utils.functional import cached_property
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString, mark_safe
from django.utils.text import Truncator, capfirst
from django.utils.translation import gettext, gettext_lazy

from django_redsess import viewed
from django_redsess.models import OnlineSession
from django_redsess.online import labels, places
from django_redsess.online.browsers import browser_name, device_icon
from django_redsess.online.labels import exactly, shortly, shown_to_reader, when
from django_redsess.past_sign_ins import PastSignIn, end_text, unproven_text
from django_redsess.querysets import SessionQuerySet, users_by_id, visible
from django_redsess.user_messages import clean_text

USER, GUESTS = "user", "guests"
"""Parameters of the list of sessions. Its filters know more."""

ONLY, TOO = "only", "true"
"""Values of ``GUESTS``."""

NAME_MAX = 100  # A longer name of a user, or of a browser, is cut after so many characters.

MESSAGE_MAX = 60  # A table shows so many characters of a message.

_ABSOLUTE = re.compile(r"https?://[^/\\]", re.IGNORECASE)

logger = logging.getLogger("django_redsess")


class NearestPage(Paginator):  # type: ignore[type-arg]  # not subscriptable at run time
    """Show the last page in place of one beyond it: rows go away while an administrator turns pages."""

    def validate_number(self, number: Any) -> int:
        return max(1, min(int(number), self.num_pages))


class ReachablePages(NearestPage):
    """Count all sessions, and have pages as far as their list goes by rank. ``rows_max`` is None if that is all."""

    @property
    def rows_max(self) -> int | None:
        rows_max: int | None = cast(SessionQuerySet, self.object_list).rows_max
        return rows_max if rows_max is not None and self.count > rows_max else None

    @cached_property
    def num_pages(self) -> int:
        return super().num_pages if self.rows_max is None else max(1, self.rows_max // self.per_page)


def _unframed(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    # The site may lack Django's middleware. A site whose own pages frame the admin says so by the setting.
    @wraps(view)
    def unframed(*args: Any, **kwargs: Any) -> HttpResponse:
        response = view(*args, **kwargs)
        response.headers.setdefault("X-Frame-Options", settings.X_FRAME_OPTIONS)
        return response

    return unframed


class ListAdmin(admin.ModelAdmin):  # type: ignore[type-arg]  # not subscriptable at run time
    """A list of rows that are viewed only. Subclasses add actions, which ask first."""

    list_per_page = 100
    list_max_show_all = 0
    paginator = NearestPage
    show_facets = admin.ShowFacets.NEVER

    class Media:
        css = {"all": ("django_redsess/admin.css", "django_redsess/admin-session.css")}

    @property
    def urls(self) -> list[URLPattern]:
        """
        Return the URLs of these pages. None can be framed, or only as ``X_FRAME_OPTIONS`` says.

        Times are in the zone of the reader.
        """
        patterns = self.get_urls()
        for pattern in patterns:
            pattern.callback = _unframed(shown_to_reader(pattern.callback))
        return patterns

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def render_page(self, request: HttpRequest, template: str, title: str, context: dict[str, Any]) -> HttpResponse:
        """Show an admin page that is neither the list nor a row's page."""
        request.current_app = self.admin_site.name
        shared = {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "media": self.media}
        return TemplateResponse(request, template, {**shared, **context})

    def changelist_of(self, request: HttpRequest, query: str) -> ChangeList | None:
        """Read ``query`` as the list does, with its search and filters. None if the list refuses it."""
        # Also for a form that was posted, and for the API: a request of its own, since a ChangeList reads one.
        asked = HttpRequest()
        asked.__dict__ |= {**request.__dict__, "GET": QueryDict(query), "method": "GET"}
        try:
            listed = self.get_changelist_instance(asked)
        except IncorrectLookupParameters:
            return None
        # With a search that its form refuses, Django's list says so and shows all.
        return None if asked.GET.get(SEARCH_VAR, "").strip() and not listed.query else listed

    def redirect_to_list(self, query: Any = None) -> HttpResponse:
        """Redirect to the list. ``query`` is a QueryDict or a dict."""
        name = f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"
        return HttpResponseRedirect(reverse(name, current_app=self.admin_site.name, query=query))


_MISSING = {
    "end_onlinesession": gettext_lazy(
        "Ending sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "end_all_onlinesession": gettext_lazy(
        "Ending everyone else's sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "view_session_data": gettext_lazy(
        "Seeing the values takes the permission “%(permission)s”. Ask an administrator for it."
    ),
}


def missing_permission(codename: str) -> str:
    """Return a sentence for an administrator who lacks this permission: what it is for, its name, and who gives it."""
    return str(_MISSING[codename]) % {"permission": dict(OnlineSession._meta.permissions)[codename]}


def shown_number(number: float) -> str:
    """Return ``number`` as text, with separators of thousands."""
    return number_format(number, force_grouping=True)


def fill_html(text: str, **values: str) -> SafeString:
    """Return the translated ``text`` as HTML, with its placeholders filled."""
    escaped = {name: conditional_escape(value) for name, value in values.items()}
    return mark_safe(conditional_escape(text) % escaped)  # noqa: S308  # all parts are escaped


def names_html(*user_ids: str) -> SafeString:
    """Return the names of these users as the list shows them, as HTML."""
    users, names = users_by_id(set(user_ids)), []
    for user_id in user_ids:
        row = OnlineSession(user_id=user_id)
        row.user = users.get(user_id)
        names.append((name_html(str(row)),))
    return format_html_join(", ", "{}", names)


def name_html(name: str) -> SafeString:
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    return format_html("<bdi>{}</bdi>", Truncator(clean_text(name)).chars(NAME_MAX))


def link_html(url: str, text: str) -> SafeString:
    return format_html('<a href="{}">{}</a>', url, text)


def labelled_html(label: str, value: str) -> SafeString:
    """Return the value of a column as HTML, with a label: on a phone a row is a card, without the table's head."""
    return format_html('<span class="redsess-label">{} </span>{}', capfirst(label), value)


def end_link_html(url: str, label: str) -> SafeString:
    """Return a link to the page that asks whether to end a session. A screen reader reads ``label``."""
    return format_html('<a class="redsess-end" href="{}" aria-label="{}">{}</a>', url, label, gettext("End"))


def paragraph_html(text: str) -> SafeString:
    """Return ``text`` as a paragraph below a field; nothing for no text."""
    return format_html('<p class="redsess-below">{}</p>', text) if text else SafeString()


def moment_html(at: datetime) -> SafeString:
    """Return ``at`` as HTML: date, time of day and zone, and how long ago or ahead that is."""
    return format_html('<span class="redsess-moment">{} ({})</span>', exactly(at), when(at))


def table_html(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> SafeString:
    """Return a table in the style of the page."""
    # On a phone, each cell has its heading beside it.
    cells = [list(zip(headings, row, strict=True)) for row in rows]
    return render_to_string("admin/django_redsess/onlinesession/table.html", {"headings": headings, "rows": cells})


def address_html(address: str) -> SafeString:
    # An address is written from left to right, wherever it stands.
    return format_html('<bdi dir="ltr">{}</bdi>', address)


def client_html(user_agent: str) -> SafeString:
    """Return browser and system as HTML, with a picture of the kind of device. Nothing for ``""``."""
    return format_html("{}{}", device_icon(user_agent), browser_name(user_agent))


def sender_html(sign_in: PastSignIn, address: str = "") -> SafeString:
    """
    Return the browser of a sign-in and the address, as HTML.

    Marks say whether the device was new, and whether the session was used without the proof of its device.

    ``address`` is the HTML of the address, if it is more than its text.
    """
    browser = client_html(sign_in.user_agent) or labels.or_not_stored("")
    marks = [gettext("new device")] if sign_in.is_new_device else []
    marks += filter(None, [unproven_text(sign_in)])
    mark = format_html_join("", ' <strong class="redsess-own">{}</strong>', [(text,) for text in marks])
    where = address or address_html(labels.or_not_stored(sign_in.address))
    place = place_html(sign_in.place)
    return format_html('<span title="{}">{}</span>{}<br>{}{}', sign_in.user_agent, browser, mark, where, place)


def end_html(sign_in: PastSignIn, live_url: str = "", shown: Callable[[datetime], SafeString] = shortly) -> SafeString:
    """
    Return when the session of a sign-in has ended, as HTML. ``shown`` makes HTML of a time.

    ``live_url`` is the URL of the session's page while it lives.
    """
    if sign_in.ended_at is None:
        text = gettext("Still signed in")
        return format_html('<span class="redsess-living">{}</span>', link_html(live_url, text) if live_url else text)
    at = shown(sign_in.ended_at)
    return fill_html(gettext("about %(time)s"), time=at) if sign_in.ended_at_is_approximate else at


def how_ended_html(sign_in: PastSignIn, by_name: str) -> SafeString:
    """Say why the session of a sign-in has ended, and by whom, as HTML. ``by_name`` is the name of that user."""
    return fill_html(capfirst(end_text(sign_in)), name=by_name)


def message_html(message: str) -> SafeString:
    """Return the message that a user has read, as HTML: its beginning, and all of it on hover. Nothing for ``""``."""
    if not message:
        return SafeString()
    hint = gettext("Message to the user: %(message)s") % {"message": message}
    shown = Truncator(message).chars(MESSAGE_MAX)
    return format_html('<div class="redsess-told" title="{}"><q><bdi>{}</bdi></q></div>', hint, shown)


def note_html(note: str, maximum: int | None = None) -> SafeString:
    """Return an internal note as HTML: up to ``maximum`` characters, and all of it on hover. Nothing for ``""``."""
    if not note:
        return SafeString()
    shown = Truncator(note).chars(maximum) if maximum else note
    text = mark_safe(conditional_escape(gettext("Internal note: %s")) % format_html("<bdi>{}</bdi>", shown))  # noqa: S308
    return format_html('<div class="redsess-told" title="{}">{}</div>', note if shown != note else "", text)


def own_mark_html(session: OnlineSession) -> SafeString:
    """Return what marks the administrator's own session, as HTML. Nothing for another one."""
    return format_html(' <strong class="redsess-own">{}</strong>', gettext("you")) if session.is_own else SafeString()


def bound_mark_html(session: OnlineSession) -> SafeString:
    """Return what marks a session that is bound to its user's device, as HTML. Nothing for another one."""
    if not session.session.device_bound:
        return SafeString()
    return format_html(' <span class="redsess-bound">{}</span>', gettext("device-bound"))


def address_link_html(session: OnlineSession, site: AdminSite) -> str:
    """Return the address as HTML: a link to all sessions from it, and its place. ``""`` if there is none."""
    if not session.address:
        return ""
    query = {SEARCH_VAR: session.address}
    address = link_html(sessions_url("changelist", site, query=query), address_html(session.address))
    return format_html("{}{}", address, place_html(session.place))


def place_html(place: str) -> SafeString:
    """Return the place of an address as HTML, to stand behind it."""
    return format_html(' <span class="redsess-place"><bdi>{}</bdi></span>', place) if place else SafeString()


def set_places(rows: Iterable[OnlineSession]) -> None:
    """Set the places of these sessions. They are asked for together: call this once a page."""
    rows = list(rows)
    found = places.find_places(row.address for row in rows)
    for row in rows:
        row.place = found.get(row.address, "")


class ItemLink(NamedTuple):
    """The name of an item's object, and the URL of its page; ``""`` if it has none."""

    name: str
    url: str


def item_links(request: HttpRequest, site: AdminSite, items: Collection[str]) -> dict[str, ItemLink]:
    """Return the names and URLs of the items whose objects are found. If the lookup fails, a message says so."""
    try:
        found = viewed.resolve(items)
        return {
            item: ItemLink(str(thing) or visible(item), _url_of(request, site, thing)) for item, thing in found.items()
        }
    except Exception:
        # The site's own function may raise anything.
        logger.exception('The function that REDSESS["VIEWED_RESOLVE"] names failed.')
        text = gettext("Items have no names here: the function that %(setting)s names failed. The log says why.")
        messages.warning(request, text % {"setting": 'REDSESS["VIEWED_RESOLVE"]'}, fail_silently=True)
        return {}


def item_html(item: str, link: ItemLink | None) -> SafeString:
    """Return the item's name as HTML: a link if it has a page, and with the id if the name is another one."""
    shown = visible(item)
    found = link or ItemLink(shown, "")
    id_beside = format_html(" <small><bdi>{}</bdi></small>", shown) if found.name != shown else ""
    return format_html('<span class="redsess-item">{}{}</span>', item_name_html(found), id_beside)


def item_name_html(item: ItemLink) -> SafeString:
    """Return the item's name as HTML: a link if it has a page."""
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    name = format_html("<bdi>{}</bdi>", item.name)
    return link_html(item.url, name) if item.url else name


def admin_url(thing: Model, site: AdminSite, page: str = "change") -> str:
    """Return the URL of a page of ``thing`` in the admin; ``""`` if it has none."""
    name = f"admin:{thing._meta.app_label}_{thing._meta.model_name}_{page}"
    try:
        return reverse(name, args=(quote(thing.pk),), current_app=site.name)
    except NoReverseMatch:
        return ""


def _url_of(request: HttpRequest, site: AdminSite, thing: Any) -> str:
    # The admin page of the object, if the administrator may see it; else the object's own page.
    model_admin = site._registry.get(type(thing))
    may_view = isinstance(thing, Model) and model_admin and model_admin.has_view_or_change_permission(request, thing)
    if may_view and (url := admin_url(thing, site)):
        return url
    with suppress(NoReverseMatch):
        url = str(thing.get_absolute_url()) if hasattr(thing, "get_absolute_url") else ""
        return url if _may_link(url) else ""
    return ""


def _may_link(url: str) -> bool:
    # Anybody may have typed the address, and a browser runs "javascript:". Django's check allows addresses of this site
    # only: it knows "//host", control characters, and blanks before a scheme.
    return _ABSOLUTE.match(url) is not None or url_has_allowed_host_and_scheme(url, allowed_hosts=None)


def sessions_url(name: str, site: AdminSite, *args: str, query: Any = None) -> str:
    """Return the URL of the list of sessions, or of one of its pages. ``query`` is a QueryDict or a dict."""
    return reverse(f"admin:django_redsess_onlinesession_{name}", args=args, current_app=site.name, query=query)


def users_query(user_ids: Sequence[str]) -> str:
    """Return the query string with which the list shows the sessions of these users."""
    query = QueryDict(mutable=True)
    query.setlist(USER, user_ids)
    return query.urlencode()


FILTERS = "_changelist_filters"
"""The parameter with the query string of the list to return to. It has the same name in Django's admin."""

PAGE = "_return_to"  # The parameter that names another page to return to: see ReturnPage.
FILTERS_MAX = 2000  # A longer query string is dropped: web servers refuse long URLs.

LIST_PAGE, OBJECT_PAGE = "list:", "page:"


class ReturnPage(NamedTuple):
    """
    The page to return to.

    ``filters`` is the query string of its list. ``page`` is ``""`` for the list of sessions, ``"list:auth_user"`` for
    another list of the admin, and ``"page:auth_user:7"`` for the page of an object. Both may come from a URL: they can
    name no other page.
    """

    filters: str = ""
    page: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a URL, or the hidden fields of a form, that :func:`return_page_of` reads."""
        return {name: value for name, value in {FILTERS: self.filters, PAGE: self.page}.items() if value}

    def url(self, site: AdminSite) -> str:
        """Return the URL of the page in ``site``."""
        filters = QueryDict(self.filters)
        with suppress(NoReverseMatch):  # No such page in this site.
            if self.page.startswith(OBJECT_PAGE):
                # The page of an object carries the query string of the list that it was reached from.
                name, _, key = self.page[len(OBJECT_PAGE) :].partition(":")
                query = ReturnPage(self.filters).parameters
                return reverse(f"admin:{name}_change", args=[quote(key)], current_app=site.name, query=query)
            if self.page.startswith(LIST_PAGE):
                list_name = f"admin:{self.page[len(LIST_PAGE) :]}_changelist"
                return reverse(list_name, current_app=site.name, query=filters)
            return sessions_url("changelist", site, query=filters)
        return sessions_url("changelist", site)


def return_page_of(request: HttpRequest) -> ReturnPage:
    """
    Return the page to return to.

    For a list, this is the list as ``request`` shows it; for a session's page, the list that led to it; for another
    object's page, that page. Pages that ask and end hand on the parameters that they got.
    """
    match = request.resolver_match
    model, _, kind = (match.url_name or "").rpartition("_") if match else ("", "", "")
    is_of_sessions = model == "django_redsess_onlinesession"
    if kind == "changelist":
        return ReturnPage(_encoded_anew(request.GET.urlencode()), "" if is_of_sessions else LIST_PAGE + model)
    given = request.POST if request.method == "POST" else request.GET
    filters = _encoded_anew(given.get(FILTERS, ""))
    if match and kind == "change" and "object_id" in match.kwargs and not is_of_sessions:
        return ReturnPage(filters, f"{OBJECT_PAGE}{model}:{unquote(match.kwargs['object_id'])}")
    return ReturnPage(filters, given.get(PAGE, "")[:FILTERS_MAX])


def end_url(request: HttpRequest, site: AdminSite, *, sid: str | None = None, query: str | None = None) -> str:
    """
    Return the URL of the page that asks whether to end the session ``sid``.

    Without ``sid``, it asks about all sessions that match ``query``, a query string of the list; without both, about
    everyone's sessions. It returns to the page that ``request`` shows.
    """
    parameters = QueryDict(query or "", mutable=True)
    if sid is not None:
        parameters["sid"] = sid
    for name, value in return_page_of(request).parameters.items():
        parameters[name] = value
    return sessions_url("confirm", site, query=parameters)


def without_return_page(query: QueryDict) -> str:
    """Return the query string of ``query`` without the parameters that say where to return to."""
    kept = query.copy()
    for name in (FILTERS, PAGE):
        kept.pop(name, None)
    return kept.urlencode()


def _encoded_anew(query: str) -> str:
    # Any text becomes a valid query string.
    return QueryDict(query).urlencode() if len(query) <= FILTERS_MAX else ""
