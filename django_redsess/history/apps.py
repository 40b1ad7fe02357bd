from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _


class HistoryConfig(AppConfig):
    name = "django_redsess.history"
    label = "redsess_history"
    verbose_name = _("Sign-ins")
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from django_redsess.history import recording

        recording.connect()
