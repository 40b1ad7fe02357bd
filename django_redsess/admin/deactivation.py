"""Deactivating an account in the admin, and ending all sessions of its user; what an administrator lacks for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from django.contrib.admin.sites import AdminSite
from django.contrib.auth import get_user_model
from django.db import router, transaction
from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from django_redsess import online
from django_redsess.admin import history
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.models import OnlineSession
from django_redsess.online.ending import BulkEnding, least
from django_redsess.online.listing import SessionFilter
from django_redsess.signals import EndedSession

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


class AllEnded(NamedTuple):
    """
    The sessions of a user that have ended.

    ``confirmed_by`` is the least number of replicas that have confirmed, or None. ``is_outage`` tells that not all
    sessions could be ended.
    """

    ended: list[EndedSession]
    confirmed_by: int | None
    is_outage: bool


def may_change_users(request: HttpRequest, site: AdminSite) -> bool:
    """Tell whether the administrator may change users in ``site``, though perhaps not each of them."""
    users = site._registry.get(get_user_model())
    return users is not None and users.has_change_permission(request)


def may_deactivate(request: HttpRequest, site: AdminSite, user_id: str) -> AbstractBaseUser | None:
    """
    Return the user with this primary key if the administrator may deactivate the account, else None.

    They may if the user's page in ``site`` would let them change "active". Nobody can deactivate their own account.
    Only superusers deactivate superusers.
    """
    users = site._registry.get(get_user_model())
    user: Any = users.get_object(request, user_id) if users is not None else None
    if users is None or user is None or user.pk == request.user.pk:
        return None
    if getattr(user, "is_superuser", False) and not getattr(request.user, "is_superuser", False):
        return None
    if not users.has_change_permission(request, user):
        return None
    # The form leaves out read-only fields, and those that the page does not show to this administrator.
    form = users.get_form(request, user, change=True)
    return user if "is_active" in form.base_fields else None


def deactivate(request: HttpRequest, user: Any, message: str) -> AllEnded:
    """Deactivate ``user``, then end all sessions of the user. ``message`` is shown on the devices of the user."""
    using, done = router.db_for_write(type(user), instance=user), list[AllEnded]()

    def end() -> None:
        done.append(_end_all(online.user_id_of(user), message))

    with transaction.atomic(using=using):
        # Sessions end after the commit: until then, the user could sign in again. This runs before the signal of
        # END_ON_DEACTIVATION, whose message is another one.
        transaction.on_commit(end, using=using)
        user.is_active = False
        user.save(update_fields=["is_active"])
        history.save_deactivation(request, user, message)
    if not done:
        # The request has a transaction of its own (ATOMIC_REQUESTS). Its commit ends them once more.
        end()
    return done[0]


def _end_all(user_id: str, message: str) -> AllEnded:
    work = BulkEnding(SessionFilter((user_id,)), message=message)
    ended: list[EndedSession] = []
    replicas: int | None = None
    try:
        while not work.done:
            batch = work.end_batch()
            ended += batch
            replicas = least(replicas, batch.confirmed_by)
    except SessionStoreUnavailable:
        return AllEnded(ended, replicas, is_outage=True)
    return AllEnded(ended, replicas, is_outage=False)


MISSING = {
    "end_onlinesession": gettext_lazy(
        "Ending sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "end_all_onlinesession": gettext_lazy(
        "Ending everyone else's sessions takes the permission “%(permission)s”. Ask an administrator for it."
    ),
    "view_session_data": gettext_lazy(
        "Seeing the values takes the permission “%(permission)s”. Ask an administrator for it."
    ),
}


def missing(codename: str) -> str:
    """Return a sentence for an administrator who lacks this permission: what it is for, its name, and who gives it."""
    return str(MISSING[codename]) % {"permission": dict(OnlineSession._meta.permissions)[codename]}


def own_sid_of(request: HttpRequest) -> str | None:
    """Return the sid of the session that ``request`` came with; None if another engine keeps it."""
    return getattr(request.session, "stored_sid", None)


def is_superuser(user: object) -> bool:
    return bool(getattr(user, "is_superuser", False))
