"""The shop over https, where sign-ins are bound to the device: the administrator's have to be."""

import os

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS, REDSESS

INSTALLED_APPS = [*INSTALLED_APPS, "django_redsess.contrib.device_bound"]
ROOT_URLCONF = "tests.helpers.site.device_bound.urls"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
SESSION_COOKIE_DOMAIN = os.environ.get("COOKIE_DOMAIN")
SESSION_COOKIE_PATH = os.environ.get("COOKIE_PATH", "/")
REDSESS = {
    **REDSESS,
    "PARTITIONS": 1,
    "MAX_SESSIONS_PER_USER": None,
    "DEVICE_BOUND_REQUIRED": "tests.helpers.site.device_bound.is_required",
}
if SESSION_COOKIE_DOMAIN:
    REDSESS["DEVICE_BOUND_ORIGINS"] = [f"https://login.{SESSION_COOKIE_DOMAIN}"]
