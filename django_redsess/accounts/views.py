"""The self-service pages: users see their own sessions, and end them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template import Engine
from django.urls import NoReverseMatch, reverse
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from django_redsess import online, sign_in_source
from django_redsess.accounts import reauthentication
from django_redsess.online import labels, places
from django_redsess.online.labels import in_our_language, when
from django_redsess.permissions import is_own
from django_redsess.session import user_limit
from django_redsess.session.store import SessionStore, session_of

LIST, NOT_ME = "django_redsess:sessions", "django_redsess:not_me"

PASSWORD_CHANGES = ("password_change", "account_change_password")
"""Names of the URL on which users change their password: Django's, and allauth's."""

SHOWN_MAX = 100  # The most sessions that the page shows: the user's present one, and the newest others.

LATELY_MAX = 10  # How many sign-ins that have ended the page shows.


def _for_its_user(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """
    Require a sign-in, then call ``view`` with the request, the user, and the present session, in one language.

    After the sign-in the user gets the list. ``login_required`` would lead to ``view``, which may take POST only.
    """

    @wraps(view)
    def for_its_user(request: HttpRequest, **kwargs: str) -> HttpResponse:
        session = session_of(request)
        if session is None:
            raise ImproperlyConfigured('django_redsess.accounts.urls needs SESSION_ENGINE = "django_redsess.backend".')
        if not request.user.is_authenticated:
            return redirect_to_login(reverse(LIST))
        with in_our_language():
            return view(request, request.user, session, **kwargs)

    return for_its_user


# csrf_protect works without the site's CSRF middleware. Here it also sets the cookie for the forms of the list.
@require_safe
@never_cache
@csrf_protect
@_for_its_user
def sessions(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """List the user's sessions: the present one first, then the newest sign-ins."""
    own_sid = session.stored_sid
    found = online.of_user(user, limit=SHOWN_MAX)
    total = len(found) if len(found) < SHOWN_MAX else online.count(user_ids=[online.user_id_of(user)])
    own = [each for each in found if each.sid == own_sid] or find_own(user, own_sid)
    others = [each for each in found if each.sid != own_sid][: SHOWN_MAX - len(own)]
    found_places = places.by_address(each.address for each in own + others)
    context = {
        "rows": [
            {
                "session": each,
                "browser": _browser_of(each),
                "place": found_places.get(each.address, ""),
                "seen": when(each.last_seen_at),
            }
            for each in own + others
        ],
        "own_sid": own_sid,
        "others": total - len(own),
        "total": total,
        "is_moving": bool(online.moving_from()),
        "lately": _lately(user),
        "limit": user_limit.describe(user),
    }
    return page(request, "sessions.html", context)


@require_POST
@never_cache
@sensitive_post_parameters("password")
@csrf_protect
@_for_its_user
def end(request: HttpRequest, user: AbstractBaseUser, session: SessionStore, sid: str) -> HttpResponse:
    """End one session of the user. Another user's sid gets the same answer as an unknown one."""
    if sid == session.stored_sid:
        text = gettext("This is the device that you are using. To end its session, sign out.")
        messages.warning(request, text, fail_silently=True)
        return redirect(LIST)
    if found := find_own(user, sid):
        text = gettext("This device will be signed out: %(browser)s.") % {"browser": _browser_of(found[0])}
        if question := _asked_again(request, user, gettext("End the session"), text):
            return question
    if found and online.end(sid, message=message_to_own()):
        text = gettext("The session was ended: %(browser)s.") % {"browser": _browser_of(found[0])}
        messages.success(request, text, fail_silently=True)
    else:
        messages.info(request, gettext("That session had already ended."), fail_silently=True)
    return redirect(LIST)


@require_POST
@never_cache
@sensitive_post_parameters("password")
@csrf_protect
@_for_its_user
def end_others(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """End all sessions of the user but the present one."""
    text = gettext("All your other devices will be signed out.")
    if question := _asked_again(request, user, gettext("End all other sessions"), text):
        return question
    _end_others(request, user, session)
    return redirect(LIST)


@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
@sensitive_post_parameters("password")
@csrf_protect
@_for_its_user
def not_me(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """
    End all sessions of the user but the present one, which gets a new key. Then say what else is to be done.

    GET says that only.
    """
    if request.method == "POST":
        text = gettext("All your other devices will be signed out, the unknown one among them.")
        if question := _asked_again(request, user, gettext("This was not me"), text):
            return question
        _end_others(request, user, session)
        return redirect(NOT_ME)
    has_password = user.has_usable_password()
    context = {"has_password": has_password, "password_change_url": password_change_url() if has_password else ""}
    return page(request, "not_me.html", context)


def _asked_again(request: HttpRequest, user: AbstractBaseUser, title: str, text: str) -> HttpResponse | None:
    """Return the page that asks for the password again, if it must. Its form repeats ``request``, with the password."""
    form = reauthentication.ask(request, user)
    if form is None:
        return None
    asking = page(
        request, "password.html", {"form": form, "title": title, "text": text, "username": user.get_username()}
    )
    if form.is_locked:
        asking.status_code = 429
        asking["Retry-After"] = str(reauthentication.RECENT_SECONDS)
    return asking


def _end_others(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> None:
    count = online.end_user(user, keep=session.stored_sid, message=message_to_own())
    text = ngettext("%(count)d other session was ended.", "%(count)d other sessions were ended.", count)
    told = [text % {"count": count}]
    if online.moving_from():
        told.append(gettext("Sessions that can’t be listed these days have ended, too."))
    messages.success(request, " ".join(told), fail_silently=True)


def page(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """
    Render one of our templates in the frame of the site's ``base.html``, or in a plain one where it has none.

    No other page can show it in a frame: its buttons could be pressed there by whoever does not see them.
    """
    site_base = Engine.get_default().select_template(["base.html", "django_redsess/plain.html"])
    response = render(request, f"django_redsess/{template}", {**context, "site_base": site_base})
    # Not left to Django's middleware: the site may lack it, or allow frames.
    response["X-Frame-Options"] = "DENY"
    return response


def password_change_url() -> str:
    """Return the path on which users change their password. ``""`` if the site has none."""
    for name in PASSWORD_CHANGES:
        with suppress(NoReverseMatch):
            return reverse(name)
    return ""


def _lately(user: AbstractBaseUser) -> list[dict[str, object]]:
    """Return the user's last sign-ins whose sessions have ended, as the template reads them."""
    ended = sign_in_source.ended(online.user_id_of(user), limit=LATELY_MAX)
    return [
        {"sign_in": each, "browser": _browser_of(each), "how": capfirst(sign_in_source.how_own_ended(each))}
        for each in sign_in_source.placed(ended)
    ]


def message_to_own() -> str:
    """Return what the device of a session reads that its own user has ended, after "Your session was ended"."""
    return gettext("You ended it from another device. If that was not you, change your password.")


def find_own(user: AbstractBaseUser, sid: str | None) -> list[online.Session]:
    """Return a list of the session ``sid``, or an empty one if it is not a session of ``user``."""
    found = online.get(sid) if sid else None
    return [found] if found and is_own(user, found) else []


def _browser_of(session: online.Session | sign_in_source.PastSignIn) -> str:
    return labels.browser_name(session.user_agent) or gettext("Unknown browser")
