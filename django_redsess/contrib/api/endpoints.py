"""The URLs of the JSON API, with their common behaviour, errors and description."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, wraps
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.sessions.backends.base import UpdateError
from django.core.exceptions import PermissionDenied, RequestDataTooBig, TooManyFieldsSent
from django.http import Http404, HttpRequest, HttpResponse
from django.middleware.csrf import CsrfViewMiddleware
from django.urls import URLPattern, URLResolver, include, path, re_path, register_converter
from django.urls.converters import PathConverter
from django.views.decorators.cache import never_cache
from django.views.decorators.clickjacking import xframe_options_deny
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_safe
from ninja import NinjaAPI
from ninja.errors import AuthenticationError, HttpError, ValidationError
from ninja.operation import Operation
from ninja.parser import Parser
from ninja.security import HttpBearer

from django_redsess import problems
from django_redsess.contrib.api import own
from django_redsess.contrib.api.authentication import SessionCookie, csrf_header
from django_redsess.contrib.api.docs import Docs
from django_redsess.contrib.api.problems import ProblemError, not_allowed
from django_redsess.contrib.api.schemas import TEXT_MAX
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.responses import ENDED_MEANWHILE, unavailable_response, with_problem_details

NAMESPACE = "redsess_api"
ABOUT = (
    "Who is signed in, and the end of sessions. A request that changes something needs Django's CSRF token in the "
    "header `%s` if the session's cookie says who you are. A site may let you in by other means, such as a "
    "token: then it needs none."
)
ERRORS = {
    401: "Nobody is signed in.",
    403: "You may not do this; or the CSRF token is missing or wrong; or the password has to be given first, or was "
    "wrong; or django-allauth asks first, at `url`; or there are too many sessions to count. `type` tells these apart.",
    404: "There is none, or it is over.",
    413: "The body is too large.",
    414: "The URL is longer than the web server takes. It answers as it likes.",
    415: "The body is not JSON by its Content-Type.",
    422: "A parameter or the body is wrong. `detail` names it.",
    429: "Too many wrong passwords.",
    503: "Sessions can't be reached just now. Nobody is signed out by it.",
}
RETRY_AFTER = {
    "description": "After how many seconds to try again.",
    "schema": {"type": "string", "pattern": "^[0-9]+$"},
}

EXPECTED = re.compile(r"\w+ should |Value error, ")
"""The beginnings of Pydantic's messages, and of our own messages in Pydantic's errors."""


class UserIdConverter(PathConverter):
    """Any text: a primary key may have slashes, and line breaks, which Django's ``path`` does not match."""

    regex = "(?s:.+)"


register_converter(UserIdConverter, "redsess_user_id")


def endpoints(auth: Any) -> list[URLPattern | URLResolver]:
    """Return the URLs. ``auth`` is that of :func:`django_redsess.contrib.api.urls`."""
    api = SessionsApi(
        title="Sessions",
        version="1",
        urls_namespace=NAMESPACE,
        auth=[*_auth_list(auth), SessionCookie()],
        parser=JsonParser(),
        docs_decorator=lambda view: xframe_options_deny(require_safe(view)),
        docs_url="/",
        docs=Docs(),
    )
    api.add_router("", own.router)
    if apps.is_installed("django.contrib.admin"):
        # These operations need the admin: a site without it has no administrators.
        from django_redsess.contrib.api import administration

        api.add_router("", administration.router)
        if apps.is_installed("django_redsess.contrib.history"):
            from django_redsess.contrib.api import sign_ins

            api.add_router("", sign_ins.router)
    for kind, answer in HANDLERS.items():
        api.add_exception_handler(kind, answer)
    api.add_exception_handler(AuthenticationError, lambda request, error: _unauthenticated(api).response())
    patterns, _, _ = api.urls
    for pattern in patterns:
        pattern.callback = _api_view(pattern.callback)  # type: ignore[arg-type]
    return [path("v1/", include([*patterns, re_path("", _api_view(_answer_unknown))]))]


def _auth_list(auth: Any) -> Sequence[Any]:
    if auth is None:
        return ()
    return auth if isinstance(auth, Sequence) else (auth,)


class SessionsApi(NinjaAPI):
    """Names operations after their functions, and describes errors as problem details."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        first, *others = operation.view_func.__name__.split("_")
        return first + "".join(map(str.capitalize, others))

    def get_content_type(self) -> str:
        return str(self.renderer.media_type)

    def get_openapi_schema(self, **kwargs: Any) -> Any:
        here = {"url": self.get_root_path({}).rstrip("/"), "description": "The API of this site."}
        info = {**self._description["info"], "description": ABOUT % csrf_header()}
        return {**self._description, "info": info, "servers": [here]}

    @cached_property
    def _description(self) -> dict[str, Any]:
        # Cached: it takes 50 ms, and anybody may request it.
        described: dict[str, Any] = super().get_openapi_schema(path_prefix="")
        for operation in (each for methods in described["paths"].values() for each in methods.values()):
            text = " ".join(operation["description"].split())
            operation["summary"], _, operation["description"] = text.partition(". ")
            for parameter in operation["parameters"]:
                # A query can't have null.
                parameter["schema"].update(parameter["schema"].pop("anyOf", [{}])[0])
            for status, answer in operation["responses"].items():
                if status in ERRORS:
                    answer["description"] = ERRORS[status]
                    content = answer.pop("content")["application/json"]
                    content["examples"] = _examples(status)
                    # A 414 comes from the web server, in any format.
                    answer |= {} if status == 414 else {"content": {"application/problem+json": content}}
                if status in (429, 503):
                    answer["headers"] = {"Retry-After": RETRY_AFTER}
        return described


def _examples(status: int) -> dict[str, Any]:
    """Return a problem of each type that has this status."""
    return {
        kind.name: {"value": {"type": kind.uri, "title": kind.title, "status": status, "detail": kind.title}}
        for kind in problems.TYPES.values()
        if kind.status == status
    }


class JsonParser(Parser):
    """Accepts only bodies with the content type of JSON."""

    def parse_body(self, request: HttpRequest) -> Any:
        if request.content_type != "application/json":
            raise ProblemError(problems.NOT_JSON, "The body must be of the type application/json.")
        return super().parse_body(request)


def _api_view(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return a view without the site's login and CSRF checks. Its errors are problem details; no cache stores it."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if request.method == "HEAD":
            request.method = "GET"
        try:
            response = view(request, *args, **kwargs)
        except Http404:
            response = _answer_unknown(request)
        if response.status_code == 405:
            return not_allowed(response["Allow"]).response()
        if request.META.get("CSRF_COOKIE_NEEDS_UPDATE"):
            CsrfViewMiddleware(lambda request: response).process_response(request, response)
        return response

    # A form with a password is rejected, but Django's error reports would show it.
    hidden = sensitive_post_parameters("password")(answer)
    return with_problem_details(csrf_exempt(login_not_required(never_cache(hidden))))


def _answer_unknown(request: HttpRequest, **path: str) -> HttpResponse:
    slash = " None ends with a slash." if request.path.endswith("/") else ""
    here, _, _ = request.path.partition("/v1/")
    return ProblemError(
        problems.NO_SUCH_URL, f"There is no such URL.{slash} {here}/v1/openapi.json has all."
    ).response()


def _unauthenticated(api: NinjaAPI) -> ProblemError:
    text = f"Nobody is signed in, or the session has ended. Send the cookie {settings.SESSION_COOKIE_NAME} of a session"
    if any(isinstance(each, HttpBearer) for each in api.auth or ()):  # type: ignore[union-attr]
        bearer = {"WWW-Authenticate": "Bearer"}
        return ProblemError(
            problems.NOT_SIGNED_IN, f"{text}, or the header Authorization: Bearer with a valid token.", headers=bearer
        )
    return ProblemError(problems.NOT_SIGNED_IN, f"{text} that is signed in.")


def _raise_error(request: HttpRequest, error: Exception) -> HttpResponse:
    raise error


def _answer_invalid(request: HttpRequest, error: ValidationError) -> HttpResponse:
    first = error.errors[0]
    *_, name = [str(part) for part in first["loc"] if isinstance(part, str)]
    if first["type"] == "missing":
        return ProblemError(problems.WRONG_VALUE, f"{name} is missing.").response()
    if first["type"] == "extra_forbidden":
        return ProblemError(problems.WRONG_VALUE, f"There is no field {name[:TEXT_MAX]!r}.").response()
    expected = EXPECTED.sub(lambda found: "must be " if "error" in found[0] else "must ", first["msg"], count=1)
    return ProblemError(problems.WRONG_VALUE, f"{name} {expected}.").response()


def _answer_http_error(request: HttpRequest, error: HttpError) -> HttpResponse:
    # django-ninja wraps the errors of a parser.
    cause = error.__cause__
    if isinstance(cause, ProblemError):
        return cause.response()
    if cause is not None and error.status_code == 400:
        return ProblemError(problems.WRONG_VALUE, "The body must be JSON.").response()
    return ProblemError(problems.of_status(error.status_code), str(error)).response()


def _answer_ended(request: HttpRequest, error: UpdateError) -> HttpResponse:
    # Otherwise the middleware would save it once more, and answer 400.
    request.session.modified = False
    return ProblemError(problems.SESSION_ENDED, ENDED_MEANWHILE).response()


HANDLERS: dict[type[Exception], Callable[[HttpRequest, Any], HttpResponse]] = {
    Exception: _raise_error,
    ProblemError: lambda request, error: error.response(),
    PermissionDenied: lambda request, error: ProblemError(
        problems.NOT_ALLOWED, str(error) or "You may not do that."
    ).response(),
    HttpError: _answer_http_error,
    ValidationError: _answer_invalid,
    TooManyFieldsSent: lambda request, error: ProblemError(
        problems.WRONG_VALUE, "The query has too many parameters."
    ).response(),
    RequestDataTooBig: lambda request, error: ProblemError(problems.BODY_TOO_LONG, "The body is too long.").response(),
    UpdateError: _answer_ended,
    SessionStoreUnavailable: unavailable_response,
}
"""The function that makes the response to each type of error."""
