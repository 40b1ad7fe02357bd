"""System checks of ``REDSESS``, of Django's own settings, and of models that sessions depend on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from importlib import import_module
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import global_settings, settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.messages.middleware import MessageMiddleware
from django.contrib.messages.storage.cookie import CookieStorage
from django.contrib.sessions.middleware import SessionMiddleware as DjangoSessionMiddleware
from django.core import checks
from django.middleware.csrf import CsrfViewMiddleware
from django.shortcuts import resolve_url
from django.urls import NoReverseMatch, get_script_prefix, is_valid_path, reverse
from django.utils.module_loading import import_string

from django_redsess import observers
from django_redsess.backend import is_in_use
from django_redsess.conf import SETTINGS, conf, is_path
from django_redsess.documentation import page_url
from django_redsess.middleware import SessionMiddleware, ViewedItemsMiddleware, places_of
from django_redsess.online.networks import NetworkListError, read_list
from django_redsess.session import user_limit
from django_redsess.session.client import parse_network

SYNONYMS: Mapping[str, Sequence[str]] = {
    "ON_LIMIT": ("SESSION_LIMIT_POLICY",),
    "KEY_PREFIX": ("PREFIX",),
    "MAX_AGE": ("ABSOLUTE_TIMEOUT",),
    "MAX_DEVICES": ("MAX_SESSIONS_PER_USER",),
    "SLIDING_EXPIRY": ("SLIDING",),
    "PASSIVE_URLS": ("PASSIVE_PATHS",),
    "GEOIP": ("PLACES",),
    "ENCRYPTION": ("ENCRYPT", "ENCRYPTION_KEYS"),
    "PROXIES": ("TRUSTED_PROXY_COUNT",),
    "TRUSTED_PROXIES": ("TRUSTED_PROXY_COUNT",),
    "TIMEOUT": ("IDLE_TIMEOUT", "ABSOLUTE_TIMEOUT"),
}
"""Settings, by the names under which developers look for them."""

OURS = "REDSESS"

WORDS_OF_MANY = frozenset(("END", "MAX", "ON", "OF", "PER", "SESSION", "SESSIONS", "SITE", "USER"))
"""Words of settings by which two of them are not alike yet."""

ENGINE, MIDDLEWARE = "django_redsess.backend", "django_redsess.middleware.SessionMiddleware"
OWN_MIDDLEWARE = (MIDDLEWARE, "django_redsess.middleware.ViewedItemsMiddleware")
ENGINES_OF_DJANGO = tuple(
    f"django.contrib.sessions.backends.{name}" for name in ("db", "cache", "cached_db", "file", "signed_cookies")
)

PEERS = ("qsessions", "user_sessions")
"""Packages whose session middleware calls their own engine in a way that no other engine takes."""

_LEVELS: dict[str, Any] = {"E": checks.Error, "W": checks.Warning, "I": checks.Info}


def problem(number: str, message: str, hint: str | None = None) -> checks.CheckMessage:
    """Return what a check has found. The first letter of its number tells how bad it is."""
    each: checks.CheckMessage = _LEVELS[number[0]](message, hint=hint, id=f"django_redsess.{number}")
    return each


@checks.register(checks.Tags.security)
def check_settings(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse unknown names and wrong types in ``settings.REDSESS``."""
    redsess = getattr(settings, "REDSESS", {})
    if not isinstance(redsess, Mapping):
        return [problem("E001", "REDSESS must be a dict.", "Write it as REDSESS = {'IDLE_TIMEOUT': 1800}.")]
    default = "Leave it out to use its default."
    unknown = [name for name in redsess if name not in SETTINGS]
    wrong = [name for name, each in SETTINGS.items() if name in redsess and not each.rule.allows(redsess[name])]
    return [problem("E002", f"REDSESS has no setting {name!r}.", _instead_of(name)) for name in unknown] + [
        problem("E003", SETTINGS[name].fault_of(redsess[name]), default) for name in wrong
    ]


def _instead_of(name: object) -> str:
    """Return a hint for an unknown name in REDSESS: what is like it, or where all names are."""
    given = str(name).upper()
    if hasattr(global_settings, given):
        return f"{given} is one of Django's own settings: set it outside of REDSESS."
    names = SYNONYMS.get(given) or get_close_matches(given, SETTINGS, n=1, cutoff=0.8)
    if not names:
        words = set(given.split("_"))
        alike = [each for each in SETTINGS if words & (set(each.split("_")) - WORDS_OF_MANY)]
        names = get_close_matches(given, alike, n=2, cutoff=0.4)
    meant = f"Did you mean {' or '.join(map(repr, names))}? " if names else ""
    return f"{meant}All settings: {page_url('reference/settings')}"


@checks.register(checks.Tags.security)
def check_name(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of settings that are meant for this app, and that it does not read."""
    found = []
    for name in dir(settings):
        if name.startswith(f"{OURS}_"):
            hint = f"Write it as REDSESS = {{{name.removeprefix(f'{OURS}_')!r}: …}}."
        elif name != OURS and get_close_matches(name, (OURS, f"DJANGO_{OURS}"), cutoff=0.8):
            hint = "Did you mean REDSESS?"
        else:
            continue
        found.append(problem("W131", f"The setting {name} has no effect: this app reads REDSESS.", hint))
    return found


@checks.register(checks.Tags.security)
def check_effects(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of a setting that has no effect: a MAX_GUESTS above MAX_SESSIONS."""
    if check_settings():
        return []
    found = []
    if conf.MAX_GUESTS is not None and conf.MAX_GUESTS > conf.MAX_SESSIONS:
        message = f"{conf.MAX_GUESTS:,} is above MAX_SESSIONS, {conf.MAX_SESSIONS:,}."
        hint = "MAX_SESSIONS includes guests' sessions: set MAX_GUESTS lower, or leave it out."
        found.append(problem("W024", f"REDSESS['MAX_GUESTS'] has no effect: {message}", hint))
    return found


@checks.register(checks.Tags.security)
def check_engine(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if another engine keeps the sessions: the pages of this app would list nobody."""
    if is_in_use():
        return []
    if fault := _fault_of_engine():
        return [fault]
    message = f"SESSION_ENGINE is {settings.SESSION_ENGINE!r}: another engine keeps the sessions, and nobody is listed."
    hint = (
        f"Set SESSION_ENGINE = {ENGINE!r}. If you want to keep the other engine, add 'django_redsess.W018' to "
        "SILENCED_SYSTEM_CHECKS."
    )
    return [problem("W018", message, hint)]


def _fault_of_engine() -> checks.CheckMessage | None:
    """Say that SESSION_ENGINE is no engine, as one with a typing error is none."""
    name = settings.SESSION_ENGINE
    try:
        if hasattr(import_module(name), "SessionStore"):
            return None
        wrong = "which has no SessionStore"
    except ImportError:
        wrong = "which can't be imported"
    except Exception:  # It may be any code. Django reports the error when it starts to serve.
        return None
    own = (ENGINE, "django_redsess.contrib.moving", "django_redsess.contrib.moving.growing")
    named = get_close_matches(str(name), (*own, *ENGINES_OF_DJANGO), n=1, cutoff=0.85)
    meant = named[0] if named and not str(name).startswith(ENGINE) else ENGINE
    message = f"SESSION_ENGINE is {name!r}, {wrong}: every request that needs a session fails."
    return problem("E129", message, f"Did you mean {meant!r}? Set SESSION_ENGINE = {meant!r}.")


@checks.register(checks.Tags.security)
def check_middleware(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require one session middleware, ours, above every middleware that needs the session."""
    if missing := [path for path in settings.MIDDLEWARE if _is_missing(path)]:
        message = f"MIDDLEWARE has {missing[0]!r}, which does not exist: the site does not start."
        named = get_close_matches(missing[0], OWN_MIDDLEWARE, n=1, cutoff=0) or [MIDDLEWARE]
        return [problem("E130", message, f"Did you mean {named[0]!r}?")]
    if is_in_use() and (peers := [path for path in settings.MIDDLEWARE if _is_of_peer(path)]):
        message = f"MIDDLEWARE has {peers[0]!r}, which needs the engine of its own package: each request fails."
        return [problem("E058", message, "Put 'django_redsess.middleware.SessionMiddleware' in its place.")]
    found = [settings.MIDDLEWARE[at] for at in places_of(DjangoSessionMiddleware)]
    ours = [settings.MIDDLEWARE[at] for at in places_of(SessionMiddleware)]
    if ours and len(found) > 1:
        message = f"MIDDLEWARE has more than one session middleware: {', '.join(found)}."
        place = "" if found[0] == ours[0] else f", in the place of {found[0]!r}"
        hint = (
            f"Each replaces the session of the one above it, and all of them save theirs. Keep {ours[0]!r} only{place}."
        )
        return [problem("E006", message, hint)]
    if ours:
        needing = [path for path in settings.MIDDLEWARE[: settings.MIDDLEWARE.index(ours[0])] if _needs_session(path)]
        if not needing:
            return []
        message = f"In MIDDLEWARE, {ours[0]!r} is below {needing[0]!r}, which needs the session."
        # Django's own message tells people to add its SessionMiddleware.
        hint = f"Move it up, above {needing[0]!r}. Do not add Django's SessionMiddleware."
        return [problem("E019", message, hint)]
    if not is_in_use():
        return []
    own = [path for path in found if import_string(path) is not DjangoSessionMiddleware]
    derive = f": derive {own[0]!r} from it" if own else ""
    hint = (
        f"Put it in place of Django's SessionMiddleware{derive}. Without it, sessions have no address, browser and "
        "time of the last visit, cookies are not renewed, and an outage of the server is not answered with 503."
    )
    return [problem("W005", "'django_redsess.middleware.SessionMiddleware' is not in MIDDLEWARE.", hint)]


@checks.register(checks.Tags.security, deploy=True)
def check_cookie(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn about the cookie's flags as Django does, which only does so if its own app or middleware is installed."""
    django_warns = (
        "django.contrib.sessions" in settings.INSTALLED_APPS
        or "django.contrib.sessions.middleware.SessionMiddleware" in settings.MIDDLEWARE
    )
    if django_warns or not (is_in_use() or places_of(SessionMiddleware)):
        return []
    found = []
    if settings.SESSION_COOKIE_SECURE is not True:
        hint = "Set it to True. Otherwise the cookie is also sent over plain HTTP, where others can read it."
        found.append(problem("W021", "SESSION_COOKIE_SECURE is not True.", hint))
    if settings.SESSION_COOKIE_HTTPONLY is not True:
        hint = "Set it to True. Otherwise every script in your pages can read the cookie, even an injected one."
        found.append(problem("W022", "SESSION_COOKIE_HTTPONLY is not True.", hint))
    return found


@checks.register(checks.Tags.security)
def check_viewed(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require the middleware that records views, below the session middleware, if VIEWED_VIEWS is set."""
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping):
        return []
    found = []
    recording, opening = places_of(ViewedItemsMiddleware), places_of(DjangoSessionMiddleware)
    if conf.VIEWED_VIEWS and not recording:
        message = "REDSESS['VIEWED_VIEWS'] is set, but no middleware records those views."
        hint = "Add 'django_redsess.middleware.ViewedItemsMiddleware' to MIDDLEWARE, below the session middleware."
        found.append(problem("W014", message, hint))
    if recording and opening and min(recording) < min(opening):
        message = "ViewedItemsMiddleware is above the session middleware: no view is recorded."
        found.append(problem("E015", message, f"Move it in MIDDLEWARE, below {settings.MIDDLEWARE[min(opening)]!r}."))
    return found


@checks.register(checks.Tags.security)
def check_functions(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require that what settings name by paths can be imported. Warn of a HISTORY_NOTIFY without the app."""
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping):
        return []
    found = []
    if is_path(conf.VIEWED_RESOLVE) and not is_function(conf.VIEWED_RESOLVE):
        message = f"REDSESS['VIEWED_RESOLVE'], {conf.VIEWED_RESOLVE!r}, can't be imported or called."
        hint = "It must name a function that takes a list of item ids and returns a dict of ids to objects."
        found.append(problem("E016", message, hint))
    path = conf.MAX_SESSIONS_PER_USER
    if is_path(path) and not is_function(path):
        message = f"{user_limit.MAXIMUM}, {path!r}, can't be imported or called: nobody could sign in."
        hint = "It must name a function that takes a user and returns an integer or None."
        found.append(problem("E017", message, hint))
    if is_path(conf.PLACES) and not is_function(conf.PLACES):
        message = f"REDSESS['PLACES'], {conf.PLACES!r}, can't be imported or called: no places are shown."
        hint = "It must name a function that takes a list of addresses and returns a dict of addresses to texts."
        if conf.PLACES == "django_redsess.contrib.geoip2.places":
            hint = "It needs more packages: pip install 'django-redsess[places]'."
        found.append(problem("E066", message, hint))
    if is_path(conf.USER_TIME_ZONE) and not is_function(conf.USER_TIME_ZONE):
        message = f"REDSESS['USER_TIME_ZONE'], {conf.USER_TIME_ZONE!r}, can't be imported or called."
        hint = "It must name a function that takes a user and returns a time zone, such as 'Europe/Paris', or None."
        found.append(problem("E104", message, hint))
    if is_path(conf.PERMISSIONS) and not _is_class_of_rules(conf.PERMISSIONS):
        message = f"REDSESS['PERMISSIONS'], {conf.PERMISSIONS!r}, is no class of rules: no page of the admin is shown."
        hint = "It must name a class that derives from django_redsess.permissions.Rules and takes no arguments."
        found.append(problem("E098", message, hint))
    for left_out in observers.not_made:
        message = f"REDSESS['OBSERVERS'] names {left_out.path!r}, which can't be made: {left_out.why}."
        found.append(problem("E091", message, left_out.hint))
    if is_path(conf.HISTORY_MAILER) and not is_function(conf.HISTORY_MAILER):
        message = f"REDSESS['HISTORY_MAILER'], {conf.HISTORY_MAILER!r}, can't be imported or called: no mail is sent."
        hint = "It must name a function that takes a django.core.mail.EmailMultiAlternatives."
        found.append(problem("E067", message, hint))
    if is_path(conf.HISTORY_LANGUAGE) and not is_function(conf.HISTORY_LANGUAGE):
        message = f"REDSESS['HISTORY_LANGUAGE'], {conf.HISTORY_LANGUAGE!r}, can't be imported or called."
        hint = "It must name a function that takes a user and returns a language code, such as 'fr'."
        found.append(problem("E083", message, hint))
    if conf.HISTORY_NOTIFY is True and not apps.is_installed("django_redsess.contrib.history"):
        app = "the app 'django_redsess.contrib.history' is not in INSTALLED_APPS."
        message = f"REDSESS['HISTORY_NOTIFY'] has no effect: {app}"
        found.append(problem("W068", message, "Add the app and run manage.py migrate, or leave the setting out."))
    has_site = apps.is_installed("django.contrib.sites") and hasattr(settings, "SITE_ID")
    if conf.HISTORY_NOTIFY is True and not (conf.HISTORY_SITE_URL or has_site):
        message = "Mails about new devices have no links: no setting has the address of this site."
        hint = "Set REDSESS['HISTORY_SITE_URL'], such as 'https://shop.example', or use django.contrib.sites."
        found.append(problem("W082", message, hint))
    return found


@checks.register(checks.Tags.security)
def check_networks(**kwargs: Any) -> list[checks.CheckMessage]:
    """Require that the files of NETWORKS can be read, and that their names are not taken for networks."""
    if not isinstance(getattr(settings, "REDSESS", {}), Mapping) or not SETTINGS["NETWORKS"].rule.allows(conf.NETWORKS):
        return []
    found = []
    for name in conf.NETWORKS:
        try:
            read_list(name)
        except NetworkListError as error:
            hint = "It must have one address or network a line. What stands after # is a comment."
            found.append(problem("E135", f"REDSESS['NETWORKS'][{name!r}] can't be used: {error}", hint))
        if parse_network(name) is not None:
            message = f"REDSESS['NETWORKS'] has a list with the name {name!r}, which is a network."
            found.append(problem("E136", message, "Choose another name, such as 'tor'."))
    return found


@checks.register(checks.Tags.urls)
def check_login_url(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if the pages of users' own sessions are there, and LOGIN_URL leads nowhere."""
    try:
        reverse("django_redsess:sessions")
    except Exception:  # The pages are not part of this site, or the URLs can't be imported, as Django reports.
        return []
    if _leads_somewhere(settings.LOGIN_URL):
        return []
    message = f"LOGIN_URL is {str(settings.LOGIN_URL)!r}, which is no URL of this site."
    hint = (
        'Visitors of "Your devices" who are not signed in are sent there, also from links in mails. Set LOGIN_URL to '
        "the path, or to the name of the URL, of your sign-in page."
    )
    if _leads_somewhere("admin:login"):
        hint += " Where only staff sign in, 'admin:login' is that of the admin."
    return [problem("W084", message, hint)]


def _leads_somewhere(login_url: Any) -> bool:
    try:
        url = urlsplit(resolve_url(login_url))
    except NoReverseMatch:
        return False
    if url.netloc:
        return True  # Another site signs users in.
    path = "/" + url.path.removeprefix(get_script_prefix()).lstrip("/")
    # Redirects of Django's middleware add the language and the slash.
    starts = ["", f"/{settings.LANGUAGE_CODE}"]
    return any(is_valid_path(start + path + end) for start in starts for end in ("", "/"))


@checks.register(checks.Tags.security)
def check_serializer(**kwargs: Any) -> list[checks.CheckMessage]:
    """Refuse a SESSION_SERIALIZER that does not work, and warn of one that pickles."""
    if not is_in_use():
        return []
    name, json = settings.SESSION_SERIALIZER, "'django.contrib.sessions.serializers.JSONSerializer'"
    try:
        serializer = import_string(name)()
        data = serializer.dumps({})
        works = isinstance(data, bytes) and serializer.loads(data) == {}
    except Exception:  # It may be any code.
        works = False
    if not works:
        message = f"SESSION_SERIALIZER {name!r} can't be imported, or can't read its own output."
        hint = f"It must name a class with dumps(), which returns bytes, and loads(). Django's own is {json}."
        return [problem("E012", message, hint)]
    # MessagePack begins with this byte, too.
    if not (data.startswith(b"\x80") and data.endswith(b".")):
        return []
    hint = (
        "Loading a pickle can run any code: an attacker who writes to Redis and knows SECRET_KEY takes over the site."
    )
    return [problem("W013", f"SESSION_SERIALIZER {name!r} pickles.", f"{hint} Use {json}.")]


def _is_missing(path: str) -> bool:
    """Tell whether ``path`` is meant as a middleware of this app, and names nothing in it."""
    if not path.startswith("django_redsess."):
        return False
    try:
        import_string(path)
    except (ImportError, AttributeError):
        return True
    return False


def _is_of_peer(path: str) -> bool:
    # The package need not be installed any more, and a class of the site's own may be derived from its class.
    modules = [path]
    with suppress(Exception):  # It may be any code. Django reports the error when it starts to serve.
        modules += [each.__module__ for each in import_string(path).__mro__]
    return any(module.partition(".")[0] in PEERS for module in modules)


def is_function(path: Any) -> bool:
    """Tell whether ``path`` is the dotted path of something that can be imported and called."""
    try:
        return callable(import_string(path))
    except Exception:  # It may be any code.
        return False


def _is_class_of_rules(path: str) -> bool:
    # Imported late: it imports models, and a site without this app in INSTALLED_APPS has none.
    from django_redsess.permissions import Rules

    try:
        return isinstance(import_string(path)(), Rules)
    except Exception:  # It may be any code.
        return False


def _needs_session(path: str) -> bool:
    try:
        middleware = import_string(path)
        # Imported late: without django.contrib.auth in INSTALLED_APPS, its middleware can't be imported.
        if issubclass(middleware, CsrfViewMiddleware):
            return settings.CSRF_USE_SESSIONS
        if issubclass(middleware, MessageMiddleware):
            return not issubclass(import_string(settings.MESSAGE_STORAGE), CookieStorage)
        return issubclass(middleware, import_string("django.contrib.auth.middleware.AuthenticationMiddleware"))
    except Exception:  # It may be any code. Django reports the error when it starts to serve.
        return False


@checks.register(checks.Tags.models)
def check_relations(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of each relation to ``django.contrib.sessions.models.Session``: there are no rows to refer to."""
    if not is_in_use() or not apps.is_installed("django.contrib.sessions"):
        return []
    # Imported late: the model exists only where its app is installed.
    from django.contrib.sessions.models import Session

    names = [
        f"{field.model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in (*model._meta.local_fields, *model._meta.local_many_to_many)
        if isinstance(field.related_model, type) and issubclass(field.related_model, Session) and not field.auto_created
    ]
    if not names:
        return []
    message = f"The engine writes no rows of Session for these relations: {', '.join(names)}."
    hint = (
        "Store request.session.sid instead, 20 characters. django_redsess.online finds and ends sessions by their sid."
    )
    return [problem("W057", message, hint)]


@checks.register(checks.Tags.security)
def check_user_tables(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn where users of two tables may have one primary key, and so one another's sessions."""
    redsess = getattr(settings, "REDSESS", {})
    told_apart = isinstance(redsess, Mapping) and callable(redsess.get("PREFIX"))
    if told_apart or not is_in_use() or not apps.is_installed("django.contrib.auth"):
        return []
    effect = "users with the same primary key share one list of sessions and one limit, and are ended together."
    hint = "Set REDSESS['PREFIX'] to a function that returns another text for each table of users."
    return [problem("W046", f"{told}: {effect}", hint) for told in (*_find_tenants(), *_find_user_models())]


def _find_tenants() -> Iterator[str]:
    # The setting of django-tenants: these apps have tables in the schema of each tenant.
    tenant_apps, name = getattr(settings, "TENANT_APPS", ()), apps.get_app_config(get_user_model()._meta.app_label).name
    if any(each == name or each.startswith(f"{name}.apps.") for each in tenant_apps):
        yield f"TENANT_APPS has {name}, so each tenant has a table of users"


def _find_user_models() -> Iterator[str]:
    user_model = get_user_model()
    for model in apps.get_models():
        # One that derives from the other has its primary key.
        related = issubclass(model, user_model) or issubclass(user_model, model)
        if issubclass(model, AbstractBaseUser) and not (related or model._meta.proxy or model._meta.swapped):
            label = model._meta.label
            yield f"{label} is a model of users beside {user_model._meta.label}, and if its users also sign in here"
