"""
A small site whose views do with the session what most views do: nothing, read it, or change it.

Web servers get it from ``wsgi`` or ``asgi``, which read the engine and its stores from the environment. Run as a
program, it makes the tables and the number of users that is its argument. Each view has an asynchronous twin under
``/async/``.

A request for ``/sign-in/7/`` signs in user 7. A view answers 404 if it does not find what it expects: a fast answer
without a session must not count.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from benchmarks.engines import ENGINES
from benchmarks.fill import SESSION
from benchmarks.stores import Stores

if TYPE_CHECKING:
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler

VARIABLE = "REDSESS_BENCHMARK_SITE"


def described(engine: str, stores: Stores, *, persistent: bool = False) -> dict[str, str]:
    """
    Return the environment of a site with the sessions of ``engine`` in ``stores``.

    ``persistent``: connections to databases outlast a request.
    """
    return {VARIABLE: json.dumps({"engine": engine, "stores": asdict(stores), "persistent": persistent})}


def configure() -> None:
    """Configure Django for the site that the environment describes."""
    site = json.loads(os.environ[VARIABLE])
    of_site = ENGINES[site["engine"]].settings(Stores(**site["stores"]))
    database = of_site["DATABASES"]["default"]
    database["CONN_MAX_AGE"] = None if site["persistent"] else 0
    # Otherwise, of several requests that read and then write in a transaction, one fails with a locked database.
    database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
    settings.configure(**of_site)


def wsgi() -> WSGIHandler:
    """Make the application for gunicorn."""
    configure()
    return get_wsgi_application()


def asgi() -> ASGIHandler:
    """Make the application for uvicorn."""
    configure()
    return get_asgi_application()


def prepare(users: int) -> None:
    """Make the tables, and users with the ids 1 to ``users``."""
    configure()
    django.setup()
    from django.contrib.auth.models import User

    call_command("migrate", verbosity=0)
    numbers = range(1, users + 1)
    User.objects.bulk_create(
        [User(pk=number, username=f"user-{number}", password="!") for number in numbers], ignore_conflicts=True
    )


def sign_in(request: HttpRequest, number: int) -> HttpResponse:
    """Sign in user ``number``, with the same session data as all benchmarks."""
    from django.contrib.auth.models import User

    user = User.objects.get(pk=number)
    request.session.update(json.loads(SESSION % (user.pk, user.get_session_auth_hash())))
    return HttpResponse("signed in")


def none(request: HttpRequest) -> HttpResponse:
    return HttpResponse("nothing")


def read(request: HttpRequest) -> HttpResponse:
    return answer(request.session.get("basket"))


def write(request: HttpRequest) -> HttpResponse:
    if "basket" not in request.session:
        raise Http404
    clicks = request.session.get("clicks", 0) + 1
    request.session["clicks"] = clicks
    return answer(clicks)


async def anone(request: HttpRequest) -> HttpResponse:
    return HttpResponse("nothing")


async def aread(request: HttpRequest) -> HttpResponse:
    return answer(await request.session.aget("basket"))


async def awrite(request: HttpRequest) -> HttpResponse:
    if not await request.session.ahas_key("basket"):
        raise Http404
    clicks = await request.session.aget("clicks", 0) + 1
    await request.session.aset("clicks", clicks)
    return answer(clicks)


def answer(found: Any) -> HttpResponse:
    """Answer with ``found`` as JSON, or 404 if it is None."""
    if found is None:
        raise Http404
    return HttpResponse(json.dumps(found), content_type="application/json")


VIEWS = {"none": (none, anone), "read": (read, aread), "write": (write, awrite)}
"""Each view, and its asynchronous twin."""

urlpatterns = [
    path("sign-in/<int:number>/", sign_in),
    *(path(f"{name}/", view) for name, (view, _) in VIEWS.items()),
    *(path(f"async/{name}/", view) for name, (_, view) in VIEWS.items()),
]

if __name__ == "__main__":
    prepare(int(sys.argv[1]))
