"""
Devices: the cookie that recognizes a browser, and whether the device is new to the user who signs in.

The cookie has an entry for each of the last users who have signed in there: a random name, signed for this user. It
identifies nobody and grants nothing. The database has a hash of the name.
"""

from __future__ import annotations

import re
import secrets
from functools import partial
from hashlib import blake2b
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.conf import conf
from django_redsess.contrib.history.models import SignIn
from django_redsess.responses import is_shared
from django_redsess.session.client import V6_SCORES
from django_redsess.session.store import SessionStore, django_request, session_of, user_id_of

COOKIE_SUFFIX = "_device"
"""The cookie's default name is the name of the session cookie with this suffix."""

AGE_SECONDS = 400 * 24 * 3600
"""Browsers keep no cookie for longer: see RFC 6265bis, section 5.5."""

ENTRIES_MAX = 5
"""How many users a browser is remembered for: the last ones who have signed in."""

ENTRY = re.compile(r"[\w-]{22}:[\w-]{43}", re.ASCII)
"""A name and its signature."""

EARLIER_MAX = 1000
"""How many of the user's latest sign-ins are compared."""


def cookie_name() -> str:
    """Return the name of the device's cookie."""
    return conf.HISTORY_DEVICE_COOKIE or settings.SESSION_COOKIE_NAME + COOKIE_SUFFIX


def add_device_cookie(sender: Any, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> None:
    """Receive Django's signal ``user_logged_in``. Let the response that sets the session cookie set ours, too."""
    session, user_id = session_of(request), user_id_of(user)
    if session is None or session.visit is None or session.loaded_user_id != user_id:
        return
    session.visit.with_cookie += (partial(_send_device_cookie, django_request(request), user_id),)


def sign_anew(request: HttpRequest, session: SessionStore, response: HttpResponseBase) -> None:
    """
    Sign the entry of the session's user with ``SECRET_KEY`` if it was signed with a key of ``SECRET_KEY_FALLBACKS``.

    This can't wait for the next sign-in: the cookie lives longer than a site keeps fallbacks.
    """
    user_id = session.loaded_user_id
    if not user_id or cookie_name() not in request.COOKIES or is_shared(response):
        return
    entries, signer = _cookie_entries(request, response), _signer(user_id)
    signed = [signer.sign(name) if (name := _name_in(entry, signer)) else entry for entry in entries]
    if signed != entries:
        _set_device_cookie(signed, response)


def compare_device(sign_in: SignIn, request: HttpRequest | None, using: str) -> bool:
    """
    Set the device of ``sign_in``, and whether it is new to the user. Return whether the network is new.

    ``request`` is the request of the sign-in. Without one, as in a shell, nothing is set. The user's earlier rows are
    read from the database ``using``, which is written to: a replica may lag.
    """
    if request is None:
        return False
    sign_in.device_cookie = getattr(request, "_redsess_devices", {}).get(str(sign_in.user_id), "")
    rows = SignIn.objects.using(using).filter(user_id=sign_in.user_id, login_ms__lt=sign_in.login_ms)
    rows = rows.order_by("-login_ms")
    earlier = list(rows.values_list("device_cookie", "client", "address_score")[:EARLIER_MAX])
    known = {device for device, *_ in earlier if device}
    if sign_in.device_cookie and known:
        sign_in.is_new_device = sign_in.device_cookie not in known
    else:
        # Rows without a device are from a repair, or from sign-ins whose response set no cookie.
        clients = {client for _, client, _ in earlier}
        sign_in.is_new_device = bool(clients) and sign_in.client not in clients
    networks = {_network_of(score) for *_, score in earlier if score is not None}
    return sign_in.address_score is not None and bool(networks) and _network_of(sign_in.address_score) not in networks


def _network_of(score: int) -> int:
    # The first 16 bits of an IPv4 address, or 48 of an IPv6 address, whose score has 52.
    return score >> 16 if score < V6_SCORES else score >> 4


def _send_device_cookie(request: Any, user_id: str, response: HttpResponseBase) -> None:
    """Put the user's entry first in the cookie, new if there is none. Keep its hash for :func:`compare_device`."""
    entries, signer = _cookie_entries(request, response), _signer(user_id)
    names = [_name_in(entry, signer) for entry in entries]
    # Entries of others, such as another site of the domain, never fit this user's signature.
    name = next(filter(None, names), "") or secrets.token_urlsafe(16)
    others = [entry for entry, of_user in zip(entries, names, strict=True) if not of_user]
    _set_device_cookie([signer.sign(name), *others][:ENTRIES_MAX], response)
    # Only now: a client that keeps no cookie, such as an app, would be a new device at each sign-in.
    request.__dict__.setdefault("_redsess_devices", {})[user_id] = _name_hash(name)


def _cookie_entries(request: HttpRequest, response: HttpResponseBase) -> list[str]:
    """Return the entries that the browser will have after ``response``. They may be forged."""
    sent = response.cookies.get(cookie_name())
    value = request.COOKIES.get(cookie_name(), "") if sent is None else sent.value
    return [entry for entry in value.split(".") if ENTRY.fullmatch(entry)][:ENTRIES_MAX]


def _signer(user_id: str) -> Signer:
    # Two sites may share a SECRET_KEY, and users of two tables an id: an entry is valid for one user only.
    return Signer(salt=f"django_redsess.history.device {cookie_name()} {{{conf.user_table}}} {user_id}")


def _name_in(entry: str, signer: Signer) -> str:
    try:
        return signer.unsign(entry)
    except BadSignature:
        return ""


def _name_hash(name: str) -> str:
    return blake2b(name.encode(), digest_size=8).hexdigest()


def _set_device_cookie(entries: list[str], response: HttpResponseBase) -> None:
    # Sent wherever the session cookie is. No script can read it.
    response.set_cookie(
        cookie_name(),
        ".".join(entries),
        max_age=AGE_SECONDS,
        domain=settings.SESSION_COOKIE_DOMAIN,
        path=settings.SESSION_COOKIE_PATH,
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        samesite=settings.SESSION_COOKIE_SAMESITE,
    )
