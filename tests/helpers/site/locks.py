"""
Views whose requests are answered one at a time. Their paths begin with ``locks/``.

Each adds one to a number in the session, and answers with what was there. Between reading and writing, it waits at the
gate that the request names, if any.
"""

import asyncio
from typing import Any

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.utils.decorators import method_decorator
from django.views import View
from rest_framework.permissions import AllowAny
from rest_framework.response import Response
from rest_framework.views import APIView

from django_redsess.locking import one_at_a_time
from django_redsess.middleware import passive
from django_redsess.responses import with_problem_details
from django_redsess.session.store import session_of
from tests.helpers.site.meanwhile import meanwhile


def count(request: HttpRequest, **named: Any) -> HttpResponse:
    found = request.session.get("number", 0)
    meanwhile(request)
    request.session["number"] = found + 1
    return HttpResponse(str(found))


async def acount(request: HttpRequest, **named: Any) -> HttpResponse:
    found = await request.session.aget("number", 0)
    # Others get their turn here. Without a lock, they would read the same number.
    await asyncio.sleep(0)
    meanwhile(request)
    await request.session.aset("number", found + 1)
    return HttpResponse(str(found))


async def wait(request: HttpRequest) -> HttpResponse:
    """Wait until the visitor goes."""
    await request.session.aget("number")
    meanwhile(request)
    await asyncio.sleep(60)
    return HttpResponse("nobody waits for so long")


@method_decorator(one_at_a_time(), name="dispatch")
class Counts(View):
    def get(self, request: HttpRequest) -> HttpResponse:
        return count(request)


@method_decorator(one_at_a_time(), name="dispatch")
class CountsAsync(View):
    async def get(self, request: HttpRequest) -> HttpResponse:
        return await acount(request)


class CountsByMethod(View):
    @method_decorator(one_at_a_time())
    def get(self, request: HttpRequest) -> HttpResponse:
        return count(request)


class CountsRest(APIView):
    """A view of Django REST framework. Its methods get a request of its own around Django's, whose session is read."""

    permission_classes = (AllowAny,)

    @method_decorator(one_at_a_time())
    def get(self, request: Any) -> Response:
        return Response(int(count(request).content))


def fail(request: HttpRequest) -> HttpResponse:
    count(request)
    raise RuntimeError("after the number was read")


def answer_500(request: HttpRequest) -> HttpResponse:
    count(request)
    return HttpResponse(status=500)


def save_and_end(request: HttpRequest) -> HttpResponse:
    """End the session, which is then changed: it can't be saved."""
    response = count(request)
    type(request.session)(request.session.session_key).delete()
    return response


def count_after_cycle(request: HttpRequest) -> HttpResponse:
    request.session.cycle_key()
    return count(request)


def end(request: HttpRequest) -> HttpResponse:
    request.session.get("number")
    meanwhile(request)
    request.session.flush()
    return HttpResponse("ended")


def busy(request: HttpRequest) -> HttpResponse:
    return HttpResponse("busy", status=423)


async def abusy(request: HttpRequest) -> HttpResponse:
    return HttpResponse("busy", status=423)


def holds(request: HttpRequest) -> HttpResponse:
    """Tell whether this request has a lock."""
    session = session_of(request)
    return HttpResponse(str(session is not None and "_redsess_lock" in request.__dict__))


urlpatterns = [
    path("count/", one_at_a_time()(count)),
    path("unlocked/count/", count),
    path("async/count/", one_at_a_time()(acount)),
    path("async/unlocked/count/", acount),
    path("async/wait/", one_at_a_time()(wait)),
    path("twice/count/", one_at_a_time()(one_at_a_time()(count))),
    path("async/twice/count/", one_at_a_time()(one_at_a_time()(acount))),
    path("class/count/", Counts.as_view()),
    path("async/class/count/", CountsAsync.as_view()),
    path("decorated-class/count/", one_at_a_time()(CountsAsync.as_view())),
    path("method/count/", CountsByMethod.as_view()),
    path("rest/count/", CountsRest.as_view()),
    path("rest-twice/count/", one_at_a_time()(CountsRest.as_view())),
    path("passive/count/", passive(one_at_a_time()(count))),
    path("", one_at_a_time()(include(([path("included/count/", count, name="count")], "shop"), namespace="paid"))),
    path("", one_at_a_time()(include([path("in/", include([path("async/count/", acount, {"shop": 1})]))]))),
    path("patient/count/", one_at_a_time(wait=120)(count)),
    path("async/patient/count/", one_at_a_time(wait=120)(acount)),
    path("long/count/", one_at_a_time(wait=40, hold=3600)(count)),
    path("hasty/count/", one_at_a_time(wait=0.1)(count)),
    path("hasty/problem/", with_problem_details(one_at_a_time(wait=0.1)(count))),
    path("async/hasty/count/", one_at_a_time(wait=0.1)(acount)),
    path("at-once/count/", one_at_a_time(wait=0, otherwise=busy)(count)),
    path("async/at-once/count/", one_at_a_time(wait=0, otherwise=abusy)(acount)),
    path("brief/count/", one_at_a_time(hold=0.3)(count)),
    path("async/brief/count/", one_at_a_time(hold=0.3)(acount)),
    path("fails/", one_at_a_time()(fail)),
    path("answers-500/", one_at_a_time()(answer_500)),
    path("ends/", one_at_a_time()(save_and_end)),
    path("cycles/", one_at_a_time()(count_after_cycle)),
    path("signs-out/", one_at_a_time()(end)),
    path("holds/", one_at_a_time()(holds)),
]
