"""
A process of a site that moves its sessions: of the release before, of step 1, or of step 2.

It takes requests as lines of JSON, and answers each by one. The first argument has its settings.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from typing import Any

import django
from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError


def configure(given: dict[str, Any]) -> None:
    options = {"timeout": 30, "transaction_mode": "IMMEDIATE"}
    settings.configure(
        SECRET_KEY="moving",
        INSTALLED_APPS=["django.contrib.sessions"],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": given["database"], "OPTIONS": options}},
        CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": given["redis"]}},
        SESSION_ENGINE=given["engine"],
        REDSESS=given["redsess"],
        USE_TZ=True,
    )
    django.setup()


def answer(key: str | None, what: str) -> dict[str, Any]:
    """Do a request with this cookie, and return its new value and what it found."""
    session = import_module(settings.SESSION_ENGINE).SessionStore(key)
    found = session.get("visits", 0)
    if what == "end":
        session.flush()
        return {"key": None, "found": found}
    if what == "look":
        return {"key": key, "found": found}
    session["visits"] = found + 1
    if what == "sign in":
        session["_auth_user_id"] = "7"
        session.cycle_key()
    try:
        session.save()
    except UpdateError:
        return {"key": key, "found": None}
    return {"key": session.session_key, "found": found}


def main() -> None:
    configure(json.loads(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
