"""Links in the admin: to items and users, to the pages of sessions, and back to where the administrator came from."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote, unquote
from django.contrib.auth import get_user_model
from django.db.models import Model
from django.http import HttpRequest, QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from django_redsess import viewed
from django_redsess.admin.filters import USER
from django_redsess.models import OnlineSession, PopularItem
from django_redsess.querysets import visible

_ABSOLUTE = re.compile(r"https?://[^/\\]", re.IGNORECASE)

logger = logging.getLogger("django_redsess")


class ItemLink(NamedTuple):
    """The name of an item's object, and the URL of its page; ``""`` if it has none."""

    name: str
    url: str


def links_of(request: HttpRequest, site: AdminSite, items: Collection[str]) -> dict[str, ItemLink]:
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


def link_html(row: PopularItem) -> SafeString:
    """Return the item's name as HTML: see :func:`item_html`."""
    return item_html(row.item, row.object)


def item_html(item: str, link: ItemLink | None) -> SafeString:
    """Return the item's name as HTML: a link if it has a page, and with the id if the name is another one."""
    shown = visible(item)
    found = link or ItemLink(shown, "")
    id_beside = format_html(" <small><bdi>{}</bdi></small>", shown) if found.name != shown else ""
    return format_html('<span class="redsess-item">{}{}</span>', name_html(found), id_beside)


def name_html(item: ItemLink) -> SafeString:
    """Return the item's name as HTML: a link if it has a page."""
    # <bdi> keeps a name that is written from right to left from reordering the text beside it.
    name = format_html("<bdi>{}</bdi>", item.name)
    return format_html('<a href="{}">{}</a>', item.url, name) if item.url else name


def admin_url(thing: Model, site: AdminSite, page: str = "change") -> str:
    """Return the URL of a page of ``thing`` in the admin; ``""`` if it has none."""
    name = f"admin:{thing._meta.app_label}_{thing._meta.model_name}_{page}"
    try:
        return reverse(name, args=(quote(thing.pk),), current_app=site.name)
    except NoReverseMatch:
        return ""


def _url_of(request: HttpRequest, site: AdminSite, thing: Any) -> str:
    # Its admin page, if the administrator may see that; else the object's own page.
    model_admin = site._registry.get(type(thing))
    may_view = isinstance(thing, Model) and model_admin and model_admin.has_view_or_change_permission(request, thing)
    if may_view and (url := admin_url(thing, site)):
        return url
    with suppress(NoReverseMatch):
        url = str(thing.get_absolute_url()) if hasattr(thing, "get_absolute_url") else ""
        return url if _may_link(url) else ""
    return ""


def _may_link(url: str) -> bool:
    # An address may have been typed in by anybody, and a browser runs "javascript:". The check of Django allows what
    # stays on this site: it knows "//host", control characters, and blanks before a scheme.
    return _ABSOLUTE.match(url) is not None or url_has_allowed_host_and_scheme(url, allowed_hosts=None)


def url_of(name: str, site: AdminSite, *args: str) -> str:
    """Return the URL of the list, or of one of its pages."""
    return reverse(f"admin:django_redsess_onlinesession_{name}", args=args, current_app=site.name)


def query_of(user_ids: Sequence[str]) -> str:
    """Return the query string with which the list shows the sessions of these users."""
    query = QueryDict(mutable=True)
    query.setlist(USER, user_ids)
    return query.urlencode()


FILTERS = "_changelist_filters"
"""The parameter with the query string of the list to return to. Django's admin has the same name for it."""

PAGE = "_return_to"
"""The parameter that names another page to return to: the list of users, or a user's page."""

FILTERS_MAX = 2000
"""A longer query string is dropped: web servers refuse long URLs."""

USERS, USER_PAGE = "users", "user:"


class ReturnPage(NamedTuple):
    """
    The page to return to.

    ``filters`` is the query string of its list. ``page`` is ``""`` for the list of sessions, ``"users"`` for the list
    of users, and ``"user:"`` with the primary key for a user's page. Both may come from a URL: they never name another
    page than these.
    """

    filters: str = ""
    page: str = ""

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of a URL, or the hidden fields of a form, that :func:`return_page_of` reads."""
        return {name: value for name, value in {FILTERS: self.filters, PAGE: self.page}.items() if value}

    def url(self, site: AdminSite) -> str:
        """Return the URL of the page in ``site``."""
        users = get_user_model()._meta
        try:
            if self.page.startswith(USER_PAGE):
                url = _reverse(site, f"{users.app_label}_{users.model_name}_change", quote(self.page[len(USER_PAGE) :]))
                # A user's page carries the query string of the list that it was reached from.
                return _with_query(url, _encoded({FILTERS: self.filters}) if self.filters else "")
            if self.page == USERS:
                return _with_query(_reverse(site, f"{users.app_label}_{users.model_name}_changelist"), self.filters)
        except NoReverseMatch:  # No such page, or users have none in this site.
            return url_of("changelist", site)
        return _with_query(url_of("changelist", site), self.filters)


def return_page_of(request: HttpRequest) -> ReturnPage:
    """
    Return the page to return to.

    From a list it is that list as ``request`` shows it. From a session's page it is the list that the page was reached
    from. From a user's page it is that page. The pages that ask and end pass on what they came with.
    """
    match = request.resolver_match
    users, sessions = get_user_model()._meta, OnlineSession._meta
    of_user = f"{users.app_label}_{users.model_name}"
    lists = {f"{of_user}_changelist": USERS, f"{sessions.app_label}_{sessions.model_name}_changelist": ""}
    name = match.url_name if match else None
    if name in lists:
        return ReturnPage(_checked(request.GET.urlencode()), lists[name])
    given = request.POST if request.method == "POST" else request.GET
    filters = _checked(given.get(FILTERS, ""))
    if match and name == f"{of_user}_change":
        return ReturnPage(filters, USER_PAGE + unquote(match.kwargs["object_id"]))
    return ReturnPage(filters, given.get(PAGE, "")[:FILTERS_MAX])


def end_url(request: HttpRequest, site: AdminSite, *, sid: str | None = None, query: str | None = None) -> str:
    """
    Return the URL of the page that asks whether to end the session ``sid``.

    Without ``sid``, it asks about all sessions that match ``query``: a query string of the list. Without both, about
    everyone's. It returns to the page that ``request`` shows.
    """
    parameters = QueryDict(query or "", mutable=True)
    if sid is not None:
        parameters["sid"] = sid
    for name, value in return_page_of(request).parameters.items():
        parameters[name] = value
    return _with_query(url_of("confirm", site), parameters.urlencode())


def without_return_page(query: QueryDict) -> str:
    """Return the query string of ``query`` without the parameters that say where to return to."""
    kept = query.copy()
    for name in (FILTERS, PAGE):
        kept.pop(name, None)
    return kept.urlencode()


def _checked(query: str) -> str:
    # Encoded again, it is a query string whatever it was.
    return QueryDict(query).urlencode() if len(query) <= FILTERS_MAX else ""


def _encoded(parameters: dict[str, str]) -> str:
    query = QueryDict(mutable=True)
    query.update(parameters)
    return query.urlencode()


def _with_query(url: str, query: str) -> str:
    return f"{url}?{query}" if query else url


def _reverse(site: AdminSite, name: str, *args: str) -> str:
    return reverse(f"admin:{name}", args=args, current_app=site.name)
