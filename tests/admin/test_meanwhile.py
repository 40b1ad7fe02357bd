"""Who signs in while an administrator ends sessions, and is not to be ended."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.admin import OnlineSessionAdmin
from tests.helpers.admin_pages import CONFIRM, answer, left, staff
from tests.helpers.online import sign_in

pytestmark = pytest.mark.django_db


def test_who_signs_in_after_the_question_stays_where_a_site_decides_about_each(
    admin_client, users, sids, new_session, monkeypatch
) -> None:
    every = OnlineSessionAdmin.has_end_permission
    monkeypatch.setattr(OnlineSessionAdmin, "has_end_permission", lambda self, *args: every(self, *args))
    question = admin_client.get(CONFIRM)
    [late] = sign_in(new_session, str(users["alice"].pk))
    answer(admin_client, question)
    assert left() == {late, admin_client.session.sid}


def test_a_guest_who_signs_in_as_a_superuser_in_the_last_moment_stays(client, new_session, monkeypatch) -> None:
    root, guest = User.objects.create_superuser("root"), new_session(colour="blue")
    staff(client, "view_onlinesession", "end_onlinesession")
    question = client.get(CONFIRM, {"sid": guest.sid})
    every = OnlineSessionAdmin.has_view_permission

    def has_view_permission(self: Any, request: Any, obj: Any = None) -> bool:
        if obj is not None and "_auth_user_id" not in guest:
            guest["_auth_user_id"] = str(root.pk)
            guest.save()
        return every(self, request, obj)

    monkeypatch.setattr(OnlineSessionAdmin, "has_view_permission", has_view_permission)
    answer(client, question)
    assert online.get(guest.sid) is not None
