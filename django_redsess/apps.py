import logging

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _

try:
    import django_redis  # noqa: F401
except ModuleNotFoundError as error:
    # No check could say it: they need it, too.
    message = "django_redsess connects by the package django-redis, which is not installed: pip install django-redis"
    raise ImproperlyConfigured(message) from error


class RedsessConfig(AppConfig):
    name = "django_redsess"
    verbose_name = _("Sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_redsess import (
            accounts,
            checks,  # noqa: F401
        )
        from django_redsess.middleware import not_about_an_outage
        from django_redsess.transport import observing

        observing.begin()
        accounts.receive_signals()
        logging.getLogger("django.request").addFilter(not_about_an_outage)
