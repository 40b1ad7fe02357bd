from django.apps import AppConfig
from django.utils.translation import pgettext_lazy


class MovingConfig(AppConfig):
    name = "django_redsess.contrib.moving"
    label = "redsess_moving"
    verbose_name = pgettext_lazy("of this package", "Sessions")

    def ready(self) -> None:
        from django_redsess.contrib.moving import checks  # noqa: F401
