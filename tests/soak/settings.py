"""The settings of the site that is soaked. A deploy puts a few lines behind them."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import MIDDLEWARE as OF_SITE
from tests.helpers.site.settings import REDSESS as OF_SITE_REDSESS

# With it, a process remembers queries.
DEBUG = False

HOUR = 3600

REDSESS = {
    **OF_SITE_REDSESS,
    # A session outlives one night without a visit, and not two: nights are steps of the clock by a day.
    "IDLE_TIMEOUT": 40 * HOUR,
    # What a visitor signs in to without hearing of it would end another session.
    "MAX_SESSIONS_PER_USER": None,
}


def says_who(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Say in a header of each answer who is signed in."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["X-Who"] = request.user.get_username()
        return response

    return middleware


MIDDLEWARE = [*OF_SITE, f"{__name__}.says_who"]
