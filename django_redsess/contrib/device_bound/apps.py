from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.utils.translation import gettext_lazy as _


class DeviceBoundConfig(AppConfig):
    name = "django_redsess.contrib.device_bound"
    label = "redsess_device_bound"
    verbose_name = _("Device-bound sessions")

    def ready(self) -> None:
        from django_redsess.contrib.device_bound import offer

        user_logged_in.connect(offer.offer_binding, dispatch_uid="django_redsess.contrib.device_bound")
