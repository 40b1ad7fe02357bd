"""How the admin calls items, and where it leads from them, and from users."""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.admin.sites import AdminSite
from django.contrib.admin.utils import quote
from django.db.models import Model
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext

from django_redsess import viewed
from django_redsess.models import PopularItem
from django_redsess.querysets.items import shown

logger = logging.getLogger("django_redsess")


class Named(NamedTuple):
    """How the object of an item is called, and where it is to be seen: ``""`` for nowhere."""

    name: str
    url: str


def named(request: HttpRequest, site: AdminSite, items: Collection[str]) -> dict[str, Named]:
    """Name items by their objects, as far as those are found. Where that fails, a message says so."""
    try:
        found = viewed.resolve(items)
        return {item: Named(str(thing) or shown(item), _url_of(request, site, thing)) for item, thing in found.items()}
    except Exception:
        # The function is the site's own, and may raise anything.
        logger.exception('The function that REDSESS["VIEWED_RESOLVE"] names failed.')
        text = gettext("Items have no names here: the function that %(setting)s names failed. The log says why.")
        messages.warning(request, text % {"setting": 'REDSESS["VIEWED_RESOLVE"]'}, fail_silently=True)
        return {}


def linked(row: PopularItem) -> SafeString:
    """Write how an item is called, with a link where there is one, and with its id where that is not the name."""
    name, url = row.object or Named(str(row), "")
    # Each is apart, so that one that is written from right to left turns nothing else round.
    text = format_html('<a href="{}"><bdi>{}</bdi></a>', url, name) if url else format_html("<bdi>{}</bdi>", name)
    id_beside = format_html(" <small><bdi>{}</bdi></small>", row) if name != str(row) else ""
    return format_html('<span class="redsess-item">{}{}</span>', text, id_beside)


def admin_url(thing: Model, site: AdminSite) -> str:
    """Return the address of the admin page of ``thing``, or ``""`` where there is none."""
    name = f"admin:{thing._meta.app_label}_{thing._meta.model_name}_change"
    try:
        return reverse(name, args=(quote(thing.pk),), current_app=site.name)
    except NoReverseMatch:
        return ""


def _url_of(request: HttpRequest, site: AdminSite, thing: Any) -> str:
    # In the admin, where this administrator may see it, else where it says that it is.
    own_admin = site._registry.get(type(thing))
    visible = isinstance(thing, Model) and own_admin and own_admin.has_view_or_change_permission(request, thing)
    if visible and (url := admin_url(thing, site)):
        return url
    with suppress(NoReverseMatch):
        return str(thing.get_absolute_url()) if hasattr(thing, "get_absolute_url") else ""
    return ""
