"""
A small site that moves its sessions: the release before (step 0), step 1 or step 2, as the environment says.

Each view answers with the user and the number of changes that it has found in the session, and then does what its name
says. Run as a program, it is the site's ``manage.py``, and ``fill 100`` makes the tables, with so many users and rows.
"""

from __future__ import annotations

import json
import os
import sys
from datetime import timedelta
from typing import Any

import django
from django.conf import settings
from django.contrib.auth import login, logout
from django.contrib.sessions.backends.base import VALID_KEY_CHARS
from django.core.handlers.wsgi import WSGIHandler
from django.core.management import call_command, execute_from_command_line
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.utils import timezone
from django.utils.crypto import get_random_string

from benchmarks.engines import DJANGO_MIDDLEWARE, REDIS
from benchmarks.fill import AGE_SECONDS, SESSION

VARIABLE = "REDSESS_BENCHMARK_MOVING"
DATABASE = "django.contrib.sessions.backends.db"
ROWS_AT_ONCE = 5_000


def described(step: int, database: dict[str, Any], redis: str, partitions: int) -> dict[str, str]:
    """Return the environment of a process at this ``step``. ``database`` is an entry of DATABASES."""
    return {VARIABLE: json.dumps({"step": step, "database": database, "redis": redis, "partitions": partitions})}


def configure() -> None:
    """Configure Django for the process that the environment describes."""
    site = json.loads(os.environ[VARIABLE])
    step = site["step"]
    settings.configure(
        SECRET_KEY="the benchmark's key, known to everyone: never use it for a real site",
        ALLOWED_HOSTS=["*"],
        ROOT_URLCONF="benchmarks.moving_site",
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        INSTALLED_APPS=[
            *(["django_redsess", "django_redsess.contrib.moving"] if step else []),
            "django.contrib.auth",
            "django.contrib.contenttypes",
            "django.contrib.sessions",
        ],
        MIDDLEWARE=[
            "django_redsess.middleware.SessionMiddleware" if step else DJANGO_MIDDLEWARE,
            "django.contrib.auth.middleware.AuthenticationMiddleware",
        ],
        DATABASES={"default": site["database"]},
        CACHES={
            "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
            "sessions": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": site["redis"], "OPTIONS": REDIS},
        },
        SESSION_CACHE_ALIAS="sessions",
        SESSION_ENGINE="django_redsess.contrib.moving" if step else DATABASE,
        REDSESS={"PARTITIONS": site["partitions"], "MOVE_FROM": DATABASE, "MOVES": step == 2},
    )


def wsgi() -> WSGIHandler:
    """Make the application for gunicorn."""
    configure()
    return get_wsgi_application()


def view(request: HttpRequest, what: str, number: int) -> JsonResponse:
    """Do ``what`` the browser ``number`` asks for: it signs in as the user of this number."""
    from django.contrib.auth.models import User

    session = request.session
    found = {"user": request.user.pk, "changes": session.get("changes", 0)}
    if what == "change":
        session["changes"] = found["changes"] + 1
    elif what == "new-key":
        session.cycle_key()
    elif what == "sign-in":
        login(request, User.objects.get(pk=number), "django.contrib.auth.backends.ModelBackend")
    elif what == "sign-out":
        logout(request)
    return JsonResponse(found)


urlpatterns = [path("<slug:what>/<int:number>/", view)]


def fill(rows: int) -> None:
    """Make the tables, users with the ids 1 to ``rows``, and a session of each, saved as the release before does."""
    from django.contrib.auth.models import User
    from django.contrib.sessions.models import Session

    call_command("migrate", verbosity=0)
    for first in range(1, rows + 1, ROWS_AT_ONCE):
        numbers = range(first, min(first + ROWS_AT_ONCE, rows + 1))
        users = [User(pk=number, username=f"user-{number}", password="!") for number in numbers]
        User.objects.bulk_create(users)
        expires = timezone.now() + timedelta(seconds=AGE_SECONDS)
        data = [json.loads(SESSION % (user.pk, user.get_session_auth_hash())) for user in users]
        packed = map(Session.objects.encode, data)
        Session.objects.bulk_create(Session(get_random_string(32, VALID_KEY_CHARS), each, expires) for each in packed)


if __name__ == "__main__":
    configure()
    if sys.argv[1] == "fill":
        django.setup()
        fill(int(sys.argv[2]))
    else:
        execute_from_command_line(sys.argv)
