"""The self-service pages: users see their own sessions, and end them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template import Engine
from django.urls import reverse
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.http import require_POST, require_safe

from django_redsess import online
from django_redsess.online import labels
from django_redsess.online.labels import in_our_language, when
from django_redsess.session import user_limit
from django_redsess.session.session_store import session_of

LIST = "django_redsess:sessions"

SHOWN_MAX = 100  # The most sessions that the page shows: the user's present one, and the newest others.


def _for_its_user(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """
    Require a sign-in, then call ``view`` with the request, the user, and the sid of the present session.

    After the sign-in the user gets the list. ``login_required`` would lead to ``view``, which may take POST only.
    """

    @wraps(view)
    def for_its_user(request: HttpRequest, **kwargs: str) -> HttpResponse:
        session = session_of(request)
        if session is None:
            raise ImproperlyConfigured('django_redsess.urls needs SESSION_ENGINE = "django_redsess.backend".')
        if not request.user.is_authenticated:
            return redirect_to_login(reverse(LIST))
        return view(request, request.user, session.stored_sid, **kwargs)

    return for_its_user


# csrf_protect works without the site's CSRF middleware. Here it also sets the cookie for the forms of the list.
@require_safe
@never_cache
@csrf_protect
@_for_its_user
def sessions(request: HttpRequest, user: AbstractBaseUser, own_sid: str | None) -> HttpResponse:
    """List the user's sessions: the present one first, then the newest sign-ins."""
    found = online.of_user(user, limit=SHOWN_MAX)
    total = len(found) if len(found) < SHOWN_MAX else online.count(user_ids=[online.user_id_of(user)])
    own = [session for session in found if session.sid == own_sid] or _own(user, own_sid)
    others = [session for session in found if session.sid != own_sid][: SHOWN_MAX - len(own)]
    with in_our_language():
        context = {
            "rows": [
                {"session": session, "browser": _browser_of(session), "seen": when(session.seen_at)}
                for session in own + others
            ],
            "own_sid": own_sid,
            "others": total - len(own),
            "total": total,
            "limit": user_limit.describe(user),
            "site_base": Engine.get_default().select_template(["base.html", "django_redsess/plain.html"]),
        }
        return render(request, "django_redsess/sessions.html", context)


@require_POST
@csrf_protect
@_for_its_user
def end(request: HttpRequest, user: AbstractBaseUser, own_sid: str | None, sid: str) -> HttpResponse:
    """End one session of the user. Another user's sid gets the same answer as an unknown one."""
    if sid == own_sid:
        text = gettext("This is the device that you are using. To end its session, sign out.")
        messages.warning(request, text, fail_silently=True)
    elif (found := _own(user, sid)) and online.end(sid, message=_message()):
        text = gettext("The session was ended: %(browser)s.") % {"browser": _browser_of(found[0])}
        messages.success(request, text, fail_silently=True)
    else:
        messages.info(request, gettext("That session had already ended."), fail_silently=True)
    return redirect(LIST)


@require_POST
@csrf_protect
@_for_its_user
def end_others(request: HttpRequest, user: AbstractBaseUser, own_sid: str | None) -> HttpResponse:
    """End all sessions of the user but the present one."""
    count = online.end_user(user, keep=own_sid, message=_message())
    text = ngettext("%(count)d other session was ended.", "%(count)d other sessions were ended.", count)
    messages.success(request, text % {"count": count}, fail_silently=True)
    return redirect(LIST)


def _message() -> str:
    # The ended device shows it after "Your session was ended."
    return gettext("You ended it from another device. If that was not you, change your password.")


def _own(user: AbstractBaseUser, sid: str | None) -> list[online.Session]:
    """Return a list of the session ``sid``, or an empty one if it is not a session of ``user``."""
    found = online.get(sid) if sid else None
    return [found] if found and found.user_id == online.user_id_of(user) else []


def _browser_of(session: online.Session) -> str:
    return labels.browser_name(session.user_agent) or gettext("Unknown browser")
