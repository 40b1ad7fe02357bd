"""The site's URLs, and the page of django-prometheus."""

from django.urls import include, path
from django_prometheus.exports import ExportToDjangoView

urlpatterns = [path("prometheus", ExportToDjangoView), path("", include("tests.helpers.site.urls"))]
