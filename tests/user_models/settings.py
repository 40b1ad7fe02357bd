"""The demo shop with users of another model: the kind of their primary key is USER_KEY, ``uuid`` or ``text``."""

import os

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS as OF_SHOP

USER_KEY = os.environ["USER_KEY"]
AUTH_USER_MODEL = "user_models.User"

# The admin that imports nothing by itself: the shop's admin.py is about Django's own users.
ADMINS = {"django.contrib.admin": "django.contrib.admin.apps.SimpleAdminConfig"}
INSTALLED_APPS = [*(ADMINS.get(app, app) for app in OF_SHOP), "tests.user_models"]
