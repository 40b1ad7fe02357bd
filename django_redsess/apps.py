import logging

from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class RedsessConfig(AppConfig):
    name = "django_redsess"
    verbose_name = _("Sessions")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django.contrib.auth.signals import user_logged_in, user_logged_out

        from django_redsess import checks  # noqa: F401
        from django_redsess.backend import note_sign_in, note_sign_out
        from django_redsess.middleware import not_about_an_outage

        user_logged_in.connect(note_sign_in, dispatch_uid="django_redsess")
        user_logged_out.connect(note_sign_out, dispatch_uid="django_redsess")
        logging.getLogger("django.request").addFilter(not_about_an_outage)
