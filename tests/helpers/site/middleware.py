"""Middleware around ours: it reads the session before or after the view, and changes the answer."""

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin

from django_redsess.middleware import SessionMiddleware


class ReadsOnTheWayIn(MiddlewareMixin):
    """A middleware that reads the session before the view."""

    def process_request(self, request: HttpRequest) -> None:
        request.session.get("colour")


class WritesOnTheWayIn(MiddlewareMixin):
    """A middleware that changes the session before the view."""

    def process_request(self, request: HttpRequest) -> None:
        request.session["seen"] = request.session.get("number")


class ReadsOnTheWayOut(MiddlewareMixin):
    """A middleware that reads the session after the view."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        request.session.get("colour")
        return response


class Says(MiddlewareMixin):
    """A middleware that says of an answer who may keep it: in Cache-Control, or in headers as "name: value | …"."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        for said in filter(None, request.headers.get("X-Says", "").split(" | ")):
            name, _, value = said.rpartition(": ")
            response.headers[name or "Cache-Control"] = value
        return response


class NoAnswer:
    """A middleware above ours that gives another answer than the one it got."""

    def __init__(self, get_response) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        return HttpResponse("another")


class Fails(NoAnswer):
    """A middleware above ours that raises on the way out."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        self.get_response(request)
        raise RuntimeError("the middleware fails")


class Extended(SessionMiddleware):
    """A subclass of ours as sites write one of Django's: it answers by itself, reads the session, and adds a header."""

    def process_request(self, request: HttpRequest) -> HttpResponseBase | None:
        super().process_request(request)
        if "X-Reads" in request.headers:
            request.session.get("colour")
        return HttpResponse("closed", status=451) if "X-Closed" in request.headers else None

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        response = super().process_response(request, response)
        response.headers["X-Colour"] = str(request.session.get("colour"))
        return response
