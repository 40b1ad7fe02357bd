"""A system check of several tables of users: sessions know their users by primary key only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.core import checks

from django_redsess.backend import is_in_use
from django_redsess.checks.settings import warning


@checks.register(checks.Tags.security)
def check_user_tables(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn where users of two tables may have one primary key, and so one another's sessions."""
    redsess = getattr(settings, "REDSESS", {})
    told_apart = isinstance(redsess, Mapping) and callable(redsess.get("PREFIX"))
    if told_apart or not is_in_use() or not apps.is_installed("django.contrib.auth"):
        return []
    effect = "users with the same primary key share one list of sessions and one limit, and are ended together."
    hint = "Set REDSESS['PREFIX'] to a function that returns another text for each table of users."
    return [warning("W046", f"{told}: {effect}", hint) for told in (*_of_tenants(), *_of_models())]


def _of_tenants() -> Iterator[str]:
    # The setting of django-tenants: these apps have tables in the schema of each tenant.
    tenant_apps, name = getattr(settings, "TENANT_APPS", ()), apps.get_app_config(get_user_model()._meta.app_label).name
    if any(each == name or each.startswith(f"{name}.apps.") for each in tenant_apps):
        yield f"TENANT_APPS has {name}, so each tenant has a table of users"


def _of_models() -> Iterator[str]:
    user_model = get_user_model()
    for model in apps.get_models():
        # One that derives from the other has its primary key.
        related = issubclass(model, user_model) or issubclass(user_model, model)
        if issubclass(model, AbstractBaseUser) and not (related or model._meta.proxy or model._meta.swapped):
            label = model._meta.label
            yield f"{label} is a model of users beside {user_model._meta.label}, and if they sign in here, too"
