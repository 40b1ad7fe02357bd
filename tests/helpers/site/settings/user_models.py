"""Users of another model: the kind of their primary key is USER_KEY, ``uuid`` or ``text``."""

import os

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS as OF_SHOP

USER_KEY = os.environ["USER_KEY"]
AUTH_USER_MODEL = "user_models.User"

# This app of Django imports no admin.py by itself: the shop's is about Django's own users.
ADMINS = {"django.contrib.admin": "django.contrib.admin.apps.SimpleAdminConfig"}
INSTALLED_APPS = [*(ADMINS.get(app, app) for app in OF_SHOP), "tests.helpers.site.user_models"]
