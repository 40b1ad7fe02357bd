"""The rows as the source of past sign-ins for pages of the core: see :mod:`django_redsess.past_sign_ins`."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from django.contrib.admin.sites import AdminSite
from django.db import DatabaseError, connections, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from django_redsess.contrib.history.database import first_line, short_waits
from django_redsess.contrib.history.models import REASONS, STAFF, SignIn
from django_redsess.past_sign_ins import PastSignIn, UserSignIns
from django_redsess.querysets import user_keys
from django_redsess.times import to_aware

logger = logging.getLogger("django_redsess")

ORDER = ("-login_ms", "-id")
"""The order of all lists. Indexes have it, with and without a filter."""


class StoredSignIns:
    """A :class:`~django_redsess.past_sign_ins.SignInSource` of the rows."""

    def ended_sign_ins(self, user_id: str, *, limit: int) -> list[PastSignIn]:
        rows = _sign_ins_of_user(SignIn.objects.filter(ended_at__isnull=False), user_id)[:limit]
        return [past_sign_in(row) for row in _read_rows(rows)]

    def sign_ins_for_admin(
        self, request: HttpRequest, site: AdminSite, user_id: str, *, limit: int
    ) -> UserSignIns | None:
        of_sign_ins: Any = site._registry.get(SignIn)
        if of_sign_ins is None or not of_sign_ins.has_view_permission(request):
            return None
        rows = _sign_ins_of_user(of_sign_ins.get_queryset(request), user_id)[:limit]
        seen = [past_sign_in(row) for row in _read_rows(rows) if of_sign_ins.has_view_permission(request, row)]
        return UserSignIns(seen, sign_ins_url(site, user_id))


def past_sign_in(row: SignIn) -> PastSignIn:
    """Return ``row`` as a past sign-in."""
    return PastSignIn(
        user_id=str(row.user_id),
        created_at=row.created_at,
        last_seen_at=row.last_seen_at and to_aware(row.last_seen_at, not_before=row.created_at),
        ended_at=row.ended_at and to_aware(row.ended_at, not_before=row.created_at),
        ended_at_is_approximate=row.ended_at_is_approximate,
        reason=row.reason,
        reason_text=str(REASONS.get(row.reason, row.reason)),
        ended_by=row.ended_by,
        stored_message=row.stored_message,
        address=row.address,
        user_agent=row.user_agent,
        is_new_device=row.is_new_device,
        id=str(row.pk),
        unproven_at=row.unproven_at and to_aware(row.unproven_at, not_before=row.created_at),
        unproven_address=row.unproven_address,
        unproven_user_agent=row.unproven_user_agent,
        unproven_refused=row.unproven_refused,
        internal_note=row.internal_note,
    )


def sign_ins_url(site: AdminSite, user_id: str) -> str:
    """Return the URL of the list of a user's sign-ins."""
    return reverse("admin:redsess_history_signin_changelist", current_app=site.name, query={"user": user_id})


def sign_ins_of_users(rows: QuerySet[SignIn], user_ids: Iterable[str]) -> QuerySet[SignIn]:
    """Return the ``rows`` of these users."""
    return rows.filter(user_id__in=user_keys(user_ids))


def ended_by(rows: QuerySet[SignIn], user_ids: Iterable[str]) -> QuerySet[SignIn]:
    """Return the ``rows`` whose sessions these users have ended, without their own sessions."""
    # PostgreSQL rejects text with NUL.
    return rows.filter(ended_by__in=[user_id for user_id in user_ids if "\0" not in user_id], who_ended=STAFF)


def _sign_ins_of_user(rows: QuerySet[SignIn], user_id: str) -> QuerySet[SignIn]:
    return sign_ins_of_users(rows, [user_id]).order_by(*ORDER)


def _read_rows(rows: QuerySet[SignIn]) -> list[SignIn]:
    """Read ``rows``. Return none if the database fails or is locked: the pages work without it."""
    try:
        with _bounded_reading(rows.db):
            return list(rows)
    except DatabaseError as error:
        logger.error("Sign-ins can't be read: %s: %s", type(error).__name__, first_line(error))
        return []


def _bounded_reading(using: str) -> AbstractContextManager[Any]:
    connection = connections[using]
    if connection.in_atomic_block:
        # A failed query would fail all later ones of the transaction.
        return transaction.atomic(using)
    # A lock of the whole table, for example by a migration, blocks readers.
    return short_waits(using) if connection.vendor in ("postgresql", "mysql") else nullcontext()
