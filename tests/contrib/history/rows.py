"""Rows of past sign-ins, as the recorder leaves them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import lxml.html
from django.contrib.auth.models import User

from django_redsess.contrib.history.models import SignIn, who_ended
from django_redsess.contrib.history.receivers import row_of_beginning
from django_redsess.signals import Reason
from tests.admin.visits import FIREFOX
from tests.helpers.admin_pages import row_of

LIST = "/admin/redsess_history/signin/"


def row(
    user: User, *, ago: timedelta = timedelta(hours=1), address: str = "192.0.2.7", agent: str = FIREFOX, **fields: Any
) -> SignIn:
    """Save the sign-in of ``user`` so long ago, which lives unless ``fields`` have its end."""
    made = row_of_beginning(user.pk, datetime.now(UTC) - ago, address, agent)
    for name, value in fields.items():
        setattr(made, name, value)
    made.who_ended = who_ended(str(user.pk), made.reason, made.ended_by)
    made.save()
    return made


def ended(user: User, reason: Reason | str = Reason.LOGOUT, **fields: Any) -> SignIn:
    """Save a sign-in of ``user`` whose session ended half an hour ago, for this reason."""
    return row(user, reason=str(reason), ended_at=datetime.now(UTC) - timedelta(minutes=30), **fields)


def rows_of(response: Any) -> list[dict[str, Any]]:
    """The rows of the list, by column."""
    assert response.status_code == 200
    tables = (each for each in lxml.html.fromstring(response.text).iter("table") if each.get("id") == "result_list")
    return [found for table in tables for found in map(row_of, table.iter("tr")) if "who" in found]
