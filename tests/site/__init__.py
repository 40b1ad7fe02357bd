"""
The site that the tests visit, in place of the shop: ``settings.ROOT_URLCONF = "tests.site.urls"``.

Its answers are plain text, and every view is there for the session and the user only. Below ``async/`` are asynchronous
views. A view that changes the session calls ``meanwhile`` between reading and changing it. Here are the settings that
suit the site; where a test needs users in no table, ``tests.site.people.InMemory`` is the backend.
"""

from __future__ import annotations

from typing import Any

SESSION = "django_redsess.middleware.SessionMiddleware"
AUTH = "django.contrib.auth.middleware.AuthenticationMiddleware"
VIEWED = "django_redsess.middleware.ViewedItemsMiddleware"

MIDDLEWARE = [SESSION, AUTH, VIEWED]

MIDDLEWARE_WITH_CSRF = [
    SESSION,
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    AUTH,
    VIEWED,
]

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
            ]
        },
    }
]

VIEWED_VIEWS = dict.fromkeys(
    (
        *("plain", "reads", "areads", "writes", "cycles", "writes-and-cycles", "signs-in", "polls", "answers", "ends"),
        *("for-somebody", "held-item"),
    ),
    "item",
)
"""The views whose items the middleware records, by the name of their URL, and the keyword that is the item."""
