"""What our middleware adds to a request that does not use its session, beside Django's: few calls, and no server."""

import gc
import sys
from io import BytesIO
from types import FrameType
from typing import Any

import pytest
from django.core.handlers.wsgi import WSGIHandler, WSGIRequest

from tests.helpers.site import SESSION, VIEWED, VIEWED_VIEWS

pytestmark = pytest.mark.unit

DJANGOS = "django.contrib.sessions.middleware.SessionMiddleware"

REQUEST = {
    "REQUEST_METHOD": "GET",
    "PATH_INFO": "/plain/",
    "SERVER_NAME": "shop",
    "SERVER_PORT": "80",
    "wsgi.url_scheme": "http",
    "REMOTE_ADDR": "192.0.2.1",
    "HTTP_USER_AGENT": "Mozilla/5.0 (X11)",
}


@pytest.fixture
def functions(settings) -> Any:
    """Return a function that counts what of Python is called to answer, with this middleware and this cookie."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.REDSESS = {"VIEWED_VIEWS": VIEWED_VIEWS, "PASSIVE_PATHS": ["/polls/"]}

    def count(*middleware: str, cookie: str = "k" * 32) -> int:
        settings.MIDDLEWARE = list(middleware)
        handler = WSGIHandler()
        called = 0

        def answer() -> None:
            environment = {**REQUEST, **({"HTTP_COOKIE": f"sessionid={cookie}"} if cookie else {})}
            # Without the signals around a request, which have the database looked after.
            response = handler.get_response(WSGIRequest({**environment, "wsgi.input": BytesIO()}))
            assert (response.status_code, response.content) == (200, b"plain")

        def note(frame: FrameType, event: str, arg: object) -> None:
            nonlocal called
            called += event == "call"

        # Before, what is read once is read. What other tests have left is not thrown away meanwhile: that calls, too.
        answer()
        gc.disable()
        sys.setprofile(note)
        try:
            answer()
        finally:
            sys.setprofile(None)
            gc.enable()
        return called

    return count


@pytest.mark.parametrize("cookie", ["k" * 32, ""], ids=["a cookie", "no cookie"])
def test_the_session_middleware_calls_a_dozen_functions_more_than_djangos(functions, cookie: str) -> None:
    djangos = functions(DJANGOS, cookie=cookie)
    assert djangos == functions(DJANGOS, cookie=cookie)
    # Django's own are about twenty. Without a cookie, the end of the request is more of a question.
    assert functions(SESSION, cookie=cookie) <= djangos + (12 if cookie else 20)


def test_the_middleware_of_views_looks_at_the_view_and_no_more(functions) -> None:
    assert functions(SESSION, VIEWED) <= functions(SESSION) + 3
