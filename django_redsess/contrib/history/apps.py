from django.apps import AppConfig
from django.conf import settings
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy as _

from django_redsess import past_sign_ins


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
        from django_redsess.contrib.history.signals import new_device
        from django_redsess.contrib.history.stored_sign_ins import StoredSignIns

        receivers.connect_receivers()
        blocks.connect_copies()
        cleaning.hourly.connect(repair.repair_hourly, dispatch_uid="django_redsess.contrib.history")
        user_logged_in.connect(devices.add_device_cookie, dispatch_uid="django_redsess.contrib.history")
        if settings.SECRET_KEY_FALLBACKS:
            middleware.response_hooks.append(devices.sign_anew)
        new_device.connect(mails.notify, dispatch_uid="django_redsess.contrib.history")
        past_sign_ins.register(StoredSignIns())
