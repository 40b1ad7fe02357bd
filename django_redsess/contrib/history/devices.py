"""
Devices: the cookie by which a browser is known again, and whether it is new to the user who signs in.

The cookie names nobody, and opens nothing. The database has a hash of it.
"""

from __future__ import annotations

import secrets
from functools import partial
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.contrib.history.models import SignIn
from django_redsess.online import user_id_of
from django_redsess.session.address_index import V6_PLACES
from django_redsess.session.store import django_request, session_of

COOKIE = "redsess_device"
AGE_SECONDS = 400 * 24 * 3600
"""Browsers keep no cookie for longer: see RFC 6265bis, section 5.5."""

EARLIER_MAX = 1000
"""How many earlier sign-ins of the user are compared: the latest."""

_signer = Signer(salt="django_redsess.history.device")


def signed_in(sender: Any, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> None:
    """Receive Django's signal ``user_logged_in``. The response that brings the session's cookie brings ours, too."""
    session = session_of(request)
    if session is None or session.visit is None or session.loaded_user_id != user_id_of(user):
        return
    name = _name_in(request) or secrets.token_urlsafe(16)
    session.visit.with_cookie += (partial(_set_cookie, django_request(request), name),)


def compare(sign_in: SignIn, request: HttpRequest | None, using: str) -> bool:
    """
    Note the device of ``sign_in``, and whether it is new to the user. Return whether the network is new.

    ``request`` is the one that signed in. Without one, as in a shell, nothing is known. The user's earlier rows are
    read in the database ``using``, to which rows are written: a replica may lag.
    """
    if request is None:
        return False
    sign_in.device = getattr(request, "_redsess_device", "")
    rows = SignIn.objects.using(using).filter(user_id=sign_in.user_id, login_ms__lt=sign_in.login_ms)
    rows = rows.order_by("-login_ms")
    earlier = list(rows.values_list("device", "client", "address_score")[:EARLIER_MAX])
    known = {device for device, *_ in earlier if device}
    if sign_in.device and known:
        sign_in.is_new_device = sign_in.device not in known
    else:
        # Rows that were made up, or come from a time without the cookie, have no device.
        clients = {client for _, client, _ in earlier}
        sign_in.is_new_device = bool(clients) and sign_in.client not in clients
    networks = {_network_of(score) for *_, score in earlier if score is not None}
    return sign_in.address_score is not None and bool(networks) and _network_of(sign_in.address_score) not in networks


def _network_of(score: int) -> int:
    # The first 16 bits of an IPv4 address, 48 of the 52 that an IPv6 address has in its score.
    return score >> 16 if score < V6_PLACES else score >> 4


def _name_in(request: HttpRequest) -> str:
    try:
        return _signer.unsign(request.COOKIES.get(COOKIE, ""))
    except BadSignature:
        return ""


def _hash(name: str) -> str:
    return blake2b(name.encode(), digest_size=8).hexdigest()


def _set_cookie(request: Any, name: str, response: HttpResponseBase) -> None:
    # Not before: who keeps no cookie, as an app that sends its session in a header, would be new at each sign-in.
    request._redsess_device = _hash(name)
    response.set_cookie(
        COOKIE,
        _signer.sign(name),
        max_age=AGE_SECONDS,
        domain=settings.SESSION_COOKIE_DOMAIN,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
