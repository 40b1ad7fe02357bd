"""
The one site that tests visit, in place of the shop: ``settings.ROOT_URLCONF = "tests.helpers.site.urls"``.

The views answer with plain text; each is there for the session and the user. Paths that begin with ``async/`` have
asynchronous views. A view that changes the session calls ``meanwhile`` between reading and changing it. What is not
found here is the shop's.

``urls`` has all URLs. Processes of their own (helpers/driven, browsers, Django's tests) run under ``settings``.
``with_unfold`` and ``user_models`` are apps that only some of those settings install. Below are settings that suit the
site; where a test needs users who are in no table, ``tests.helpers.site.people.InMemory`` is the backend.
"""

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

RECORDED = "plain reads areads writes cycles writes-and-cycles polls answers ends for-somebody held-item"
VIEWED_VIEWS = dict.fromkeys(RECORDED.split(), "item")
"""The views whose items the middleware records, by the name of their URL, and the keyword that is the item."""
