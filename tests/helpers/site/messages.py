"""Views that show messages, or what the session knows of its end."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template import engines

from django_redsess.session.notice import Notice


def page(source: str, request: HttpRequest) -> HttpResponse:
    return HttpResponse(engines["django"].from_string(source).render({}, request))


def who_and_messages(request: HttpRequest) -> HttpResponse:
    """Who is signed in, and all messages."""
    return page("{{ user.username|default:'nobody' }}{% for message in messages %}|{{ message }}{% endfor %}", request)


def shows(request: HttpRequest) -> HttpResponse:
    """A page that knows its user, and shows the messages."""
    request.session.get("colour")
    return page("{% for message in messages %}[{{ message.level_tag }}: {{ message }}]{% endfor %}", request)


async def ashows(request: HttpRequest) -> HttpResponse:
    await request.session.aget("colour")
    return page("{% for message in messages %}[{{ message.level_tag }}: {{ message }}]{% endfor %}", request)


def shows_first(request: HttpRequest) -> HttpResponse:
    """A page that shows the messages before it knows its user."""
    return page("{% for message in messages %}[{{ message }}]{% endfor %}{{ request.session.colour }}", request)


def text_of(notice: Notice | None) -> str:
    return f"{notice.reason}|{notice.message}" if notice else "nothing"


def asks(request: HttpRequest) -> HttpResponse:
    """Show what the session knows of its end."""
    return HttpResponse(text_of(request.session.ended))


async def aasks(request: HttpRequest) -> HttpResponse:
    return HttpResponse(text_of(await request.session.aended()))
