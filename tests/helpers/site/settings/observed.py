"""The site whose operations are counted for Prometheus, and which has django-prometheus beside that."""

from tests.helpers.site.settings import *  # noqa: F403
from tests.helpers.site.settings import INSTALLED_APPS, MIDDLEWARE, REDSESS

ROOT_URLCONF = "tests.helpers.site.with_prometheus"
INSTALLED_APPS = ["django_prometheus", *INSTALLED_APPS]
MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    *MIDDLEWARE,
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]
REDSESS = {**REDSESS, "OBSERVERS": ["django_redsess.contrib.prometheus.observer.Observer"]}
