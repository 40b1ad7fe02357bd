"""The site with django-allauth, headless: its own API of a user's sessions beside our pages."""

from typing import Any

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS as OF_SHOP
from tests.helpers.site.settings import MIDDLEWARE as OF_SHOP_MIDDLEWARE
from tests.helpers.site.settings import REDSESS as OF_SHOP_REDSESS

ROOT_URLCONF = "tests.helpers.driven.headless"
INSTALLED_APPS: list[Any] = [
    *OF_SHOP,
    "allauth",
    "allauth.account",
    "allauth.headless",
    "rest_framework",
    "allauth.usersessions",
]
MIDDLEWARE: list[str] = [
    *OF_SHOP_MIDDLEWARE,
    "allauth.account.middleware.AccountMiddleware",
    "allauth.usersessions.middleware.UserSessionsMiddleware",
]
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
ACCOUNT_EMAIL_VERIFICATION = "none"
USERSESSIONS_TRACK_ACTIVITY = True
REDSESS = {**OF_SHOP_REDSESS, "IDLE_TIMEOUT": 3600}
USERSESSIONS_ADAPTER = "tests.helpers.driven.headless.UserSessionsAdapter"
