"""
The guard: whether a request may open a session that is bound to a device, and the response to one that may not.

A browser that knows the protocol proves itself before it sends a request, unless another site has begun it: a link, an
identity provider. So the refusal of such a navigation goes on by itself, once. The next request is one of our own page.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse
from django.utils.cache import patch_vary_headers
from django.utils.functional import Promise
from django.utils.http import escape_leading_slashes
from django.utils.module_loading import import_string
from django.utils.translation import gettext_lazy as _

from django_redsess import observers
from django_redsess.admin_sites import all_sites
from django_redsess.conf import OBSERVE, conf
from django_redsess.contrib.device_bound import protocol
from django_redsess.contrib.device_bound.telling import tell
from django_redsess.exceptions import SessionNotProven
from django_redsess.problems import DEVICE_NOT_PROVEN
from django_redsess.responses import cookie_key, page_response, program_response
from django_redsess.session.binding import YET_TO_BE_BOUND, Binding
from django_redsess.session.client import read_client
from django_redsess.session.record import Record, stored_client
from django_redsess.session.store import SessionStore, session_of, user_id_of
from django_redsess.transport.connections import server_of
from django_redsess.transport.keys import is_session_key, keyspace, sid_of
from django_redsess.user_messages import in_our_language

SKIPPED = re.compile(r"\s*(unreachable|server_error|quota_exceeded)\s*(?:[;,]|$)")


class Refusal(NamedTuple):
    """A response to a request that may not open its session. ``again`` is the seconds until the page is asked again."""

    title: str | Promise
    said: str | Promise
    advice: str | Promise = ""
    again: int | None = None
    link: str | Promise = _("Try again")


GO_ON = Refusal(
    _("One moment"),
    _("Your browser proves that it is the one that signed in. Then the page opens by itself."),
    again=0,
    link=_("Go on"),
)
TRY_AGAIN = Refusal(
    _("Not available for the moment"),
    _("Your browser could not reach this site to prove that it is the one that signed in."),
    _("This page tries again every five seconds. You are still signed in."),
    again=5,
)
SIGN_IN = Refusal(
    _("Please sign in again"),
    _("Your session works only on the device on which you signed in. This browser could not prove that it runs there."),
    _("If this is your device, try again. If that does not help, sign in again."),
)
BIND = Refusal(
    _("This browser can’t be used for your account"),
    _("For your account, a session must be bound to your device. This browser has not done that."),
    _("Sign in again with another browser, such as a current version of Chrome or Edge."),
    link="",
)


class DeviceGuard:
    """The guard of sessions that are bound to a device: see :class:`~django_redsess.session.binding.Guard`."""

    def prepare(self, request: HttpRequest, session: SessionStore) -> None:
        """Have a request of the browser for one of the two endpoints prolong nothing, and take no notice."""
        if session.visit is not None and protocol.is_endpoint(request):
            session.visit.passive, session.visit.on_notice = True, None

    def claim(self, request: Any) -> bytes | None:
        """Return the id of the binding that ``request`` proves now, or ``b""``. None if ``DEVICE_BOUND`` observes."""
        if conf.DEVICE_BOUND == OBSERVE:
            return None
        proof = _proof_in(request)
        if proof is None:
            return b""
        key = cookie_key(request) or ""
        partition = keyspace().of_sid(sid_of(key)) if is_session_key(key) else keyspace().partitions[0]
        now = server_of(partition).clock.now()
        return proof.id if now is not None and protocol.is_fresh(proof, now) else b""

    def admits(self, session: SessionStore, request: Any, sid: str, record: Record, now: int) -> bool:
        """Tell whether ``request`` may open the bound session. Raises SessionNotProven, as the protocol says."""
        proof = _proof_in(request)
        # Most requests are proven. The id comes first in a binding.
        if proof is not None and record.binding.startswith(proof.id) and protocol.is_fresh(proof, now):
            return True
        if protocol.is_endpoint(request):
            # The views open the session by an object of their own.
            return session is not session_of(request)
        binding, refuses = Binding.unpack(record.binding), conf.DEVICE_BOUND != OBSERVE
        if not binding.public_key:
            if now <= record.login_ms + protocol.CHALLENGE_MS:
                return True
            refusal = BIND
        else:
            is_new = abs(now - binding.bound_at) <= protocol.JUST_BOUND_MS
            if is_new and read_client(request) == stored_client(record):
                # The browser has sent it before it had the proof.
                return True
            # A browser asks for no proof while it has one, and the refusal deletes an old one.
            is_old = proof is not None and proof.id == binding.id
            refusal = _refusal_of(request, had_no_chance=is_old and refuses)
        if refusal is SIGN_IN and request.META.get("HTTP_SEC_FETCH_SITE") != "cross-site":
            tell(request, sid, record, binding, skipped=_skipped(request), refused=refuses)
        elif refusal is not BIND:
            # A thief may forge such headers, so these requests are at least counted.
            observers.notify_event("session_not_proven", outcome="excused")
        if not refuses:
            return True
        if refusal is not GO_ON and _is_open_path(request):
            return False
        error = SessionNotProven("The session is bound to a device, and the request has no proof of it.")
        # Of all cookies, only a proof that this site has made is deleted: with it, the browser would ask for no other.
        error.respond = partial(refused_response, refusal, proof is not None)
        raise error


def require_binding(sender: Any, request: HttpRequest, user: Any, **kwargs: Any) -> None:
    """Receive Django's signal ``user_logged_in``. Have the session bound soon if ``DEVICE_BOUND_REQUIRED`` says so."""
    session = session_of(request)
    if conf.DEVICE_BOUND_REQUIRED is None or session is None or session.loaded_user_id != user_id_of(user):
        return
    known = session.snapshot.record
    is_bound = known is not None and known.user_id == session.loaded_user_id and known.binding
    if not is_bound and import_string(conf.DEVICE_BOUND_REQUIRED)(user):
        session.bind(Binding.unpack(YET_TO_BE_BOUND))


def refused_response(refusal: Refusal, deletes_proof: bool, request: HttpRequest) -> HttpResponse:
    """Return the response 401 of ``refusal``: a page, or JSON for other clients."""
    is_read = request.method in ("GET", "HEAD")
    with in_our_language():
        line = " ".join(filter(None, (str(refusal.said), str(refusal.advice))))
        response = program_response(request, DEVICE_NOT_PROVEN, line) if refusal.again is None else None
        if response is None:
            context = {
                "title": refusal.title,
                "detail": refusal.said,
                "advice": refusal.advice,
                "refresh": refusal.again,
                # Without a URL, a page whose address has a fragment would not be asked again.
                "url": _full_path(request),
                "link": refusal.link,
                "is_read": is_read,
                "sign_in_url": "" if refusal in (GO_ON, TRY_AGAIN) else _sign_in_url(request, is_read),
            }
            response = page_response("django_redsess/device_bound/not_proven.html", context, 401, line)
    if refusal.again:
        response.headers["Retry-After"] = str(refusal.again)
    if deletes_proof:
        protocol.delete_proof_cookie(response)
    patch_vary_headers(response, ("Cookie",))
    return response


def _proof_in(request: Any) -> protocol.Proof | None:
    """Return the proof of the request's cookie. None if there is none, or if this site has not made it."""
    text = request.COOKIES.get(protocol.proof_cookie_name())
    # What was read is cached, and anybody may send a text of any length.
    return protocol.read_proof(text) if text and len(text) == protocol.PROOF_LENGTH else None


def _full_path(request: HttpRequest) -> str:
    """Return the address of ``request`` on this site. Browsers take a path that begins with ``//`` for another site."""
    return escape_leading_slashes(request.get_full_path())


def _refusal_of(request: Any, *, had_no_chance: bool) -> Refusal:
    if request.method != "GET" or request.META.get("HTTP_SEC_FETCH_MODE") != "navigate":
        return SIGN_IN
    if had_no_chance or request.META.get("HTTP_SEC_FETCH_SITE") == "cross-site":
        return GO_ON
    return TRY_AGAIN if _skipped(request) else SIGN_IN


def _skipped(request: Any) -> str:
    """Return why the browser could not prove itself, in a word. ``""`` if it does not say that it could not."""
    said = request.META.get("HTTP_SECURE_SESSION_SKIPPED", "")
    found = SKIPPED.match(said)
    return found[1] if found else "other" if said else ""


def _is_open_path(request: Any) -> bool:
    """Tell whether a browser that has lost its key goes on at this address without a session, to sign in again."""
    if request.path_info.startswith(tuple(conf.DEVICE_BOUND_OPEN_PATHS)):
        return True
    parts = [urlsplit(url) for url in (*_admin_login_urls(request), *_login_urls())]
    return any(at.path == request.path and (not at.netloc or at.netloc == request.get_host()) for at in parts)


def _login_urls() -> Iterator[str]:
    with suppress(NoReverseMatch):
        yield resolve_url(settings.LOGIN_URL)


def _admin_login_urls(request: Any) -> Iterator[str]:
    for site in all_sites(request):
        with suppress(NoReverseMatch):
            yield reverse("admin:login", current_app=site.name)


def _sign_in_url(request: HttpRequest, leads_back: bool) -> str:
    """Return where to sign in: at the admin for one of its pages, else at ``LOGIN_URL``. ``""`` if there is no such."""
    of_admin = [url for url in _admin_login_urls(request) if request.path.startswith(url.removesuffix("login/"))]
    for url in of_admin or _login_urls():
        parts = urlsplit(url)
        if not parts.netloc or parts.netloc == request.get_host():
            try:
                resolve("/" + parts.path.removeprefix(get_script_prefix()))
            except Resolver404:
                continue
            back = _full_path(request)
        else:
            back = request.build_absolute_uri()
        return redirect_to_login(back, url).url if leads_back else url
    return ""
