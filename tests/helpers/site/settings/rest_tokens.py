"""The site with tokens of Django REST framework, which let programs into the JSON API."""

from typing import Any

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS as OF_SHOP

ROOT_URLCONF = "tests.helpers.driven.rest_tokens"
INSTALLED_APPS: list[Any] = [*OF_SHOP, "rest_framework.authtoken"]
