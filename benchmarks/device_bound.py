"""
Measure what device-bound sessions cost: ``python -m benchmarks.device_bound``.

A load is measured as in benchmarks/python_cost.py, and needs hiredis, too: each side has a process of its own, replies
are kept, and only Python is measured, in rounds in which the sides take turns in random order. A time is compared with
that of the load without the app in the same round. "Again" is a second process without it: so much do two that do the
same differ. Each load has the cookies of a browser. "Seen" loads touch the session, too:
each process does so once in ten seconds for each session.

The requests that browsers send by themselves are measured with the server, through the middleware and the view: a
registration, and both requests of a refresh. The time of the browser is no part of it. They are compared with the page
of a user who is signed in, which loads the session, in the same round.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, closing
from io import BytesIO
from multiprocessing import get_context
from statistics import median
from typing import Any, NamedTuple

from django.contrib.auth import SESSION_KEY
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.urls import include, path
from tqdm import tqdm

from benchmarks import python_cost
from benchmarks.engines import DEVICE_BOUND as APP
from benchmarks.engines import ENGINES, OURS
from benchmarks.operations import CLIENT, Bound, Ours, Run, data_of, found
from benchmarks.ratios import paired
from benchmarks.report import table
from benchmarks.stores import Servers, Stores
from django_redsess.session import binding
from django_redsess.transport import pools
from testproject.servers import available

ROUNDS, COUNT = 60, 200
BASE = "no app"
TIMES = 10
"""How often a process loads each session in a row."""


class Load(NamedTuple):
    """Loads of one side: of an app that is installed or not, of sessions that are bound or not."""

    operation: str = "reload"
    has_app: bool = True
    is_bound: bool = True


SIDES = {
    BASE: Load(has_app=False, is_bound=False),
    "no app, again": Load(has_app=False, is_bound=False),
    "app, unbound": Load(is_bound=False),
    "app, bound": Load(),
    "first, no app": Load("load", has_app=False, is_bound=False),
    "first, app, unbound": Load("load", is_bound=False),
    "first, app, bound": Load("load"),
}
COMPARED = {name: "first, no app" if load.operation == "load" else BASE for name, load in SIDES.items()}


class Browsers(Bound):
    """Our engine, whose sessions browsers bring with their cookies. They are bound if ``is_bound``."""

    def __init__(self, *, is_bound: bool) -> None:
        super().__init__(ENGINES[OURS])
        self.is_bound = is_bound

    def opened(self, key: str | None = None) -> Any:
        session = super().opened(key)
        if binding.guard is not None:
            # As the middleware does.
            binding.guard.prepare(self.request, session)
        return session

    def prepare_reload(self, count: int) -> Run:
        keys = self.some(count // TIMES) * TIMES

        def run() -> None:
            for key in keys:
                found(self.opened(key).get(SESSION_KEY))

        return run

    def saved(self, data: Any) -> str:
        return super().saved(data) if self.is_bound else Ours.saved(self, data)


def loads(servers: Servers, rounds: int, count: int) -> list[list[str]]:
    """Measure a load of each side: its name, functions called, microseconds, and how much more than its base."""
    microseconds: dict[str, list[float]] = {name: [] for name in SIDES}
    with ExitStack() as stack:
        processes = {
            name: stack.enter_context(ProcessPoolExecutor(1, get_context("spawn"), _load, (load, servers.stores)))
            for name, load in SIDES.items()
        }
        functions = {
            name: process.submit(python_cost.functions_of, SIDES[name].operation, count).result()[0]
            for name, process in processes.items()
        }
        for _ in tqdm(range(rounds), unit="round", disable=None):
            for name in random.sample(list(SIDES), len(SIDES)):
                microseconds[name].append(processes[name].submit(python_cost.microseconds_of, count).result())
    return [
        [name, f"{functions[name]:.1f}", *_compared(microseconds[name], microseconds[base])]
        for name, base in COMPARED.items()
    ]


def _compared(values: Sequence[float], base: Sequence[float]) -> list[str]:
    ratio = paired(values, base)
    more = [of_value - of_base for of_value, of_base in zip(values, base, strict=True)]
    text = f"{ratio.ratio:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"
    return [f"{median(values):.1f}", f"{median(more):+.1f}", text]


def _settings(load: Load) -> dict[str, Any]:
    apps = ENGINES[OURS].settings(Stores(0, ""))["INSTALLED_APPS"]
    return {"INSTALLED_APPS": [*apps, *([APP] if load.has_app else [])], "ROOT_URLCONF": "benchmarks.device_bound"}


def _load(load: Load, stores: Stores) -> None:
    # Kept replies fit only what asks the same questions: no second may pass, and no interval of touches.
    pools.TIME_FRESH_SECONDS = 3600
    python_cost.configure(OURS, stores, REDSESS={"TOUCH_INTERVAL": 10**6}, **_settings(load))
    python_cost.use(Browsers(is_bound=load.is_bound))


# The endpoints. What follows runs in a process of its own.

NUMBERS = iter(range(1, 10**9))


def endpoints(servers: Servers, rounds: int, count: int) -> list[list[str]]:
    """Measure what browsers do by themselves: its name, round trips, microseconds, and how much more than a page."""
    with ProcessPoolExecutor(1, get_context("spawn"), _serve, (servers.stores,)) as process:
        done = [process.submit(_answer, count).result() for _ in tqdm(range(rounds), unit="round", disable=None)]
    page = [each["page"].microseconds for each in done]
    return [
        [name, f"{done[0][name].round_trips:.1f}", *_compared([each[name].microseconds for each in done], page)]
        for name in done[0]
    ]


class Answered(NamedTuple):
    """What one of several requests has taken: round trips and microseconds."""

    round_trips: float
    microseconds: float


def _serve(stores: Stores) -> None:
    import django
    from django.conf import settings

    settings.configure(**{**ENGINES[OURS].settings(stores), **_settings(Load()), "SESSION_COOKIE_SECURE": True})
    django.setup()


def _show_page(request: HttpRequest) -> HttpResponse:
    return HttpResponse(request.session["_auth_user_id"])


urlpatterns = [path("page/", _show_page), path("device/", include(f"{APP}.urls"))]


class _Browser:
    """A browser whose user has just signed in."""

    def __init__(self) -> None:
        from cryptography.hazmat.primitives.asymmetric import ec
        from jwt.algorithms import ECAlgorithm

        from django_redsess.contrib.device_bound.protocol import make_registration_challenge

        self.key = ec.generate_private_key(ec.SECP256R1())
        session = Browsers(is_bound=False).opened()
        session.update(data_of(str(next(NUMBERS))))
        session.save()
        self.cookies = {"sessionid": session.session_key}
        record = session.snapshot.record
        jwk = ECAlgorithm.to_jwk(self.key.public_key(), as_dict=True)
        self.sign(make_registration_challenge(record.user_id, record.login_ms), jwk=jwk)

    def sign(self, challenge: str, **header: Any) -> None:
        import jwt

        self.jws = jwt.encode({"jti": challenge}, self.key, "ES256", {"typ": "dbsc+jwt", **header})

    def request(self, method: str, path: str, jws: str = "") -> Any:
        from django.core.handlers.wsgi import WSGIRequest

        return WSGIRequest(
            {
                "REQUEST_METHOD": method,
                "PATH_INFO": path,
                "SERVER_NAME": "localhost",
                "SERVER_PORT": "443",
                "wsgi.url_scheme": "https",
                "wsgi.input": BytesIO(),
                "REMOTE_ADDR": CLIENT.address,
                "HTTP_USER_AGENT": CLIENT.user_agent,
                "HTTP_COOKIE": "; ".join(f"{name}={value}" for name, value in self.cookies.items()),
                "HTTP_SEC_SECURE_SESSION_ID": "any",
                **({"HTTP_SECURE_SESSION_RESPONSE": jws} if jws else {}),
            }
        )

    def take(self, response: HttpResponseBase) -> None:
        self.cookies |= {name: morsel.value for name, morsel in response.cookies.items()}
        if challenge := response.headers.get("Secure-Session-Challenge"):
            self.sign(challenge.split('"')[1])


REQUESTS = {
    "registration": ("POST", "/device/register", True, 200),
    "page": ("GET", "/page/", False, 200),
    "refresh, first request": ("POST", "/device/refresh", False, 403),
    "refresh, second request": ("POST", "/device/refresh", True, 200),
}
"""What a browser sends, in this order: method, path, whether a JWS is sent, and the status of the answer."""


def _answer(count: int) -> dict[str, Answered]:
    """Answer the requests of this number of browsers."""
    from django.core.handlers.wsgi import WSGIHandler
    from django_redis import get_redis_connection

    handler, browsers = WSGIHandler(), [_Browser() for _ in range(count)]
    reads = get_redis_connection("sessions").info
    answered = {}
    for name, (method, path_, signs, status) in REQUESTS.items():
        made = [browser.request(method, path_, browser.jws if signs else "") for browser in browsers]
        before, start = reads("stats")["total_reads_processed"], time.perf_counter()
        responses = [handler.get_response(each) for each in made]
        seconds = time.perf_counter() - start
        # The question itself is one.
        round_trips = reads("stats")["total_reads_processed"] - before - 1
        for browser, response in zip(browsers, responses, strict=True):
            if response.status_code != status:
                raise ValueError(f"{name} was answered with {response.status_code}")
            browser.take(response)
        answered[name] = Answered(round_trips / count, seconds / count * 1e6)
    return answered


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each is measured (default: {ROUNDS})")
    options = parser.parse_args()
    with closing(Servers(next(iter(available().values())))) as servers:
        print(table(["A load", "functions", "µs", "µs more", "ratio (95 %)"], loads(servers, options.rounds, COUNT)))
        print()
        head = ["A request", "round trips", "µs", "µs more", "ratio to a page (95 %)"]
        print(table(head, endpoints(servers, options.rounds, COUNT)))


if __name__ == "__main__":
    main()
