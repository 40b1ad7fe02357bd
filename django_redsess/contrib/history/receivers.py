"""
Receivers of ``sessions_began``, ``sessions_ended`` and ``session_not_proven``: they write a row for each sign-in.

They upsert: each writes its own fields, so they may come in any order. A guest's session, and a user
id that is no primary key of the user model, leave no row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connections, router, transaction
from django.db.models import Model, QuerySet
from django.db.models.signals import post_delete
from django.http import HttpRequest

from django_redsess.conf import MESSAGE_MAX
from django_redsess.contrib.history import devices, mails
from django_redsess.contrib.history.database import try_write
from django_redsess.contrib.history.models import NOBODY, SIGNED_IN_AGAIN, BlockCopy, SignIn, who_ended
from django_redsess.contrib.history.signals import new_device
from django_redsess.online import browsers
from django_redsess.online.labels import known_server_time
from django_redsess.querysets import user_key
from django_redsess.session.client import address_score
from django_redsess.signals import (
    BegunSession,
    EndedSession,
    Reason,
    UnprovenRequest,
    session_not_proven,
    sessions_began,
    sessions_ended,
)
from django_redsess.times import to_column
from django_redsess.user_messages import STORED_MAX

UNIQUE = ("user", "login_ms")
FROM_CLIENT = ("address", "address_score", "client", "user_agent")
AT_BEGINNING = (*FROM_CLIENT, "device_cookie", "is_new_device")
AT_END = (
    "last_seen_at",
    "ended_at",
    "ended_at_is_approximate",
    "reason",
    "ended_by",
    "who_ended",
    "stored_message",
    "internal_note",
)
AT_UNPROVEN = ("unproven_at", "unproven_address", "unproven_user_agent", "unproven_refused")
"""The fields that an upsert changes in an existing row."""

EPOCH, MILLISECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(milliseconds=1)


def connect_receivers() -> None:
    """Start to record. Called once, when all models are loaded."""
    sessions_began.connect(record_beginnings, dispatch_uid="django_redsess.contrib.history")
    sessions_ended.connect(record_ends, dispatch_uid="django_redsess.contrib.history")
    session_not_proven.connect(record_unproven, dispatch_uid="django_redsess.contrib.history")
    for model in _user_models():
        post_delete.connect(delete_rows_of_user, sender=model, dispatch_uid="django_redsess.contrib.history")


def disconnect_receivers() -> None:
    """Stop recording."""
    sessions_began.disconnect(dispatch_uid="django_redsess.contrib.history")
    sessions_ended.disconnect(dispatch_uid="django_redsess.contrib.history")
    session_not_proven.disconnect(dispatch_uid="django_redsess.contrib.history")
    for model in _user_models():
        post_delete.disconnect(sender=model, dispatch_uid="django_redsess.contrib.history")


def _user_models() -> list[type[Model]]:
    # A proxy or a derived model is the sender of its own signals.
    return [model for model in apps.get_models() if issubclass(model, get_user_model())]


def record_beginnings(
    sender: Any, sessions: Sequence[BegunSession], request: HttpRequest | None = None, **kwargs: Any
) -> None:
    """Receive the signal ``sessions_began``. Send ``new_device`` once the rows are stored."""
    rows, closed = list[SignIn](), list[SignIn]()
    for each in sessions:
        key = user_key(each.user_id)
        if key is None:
            continue
        rows.append(row_of_beginning(key, each.created_at, each.address, each.user_agent))
        if each.replaces is not None:
            # The session continues with another login time: its earlier sign-in is over.
            at = to_column(each.created_at)
            end = {"ended_at": at, "reason": SIGNED_IN_AGAIN, "who_ended": NOBODY}
            closed.append(SignIn(user_id=key, login_ms=ms_of(each.replaces), last_seen_at=at, **end))
    using, compared = router.db_for_write(SignIn), list[tuple[SignIn, bool]]()

    def work() -> None:
        compared.extend((row, devices.compare_device(row, request, using)) for row in rows)
        upsert(rows, AT_BEGINNING, using)
        upsert(closed, AT_END, using)

    def tell() -> None:
        for row, is_new_network in compared:
            if not row.is_new_device:
                continue
            found, user = _stored(row, using)
            if found is not None and user is not None:
                new_device.send_robust(SignIn, request=request, user=user, sign_in=found, is_new_network=is_new_network)

    try_write(work, rows=len(rows) + len(closed), using=using, then=tell)


def record_ends(sender: Any, sessions: Sequence[EndedSession], **kwargs: Any) -> None:
    """Receive the signal ``sessions_ended``."""
    rows, invalidated, using = list[SignIn](), set[Any](), router.db_for_write(SignIn)
    for each in sessions:
        key = user_key(each.user_id)
        if key is None or each.created_at is None:
            continue
        if each.reason is Reason.INVALIDATED:
            invalidated.add(key)
        rows.append(
            SignIn(
                user_id=key,
                login_ms=ms_of(each.created_at),
                last_seen_at=None if each.last_seen_at is None else to_column(each.last_seen_at),
                ended_at=to_column(each.ended_at),
                reason=each.reason.value,
                ended_by=each.ended_by,
                who_ended=who_ended(each.user_id, each.reason, each.ended_by),
                stored_message=each.stored_message[:STORED_MAX],
                internal_note=each.internal_note[:MESSAGE_MAX],
            )
        )

    def work() -> None:
        # The account may have been deleted, and its rows with it.
        deleted = invalidated - existing_users(invalidated)
        upsert([row for row in rows if row.user_id not in deleted], AT_END, using)

    try_write(work, rows=len(rows), using=using)


def record_unproven(sender: Any, sessions: Sequence[UnprovenRequest], **kwargs: Any) -> None:
    """
    Receive the signal ``session_not_proven``. Mail the users once the rows are stored.

    A browser that says that it could not prove itself is no news: most likely it is the user's own.
    """
    at, using = to_column(known_server_time()), router.db_for_write(SignIn)
    rows = [
        SignIn(
            user_id=key,
            login_ms=ms_of(each.created_at),
            unproven_at=at,
            unproven_address=each.address,
            unproven_user_agent=each.user_agent,
            unproven_refused=each.refused,
        )
        for each in sessions
        if not each.skipped and (key := user_key(each.user_id)) is not None
    ]
    if not rows:
        return

    def work() -> None:
        # The account may have been deleted, and its rows with it.
        there = existing_users({row.user_id for row in rows})
        upsert([row for row in rows if row.user_id in there], AT_UNPROVEN, using)

    def tell() -> None:
        for row in rows:
            found, user = _stored(row, using)
            if found is not None and user is not None:
                mails.notify_unproven(user, found)

    try_write(work, rows=len(rows), using=using, then=tell)


def _stored(row: SignIn, using: str) -> tuple[SignIn | None, Any]:
    """Return ``row`` as it is stored, and its user. None for each that is not there."""
    # Read from the database: the written row has no primary key.
    found = SignIn.objects.using(using).filter(user_id=row.user_id, login_ms=row.login_ms).first()
    # Through the row, Django would look for the user in the row's database.
    return found, _users_by_key([row.user_id]).first()


def delete_rows_of_user(sender: Any, instance: Model, using: str, **kwargs: Any) -> None:
    """Receive Django's signal ``post_delete`` of a user. Delete the user's rows in another database."""
    # A derived model may have another primary key.
    key = getattr(instance, get_user_model()._meta.pk.attname)
    for model in (SignIn, BlockCopy):
        where = router.db_for_write(model)
        if where != using:
            # After the commit, since a rollback keeps the user.
            delete = model._base_manager.using(where).filter(user_id=key).delete
            transaction.on_commit(partial(try_write, delete, rows=1, using=where), using=using, robust=True)


def existing_users(keys: Collection[Any]) -> set[Any]:
    """Return the primary keys that are keys of existing users."""
    return set(_users_by_key(keys).values_list("pk", flat=True)) if keys else set()


def _users_by_key(keys: Collection[Any]) -> QuerySet[Any]:
    model = get_user_model()
    # A replica may lack a new user, and still have a deleted one.
    return model._base_manager.using(router.db_for_write(model)).filter(pk__in=keys)


def upsert(rows: Iterable[SignIn], changed: tuple[str, ...], using: str) -> None:
    """Insert ``rows``, or update the fields ``changed`` of existing ones."""
    # One command can't change a row twice. All processes lock rows in the same order, which prevents deadlocks.
    by_name = {(row.user_id, row.login_ms): row for row in rows}
    if not by_name:
        return
    distinct = [by_name[name] for name in sorted(by_name)]
    # MySQL takes no names of fields: any unique index counts.
    names_unique = connections[using].features.supports_update_conflicts_with_target
    SignIn._base_manager.using(using).bulk_create(
        distinct, update_conflicts=True, update_fields=changed, unique_fields=UNIQUE if names_unique else None
    )


def row_of_beginning(user_key: Any, created_at: datetime, address: str, user_agent: str) -> SignIn:
    """Return the row of a session that has just begun."""
    return SignIn(
        user_id=user_key,
        login_ms=ms_of(created_at),
        last_seen_at=to_column(created_at),
        address=address,
        address_score=address_score(address),
        client=browsers.browser_and_system(user_agent),
        user_agent=user_agent,
    )


def ms_of(at: datetime) -> int:
    """Return ``at`` in milliseconds since 1970."""
    return (at - EPOCH) // MILLISECOND
