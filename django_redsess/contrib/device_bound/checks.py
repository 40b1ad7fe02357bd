"""System checks of what binds sessions to devices: URLs, middleware, settings of cookies."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from django.conf import settings
from django.core import checks
from django.urls import NoReverseMatch, Resolver404, get_script_prefix, resolve, reverse
from django.utils import translation
from django.utils.module_loading import import_string

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import check_settings, is_function, problem
from django_redsess.conf import OBSERVE, conf
from django_redsess.contrib.device_bound import views
from django_redsess.contrib.device_bound.sockets import opens_without_proof
from django_redsess.middleware import SessionMiddleware, places_of

SECONDS_MIN = 300
"""Chromium signs a few times in five minutes, and sends requests without a proof then."""

MOVING = "django_redsess.contrib.moving"
URLS = "django_redsess.contrib.device_bound.urls"
WELL_KNOWN = "/.well-known/device-bound-sessions"


@checks.register(checks.Tags.urls)
def check_urls(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require that both endpoints are at one path in all languages, and that no other view answers there."""
    try:
        paths = _paths()
        with translation.override("de" if settings.LANGUAGE_CODE.startswith("en") else "en"):
            by_language = _paths() != paths
        taken = [path for path in paths if not _is_ours(path)]
    except NoReverseMatch:
        message = f"The URLs of {URLS!r} are not included: no session is bound to a device."
        return [problem("E120", message, f"Add path('device-bound/', include({URLS!r})) to your urls.py.")]
    except Exception:  # The URLs can't be imported, as Django reports.
        return []
    if by_language:
        message = f"The URLs of {URLS!r} depend on the language: browsers are refused there, and forget their keys."
        return [problem("E120", message, "Include them outside of i18n_patterns().")]
    if not taken:
        return []
    message = f"Another view of this site answers at {taken[0]!r}: browsers forget their keys."
    return [problem("E120", message, f"Include {URLS!r} above the pattern that matches, or below another path.")]


@checks.register(checks.Tags.security)
def check_middleware(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require our session middleware: it tells the guard which request has brought a session."""
    # Another engine asks no guard: see W018.
    if places_of(SessionMiddleware) or not is_in_use():
        return []
    message = "MIDDLEWARE lacks 'django_redsess.middleware.SessionMiddleware': bound sessions open without a proof."
    return [problem("E121", message, "Put it in place of Django's SessionMiddleware.")]


@checks.register(checks.Tags.security)
def check_device_bound(**kwargs: Any) -> list[checks.CheckMessage]:
    """Tell of settings by which sessions are not bound, nobody is refused, or users are locked out."""
    if check_settings():
        return []
    found, seconds, required = [], conf.DEVICE_BOUND_SECONDS, conf.DEVICE_BOUND_REQUIRED
    if seconds < SECONDS_MIN:
        message = (
            f"REDSESS['DEVICE_BOUND_SECONDS'] is {seconds}: browsers limit how often they sign. Users are refused."
        )
        found.append(problem("W122", message, f"Set it to {SECONDS_MIN} at least, or leave it out."))
    if required is not None and not is_function(required):
        message = f"REDSESS['DEVICE_BOUND_REQUIRED'], {required!r}, can't be imported or called: nobody can sign in."
        found.append(problem("E123", message, "It must name a function that takes a user and returns True or False."))
    if conf.DEVICE_BOUND == OBSERVE:
        message = "REDSESS['DEVICE_BOUND'] is 'observe': a copy of a bound session's cookie is told, and not refused."
        found.append(problem("I124", message, "Leave it out when you have seen enough."))
    if settings.SESSION_ENGINE == MOVING and not conf.MOVES:
        message = "Sessions are still used in the store that they move from: none is bound to a device."
        found.append(problem("I125", message, "With MOVES = True, sessions that begin are bound."))
    return found


@checks.register(checks.Tags.urls)
def check_domain(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if sessions that begin on a subdomain are not bound: browsers ask the domain of the cookie first."""
    domain = settings.SESSION_COOKIE_DOMAIN
    if not domain or check_settings():
        return []
    reason = "" if conf.DEVICE_BOUND_ORIGINS else "REDSESS['DEVICE_BOUND_ORIGINS'] is empty"
    try:
        if not (reason or _is_ours(WELL_KNOWN)):
            reason = f"this site does not have the file {WELL_KNOWN}"
    except Exception:  # The URLs can't be imported, as Django reports.
        return []
    if not reason:
        return []
    message = f"SESSION_COOKIE_DOMAIN is {domain!r}, and no session that begins on a subdomain is bound: {reason}."
    hint = (
        "Set REDSESS['DEVICE_BOUND_ORIGINS'] to the origins where users sign in, such as "
        f"('https://shop.example.com',), and add path({WELL_KNOWN[1:]!r}, well_known) to your urls.py, with the view "
        "of django_redsess.contrib.device_bound.views. Silence this if users sign in at the domain itself only, or if "
        "another site has the file."
    )
    return [problem("W126", message, hint)]


@checks.register(checks.Tags.security, deploy=True)
def check_https(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if nothing tells Django that requests come over HTTPS: over HTTP, no browser is offered a binding."""
    if settings.SESSION_COOKIE_SECURE or settings.SECURE_PROXY_SSL_HEADER:
        return []
    message = "Behind a proxy that ends HTTPS, no session is bound: Django takes all requests for plain HTTP."
    return [problem("W127", message, "Set SESSION_COOKIE_SECURE to True, or SECURE_PROXY_SSL_HEADER.")]


@checks.register(checks.Tags.security)
def check_sockets(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of sockets of Channels that open bound sessions without a proof."""
    path = getattr(settings, "ASGI_APPLICATION", None)
    if path is None or find_spec("channels") is None:
        return []
    try:
        is_open = opens_without_proof(import_string(path))
    except Exception:  # Its imports may fail with any error. The server reports it.
        return []
    if not is_open:
        return []
    message = f"A part of {path!r} has sessions of Channels: sockets open bound sessions without a proof."
    hint = (
        "Replace AuthMiddlewareStack(...) by CookieMiddleware(SessionMiddleware(SessionProofMiddleware("
        "AuthMiddleware(...)))), with the third one from django_redsess.contrib.device_bound.sockets."
    )
    return [problem("W128", message, hint)]


def _paths() -> list[str]:
    return [reverse(f"redsess_device_bound:{name}") for name in ("register", "refresh")]


def _is_ours(path: str) -> bool:
    """Tell whether a view of this app answers at ``path``."""
    try:
        view = resolve("/" + path.removeprefix(get_script_prefix()).lstrip("/")).func
    except Resolver404:
        return False
    return view in (views.register, views.refresh, views.well_known)
