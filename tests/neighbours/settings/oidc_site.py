"""For the tests of mozilla-django-oidc."""

from plain_site import *  # noqa: F403
from plain_site import INSTALLED_APPS

INSTALLED_APPS = [*INSTALLED_APPS, "mozilla_django_oidc"]
AUTHENTICATION_BACKENDS = [
    "django.contrib.auth.backends.ModelBackend",
    "mozilla_django_oidc.auth.OIDCAuthenticationBackend",
]
ROOT_URLCONF = "mozilla_django_oidc.urls"

OIDC_OP_TOKEN_ENDPOINT = "https://server.example.com/token"
OIDC_OP_USER_ENDPOINT = "https://server.example.com/user"
OIDC_RP_CLIENT_ID = "example_id"
OIDC_RP_CLIENT_SECRET = "client_secret"
OIDC_USERNAME_ALGO = None
