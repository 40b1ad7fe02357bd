"""Errors of the JSON API: problem details, as RFC 9457 has them."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import JsonResponse

from django_redsess.documentation import page_url
from django_redsess.responses import problem_response

PASSWORD_REQUIRED = page_url("reference/api", "password-required")
"""The type of the error of a user who must first give the password."""

AUTHENTICATION_REQUIRED = page_url("reference/api", "authentication-required")
"""The type of the error of a user who must first authenticate again, at its member ``url``."""


class ProblemError(Exception):
    """
    An error that is sent as problem details.

    ``status`` is the HTTP status, ``detail`` a sentence for developers. ``kind`` is the URI of its type, by which
    programs tell errors with the same status apart. ``headers`` are added to the response. ``url`` is a further member:
    where to go.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "about:blank",
        url: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.kind, self.url, self.headers = status, detail, kind, url, headers

    def response(self) -> JsonResponse:
        more = {"url": self.url} if self.url else {}
        response = problem_response(self.status, self.detail, kind=self.kind, **more)
        for name, value in (self.headers or {}).items():
            response[name] = value
        return response


def not_allowed(allowed: str) -> ProblemError:
    """Return the error for an unsupported method. ``allowed`` are the methods of the URL."""
    return ProblemError(405, f"The methods here: {allowed}.", headers={"Allow": allowed})


def unprocessable(name: str, expected: str) -> ProblemError:
    """Return the error for the parameter or the field ``name``. ``expected`` completes "must be"."""
    return ProblemError(422, f"{name} must be {expected}.")
