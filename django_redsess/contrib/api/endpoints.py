"""A URL of the JSON API: its methods, who asks, and its errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.decorators import login_not_required
from django.contrib.sessions.backends.base import UpdateError
from django.core.exceptions import ImproperlyConfigured, PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.multipartparser import MultiPartParserError
from django.http.request import HttpHeaders
from django.middleware.csrf import CsrfViewMiddleware, get_token
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_variables

from django_redsess.contrib.api.parameters import Json
from django_redsess.contrib.api.problems import Problem, not_allowed
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.responses import ENDED_MEANWHILE, answer_problems, unavailable
from django_redsess.session.store import session_of

Method = Callable[..., Json | None]
"""Takes a request, and what is in the path. Returns what the answer says, or None for 204."""

View = TypeVar("View", bound=Callable[..., HttpResponse])

SAFE = ("GET", "HEAD")


def api_view(view: View) -> View:
    """Mark a view that finds out by itself who asks, and whose errors are problem details. No cache may store them."""
    return answer_problems(csrf_exempt(login_not_required(never_cache(view))))


def endpoint(**methods: Method) -> Callable[..., HttpResponse]:
    """
    Return the view of a URL, which answers ``methods`` to who is signed in, and each error with problem details.

    With the cookie of a session that is signed in, what changes something needs a CSRF token. Whom the site's
    middleware knows otherwise, as by a token, needs none.
    """
    if "GET" in methods:
        methods["HEAD"] = methods["GET"]

    @api_view
    def view(request: HttpRequest, **path: str) -> HttpResponse:
        try:
            return _answer(request, methods, path)
        except Problem as problem:
            return problem.response()
        except PermissionDenied as error:
            return Problem(403, str(error) or "You may not do that.").response()
        except RequestDataTooBig:
            return Problem(413, "The body is too long.").response()
        except (SuspiciousOperation, MultiPartParserError):
            # Django reads forms for the CSRF token, and would answer with HTML.
            return Problem(400, "The request can't be read: a body must be of the type application/json.").response()
        except UpdateError:
            # Else the middleware would save it once more, and answer 400.
            request.session.modified = False
            return Problem(401, ENDED_MEANWHILE).response()
        except SessionStoreUnavailable as error:
            return unavailable(request, error)

    view.methods = methods  # type: ignore[attr-defined]
    return view


@api_view
def unknown(request: HttpRequest, **path: str) -> HttpResponse:
    """Answer to a path that is no URL of the API."""
    return Problem(404, "There is no such URL.").response()


@sensitive_variables()
def _answer(request: HttpRequest, methods: dict[str, Method], path: dict[str, str]) -> HttpResponse:
    method = methods.get(request.method or "")
    if method is None:
        raise not_allowed(methods)
    session = session_of(request)
    if session is None:
        raise ImproperlyConfigured('django_redsess.contrib.api.urls needs SESSION_ENGINE = "django_redsess.backend".')
    if not request.user.is_authenticated:
        raise Problem(401, "Sign in first.")
    # Not only if it is the same user: a middleware may let an administrator act as somebody else.
    has_cookie = SESSION_KEY in session
    csrf = CsrfViewMiddleware(lambda request: HttpResponse()) if has_cookie else None
    if csrf is not None:
        csrf.process_request(request)
        if csrf.process_view(request, method, (), {}) is not None:  # type: ignore[arg-type]  # it is not called
            name = HttpHeaders.parse_header_name(settings.CSRF_HEADER_NAME)
            raise Problem(403, f"The CSRF token in the header {name} is missing or wrong, or the origin is.")
    content = method(request, **path)
    if session.modified and not session.is_empty():
        # Now, so that an end meanwhile, or an outage, has an answer of this API.
        session.save()
    response = HttpResponse(status=204) if content is None else JsonResponse(content)
    if csrf is not None and request.method in SAFE and not settings.CSRF_USE_SESSIONS:
        # The cookie from which scripts take the token. It is set where the browser has none.
        get_token(request)
        csrf.process_response(request, response)
    return response
