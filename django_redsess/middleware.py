"""The middleware: who opens a session, and what is viewed with it."""

from __future__ import annotations

import logging
import re
from ipaddress import ip_address

from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.deprecation import MiddlewareMixin
from redis.exceptions import RedisError

from django_redsess import viewed
from django_redsess.backend import SessionStore
from django_redsess.conf import conf
from django_redsess.record import Client

USER_AGENT_BYTES_MAX = 256

logger = logging.getLogger("django_redsess")


class SessionMiddleware(DjangoSessionMiddleware):
    """
    Django's, which also tells the session who opened it.

    The address is ``REMOTE_ADDR`` (none if that is no address), the user agent the first 256 bytes of the header
    without control characters. Both are kept with the session once somebody is signed in, and go with it.
    """

    def process_request(self, request: HttpRequest) -> None:
        super().process_request(request)
        if isinstance(request.session, SessionStore):
            request.session.opened_by(client_of(request))


class ViewedItemsMiddleware(MiddlewareMixin):
    """
    Record the items that visitors view: those of the views that ``REDSESS["VIEWED_VIEWS"]`` names.

    A GET that was answered with 200 counts. A visitor without a session is not recorded. Stands below the session
    middleware.
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        match = request.resolver_match
        if match is None or request.method != "GET" or response.status_code != 200:
            return response
        keyword = conf.VIEWED_VIEWS.get(match.view_name)
        session = getattr(request, "session", None)
        if keyword is not None and isinstance(session, SessionStore):
            try:
                viewed.record(session, str(match.kwargs.get(keyword, "")))
            except (ValueError, RedisError) as error:
                # The page is there: it is worth more than the note that it was viewed.
                logger.warning("A view of %s was not recorded: %s", match.view_name, error)
        return response


def client_of(request: HttpRequest) -> Client:
    """Return who sent ``request``, cleaned of what could forge a log line or break a page."""
    try:
        # Without the zone of a link-local address, which may be any text.
        address = str(ip_address(request.META.get("REMOTE_ADDR", "").partition("%")[0]))
    except ValueError:
        address = ""
    # A surrogate stands for a byte that is no UTF-8: it can't be stored.
    user_agent = re.sub(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]", "", request.headers.get("User-Agent", ""))
    return Client(address, user_agent.encode()[:USER_AGENT_BYTES_MAX].decode(errors="ignore"))
