import logging
import os

from django.apps import AppConfig
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import pgettext_lazy

try:
    import django_redis  # noqa: F401
except ModuleNotFoundError as error:
    # No check could say it: they need it, too.
    message = "django_redsess connects by the package django-redis, which is not installed: pip install django-redis"
    raise ImproperlyConfigured(message) from error


class RedsessConfig(AppConfig):
    name = "django_redsess"
    # Django has this text too. Without the context, ours would replace it on all pages of a site.
    verbose_name = pgettext_lazy("of this package", "Sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        super().import_models()
        from django_redsess.accounts import signals

        # Other apps connect when they are ready, and before us if they are listed before us.
        signals.receive_sign_ins()

    def ready(self) -> None:
        from django_redsess import checks, observers  # noqa: F401
        from django_redsess.accounts import signals
        from django_redsess.conf import FOLDER_OF_TESTS
        from django_redsess.responses import not_about_an_outage

        if FOLDER_OF_TESTS in os.environ:
            # A server that tests have started uses their store.
            from django_redsess import testing  # noqa: F401

        observers.choose_observers()
        signals.receive_signals()
        logging.getLogger("django.request").addFilter(not_about_an_outage)
