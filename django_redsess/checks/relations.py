"""System check of models with a relation to Django's own model of a session: our engine writes no rows there."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core import checks

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import warning


@checks.register(checks.Tags.models)
def check_relations(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn of each relation to ``django.contrib.sessions.models.Session``: there are no rows to refer to."""
    if not is_in_use() or not apps.is_installed("django.contrib.sessions"):
        return []
    # Imported late: the model exists only where its app is installed.
    from django.contrib.sessions.models import Session

    names = [
        f"{field.model._meta.label}.{field.name}"
        for model in apps.get_models()
        for field in (*model._meta.local_fields, *model._meta.local_many_to_many)
        if isinstance(field.related_model, type) and issubclass(field.related_model, Session) and not field.auto_created
    ]
    if not names:
        return []
    message = f"The engine writes no rows of Session for these relations: {', '.join(names)}."
    hint = (
        "Store request.session.sid instead, 20 characters. django_redsess.online finds and ends sessions by their sid."
    )
    return [warning("W057", message, hint)]
