"""Receivers of Django's signals: the effects of a sign-in, a sign-out and a changed or deleted user on sessions."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.contrib.auth.signals import user_logged_in, user_logged_out
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.db.models.signals import post_delete, post_save, pre_save
from django.http import HttpRequest

from django_redsess import backend
from django_redsess.accounts import end_everywhere
from django_redsess.conf import REFUSE, conf
from django_redsess.exceptions import SessionStoreUnavailable, SignInRefused
from django_redsess.middleware import SessionMiddleware, places_of
from django_redsess.responses import sign_out_request
from django_redsess.session import user_limit
from django_redsess.session.store import session_of, user_id_of
from django_redsess.signals import request_answered
from django_redsess.transport.steps import drive
from django_redsess.user_messages import ACCOUNT_DEACTIVATED, ACCOUNT_DELETED, PASSWORD_CHANGED, ready_message

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

logger = logging.getLogger("django_redsess")


def receive_sign_ins() -> None:
    """
    Connect to Django's signals about sign-ins. Called once, before any app is ready.

    So receivers of other apps run later: they get no refused sign-in, and a session that they save is within the limit.
    """
    user_logged_in.connect(on_login, dispatch_uid="django_redsess")
    user_logged_out.connect(on_logout, dispatch_uid="django_redsess")


def receive_signals() -> None:
    """Connect to Django's signals about users. Called once, when all models are loaded."""
    try:
        user_model = get_user_model()
    except ImproperlyConfigured:  # Sessions need no users.
        return
    # A receiver for all senders would keep Django from deleting other models' rows in bulk.
    for model in apps.get_models():
        if issubclass(model, user_model):
            pre_save.connect(before_user_save, sender=model, dispatch_uid="django_redsess")
            post_save.connect(after_user_save, sender=model, dispatch_uid="django_redsess")
            post_delete.connect(after_user_delete, sender=model, dispatch_uid="django_redsess")


def on_login(sender: Any, request: Any, user: AbstractBaseUser, **kwargs: Any) -> None:
    """
    Receive Django's signal ``user_logged_in``.

    Refuse blocked users. If the limit may refuse the sign-in, save the session immediately: the script that saves it
    counts the user's sessions, and looks for a block. Raises SignInRefused, ImproperlyConfigured, and the errors of a
    save. Then nobody is signed in.

    The signal may be sent without a sign-in into the request's session, for example for a token. Then the session stays
    as it is, and a blocked user is refused nevertheless.
    """
    session = session_of(request)
    if session is None:
        return
    user_id = user_id_of(user)
    if not session.claim_sign_in(user_id):
        session.refuse_blocked(user_id)
        return
    try:
        limit = user_limit.limit_at_sign_in(user)
        if limit is not None and limit.policy == REFUSE:
            session.signed_in(limit)
            session.save()
            session.cleared_user_id = user_id
        else:
            session.refuse_blocked(user_id)
            session.signed_in(limit)
    except Exception as error:
        sign_out_request(request)
        if isinstance(error, SignInRefused):
            session.flush()
        else:
            session.abandon()
        raise


def on_logout(sender: Any, request: Any, user: AbstractBaseUser | None = None, **kwargs: Any) -> None:
    """Receive Django's signal ``user_logged_out``. Ignore it if its user is not the session's, but a token's."""
    session = session_of(request)
    if session is None:
        return
    # ``logout()`` sends no user if the request has none. The account may be deleted by now.
    if user is None or user.pk is None or session.loaded_user_id in ("", user_id_of(user)):
        session.signed_out()


def before_user_save(sender: Any, instance: Any, using: str, update_fields: Any, **kwargs: Any) -> None:
    """Receive Django's signal ``pre_save`` of a user. Keep the old values from the database."""
    switches = {"is_active": conf.END_ON_DEACTIVATION, "password": conf.END_ON_PASSWORD_CHANGE}
    watched = [
        field.name
        for field in sender._meta.concrete_fields
        if switches.get(field.name) and (update_fields is None or field.name in update_fields)
    ]
    # A model that is derived from the user model may have another primary key.
    user_model = get_user_model()
    pk = getattr(instance, user_model._meta.pk.attname)
    stored = user_model._base_manager.using(using).filter(pk=pk)
    instance._redsess_before = stored.values(*watched).first() if watched and pk is not None else None


def after_user_save(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    """Receive Django's signal ``post_save`` of a user. End sessions after a deactivation or a new password."""
    before = instance.__dict__.pop("_redsess_before", None) or {}
    if before.get("is_active") and not instance.is_active:
        _when_committed(using, instance, ACCOUNT_DEACTIVATED)
    elif "password" in before and before["password"] != instance.password:
        # At a sign-in, Django may replace an old hash of the same password. Other sessions have the old hash, and end.
        changed = getattr(instance, "_password", None) is not None
        _when_committed(using, instance, PASSWORD_CHANGED if changed else "", spare=True)


def after_user_delete(sender: Any, instance: Any, using: str, **kwargs: Any) -> None:
    """Receive Django's signal ``post_delete`` of a user. End the user's sessions."""
    if conf.END_ON_DELETION:
        _when_committed(using, instance, ACCOUNT_DELETED)


def _when_committed(using: str, user: AbstractBaseUser, code: str, *, spare: bool = False) -> None:
    # Read before the commit: after it, the primary key may be unset, and the request may be over.
    end: Callable[[], None] = partial(_end_committed, user_id_of(user), request_answered(), code, spare=spare)
    transaction.on_commit(end, using=using, robust=True)


def _end_committed(user_id: str, request: HttpRequest | None, code: str, *, spare: bool) -> None:
    if not backend.is_in_use():
        return
    if spare and request is None and not places_of(SessionMiddleware):
        # Without our middleware, the session of the present request is unknown, and it must not end. Django signs the
        # other sessions out, because their password hash no longer matches.
        return
    session = session_of(request)
    # stored_sid, because the session may be about to get another key.
    keep = session.stored_sid if spare and session is not None else None
    try:
        message = ready_message(code) if code else ""
        ended = drive(end_everywhere(user_id, request, keep=keep, message=message))
    except SessionStoreUnavailable:
        logger.error("Can't end the sessions of user %r in this outage: call logout_everywhere() later.", user_id)
    else:
        if ended.may_return:
            again = "call logout_everywhere() to check replication again"
            logger.warning("The sessions of user %r are ended, and may return after a failover: %s.", user_id, again)
