"""
A small site whose views do with the session what most views do: nothing, read it, change it, or get the user.

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
from pathlib import Path
from typing import TYPE_CHECKING, Any

import django
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.core.wsgi import get_wsgi_application
from django.http import Http404, HttpRequest, HttpResponse
from django.urls import path

from benchmarks.engines import BASE, ENGINES, Engine
from benchmarks.fill import SESSION
from benchmarks.stores import Stores

if TYPE_CHECKING:
    from django.core.handlers.asgi import ASGIHandler
    from django.core.handlers.wsgi import WSGIHandler
    from django.db.models import Model

VARIABLE = "REDSESS_BENCHMARK_SITE"


class SessionsApart:
    """A database router: sessions are in a database of their own."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str | None:
        return "sessions" if model._meta.app_label == "sessions" else None

    db_for_write = db_for_read


def described(
    engine: str, stores: Stores, *, save_every_request: bool = False, persistent: bool = False
) -> dict[str, str]:
    """
    Return the environment of a site with the sessions of ``engine`` in ``stores``.

    ``save_every_request`` is Django's setting. ``persistent``: connections to databases outlast a request.
    """
    site = {
        "engine": engine,
        "stores": asdict(stores),
        "save_every_request": save_every_request,
        "persistent": persistent,
    }
    return {VARIABLE: json.dumps(site)}


def configure() -> tuple[Engine, Stores]:
    """Configure Django for the site that the environment describes. Return its engine and stores."""
    site = json.loads(os.environ[VARIABLE])
    engine, stores = ENGINES[site["engine"]], Stores(**site["stores"])
    of_site = engine.settings(stores)
    if engine.sql == "postgresql":
        # Users are always in SQLite: else views with a user would also compare databases of users.
        users = ENGINES[BASE].settings(stores)["DATABASES"]["default"]
        users["NAME"] = Path(stores.folder) / f"users-{engine.database}.sqlite3"
        of_site["DATABASES"] = {"default": users, "sessions": of_site["DATABASES"]["default"]}
        of_site["DATABASE_ROUTERS"] = ["benchmarks.site.SessionsApart"]
    for database in of_site["DATABASES"].values():
        database["CONN_MAX_AGE"] = None if site["persistent"] else 0
        if database["ENGINE"] == "django.db.backends.sqlite3":
            # Otherwise, of several requests that read and then write in a transaction, one fails with a locked
            # database.
            database["OPTIONS"]["transaction_mode"] = "IMMEDIATE"
    settings.configure(**of_site, SESSION_SAVE_EVERY_REQUEST=site["save_every_request"])
    return engine, stores


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
    engine, stores = configure()
    django.setup()
    from django.contrib.auth.models import User

    engine.make_database(stores)
    if "sessions" in settings.DATABASES:
        call_command("migrate", database="sessions", verbosity=0)
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


def user(request: HttpRequest) -> HttpResponse:
    return answer(request.user.pk)


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


async def auser(request: HttpRequest) -> HttpResponse:
    return answer((await request.auser()).pk)


def answer(found: Any) -> HttpResponse:
    """Answer with ``found`` as JSON, or 404 if it is None."""
    if found is None:
        raise Http404
    return HttpResponse(json.dumps(found), content_type="application/json")


VIEWS = {"none": (none, anone), "read": (read, aread), "write": (write, awrite), "user": (user, auser)}
"""Each view, and its asynchronous twin."""

urlpatterns = [
    path("sign-in/<int:number>/", sign_in),
    *(path(f"{name}/", view) for name, (view, _) in VIEWS.items()),
    *(path(f"async/{name}/", view) for name, (_, view) in VIEWS.items()),
]

if __name__ == "__main__":
    prepare(int(sys.argv[1]))
