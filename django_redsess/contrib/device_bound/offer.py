"""The offer to bind a session: a header of the response that sets the session cookie of a sign-in."""

from __future__ import annotations

from functools import partial
from typing import Any

from django.conf import settings
from django.contrib.auth.base_user import AbstractBaseUser
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from django_redsess.contrib.device_bound.protocol import ALGORITHMS, make_registration_challenge, path_of
from django_redsess.session.binding import names_device
from django_redsess.session.store import SessionStore, session_of, user_id_of


def offer_binding(sender: Any, request: HttpRequest, user: AbstractBaseUser, **kwargs: Any) -> None:
    """Receive Django's signal ``user_logged_in``. Let the response that sets the session cookie offer the binding."""
    session = session_of(request)
    if session is None or session.visit is None or session.loaded_user_id != user_id_of(user):
        return
    # Browsers take the offer over HTTPS only. Behind a proxy, is_secure() may not know.
    if request.is_secure() or settings.SESSION_COOKIE_SECURE:
        session.visit.with_cookie += (partial(_send_offer, session),)


def _send_offer(session: SessionStore, response: HttpResponseBase) -> None:
    # The session is saved by now. One that is used in another engine's store has no record of ours to bind.
    record, path = session.snapshot.record, path_of("register")
    if record is None or not record.user_id or names_device(record.binding) or not path:
        return
    challenge = make_registration_challenge(record.user_id, record.login_ms)
    offer = f'({" ".join(ALGORITHMS)});path="{path}";challenge="{challenge}"'
    response.headers["Secure-Session-Registration"] = offer
