"""The admin with the looks of django-unfold in place of its own."""

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS, "tests.helpers.site.with_unfold"]
