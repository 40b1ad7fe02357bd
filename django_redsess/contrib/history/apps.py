from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy as _

from django_redsess import sign_in_source


class HistoryConfig(AppConfig):
    name = "django_redsess.contrib.history"
    label = "redsess_history"
    verbose_name = _("Session history")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_redsess import cleaning, middleware
        from django_redsess.contrib.history import (
            blocks,
            checks,  # noqa: F401
            devices,
            mails,
            receivers,
            repair,
        )
        from django_redsess.contrib.history.reading import Rows
        from django_redsess.contrib.history.signals import new_device

        receivers.connect()
        blocks.connect()
        cleaning.hourly.connect(repair.hourly, dispatch_uid="django_redsess.contrib.history")
        user_logged_in.connect(devices.signed_in, dispatch_uid="django_redsess.contrib.history")
        if settings.SECRET_KEY_FALLBACKS:
            middleware.response_hooks.append(devices.sign_anew)
        new_device.connect(mails.notify, dispatch_uid="django_redsess.contrib.history")
        sign_in_source.register(Rows())
