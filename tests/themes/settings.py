"""The demo shop with django-unfold in place of the admin's own looks."""

from testproject.settings import *  # noqa: F403
from testproject.settings import INSTALLED_APPS

INSTALLED_APPS = ["unfold", *INSTALLED_APPS, "tests.themes"]
