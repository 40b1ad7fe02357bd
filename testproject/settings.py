"""Settings of the demo shop. They suit a demonstration on one's own machine, not a site on the internet."""

import json
import os
from pathlib import Path
from typing import Any

BASE_DIR = Path(__file__).resolve().parent.parent

# What `make demo` keeps between runs, and where it says which server it started.
DEMO_DIR = Path(os.environ.get("REDSESS_DEMO_DIR", BASE_DIR / ".demo"))
# SQLite makes a file, but not its folder.
DEMO_DIR.mkdir(parents=True, exist_ok=True)


def running_demo(port: str = os.environ.get("PORT") or "8000") -> dict[str, Any]:
    """What the demo on ``port`` tells of itself, ``redis_url`` and ``partitions``; nothing where none runs there."""
    try:
        told: dict[str, Any] = json.loads((DEMO_DIR / f"{port}.json").read_text())
    except (OSError, ValueError):
        return {}
    return told


def _partitions() -> int | str:
    # What is no number is left for the system check of REDSESS to refuse.
    given = os.environ.get("PARTITIONS") or "1"
    return int(given) if given.isdecimal() else given


REDIS_URL = os.environ.get("REDIS_URL")
# Who names a server means that one, and not the demo's.
_DEMO = {} if REDIS_URL else running_demo()

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

LOGIN_URL = "login"
LOGIN_REDIRECT_URL = "shop:home"
LOGOUT_REDIRECT_URL = "shop:home"

# A replay signs in thousands of people; Django's default hasher would take a quarter of a second for each.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

INSTALLED_APPS = [
    "testproject.shop",  # before django_redsess, some of whose templates it replaces
    # Before Django's own, which note at a sign-in when it was: of one that is refused they are not told then.
    "django_redsess",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django_redsess.middleware.SessionMiddleware",
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
        # Many threads write: wait for each other's turn instead of failing half-way through a transaction.
        "OPTIONS": {"timeout": 20, "transaction_mode": "IMMEDIATE"},
    },
}

CACHES: dict[str, dict[str, Any]] = {
    "default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"},
    "sessions": {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": REDIS_URL or _DEMO.get("redis_url") or "redis://127.0.0.1:6379/0",
        "OPTIONS": {"SOCKET_CONNECT_TIMEOUT": 0.5, "SOCKET_TIMEOUT": 0.5},
    },
}

SESSION_ENGINE = "django_redsess.backend"
SESSION_CACHE_ALIAS = "sessions"

REDSESS: dict[str, Any] = {
    # It belongs to the store for life: another number than the store's is refused at the first use.
    "PARTITIONS": _DEMO.get("partitions") or _partitions(),
    # Only who signs people in has to know these two. That is the demo itself, a replay too: it goes through the pages.
    "MAX_SESSIONS_PER_USER": 3,
    "SESSION_LIMIT_POLICY": os.environ.get("LIMIT_POLICY") or "end_oldest",
    "VIEWED_VIEWS": {"shop:product": "slug"},
    "VIEWED_RESOLVE": "testproject.shop.models.products_by_slug",
}
