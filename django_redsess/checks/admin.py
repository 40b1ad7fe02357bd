"""System checks of the admin, for sites that have the JSON API, which asks the admin for permissions only."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core import checks
from django.db.models import Model
from django.urls import reverse

from django_redsess.admin_sites import mounted_sites
from django_redsess.checks.settings import check_settings, problem
from django_redsess.conf import Conf, conf

SESSIONS, SIGN_INS = "django_redsess.OnlineSession", "redsess_history.SignIn"

RULES_OF_PAGES = {
    SESSIONS: (
        *("get_queryset", "has_view_permission", "has_end_permission"),
        *("has_end_all_permission", "has_export_permission"),
    ),
    SIGN_INS: ("get_queryset", "has_view_permission", "has_export_permission"),
}
"""Methods with which a subclass of ``OnlineSessionAdmin`` or ``SignInAdmin`` has rules of its own."""

RULES_OF_USERS = ("get_queryset", "has_view_permission", "has_change_permission")
"""Methods with which the admin of users hides some of them."""


@checks.register(checks.Tags.urls)
def check_admin_of_api(**kwargs: Any) -> list[checks.CheckMessage]:
    """Warn if no admin says who may use the JSON API for all users, or if the API ignores rules of the admin."""
    if not apps.is_installed("django.contrib.admin"):
        return []
    try:
        reverse("redsess_api:list_sessions")
    except Exception:  # The API is not part of this site, or the URLs can't be imported, as Django reports.
        return []
    if not mounted_sites(apps.get_model(SESSIONS)):
        message = "No admin site in the URLs has the page of online sessions: the JSON API refuses all administrators."
        hint = (
            "Add path('admin/', admin.site.urls) to the URLs, or register OnlineSession in the AdminSite there. If the "
            "API is for users' own sessions only, silence this check."
        )
        return [problem("W110", message, hint)]
    # check_settings() reports a wrong PERMISSIONS. A site that has set it has its rules there.
    return [] if check_settings() or Conf.PERMISSIONS.default != conf.PERMISSIONS else _rules_of_pages()


def _rules_of_pages() -> list[checks.CheckMessage]:
    asked: dict[type[Model], tuple[str, ...]] = {get_user_model(): RULES_OF_USERS}
    for label, names in RULES_OF_PAGES.items():
        if apps.is_installed("django_redsess.contrib.history") or label != SIGN_INS:
            asked[apps.get_model(label)] = names
    found = []
    for model, names in asked.items():
        for admin in dict.fromkeys(type(site.get_model_admin(model)) for site in mounted_sites(model)):
            own = [name for name in names if not _is_known(admin, name)]
            if own:
                hint = (
                    "Move these rules to a class that REDSESS['PERMISSIONS'] names: the pages and the API ask it. If "
                    "they hide and protect nothing, silence this check."
                )
                which = f"{admin.__qualname__} has {', '.join(own)} of its own"
                found.append(problem("W099", f"{which}, which the JSON API of this site does not ask.", hint))
    return found


def _is_known(admin: type, name: str) -> bool:
    """Tell whether Django or this package has written the method."""
    module = next(each.__module__ for each in admin.__mro__ if name in vars(each))
    return module.partition(".")[0] in ("django", "django_redsess")
