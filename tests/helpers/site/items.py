"""Views of items, each of its own kind. The middleware records those that ``VIEWED_VIEWS`` names."""

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.template import engines
from django.template.response import TemplateResponse
from django.urls import path
from django.utils.decorators import method_decorator
from django.views import View
from django.views.decorators.csrf import csrf_exempt

from django_redsess import viewed
from django_redsess.middleware import passive
from django_redsess.viewed import records_view
from testproject.shop.models import Product
from tests.helpers.both import Ask, both
from tests.helpers.site.meanwhile import meanwhile
from tests.helpers.site.views import condition


@csrf_exempt
def plain(request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(item)


@both
async def reads(ask: Ask, request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(await ask(request.session, "get", "colour", "none"))


def writes(request: HttpRequest, item: str) -> HttpResponse:
    request.session["last"] = item
    meanwhile(request)
    return HttpResponse(item)


def cycles(request: HttpRequest, item: str) -> HttpResponse:
    request.session.cycle_key()
    meanwhile(request)
    return HttpResponse(item)


def writes_and_cycles(request: HttpRequest, item: str) -> HttpResponse:
    """Change the session and give it another key."""
    request.session["last"] = item
    request.session.cycle_key()
    return HttpResponse(item)


def for_somebody(request: HttpRequest, item: str) -> HttpResponse:
    """A page that takes an error for nobody being signed in."""
    return condition(request)


def ends(request: HttpRequest, item: str) -> HttpResponse:
    request.session.flush()
    return HttpResponse(item)


@passive
def polls(request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(item)


def answers(request: HttpRequest, status: int, item: str) -> HttpResponse:
    return HttpResponse(status=status)


@both
async def records(ask: Ask, request: HttpRequest, item: str) -> HttpResponse:
    return HttpResponse(str(await ask(viewed, "record", request.session, item)))


@records_view("number")
def marked(request: HttpRequest, number: int) -> HttpResponse:
    return HttpResponse(str(number))


@records_view(lambda request: request.GET.get("item"))
def asked(request: HttpRequest) -> HttpResponse:
    return HttpResponse("yes")


@records_view(lambda request: request.product.pk)
def found(request: HttpRequest) -> HttpResponse:
    request.product = get_object_or_404(Product, slug=request.GET.get("product"))  # type: ignore[attr-defined]
    return HttpResponse("yes")


@records_view(lambda request: 1 / 0)
def fails(request: HttpRequest) -> HttpResponse:
    return HttpResponse("yes")


@method_decorator(records_view("item"), name="dispatch")
class Shown(View):
    def get(self, request: HttpRequest, item: str) -> HttpResponse:
        return HttpResponse(item)


@records_view("item")
def rendered_late(request: HttpRequest, item: str) -> TemplateResponse:
    template: Any = engines["django"].from_string("{{ request.session.colour }}")
    return TemplateResponse(request, template)


urlpatterns = [
    path("plain/<path:item>", plain, name="plain"),
    path("reads/<path:item>", reads, name="reads"),
    path("areads/<path:item>", reads.twin, name="areads"),
    path("writes/<path:item>", writes, name="writes"),
    path("cycles/<path:item>", cycles, name="cycles"),
    path("writes-and-cycles/<path:item>", writes_and_cycles, name="writes-and-cycles"),
    path("for-somebody/<path:item>", for_somebody, name="for-somebody"),
    path("ends/<path:item>", ends, name="ends"),
    path("polls/<path:item>", polls, name="polls"),
    path("answers/<int:status>/<path:item>", answers, name="answers"),
    path("records/<path:item>", records, name="records"),
    path("arecords/<path:item>", records.twin, name="arecords"),
    path("marked/<int:number>", marked, name="marked"),
    path("asked", asked, name="asked"),
    path("found", found, name="found"),
    path("fails", fails, name="fails"),
    path("shown/<path:item>", Shown.as_view(), name="shown"),
    path("rendered-late/<path:item>", rendered_late, name="rendered-late"),
    path("unnamed/<path:item>", plain, name="unnamed"),
]
