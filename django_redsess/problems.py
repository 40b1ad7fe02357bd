"""The kinds of errors that programs are told: by problem details of RFC 9457, and by other JSON."""

from __future__ import annotations

from typing import NamedTuple

from django_redsess.documentation import page_url


class ProblemType(NamedTuple):
    """
    A kind of error: ``name`` is the anchor of its section in docs/reference/api.rst, which says what to do.

    ``status`` is the HTTP status, ``title`` a sentence for developers.
    """

    name: str
    status: int
    title: str

    @property
    def uri(self) -> str:
        """The ``type`` of the problem: a program compares it, and a person opens it."""
        return page_url("reference/api", self.name)


NOT_READABLE = ProblemType("not-readable", 400, "The request can't be read.")
NOT_SIGNED_IN = ProblemType("not-signed-in", 401, "Nobody is signed in.")
SESSION_ENDED = ProblemType("session-ended", 401, "The session has ended meanwhile.")
ACCOUNT_INACTIVE = ProblemType("account-inactive", 401, "The account is not active.")
DEVICE_NOT_PROVEN = ProblemType("device-not-proven", 401, "The session is bound to another device.")
NOT_ALLOWED = ProblemType("not-allowed", 403, "A permission is missing.")
CSRF_FAILED = ProblemType("csrf-failed", 403, "The CSRF token or the origin is missing or wrong.")
PASSWORD_REQUIRED = ProblemType("password-required", 403, "The password has to be given first.")
AUTHENTICATION_REQUIRED = ProblemType("authentication-required", 403, "The user has to authenticate again first.")
WRONG_PASSWORD = ProblemType("wrong-password", 403, "The password is wrong.")
SIGN_IN_REFUSED = ProblemType("sign-in-refused", 403, "The user may not sign in.")
TOO_MANY_SESSIONS = ProblemType("too-many-sessions", 403, "The user has as many sessions as allowed.")
TOO_MANY_TO_COUNT = ProblemType("too-many-to-count", 403, "A rule of the site is asked about too many sessions.")
NO_SUCH_URL = ProblemType("no-such-url", 404, "There is no such URL.")
NO_SUCH_PAGE = ProblemType("no-such-page", 404, "The admin of this site does not have the page.")
NO_SUCH_SESSION = ProblemType("no-such-session", 404, "There is no such session.")
NO_SUCH_USER = ProblemType("no-such-user", 404, "There is no such user.")
NO_SUCH_BLOCK = ProblemType("no-such-block", 404, "The user is not blocked.")
WRONG_METHOD = ProblemType("wrong-method", 405, "The URL does not have this method.")
SESSION_BUSY = ProblemType("session-busy", 409, "Another request of the session is still being answered.")
BODY_TOO_LONG = ProblemType("body-too-long", 413, "The body is too long.")
NOT_JSON = ProblemType("not-json", 415, "The body is not JSON by its Content-Type.")
WRONG_VALUE = ProblemType("wrong-value", 422, "A parameter or the body is not as expected.")
WRONG_CURSOR = ProblemType("wrong-cursor", 422, "The cursor does not fit the list.")
TOO_MANY_PASSWORDS = ProblemType("too-many-passwords", 429, "There were too many wrong passwords.")
STORE_UNAVAILABLE = ProblemType("store-unavailable", 503, "Sessions can't be reached.")
REFUSED_BY_SITE = ProblemType("refused-by-site", 400, "The site has refused the request.")

TYPES = {each.name: each for each in list(globals().values()) if isinstance(each, ProblemType)}
"""All kinds, by their names."""


def of_status(status: int) -> ProblemType:
    """Return the kind of an error of which only the status is known: code of the site has raised it."""
    return REFUSED_BY_SITE._replace(status=status)
