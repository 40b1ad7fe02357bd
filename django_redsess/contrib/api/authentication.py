"""Authentication: by default, by the session cookie of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import TYPE_CHECKING, Any, get_type_hints

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import ImproperlyConfigured, RequestDataTooBig, SuspiciousOperation
from django.http import HttpRequest
from django.http.multipartparser import MultiPartParserError
from django.http.request import HttpHeaders
from django.middleware.csrf import get_token
from ninja.responses import Status
from ninja.security import APIKeyCookie
from ninja.utils import check_csrf

from django_redsess import problems
from django_redsess.contrib.api.problems import ProblemError
from django_redsess.contrib.api.schemas import TEXT_MAX, Query
from django_redsess.session.store import session_of, user_id_of

if TYPE_CHECKING:
    from django.contrib.admin.sites import AdminSite  # A site may do without the admin.

SAFE = ("GET", "HEAD")


class SessionCookie(APIKeyCookie):
    """
    Authenticates the user whom the site's middleware has found, by a session cookie or otherwise.

    With the cookie of a signed-in session, a change needs a CSRF token. A user whom the middleware found otherwise,
    such as by a token, needs none.
    """

    def __init__(self) -> None:
        self.param_name = settings.SESSION_COOKIE_NAME
        super().__init__()

    def __call__(self, request: HttpRequest) -> Any:
        session = session_of(request)
        if session is None:
            raise ImproperlyConfigured('django_redsess.contrib.api needs SESSION_ENGINE = "django_redsess.backend".')
        # Even if the user is another one: a middleware may let an administrator act as somebody else.
        if request.user.is_authenticated and SESSION_KEY in session:
            _check_csrf(request)
        return super().__call__(request)

    def _get_key(self, request: HttpRequest) -> str | None:
        return None

    def authenticate(self, request: HttpRequest, key: str | None) -> Any:
        return request.user if request.user.is_authenticated else None


def csrf_header() -> str:
    """Return the name of the header for the CSRF token."""
    return str(HttpHeaders.parse_header_name(settings.CSRF_HEADER_NAME))


def _check_csrf(request: HttpRequest) -> None:
    try:
        refused = check_csrf(request)
    except RequestDataTooBig:
        raise ProblemError(problems.BODY_TOO_LONG, "The body is too long.") from None
    except (SuspiciousOperation, MultiPartParserError):
        # Django has read the body as a form, for the token.
        raise ProblemError(
            problems.NOT_READABLE, "The request can't be read: a body must be of the type application/json."
        ) from None
    if refused is not None:
        value = "the page's token" if settings.CSRF_USE_SESSIONS else f"the cookie {settings.CSRF_COOKIE_NAME}"
        sent = f"Send {value} in the header {csrf_header()}, and over HTTPS a Referer of this site"
        raise ProblemError(
            problems.CSRF_FAILED, f"The CSRF token or the origin of the request is missing or wrong. {sent}."
        )
    if request.method in SAFE and not settings.CSRF_USE_SESSIONS:
        # Scripts take the token from a cookie, which is set here if the browser has none.
        get_token(request)


def for_asker(operation: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``operation`` act as the user whom ``auth`` has found. Reject unknown and repeated parameters."""
    hints = [hint for hint in get_type_hints(operation).values() if isinstance(hint, type) and issubclass(hint, Query)]
    fields = {name: field for hint in hints for name, field in hint.model_fields.items()}

    @wraps(operation)
    def answer(request: Any, *args: Any, **kwargs: Any) -> Any:
        user = request.auth
        if getattr(user, "is_authenticated", None) is not True:
            raise ImproperlyConfigured("auth of django_redsess.contrib.api.urls() must return a user, or None.")
        if not getattr(user, "is_active", True):
            raise ProblemError(problems.ACCOUNT_INACTIVE, "This account is not active.")
        request.user = user
        for name, values in request.GET.lists():
            if name not in fields:
                known = ", ".join(sorted(fields)) or "none"
                raise ProblemError(
                    problems.WRONG_VALUE, f"There is no parameter {name[:TEXT_MAX]!r}. Parameters: {known}."
                )
            if len(values) > 1 and not isinstance(fields[name].default, list):
                raise ProblemError(problems.WRONG_VALUE, f"{name} is given more than once.")
        content = operation(request, *args, **kwargs)
        session = session_of(request)
        if session is not None and session.modified and not session.is_empty():
            # Saved here, so that this API reports an outage, or a session that has ended meanwhile.
            session.save()
        return Status(204, None) if content is None else content

    return answer


def refusal_of(sites: Iterable[AdminSite], request: HttpRequest) -> str | None:
    """
    Ask ``sites`` whether they let in the user of ``request``. Return why one does not, None if all do.

    A site may ask for what its middleware adds to the user of a session, such as ``is_verified()`` of django-otp. A
    user of a token lacks it, and stays outside.
    """
    for site in sites:
        try:
            if not site.has_permission(request):
                return ""
        except AttributeError as error:
            # Any other object may lack an attribute by a mistake of the site, which is to be seen.
            if not isinstance(error.obj, AbstractBaseUser):
                raise
            return f"The admin of this site asks for {error.name} of the user, which only a sign-in by its pages has."
    return None


def own_sid(request: HttpRequest) -> str | None:
    """Return the sid of the request's session. None without one, or if it belongs to another user."""
    session = session_of(request)
    if session is None or session.get(SESSION_KEY) != user_id_of(request.user):  # type: ignore[arg-type]
        return None
    return session.stored_sid
