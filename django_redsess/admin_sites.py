"""The admin sites that are part of a site's URLs. They may be others than ``django.contrib.admin.site``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

if TYPE_CHECKING:
    from django.contrib.admin.sites import AdminSite  # A site may do without the admin.
    from django.db.models import Model
    from django.http import HttpRequest


def mounted_sites(model: type[Model], request: HttpRequest | None = None) -> list[AdminSite]:
    """Return the admin sites that have pages of ``model`` in the URLs, in the order of the URLs."""
    return [site for site in all_sites(request) if site.is_registered(model)]


def all_sites(request: HttpRequest | None = None) -> list[AdminSite]:
    """
    Return the admin sites in the URLs, in the order of the URLs.

    The URLs are those of ``ROOT_URLCONF``, and of ``request.urlconf`` where a middleware has set another one.
    """
    urlconfs = dict.fromkeys((settings.ROOT_URLCONF, getattr(request, "urlconf", None) or settings.ROOT_URLCONF))
    return list(dict.fromkeys(site for urlconf in urlconfs for site in _sites_of(get_resolver(urlconf))))


# By resolver: Django makes a new one where its own cache of them is cleared.
_known: WeakKeyDictionary[URLResolver, Sequence[AdminSite]] = WeakKeyDictionary()


def _sites_of(resolver: URLResolver) -> Sequence[AdminSite]:
    sites = _known.get(resolver)
    if sites is None:
        # All patterns are looked at, once a process: a site may have thousands.
        sites = _known[resolver] = tuple(dict.fromkeys(_walk(resolver)))
    return sites


def _walk(resolver: URLResolver) -> Iterator[AdminSite]:
    for pattern in resolver.url_patterns:
        if isinstance(pattern, URLResolver):
            yield from _walk(pattern)
        elif isinstance(pattern, URLPattern) and (site := _site_of(pattern.callback)) is not None:
            yield site


def _site_of(view: Any) -> AdminSite | None:
    # Django marks the views of an AdminSite, and those of a ModelAdmin. Decorators keep the marks.
    site: AdminSite | None = getattr(view, "admin_site", None)
    return getattr(getattr(view, "model_admin", None), "admin_site", None) if site is None else site
