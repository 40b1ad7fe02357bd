"""
A process of a site that moves its sessions: of the release before, of step 1, or of step 2.

``Process`` is the test's side. The process takes requests as lines of JSON, and answers each by one. Its first argument
has its settings. If there are more, it is the site's ``manage.py``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

import django
from django.conf import settings
from django.contrib.sessions.backends.base import UpdateError
from django.core.management import call_command


def started(given: dict[str, Any], *command: str) -> subprocess.Popen[str]:
    """Start a process with these settings, or a ``command`` of its manage.py."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.moving.process", json.dumps(given), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )


class Process:
    """A process of the site. One request at a time."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._turn = threading.Lock()
        self._process = started(given)
        assert self._read() == "ready"

    def request(self, key: str | None, what: str) -> dict[str, Any]:
        with self._turn:
            assert self._process.stdin is not None
            print(json.dumps([key, what]), file=self._process.stdin, flush=True)
            answered: dict[str, Any] = json.loads(self._read())
            return answered

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


def configure(given: dict[str, Any]) -> None:
    options = {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=OFF"}
    settings.configure(
        SECRET_KEY="moving",
        INSTALLED_APPS=[
            *(f"django.contrib.{name}" for name in ("auth", "contenttypes", "sessions")),
            *(["django_redsess"] if given["engine"].startswith("django_redsess") else []),
        ],
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": given["database"], "OPTIONS": options}},
        CACHES={"default": {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": given["redis"]}},
        SESSION_ENGINE=given["engine"],
        REDSESS=given["redsess"],
        USE_TZ=True,
        DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
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
    given, *command = sys.argv[1:]
    configure(json.loads(given))
    if command:
        call_command(*command)
        return
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(*json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
