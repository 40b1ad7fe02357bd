"""The URLs of the site with django-allauth's pages, and without its API."""

from django.urls import include, path

urlpatterns = [path("accounts/", include("allauth.urls")), path("", include("tests.helpers.site.urls"))]
