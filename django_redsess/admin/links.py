"""Names of viewed items in the admin, and links to items and users."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest, QueryDict
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from django_redsess import viewed
from django_redsess.admin.filters import USER
from django_redsess.models import PopularItem
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
