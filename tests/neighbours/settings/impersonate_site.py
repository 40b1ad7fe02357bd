"""For the tests of django-impersonate."""

from plain_site import *  # noqa: F403
from plain_site import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "impersonate"]
MIDDLEWARE = [*MIDDLEWARE, "impersonate.middleware.ImpersonateMiddleware"]
# The module of the tests has its URLs, too.
ROOT_URLCONF = "impersonate.tests"
