from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class MovingConfig(AppConfig):
    name = "django_redsess.contrib.moving"
    label = "redsess_moving"
    verbose_name = _("Sessions")

    def ready(self) -> None:
        from django_redsess.contrib.moving import checks  # noqa: F401
