"""For the tests of django-cas-ng."""

from django.http import HttpResponse
from django.urls import path
from plain_site import *  # noqa: F403
from plain_site import INSTALLED_APPS, MIDDLEWARE

INSTALLED_APPS = [*INSTALLED_APPS, "django_cas_ng"]
MIDDLEWARE = [*MIDDLEWARE, "django_cas_ng.middleware.CASMiddleware"]
AUTHENTICATION_BACKENDS = ["django.contrib.auth.backends.ModelBackend", "django_cas_ng.backends.CASBackend"]
CAS_SERVER_URL = "http://www.example.com/cas/"
ROOT_URLCONF = "cas_ng_site"

# The tests look for a page of that name.
urlpatterns = [path("", lambda request: HttpResponse(), name="home")]
