"""The admin with the looks of django-unfold in place of its own."""

from tests.site.settings import *  # noqa: F403
from tests.site.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS, "tests.site.with_unfold"]
