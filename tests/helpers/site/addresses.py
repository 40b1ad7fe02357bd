"""Where the browsers of pictures are. Without it, all of them would have the address of this machine."""

from collections.abc import Callable, Sequence

from django.http import HttpRequest, HttpResponse

from testproject import people

OFFICE = "192.0.2.200"
"""The address of whoever is at work, and of requests that a browser sends by itself, without the header."""

STRANGER = "198.51.100.240"
"""The address of somebody who has got hold of passwords."""


def address_of_the_header(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Middleware: a browser names its address in a header, as a proxy does."""

    def middleware(request: HttpRequest) -> HttpResponse:
        named = request.headers.get("X-Forwarded-For")
        # The shoppers of the demo have addresses of their own, and send no header.
        if named or request.META["REMOTE_ADDR"] == "127.0.0.1":
            request.META["REMOTE_ADDR"] = named or OFFICE
        return get_response(request)

    return middleware


def places(addresses: Sequence[str]) -> dict[str, str]:
    known = people.places(addresses)
    return {**known, STRANGER: "Oslo, Norway"} if STRANGER in addresses else known
