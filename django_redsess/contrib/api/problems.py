"""Errors of the JSON API: problem details, as RFC 9457 has them."""

from __future__ import annotations

from collections.abc import Mapping

from django.http import JsonResponse

from django_redsess import problems
from django_redsess.problems import ProblemType
from django_redsess.responses import problem_response


class ProblemError(Exception):
    """
    An error that is sent as problem details.

    ``kind`` has its type and its status, ``detail`` is a sentence for developers. ``headers`` are added to the
    response. ``url`` is a further member: where to go.
    """

    def __init__(
        self, kind: ProblemType, detail: str, *, url: str = "", headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.kind, self.detail, self.url, self.headers = kind, detail, url, headers

    def response(self) -> JsonResponse:
        more = {"url": self.url} if self.url else {}
        response = problem_response(self.kind, self.detail, **more)
        for name, value in (self.headers or {}).items():
            response[name] = value
        return response


def not_allowed(allowed: str) -> ProblemError:
    """Return the error for an unsupported method. ``allowed`` are the methods of the URL."""
    return ProblemError(problems.WRONG_METHOD, f"The methods here: {allowed}.", headers={"Allow": allowed})


def unprocessable(name: str, expected: str) -> ProblemError:
    """Return the error for the parameter or the field ``name``. ``expected`` completes "must be"."""
    return ProblemError(problems.WRONG_VALUE, f"{name} must be {expected}.")
