"""
The password is asked again before a user ends other sessions: somebody else may sit at a signed-in device.

Where django-allauth is installed, its own pages ask, and programs get the URL. It may ask for another proof than the
password.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from django import forms
from django.apps import apps
from django.contrib.auth import SESSION_KEY, authenticate, update_session_auth_hash
from django.contrib.auth.base_user import AbstractBaseUser
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_variables

from django_redsess.conf import conf
from django_redsess.session import reading
from django_redsess.session.other_store import stores_of_site
from django_redsess.session.store import SessionStore, session_of, user_id_of
from django_redsess.transport import packing, scripts
from django_redsess.transport.keys import keyspace
from django_redsess.transport.steps import Pipeline, ScriptCall, Steps, drive, in_store

RECENT_SECONDS = 300
"""How long after a sign-in, or after the password was given, nothing is asked. Wrong passwords count as long."""

TRIES_MAX = 5

GIVEN_KEY = "_redsess_password_given"
"""Key in a session's data: the server's time, in milliseconds, at which the password was given."""


class PasswordForm(forms.Form):
    """Asks for the password of the signed-in user. Once ``is_locked``, it accepts none for a while."""

    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
    )
    is_locked = False


def ask_password(request: HttpRequest, user: AbstractBaseUser) -> PasswordForm | None:
    """
    Return the form that asks ``user`` for the password, or None if ``user`` may go on.

    If ``request``, a POST, has a password, it is checked. After the right one, the session gets a new key, so that a
    copy of its cookie gains nothing. If allauth must ask, this raises an exception that its middleware handles.
    """
    session = session_of(request)
    # Without a session, each request has a password or a token.
    if session is None or SESSION_KEY not in session or not conf.REAUTHENTICATE:
        return None
    now = reading.read_time(keyspace().of_sid(session.stored_sid or "")).run()
    record = session.snapshot.record
    if _is_recent(record.login_ms if record else 0, now):
        return None
    if allauths_url(user):
        if not _is_asked_by_allauth(request, user):
            return None
        _ask_by_allauth()
    if _is_recent(session.get(GIVEN_KEY), now):
        return None
    return _checked_form(request, user, session, now, request.POST) if user.has_usable_password() else None


def form_to_show(request: HttpRequest, user: AbstractBaseUser) -> PasswordForm | None:
    """
    Return the form for a page shown by GET: the one that :func:`ask_password` will return for its POST.

    None if no password is needed, or if allauth will ask on its own page.
    """
    try:
        return ask_password(request, user)
    except Exception as error:
        if not _is_allauths(error):
            raise
        return None


def needs_password(request: HttpRequest, user: AbstractBaseUser) -> bool:
    """Tell whether ``user`` must first give the password, or authenticate again with allauth. For the API."""
    try:
        return ask_password(request, user) is not None
    except PermissionDenied:
        return True
    except Exception as error:
        if not _is_allauths(error):
            raise
        return True


@sensitive_variables()
def give_password(request: HttpRequest, user: AbstractBaseUser, password: str) -> PasswordForm | None:
    """
    Check the password of ``user``, even if none is needed just now. Return None if it is right.

    Otherwise return the form with its errors. The session gets a new key, as by :func:`ask_password`. A user without a
    session is never asked: any password is accepted. Not for users whom allauth asks: see :func:`allauths_url`.
    """
    session = session_of(request)
    if session is None or SESSION_KEY not in session:
        return None
    now = reading.read_time(keyspace().of_sid(session.stored_sid or "")).run()
    return _checked_form(request, user, session, now, {"password": password})


@sensitive_variables()
def _checked_form(
    request: HttpRequest, user: AbstractBaseUser, session: SessionStore, now: int, data: Mapping[str, Any]
) -> PasswordForm | None:
    form = PasswordForm(data if "password" in data else None)
    user_id, is_try = user_id_of(user), form.is_valid()
    # Counted before the check: of many concurrent requests, at most TRIES_MAX go on.
    left = drive(count_try(session, user_id, maximum=TRIES_MAX, seconds=RECENT_SECONDS, counts=is_try))
    form.is_locked = not left
    if form.is_locked or not is_try:
        return form
    # "username" as in Django's form, whatever the field of the user model. Backends may limit the tries themselves.
    try:
        found = authenticate(request, username=user.get_username(), password=form.cleaned_data["password"])
    except Exception as error:
        _forget_variables(error)
        raise
    if found is None or user_id_of(found) != user_id:
        form.add_error("password", gettext_lazy("This is not your password. Please try again."))
        form.is_locked = left == 1
        return form
    drive(clear_tries(session, user_id))
    if session.loaded_user_id != user_id:
        # The user is authenticated by a token. The session in this browser belongs to somebody else.
        return None
    session[GIVEN_KEY] = now
    # Django may have stored another hash of the same password.
    update_session_auth_hash(request, found)
    session.end_copies()
    return None


def _forget_variables(error: BaseException | None) -> None:
    """
    Clear the local variables in the tracebacks of ``error`` and of its causes.

    Local variables of a backend hold the password. Django's error reports show them unless each function hides them.
    """
    known = set[int]()
    while error is not None and id(error) not in known:
        known.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def _is_recent(at: int | None, now: int) -> bool:
    return at is not None and abs(now - at) < RECENT_SECONDS * 1000


def allauths_url(user: AbstractBaseUser) -> str:
    """
    Return the URL where ``user`` authenticates again with allauth. ``""`` if our form asks.

    It is in allauth's own API if the site has that, else it is allauth's page for the user.
    """
    if not apps.is_installed("allauth.account"):
        return ""
    with suppress(NoReverseMatch):
        return reverse("headless:browser:account:reauthenticate")
    methods = _methods_of(user)
    return str(methods[0]["url"]) if methods else ""


def _page_of_allauth() -> str:
    try:
        return reverse("account_reauthenticate")
    except NoReverseMatch:  # Its pages are not part of this site.
        return ""


def _methods_of(user: AbstractBaseUser) -> Sequence[Mapping[str, Any]]:
    """Return the methods by which ``user`` can authenticate again on allauth's pages, in allauth's order."""
    # Imported here, since few sites have it.
    from allauth.account.adapter import get_adapter

    methods: Sequence[Mapping[str, Any]] = (
        get_adapter().get_reauthentication_methods(user) if _page_of_allauth() else ()
    )
    return methods


def _is_asked_by_allauth(request: HttpRequest, user: AbstractBaseUser) -> bool:
    from allauth.account.decorators import reauthentication_required

    if _page_of_allauth() and not _methods_of(user):
        return False  # The user has nothing to authenticate with.
    try:
        reauthentication_required(lambda request: HttpResponse())(request)
    except Exception as error:
        if not _is_allauths(error):
            raise
        return True
    return False


def _ask_by_allauth() -> None:
    """Raise allauth's exception if it has a page. Afterwards allauth repeats the request."""
    from allauth.account import app_settings
    from allauth.core.exceptions import ReauthenticationRequired

    if _page_of_allauth():
        raise ReauthenticationRequired
    if "password" not in getattr(app_settings, "REAUTHENTICATION_METHODS", ("password",)):
        # Our page can ask for a password only.
        raise PermissionDenied


def _is_allauths(error: Exception) -> bool:
    if not apps.is_installed("allauth.account"):
        return False
    from allauth.core.exceptions import ReauthenticationRequired

    return isinstance(error, ReauthenticationRequired)


# The number of tries is not in the session's data: while sessions move, another engine saves those, and the last one to
# save wins. It is in the user's home partition, by the time of the sign-in, which stays when the session gets another
# key. A session that another engine saves has no such time here: all of its user's share a count. While sessions move
# between two stores of this engine, each try is counted in both.


def count_try(session: SessionStore, user_id: str, *, maximum: int, seconds: int, counts: bool = True) -> Steps[int]:
    """
    Count a try before it is made. Return how many were left, including this one. 0: the try may not be made.

    A try counts for this number of ``seconds``. A try that may not be made is not counted. Without ``counts``, this
    one is not counted either.
    """
    left = maximum
    for store in stores_of_site():
        # The server takes no lifetime of 0.
        call = in_store(store, _call_count_try, session, user_id, max(1, seconds * 1000), maximum, counts)
        left = min(left, (yield from call))
        if not left:
            break
    return left


def clear_tries(session: SessionStore, user_id: str) -> Steps[None]:
    """Forget the tries, because the password was right."""
    for store in stores_of_site():
        yield from in_store(store, _delete_tries, session, user_id)


def _call_count_try(session: SessionStore, user_id: str, window: int, maximum: int, counts: bool) -> ScriptCall[int]:
    partition, script = keyspace().of_user(user_id), scripts.COUNT_TRY
    args = script.arguments(window=window, max=maximum, counts=counts)
    return ScriptCall(partition, script, script.keys(partition, tries=_tries_key(session, user_id)), args, int)


def _delete_tries(session: SessionStore, user_id: str) -> Pipeline[None]:
    packed = packing.pack_command("DEL", _tries_key(session, user_id))
    return Pipeline(keyspace().of_user(user_id), "tries", packed, 1, lambda replies: None)


def _tries_key(session: SessionStore, user_id: str) -> str:
    record = session.snapshot.record
    return keyspace().of_user(user_id).tries_of(user_id, record.login_ms if record else 0)
