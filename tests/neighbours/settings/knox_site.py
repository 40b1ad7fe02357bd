"""For the tests of django-rest-knox."""

from plain_site import *  # noqa: F403
from plain_site import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "rest_framework", "knox"]
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework.authentication.BasicAuthentication",
        "rest_framework.authentication.SessionAuthentication",
        "knox.auth.TokenAuthentication",
    ]
}
ROOT_URLCONF = "knox_urls"
