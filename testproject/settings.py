"""Settings of the demo shop. They are for a demonstration on your own machine, not for a site on the internet."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from django.conf.locale import LANG_INFO
from django.utils.translation import to_language

BASE_DIR = Path(__file__).resolve().parent.parent

# Here `make demo` keeps its database, and a file that describes the running demo.
DEMO_DIR = Path(os.environ.get("REDSESS_DEMO_DIR", BASE_DIR / ".demo"))
# SQLite does not create the folder of its file.
DEMO_DIR.mkdir(parents=True, exist_ok=True)


def running_demo(port: str = os.environ.get("PORT") or "8000") -> dict[str, Any]:
    """Return ``redis_url``, ``partitions`` and so on of the demo on ``port``, or ``{}`` if none runs there."""
    try:
        state: dict[str, Any] = json.loads((DEMO_DIR / f"{port}.json").read_text())
    except (OSError, ValueError):
        return {}
    return state


def _partitions() -> int | str:
    # A value that is not a number is refused by the system check of REDSESS.
    given = os.environ.get("PARTITIONS") or "1"
    return int(given) if given.isdecimal() else given


def session_cache(location: str) -> dict[str, Any]:
    """Return the entry of CACHES for sessions at ``location``: a server's URL, or those of a cluster with commas."""
    options: dict[str, Any] = {"SOCKET_CONNECT_TIMEOUT": 0.5, "SOCKET_TIMEOUT": 0.5}
    if "," in location:
        options["CONNECTION_FACTORY"] = "django_redsess.cluster.ClusterConnectionFactory"
    return {"BACKEND": "django_redis.cache.RedisCache", "LOCATION": location, "OPTIONS": options}


REDIS_URL = os.environ.get("REDIS_URL")
# REDIS_URL wins over the server of a running demo.
_DEMO = {} if REDIS_URL else running_demo()

# A command beside the demo has its apps, its session engine and its places. Tests that run beside it have not.
_BESIDE = _DEMO if Path(sys.argv[0]).name == "manage.py" else {}

SECRET_KEY = "the demo shop's key, known to everyone: never use it for a real site"
DEBUG = True
ALLOWED_HOSTS = ["*"]
ROOT_URLCONF = "testproject.urls"
WSGI_APPLICATION = "testproject.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
STATIC_URL = "static/"
USE_TZ = True
TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
# The package's own: in any other one, Django's words and ours would mix.
_LOCALES = sorted(path.name for path in (BASE_DIR / "django_redsess" / "locale").iterdir() if path.is_dir())
LANGUAGES = [(code, LANG_INFO[code]["name_local"]) for code in ("en", *map(to_language, _LOCALES))]

LOCALE_PATHS = [BASE_DIR / "testproject" / "locale"]

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "shop:home"
LOGOUT_REDIRECT_URL = "shop:home"

# A replay signs in thousands of users; Django's default hasher would take a quarter of a second for each.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "testproject.shop",  # Before django_redsess: it replaces some of its templates.
    "django_redsess",
    "django_redsess.contrib.history",
    "django_redsess.contrib.moving",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "ninja",  # Has the scripts of the API's page.
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django_redsess.middleware.SessionMiddleware",
    "django.middleware.locale.LocaleMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_redsess.middleware.ViewedItemsMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "testproject.shop.basket.pieces",
            ],
        },
    },
]

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": DEMO_DIR / "db.sqlite3",
        # Many threads write: a transaction waits for the lock at its start, rather than fail in the middle.
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    },
}

CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "sessions": session_cache(REDIS_URL or _DEMO.get("redis_url") or "redis://127.0.0.1:6379/0"),
}

SESSION_ENGINE = "django_redsess.backend"
SESSION_CACHE_ALIAS = "sessions"

REDSESS: dict[str, Any] = {
    # A store keeps its number of partitions for ever: another number is refused at the first use.
    "PARTITIONS": _DEMO.get("partitions") or _partitions(),
    # Only the process that signs users in needs these two: the demo. A replay signs in through the demo's pages.
    "MAX_SESSIONS_PER_USER": 3,
    "SESSION_LIMIT_POLICY": os.environ.get("LIMIT_POLICY") or "end_oldest",
    "VIEWED_VIEWS": {"shop:product": "slug"},
    "VIEWED_RESOLVE": "testproject.shop.models.products_by_slug",
    # The demo's own.
    "PLACES": os.environ.get("PLACES") or _BESIDE.get("PLACES"),
}

# In the demo, mails are written to files.
if url := os.environ.get("DEMO_URL"):
    EMAIL_BACKEND = "django.core.mail.backends.filebased.EmailBackend"
    EMAIL_FILE_PATH = DEMO_DIR / "mails"
    DEFAULT_FROM_EMAIL = "Lull & Gust <shop@shop.example>"
    REDSESS |= {"HISTORY_NOTIFY": True, "HISTORY_SITE_URL": url, "HISTORY_MAILER": "testproject.mails.send"}

# Only in the demo, and beside it: the tests of the shop's pages and of the engine have it where they are about it.
if url := os.environ.get("DEMO_URL") or _BESIDE.get("url"):
    INSTALLED_APPS.append("django_redsess.contrib.device_bound")
    # Without HTTPS, browsers would not send such cookies.
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = url.startswith("https:")

if (os.environ.get("HISTORY") or _BESIDE.get("HISTORY")) == "0":
    INSTALLED_APPS.remove("django_redsess.contrib.history")
    REDSESS.pop("HISTORY_NOTIFY", None)

if (os.environ.get("MOVE") or _BESIDE.get("MOVE")) == "db":
    SESSION_ENGINE = "django_redsess.contrib.moving"
    # The first step. The page of testproject/shop/moving.py goes on.
    REDSESS |= {"MOVE_FROM": "django.contrib.sessions.backends.db", "MOVES": False}
