"""The self-service pages: users see their own sessions, and end them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import wraps
from typing import Any, NamedTuple

from django.contrib import messages
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import ImproperlyConfigured
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.template import Engine
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from django_redsess import online, past_sign_ins
from django_redsess.accounts import reauthentication
from django_redsess.online import places
from django_redsess.online.browsers import device_icon, device_name
from django_redsess.online.labels import in_zone_of_reader, when, zone_js
from django_redsess.online.listing import moving_from
from django_redsess.permissions import is_own_session
from django_redsess.session import user_limit
from django_redsess.session.store import SessionStore, session_of, user_id_of
from django_redsess.user_messages import ENDED_BY_USER, in_our_language, isolated, message_in_words, ready_message

LIST, NOT_ME = "django_redsess:sessions", "django_redsess:not_me"

PASSWORD_CHANGES = ("password_change", "account_change_password")
"""Names of the URL where users change their password: Django's, and allauth's."""

SHOWN_MAX = 100  # The most sessions that the page shows: the user's present one, and the newest others.

LATELY_MAX = 10  # How many ended sessions the page shows.

SIGNED_OUT_KEY = "_redsess_signed_out"
"""Key in a session's data: how many other sessions were signed out, for the next page to show."""

NOT_MINE_KEY = "_redsess_not_mine"
"""Key in a session's data: the device that was signed out because it is not the user's, for the next page to name."""


class _Question(NamedTuple):
    """A question before devices are signed out. ``row`` is the device, if it is about one."""

    title: str
    texts: Sequence[str]
    button: str
    row: dict[str, Any] | None = None


class Device(NamedTuple):
    """A session that has ended, as its user's page names it. Times are in seconds since 1970."""

    user_agent: str
    address: str
    login_time: float | None
    last_seen_time: float
    device_bound: bool

    @property
    def created_at(self) -> datetime | None:
        return None if self.login_time is None else datetime.fromtimestamp(self.login_time, UTC)

    @property
    def last_seen_at(self) -> datetime:
        return datetime.fromtimestamp(self.last_seen_time, UTC)


def own_sessions_page(*methods: str) -> Callable[[Callable[..., HttpResponse]], Callable[..., HttpResponse]]:
    """
    Return a decorator that makes a view of these HTTP methods a page of users' own sessions.

    Without a sign-in, the page leads to it, and then to the list: not to itself, since it may take POST only. Otherwise
    the view is called with the request, the user, and the present session, in one language, and in the user's time
    zone.
    """

    def decorate(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
        @require_http_methods(methods)
        @never_cache
        @sensitive_post_parameters("password")
        @csrf_protect  # The site may lack the middleware. It also sets the cookie for the forms of the list.
        @wraps(view)
        def page(request: HttpRequest, **kwargs: str) -> HttpResponse:
            session = session_of(request)
            if session is None:
                text = 'django_redsess.accounts.urls needs SESSION_ENGINE = "django_redsess.backend".'
                raise ImproperlyConfigured(text)
            if not request.user.is_authenticated:
                return redirect_to_login(reverse(LIST))
            with in_our_language(), in_zone_of_reader(request):
                return view(request, request.user, session, **kwargs)

        return page

    return decorate


@own_sessions_page("GET", "HEAD")
def own_sessions_view(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """List the user's sessions: the present one first, then the newest sign-ins."""
    own_sid = session.stored_sid
    found = online.of_user(user, limit=SHOWN_MAX)
    total = len(found) if len(found) < SHOWN_MAX else online.count(user_ids=[user_id_of(user)])
    own = [each for each in found if each.sid == own_sid] or find_own(user, own_sid)
    others = [each for each in found if each.sid != own_sid][: SHOWN_MAX - len(own)]
    context = {
        "rows": _rows(own + others),
        "own_sid": own_sid,
        "others": total - len(own),
        "total": total,
        "is_moving": bool(moving_from()),
        "ended_sign_ins": _ended_lately(user),
        "limit_text": user_limit.describe_own(user),
        "time_zone": timezone.get_current_timezone_name(),
        "time_zone_script": zone_js(request),
    }
    return render_in_site(request, "sessions.html", context)


@own_sessions_page("POST")
def end_own_view(request: HttpRequest, user: AbstractBaseUser, session: SessionStore, sid: str) -> HttpResponse:
    """Sign one device of the user out. Another user's sid gets the same answer as an unknown one."""
    device = _find_device(user, sid)
    if device and device.sid == session.stored_sid:
        return _keep_present_device(request)
    if device and (form := reauthentication.ask_password(request, user)):
        return _ask_about_device(request, user, device, form)
    if device and online.end(device.sid, message=ready_message(ENDED_BY_USER)):
        text = gettext("Signed out: %(device)s.") % {"device": _device_of(device)}
        messages.success(request, text, fail_silently=True)
    else:
        messages.info(request, gettext("That device was already signed out."), fail_silently=True)
    return redirect(LIST)


@own_sessions_page("GET", "HEAD", "POST")
def not_me_device_view(request: HttpRequest, user: AbstractBaseUser, session: SessionStore, sid: str) -> HttpResponse:
    """
    Sign out a device that the user does not know. Redirect to the page that names it and says what to do next.

    GET asks first. POST asks, too, if the password must be given again. Another user's sid gets the same answer as an
    unknown one.
    """
    device, is_post = _find_device(user, sid), request.method == "POST"
    if device and device.sid == session.stored_sid:
        return _keep_present_device(request)
    if device:
        form = (reauthentication.ask_password if is_post else reauthentication.form_to_show)(request, user)
        if form or not is_post:
            text = gettext("It is signed out first. Then you can sign out everywhere else, and change your password.")
            return _ask_about_device(request, user, device, form, text)
    if device and online.end(device.sid, message=ready_message(ENDED_BY_USER)):
        login_time = device.created_at.timestamp() if device.created_at else None
        seen = device.last_seen_at.timestamp()
        session[NOT_MINE_KEY] = [*Device(device.user_agent, device.address, login_time, seen, device.device_bound)]
    else:
        messages.info(request, gettext("That device was already signed out."), fail_silently=True)
    return redirect(NOT_ME)


@own_sessions_page("GET", "HEAD", "POST")
def end_others_view(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """
    Sign out all other devices of the user, and give the present session a new key. Redirect to the result.

    GET asks first. POST asks, too, if the password must be given again.
    """
    if request.method == "POST":
        return _end_others(request, user, session)
    return _ask_about_others(request, user, session, reauthentication.form_to_show(request, user))


@own_sessions_page("GET", "HEAD", "POST")
def not_me_view(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    """
    Show what :func:`not_me_device_view` or :func:`end_others_view` did, and what the user should do next.

    POST is the same as that of :func:`end_others_view`.
    """
    if request.method == "POST":
        return _end_others(request, user, session)
    has_password = user.has_usable_password()
    # pop() of a missing key would save the session.
    signed_out = session.pop(SIGNED_OUT_KEY) if SIGNED_OUT_KEY in session else None
    ended = Device(*session.pop(NOT_MINE_KEY)) if NOT_MINE_KEY in session else None
    context = {
        "signed_out": signed_out,
        "ended": next(iter(_rows([ended] if ended else [])), None),
        "others": _count_others(user, session) if signed_out is None else 0,
        "is_moving": bool(moving_from()),
        "has_password": has_password,
        "password_change_url": password_change_url() if has_password else "",
    }
    return render_in_site(request, "not_me.html", context)


def _end_others(request: HttpRequest, user: AbstractBaseUser, session: SessionStore) -> HttpResponse:
    if form := reauthentication.ask_password(request, user):
        return _ask_about_others(request, user, session, form)
    count = online.end_user(user, keep=session.stored_sid, message=ready_message(ENDED_BY_USER))
    session[SIGNED_OUT_KEY] = int(count)
    return redirect(NOT_ME)


def _ask_about_others(
    request: HttpRequest, user: AbstractBaseUser, session: SessionStore, form: reauthentication.PasswordForm | None
) -> HttpResponse:
    count, texts = _count_others(user, session), []
    if count > 0:
        text = ngettext(
            "%(count)d other device will be signed out.", "%(count)d other devices will be signed out.", count
        )
        texts.append(text % {"count": count})
    elif not moving_from():
        texts.append(gettext("You are signed in on this device only."))
    if moving_from():
        texts.append(gettext("Devices that can’t be listed these days will be signed out, too."))
    kept = gettext(
        "You stay signed in on this device. If somebody has copied your sign-in from it, the copy stops working."
    )
    title, button = gettext("Sign out everywhere else?"), gettext("Sign out everywhere else")
    return _question_page(request, user, form, _Question(title, [*texts, kept], button))


def _ask_about_device(
    request: HttpRequest,
    user: AbstractBaseUser,
    device: online.Session,
    form: reauthentication.PasswordForm | None,
    *texts: str,
) -> HttpResponse:
    title, button = gettext("Sign out this device?"), gettext("Sign out")
    return _question_page(request, user, form, _Question(title, texts, button, *_rows([device])))


def _question_page(
    request: HttpRequest,
    user: AbstractBaseUser,
    form: reauthentication.PasswordForm | None,
    question: _Question,
) -> HttpResponse:
    """Return the page that asks before devices are signed out. Its form repeats the request with the password."""
    context = {
        "title": question.title,
        "texts": question.texts,
        "button": question.button,
        "row": question.row,
        "form": form,
        "username": user.get_username(),
        "time_zone_script": zone_js(request),
    }
    asking = render_in_site(request, "question.html", context)
    if form is not None and form.is_locked:
        asking.status_code = 429
        asking["Retry-After"] = str(reauthentication.RECENT_SECONDS)
    return asking


def render_in_site(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    """
    Render one of our templates within the site's ``base.html``, or within a plain one if the site has none.

    Other pages can't show it in a frame, where users could press its buttons without seeing them.
    """
    site_base = Engine.get_default().select_template(["base.html", "django_redsess/plain.html"])
    response = render(request, f"django_redsess/{template}", {**context, "site_base": site_base})
    # Set here because the site may lack Django's middleware, or allow frames.
    response["X-Frame-Options"] = "DENY"
    return response


def password_change_url() -> str:
    """Return the path where users change their password. ``""`` if the site has none."""
    for name in PASSWORD_CHANGES:
        with suppress(NoReverseMatch):
            return reverse(name)
    return ""


def _rows(sessions: Sequence[online.Session | Device]) -> list[dict[str, Any]]:
    """Return devices as templates show them."""
    found = places.find_places(each.address for each in sessions)
    return [
        {
            "session": each,
            "device": _device_of(each),
            "icon": device_icon(each.user_agent),
            "place": found.get(each.address, ""),
            "seen": when(each.last_seen_at),
        }
        for each in sessions
    ]


def _ended_lately(user: AbstractBaseUser) -> list[dict[str, object]]:
    """Return the user's last ended sessions as rows of the template."""
    ended = past_sign_ins.ended_sign_ins(user_id_of(user), limit=LATELY_MAX)
    maximum = user_limit.maximum_of(user) if ended else None
    return [
        {
            "sign_in": each,
            "device": _device_of(each),
            "icon": device_icon(each.user_agent),
            "how": capfirst(past_sign_ins.own_end_text(each, maximum=maximum)),
            "unproven": capfirst(past_sign_ins.unproven_text(each)),
            # Users need not read the message that they sent to their own device.
            "message": "" if each.ended_by == each.user_id else message_in_words(each.stored_message, isolated),
        }
        for each in past_sign_ins.with_places(ended)
    ]


def find_own(user: AbstractBaseUser, sid: str | None) -> list[online.Session]:
    """Return a list with the session ``sid``, or an empty list if it is not a session of ``user``."""
    found = online.get(sid) if sid else None
    return [found] if found and is_own_session(user, found) else []


def _find_device(user: AbstractBaseUser, sid: str) -> online.Session | None:
    """Return the session ``sid`` of the user. One that got another key since a page named it has another sid now."""
    return next((each for each in online.find([sid], follow=True) if is_own_session(user, each)), None)


def _keep_present_device(request: HttpRequest) -> HttpResponse:
    text = gettext("This is the device that you are using. Use the site’s own button to sign out here.")
    messages.warning(request, text, fail_silently=True)
    return redirect(LIST)


def _count_others(user: AbstractBaseUser, session: SessionStore) -> int:
    return online.count(user_ids=[user_id_of(user)]) - len(find_own(user, session.stored_sid))


def _device_of(session: online.Session | Device | past_sign_ins.PastSignIn) -> str:
    return device_name(session.user_agent) or gettext("Unknown device")
