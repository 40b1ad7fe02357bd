"""The shop under a Content-Security-Policy that allows nothing but files of its own, and with our own pages."""

from collections.abc import Callable
from pathlib import Path

import django
from django.http import HttpRequest, HttpResponse

import django_redsess
from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import MIDDLEWARE, TEMPLATES

SECURE_CSP = {"default-src": ["'self'"], "style-src": ["'self'"]}


def policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Send the header, where Django is too old to do so."""

    def send(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = "; ".join(" ".join([name, *to]) for name, to in SECURE_CSP.items())
        return response

    return send


_POLICY = f"{__name__}.policy" if django.VERSION < (6, 0) else "django.middleware.csp.ContentSecurityPolicyMiddleware"

MIDDLEWARE = [_POLICY, *MIDDLEWARE]
# Before those with which the shop replaces them.
TEMPLATES = [{**TEMPLATES[0], "DIRS": [Path(django_redsess.__file__).parent / "templates"]}]
