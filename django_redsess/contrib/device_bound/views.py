"""
The two endpoints that browsers call by themselves, and the file for subdomains.

Browsers send no token against CSRF here. They need none: a request without a JWS changes nothing, and a JWS is signed
by a key that only the browser has, over a challenge that only this site makes. So the views are exempt.

They are synchronous. Under ASGI, Django calls them in the thread that each request has for its middleware anyway. As
coroutines they would need an event loop of their own for each request under WSGI, which greenlets do not stand.

Nothing here is for a person: the session is read and saved, and that is all. The request takes no message, sends no
session cookie, and deletes none.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.contrib.sessions.backends.base import UpdateError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.urls import get_script_prefix
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST, require_safe

from django_redsess.conf import conf
from django_redsess.contrib.device_bound import protocol
from django_redsess.contrib.device_bound.protocol import CHALLENGE_MS, JUST_BOUND_MS, JwsRefused
from django_redsess.responses import cookie_key, without_log
from django_redsess.session.binding import ID_SIZE, Binding, BindingChanged, names_device
from django_redsess.session.state import COOKIE_UNCHANGED, NOTHING_PENDING
from django_redsess.session.store import SessionStore, session_of
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Steps, current_time

RESPONSE, SESSION_ID = "HTTP_SECURE_SESSION_RESPONSE", "HTTP_SEC_SECURE_SESSION_ID"

Answering = Callable[[HttpRequest, SessionStore], Steps[HttpResponse]]


def _endpoint(answering: Answering) -> Callable[[HttpRequest], HttpResponse]:
    """Return the view that answers by these steps."""

    @csrf_exempt
    @login_not_required
    @never_cache
    @require_POST
    @wraps(answering)
    def view(request: HttpRequest) -> HttpResponse:
        of_request = session_of(request)
        if of_request is None:
            return _refused(503, "no_session_middleware")
        # An object of the view's own: without a proof, the guard keeps the session from middleware of the site, which
        # may write to request.session, or end it.
        session = type(of_request)(cookie_key(request))
        session.brought_by, session.visit = request, of_request.visit
        return session.run_steps(answering(request, session))

    return view


def leave_session(request: HttpRequest, session: SessionStore, response: HttpResponseBase) -> None:
    """
    Have the middleware save nothing more of a request for an endpoint, and leave the cookie of a session that is gone.

    It is called after the view, and after the middleware of the site, which may have written to the session, too: the
    guard has let it in without a proof.
    """
    if protocol.is_endpoint(request):
        session.modified, session.pending = False, NOTHING_PENDING
        session.cookie = COOKIE_UNCHANGED._replace(late=session.session_key is None)


@_endpoint
def register(request: HttpRequest, session: SessionStore) -> Steps[HttpResponse]:
    """
    Bind the session to the key that the browser has made after the sign-in.

    Whatever is refused changes nothing. Only the answer of the sign-in has had the challenge: a copy of the cookie is
    not enough. A session that is bound is not bound again.
    """
    yield from session.opening()
    record = session.snapshot.record
    if record is None or not record.user_id:
        return _refused(403, "no_session")
    if names_device(record.binding):
        return _refused(403, "already_bound")
    try:
        challenge, public_key = protocol.read_jws(request.META.get(RESPONSE, ""))
    except JwsRefused as error:
        return _refused(400, str(error))
    if not protocol.is_registration_challenge(challenge, record.user_id, record.login_ms):
        return _refused(403, "wrong_challenge")
    now = yield from _now(session)
    if abs(now - record.login_ms) > CHALLENGE_MS:
        return _refused(403, "old_challenge")
    binding = Binding(secrets.token_bytes(ID_SIZE), now, now, public_key)
    session.bind(binding)
    try:
        yield from session.saving()
    except BindingChanged:
        return _refused(403, "already_bound")
    except UpdateError:
        return _refused(403, "no_session")
    return _proven(request, binding, now)


@_endpoint
def refresh(request: HttpRequest, session: SessionStore) -> Steps[HttpResponse]:
    """
    Send a new proof cookie to the browser that signs a challenge.

    A browser that gets a 4xx other than 403, or ``"continue": false``, forgets the key for good. It keeps it, and asks
    again later, after a 503.
    """
    if SESSION_ID not in request.META:
        # No browser has sent this by itself. Another site must not find out whether somebody is signed in.
        return _refused(400, "no_session_id")
    yield from session.opening()
    record = session.snapshot.record
    if record is None:
        # The session has ended, or the browser is about to get a newer cookie.
        return _refused(503, "late") if session.cookie.late else JsonResponse({"continue": False})
    now = yield from _now(session)
    if not names_device(record.binding):
        # A browser that is binding this session now would forget the new key instead of an older one.
        is_new = abs(now - record.login_ms) <= JUST_BOUND_MS
        return _refused(503, "not_bound_yet") if is_new else JsonResponse({"continue": False})
    binding = Binding.unpack(record.binding)
    if RESPONSE not in request.META:
        return _challenged(request, binding, now, "no_jws")
    try:
        challenge, _ = protocol.read_jws(request.META[RESPONSE], binding.public_key)
    except JwsRefused as error:
        return _refused(503 if abs(now - binding.bound_at) <= JUST_BOUND_MS else 400, str(error))
    at = protocol.read_refresh_challenge(challenge, binding.id)
    if at is None:
        return _challenged(request, binding, now, "wrong_challenge")
    if at <= binding.proved_at:
        return _challenged(request, binding, now, "used_challenge")
    if now - at > CHALLENGE_MS:
        return _challenged(request, binding, now, "old_challenge")
    session.bind(binding._replace(proved_at=at))
    try:
        yield from session.saving()
    except BindingChanged:
        # Another refresh of this browser was accepted meanwhile.
        return _challenged(request, binding, now, "used_challenge")
    except UpdateError:
        return _refused(503, "late")
    return _proven(request, binding, now)


@login_not_required
@require_safe
def well_known(request: HttpRequest) -> HttpResponse:
    """
    Show the file ``/.well-known/device-bound-sessions`` of the domain of the session cookie.

    With ``SESSION_COOKIE_DOMAIN``, browsers read it before a subdomain binds a session: it has the origins of
    ``DEVICE_BOUND_ORIGINS``.
    """
    return JsonResponse({"registering_origins": list(conf.DEVICE_BOUND_ORIGINS)})


def _now(session: SessionStore) -> Steps[int]:
    return (yield from current_time(keyspace().of_sid(session.stored_sid or "")))


def _refused(status: int, error: str) -> HttpResponse:
    return without_log(JsonResponse({"error": error}, status=status))


def _challenged(request: HttpRequest, binding: Binding, now: int, error: str) -> HttpResponse:
    """Return the answer after which the browser signs a new challenge."""
    # Later than the last one that was accepted, even if the server's clock has stepped back.
    challenge = protocol.make_refresh_challenge(binding.id, max(now, binding.proved_at + 1))
    response = _refused(403, error)
    response.headers["Secure-Session-Challenge"] = f'"{challenge}";id="{_session_identifier(request)}"'
    return response


def _proven(request: HttpRequest, binding: Binding, now: int) -> HttpResponse:
    """Return the answer with a new proof cookie, and the instructions for the browser."""
    domain, static = settings.SESSION_COOKIE_DOMAIN, settings.STATIC_URL or ""
    scope: dict[str, Any] = {"include_site": bool(domain)}
    if domain:
        scope["origin"] = f"https://{domain.lstrip('.')}"
    # Only a path of its own: "/" would leave out the whole site.
    if static.startswith("/") and not static.startswith("//") and not get_script_prefix().startswith(static):
        scope["scope_specification"] = [{"type": "exclude", "domain": "*", "path": static}]
    cookie = {"type": "cookie", "name": protocol.proof_cookie_name(), "attributes": protocol.proof_attributes()}
    response = JsonResponse(
        {
            "session_identifier": _session_identifier(request),
            "refresh_url": protocol.path_of("refresh"),
            "scope": scope,
            "credentials": [cookie],
        }
    )
    protocol.set_proof_cookie(response, binding.id, now)
    return response


def _session_identifier(request: HttpRequest) -> str:
    """Return the name of the session in the browser: one for each session cookie of the registrable domain."""
    host, path = settings.SESSION_COOKIE_DOMAIN or request.get_host(), settings.SESSION_COOKIE_PATH
    return f"{settings.SESSION_COOKIE_NAME}@{host}{path.rstrip('/')}"
