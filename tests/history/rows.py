"""Rows of past sign-ins, as the recorder leaves them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from django_redsess.history.models import SignIn
from django_redsess.online.user_agents import client_of
from django_redsess.session.client_address import network_of
from django_redsess.signals import Reason
from tests.admin.visits import FIREFOX

LIST = "/admin/redsess_history/signin/"


def row(
    user: User, *, ago: timedelta = timedelta(hours=1), address: str = "192.0.2.7", agent: str = FIREFOX, **fields: Any
) -> SignIn:
    """Save the sign-in of ``user`` so long ago, which lives unless ``fields`` have its end."""
    at, network = datetime.now(UTC) - ago, network_of(address)
    return SignIn.objects.create(
        user=user,
        login_ms=int(at.timestamp() * 1000),
        address=address,
        address_score=network.first if network else None,
        client=client_of(agent),
        user_agent=agent,
        **{"seen_at": at, **fields},
    )


def ended(user: User, reason: Reason | str = Reason.LOGOUT, **fields: Any) -> SignIn:
    """Save a sign-in of ``user`` whose session ended half an hour ago, for this reason."""
    return row(user, reason=str(reason), ended_at=datetime.now(UTC) - timedelta(minutes=30), **fields)
