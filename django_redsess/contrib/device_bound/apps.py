from django.apps import AppConfig
from django.contrib.auth.signals import user_logged_in
from django.core.exceptions import ImproperlyConfigured
from django.utils.translation import gettext_lazy as _


class DeviceBoundConfig(AppConfig):
    name = "django_redsess.contrib.device_bound"
    label = "redsess_device_bound"
    verbose_name = _("Device-bound sessions")

    def ready(self) -> None:
        # No check: a site that starts without the guard would open bound sessions without a proof.
        try:
            from django_redsess.contrib.device_bound import checks, guard, offer, views  # noqa: F401
        except ModuleNotFoundError as error:
            if error.name not in ("cryptography", "jwt"):
                raise
            text = f'{self.name} needs PyJWT and cryptography: pip install "django-redsess[device-bound]".'
            raise ImproperlyConfigured(text) from error
        from django_redsess import middleware
        from django_redsess.session import binding

        binding.guard = guard.DeviceGuard()
        if views.leave_session not in middleware.response_hooks:
            middleware.response_hooks.append(views.leave_session)
        user_logged_in.connect(guard.require_binding, dispatch_uid="django_redsess.contrib.device_bound.required")
        user_logged_in.connect(offer.offer_binding, dispatch_uid="django_redsess.contrib.device_bound")
