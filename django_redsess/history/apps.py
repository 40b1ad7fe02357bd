from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy as _

from django_redsess import past


class HistoryConfig(AppConfig):
    name = "django_redsess.history"
    label = "redsess_history"
    verbose_name = _("Sign-ins")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_redsess import cleaning
        from django_redsess.history import (
            blocks,
            checks,  # noqa: F401
            devices,
            mails,
            recording,
            repair,
        )
        from django_redsess.history.reading import Rows
        from django_redsess.history.signals import new_device

        recording.connect()
        blocks.connect()
        cleaning.hourly.connect(repair.hourly, dispatch_uid="django_redsess.history")
        user_logged_in.connect(devices.signed_in, dispatch_uid="django_redsess.history")
        new_device.connect(mails.notify, dispatch_uid="django_redsess.history")
        past.source = Rows()
