"""
A process of a site that moves its sessions: of the release before, of step 1, or of step 2.

``Process`` is the test's side. The process takes requests as lines of JSON, and answers each by one. Its first argument
has its settings. If there are more, it is the site's ``manage.py``. :func:`answer` has the short requests of browsers
that count their visits, and ``OPERATIONS`` all others.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import IO, Any

import django
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, login, logout
from django.contrib.sessions.backends.base import UpdateError
from django.core.management import call_command
from django.http import HttpRequest


def started(given: dict[str, Any], *command: str) -> subprocess.Popen[str]:
    """Start a process with these settings, or a ``command`` of its manage.py."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.contrib.moving.process", json.dumps(given), *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[3],
    )


class Process:
    """A process of the site. One request at a time."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._turn = threading.Lock()
        self._process = started(given)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._requests, self._answers = self._process.stdin, self._process.stdout
        assert self._read() == "ready"

    def request(self, key: str | None, what: str, **arguments: Any) -> dict[str, Any]:
        with self._turn:
            self._send(key, what, arguments)
            answered: dict[str, Any] = json.loads(self._read())
            return answered

    def die(self, after_seconds: float, key: str | None, what: str, **arguments: Any) -> None:
        """Kill the process so long after it was sent a request. Nobody reads the answer."""
        with self._turn:
            self._send(key, what, arguments)
            time.sleep(after_seconds)
            self.close()

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def _send(self, key: str | None, what: str, arguments: dict[str, Any]) -> None:
        print(json.dumps([key, what, arguments]), file=self._requests, flush=True)

    def _read(self) -> str:
        return self._answers.readline().strip()


class Forked(Process):
    """A process that was forked from another one, which had loaded the site."""

    def __init__(self, connection: socket.socket) -> None:
        self._turn = threading.Lock()
        self._connection = connection
        self._requests, self._answers = connection.makefile("w"), connection.makefile("r")
        self._pid: int | None = int(self._read())

    def close(self) -> None:
        if self._pid is not None:
            os.kill(self._pid, signal.SIGKILL)
            self._pid = None
            # Until it is dead: nobody else has the other end. It may have left a request unread.
            with suppress(ConnectionResetError):
                self._answers.read()
            for each in (self._answers, self._requests, self._connection):
                with suppress(OSError):
                    each.close()


class Template:
    """A process that only loads the site. Others are forked from it, and take requests at once."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.contrib.moving.process", json.dumps(given), "fork", str(theirs.fileno())],
                cwd=Path(__file__).parents[3],
                pass_fds=[theirs.fileno()],
            )

    def fork(self) -> Forked:
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [b"."], [theirs.fileno()])
            # The other end is in this process until the fork has taken it.
            assert self._control.recv(1) == b"."
        return Forked(ours)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._control.close()


def configure(given: dict[str, Any]) -> None:
    options = {"timeout": 30, "transaction_mode": "IMMEDIATE", "init_command": "PRAGMA synchronous=OFF"}
    settings.configure(
        SECRET_KEY="moving",
        INSTALLED_APPS=[
            *(f"django.contrib.{name}" for name in ("auth", "contenttypes", "sessions")),
            *(
                ["django_redsess", "django_redsess.contrib.moving"]
                if given["engine"].startswith("django_redsess")
                else []
            ),
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


def users() -> dict[str, Any]:
    """Create the users of the site, and return their ids."""
    from django.contrib.auth.models import User

    return {"users": [str(User.objects.create_user(name).pk) for name in ("alice", "bob", "carol")]}


def before(user: str, data: dict[str, Any]) -> dict[str, Any]:
    """Save a session in the other store, as the release before does."""
    from django_redsess.backend import SessionStore
    from django_redsess.conf import conf
    from django_redsess.contrib.moving.sources import source
    from tests.helpers.store import Client

    # Of two stores of this engine, this process is at step 1, and has the settings of the one before.
    session = SessionStore() if conf.MOVE_TO else source().open_session(None, Client())
    if user:
        found = user_of(user)
        session[SESSION_KEY], session[HASH_SESSION_KEY] = user, found.get_session_auth_hash()
        session[BACKEND_SESSION_KEY] = "django.contrib.auth.backends.ModelBackend"
    session.update(data)
    session.save()
    return {"cookie": session.session_key}


def view(session: Any) -> None:
    """Read the session."""


def save(session: Any, changes: dict[str, Any], pause: float = 0.0) -> None:
    """Change the session, so many seconds after it was read. A value None removes its key."""
    time.sleep(pause)
    for name, value in changes.items():
        if value is None:
            session.pop(name, None)
        else:
            session[name] = value


def sign_in(session: Any, user: str) -> None:
    login(request_with(session), user_of(user), "django.contrib.auth.backends.ModelBackend")


def sign_out(session: Any) -> None:
    logout(request_with(session))


def expire(session: Any, seconds: int) -> None:
    session.set_expiry(seconds)


TRIES_MAX = 5

REQUESTS: dict[str, Callable[..., None]] = {each.__name__: each for each in (view, save, sign_in, sign_out, expire)}
"""What a view of the site does with the session of its request."""


def end_one(cookie: str) -> None:
    from django_redsess import online

    session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    session.load()
    online.end(session.sid)


def end_user(user: str) -> None:
    from django_redsess import online

    online.end_user(user_of(user))


def end_all() -> None:
    from django_redsess import online

    online.end_all()


def end_guests() -> None:
    from django_redsess import online

    for _ in online.end_in_batches(guests="only"):
        pass


def block(user: str) -> None:
    from django_redsess import online

    online.block(user_of(user), until=datetime.now(UTC) + timedelta(hours=1))


def lift(user: str) -> None:
    from django_redsess import online

    assert online.unblock(user_of(user))


def move_all() -> None:
    call_command("movesessions", verbosity=0)


def guess(cookie: str) -> dict[str, Any]:
    """Count a try of a password, and tell whether it may be made."""
    from django_redsess.accounts.reauthentication import count_try
    from tests.helpers.store import drive

    session = import_module(settings.SESSION_ENGINE).SessionStore(cookie)
    user = session.get(SESSION_KEY, "")
    return {"may": bool(user) and drive(count_try(session, user, maximum=TRIES_MAX, seconds=86_400)) > 0}


def activate(user: str, active: bool) -> None:
    found = user_of(user)
    found.is_active = active
    found.save()


OPERATIONS: dict[str, Callable[..., dict[str, Any] | None]] = {
    each.__name__: each
    for each in (users, before, end_one, end_user, end_all, end_guests, block, lift, activate, move_all, guess)
}
"""What is done to sessions from outside of their requests."""


def user_of(pk: str) -> Any:
    from django.contrib.auth.models import User

    return User.objects.get(pk=pk)


def request_with(session: Any) -> HttpRequest:
    request = HttpRequest()
    request.session = session
    return request


def respond(cookie: str | None, what: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """
    Do a request and save its session as the middleware does.

    Return the cookie that the browser has afterwards, the user, the data, whether the session has moved, whether it was
    found, and ``interrupted`` or ``refused`` if the request did not get through.
    """
    from django_redsess.conf import conf
    from django_redsess.exceptions import SignInRefused

    session, error = import_module(settings.SESSION_ENGINE).SessionStore(cookie), ""
    # Reads it once: it may end at any time.
    session.keys()
    was_found = session.session_key is not None
    try:
        REQUESTS[what](session, **arguments)
        found = dict(session.items())
        if session.is_empty():
            cookie = None
        elif session.modified:
            session.save()
            cookie, found = session.session_key, dict(session.items())
    except UpdateError:
        error, found = "interrupted", {}
    except SignInRefused:
        error, found, cookie = "refused", {}, None
    data = {name: value for name, value in found.items() if not name.startswith("_")}
    is_here = getattr(session, "store", None) is not None if conf.MOVE_TO else getattr(session, "there", None) is None
    return {
        "cookie": cookie,
        "user": found.get(SESSION_KEY, ""),
        "data": data,
        "here": is_here,
        "error": error,
        "was found": was_found,
    }


def replied(key: str | None, what: str, arguments: dict[str, Any]) -> dict[str, Any]:
    if what in REQUESTS:
        return respond(key, what, arguments)
    if what in OPERATIONS:
        return OPERATIONS[what](**arguments) or {}
    return answer(key, what)


def take_requests(requests: IO[str], answers: IO[str]) -> None:
    for line in requests:
        print(json.dumps(replied(*json.loads(line))), file=answers, flush=True)


def fork_for(control: socket.socket) -> None:
    """Fork a process for each connection that ``control`` brings."""
    # Nobody waits for those that die.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while (received := socket.recv_fds(control, 1, 1))[0]:
        [descriptor] = received[1]
        if os.fork() == 0:
            control.close()
            connection = socket.socket(fileno=descriptor)
            requests, answers = connection.makefile("r"), connection.makefile("w")
            print(os.getpid(), file=answers, flush=True)
            take_requests(requests, answers)
            return
        os.close(descriptor)
        control.send(b".")


def main() -> None:
    given, *command = sys.argv[1:]
    configure(json.loads(given))
    if command[:1] == ["fork"]:
        fork_for(socket.socket(fileno=int(command[1])))
        return
    if command:
        call_command(*command)
        return
    print("ready", flush=True)
    take_requests(sys.stdin, sys.stdout)


if __name__ == "__main__":
    main()
