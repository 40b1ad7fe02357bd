"""Middleware for the places where the session is read."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin


class ReadsOnTheWayIn(MiddlewareMixin):
    """A middleware that reads the session before the view."""

    def process_request(self, request: HttpRequest) -> None:
        request.session.get("colour")


class ReadsOnTheWayOut(MiddlewareMixin):
    """A middleware that reads the session after the view."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        request.session.get("colour")
        return response


class Says(MiddlewareMixin):
    """A middleware that says of an answer who may keep it, as the request's header wants."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if said := request.headers.get("X-Says"):
            response.headers["Cache-Control"] = said
        return response
