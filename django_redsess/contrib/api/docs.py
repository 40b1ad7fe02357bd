"""The start page ``v1/``: browsers get a page with all operations, programs a list of their URLs."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from django.apps import apps
from django.conf import settings
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render, resolve_url
from django.urls import NoReverseMatch, reverse
from django.utils.cache import patch_vary_headers
from ninja import NinjaAPI
from ninja.openapi.docs import DocsBase

from django_redsess.admin_sites import mounted_sites
from django_redsess.contrib.api.authentication import SessionCookie, csrf_header, refusal_of
from django_redsess.models import OnlineSession
from django_redsess.permissions import rules


class Docs(DocsBase):
    """Renders a page for trying out all operations for browsers, or a list of the operations as JSON."""

    def render_page(self, request: HttpRequest, api: NinjaAPI, **kwargs: Any) -> HttpResponse:
        openapi = self.get_openapi_url(api, kwargs)
        response: HttpResponse
        # Without ninja's app, the page would load its scripts from another site.
        if apps.is_installed("ninja") and "text/html" in request.headers.get("Accept", ""):
            response = render(request, "django_redsess/api.html", _page_context(request, api, openapi))
        else:
            response = JsonResponse(_operations(api, openapi))
        patch_vary_headers(response, ("Accept",))
        return response


def _operations(api: Any, openapi: str) -> dict[str, Any]:
    described = api.get_openapi_schema()
    [server] = described["servers"]
    operations = {
        f"{method.upper()} {server['url']}{place}": operation["summary"]
        for place, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    return {"title": api.title, "version": api.version, "openapi": openapi, "operations": operations}


def _page_context(request: HttpRequest, api: Any, openapi: str) -> dict[str, Any]:
    user: Any = getattr(request, "user", None)
    user = user if user is not None and user.is_authenticated else None
    administers = apps.is_installed("django.contrib.admin")
    sites = mounted_sites(OnlineSession, request) if user is not None and administers else []
    is_staff = bool(sites) and refusal_of(sites, request) is None
    return {
        "openapi": openapi,
        "csrf_header": csrf_header(),
        "asker": user,
        "admin_url": _admin_url(sites[0].name) if is_staff else "",
        "login_url": _url_or_empty(settings.LOGIN_URL),
        "takes_tokens": any(not isinstance(each, SessionCookie) for each in api.auth),
        "sees_own_only": administers and not (is_staff and rules().may_see(user)),
    }


def _admin_url(name: str) -> str:
    """Return the URL of the admin site with this name. ``""`` if it is within another namespace."""
    with suppress(NoReverseMatch):
        return reverse("admin:index", current_app=name)
    return ""


def _url_or_empty(name: str) -> str:
    """Return the URL with this name. ``""`` if the site has none."""
    with suppress(NoReverseMatch):
        return resolve_url(name)
    return ""
