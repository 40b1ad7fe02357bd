"""
The pages of the shop, and those of an identity provider: ``idp/…``, which a browser knows by another host.

``callback/`` is where the identity provider sends a browser back with a code. The session has the state that goes with
it, and a code is good once.
"""

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import include, path
from django.utils.html import format_html

from django_redsess.contrib.device_bound.views import well_known

used_codes: set[str] = set()


def page(body: str) -> HttpResponse:
    """Return a page for which the browser sends no other request, not even for an icon."""
    return HttpResponse(format_html('<!doctype html><link rel="icon" href="data:,"><main>{}</main>', body))


def me(request: HttpRequest) -> HttpResponse:
    return page(request.user.get_username() or "nobody")


def to_idp(request: HttpRequest) -> HttpResponse:
    """Send the browser to the identity provider."""
    request.session["state"] = "of this session"
    return HttpResponseRedirect(request.GET["idp"])


def callback(request: HttpRequest) -> HttpResponse:
    code = request.GET["code"]
    if request.session.pop("state", None) is None or code in used_codes:
        return HttpResponse("no state, or a used code", status=400)
    used_codes.add(code)
    return page(f"{request.user} came back with {code}")


def authorize(request: HttpRequest) -> HttpResponse:
    """Page of the identity provider: send the browser back at once."""
    return HttpResponseRedirect(request.GET["to"])


def link(request: HttpRequest) -> HttpResponse:
    """Page of any other site: a link to the shop."""
    return page(format_html('<a href="{}">There</a>', request.GET["to"]))


def download(request: HttpRequest) -> HttpResponse:
    headers = {"Content-Disposition": 'attachment; filename="invoice.txt"'}
    return HttpResponse(f"invoice of {request.user}", headers=headers, content_type="text/plain")


urlpatterns = [
    path(".well-known/device-bound-sessions", well_known),
    path("me/", me),
    path("to-idp/", to_idp),
    path("callback/", callback),
    path("download/", download),
    path("idp/authorize/", authorize),
    path("idp/link/", link),
    path("", include("tests.helpers.site.urls")),
]
