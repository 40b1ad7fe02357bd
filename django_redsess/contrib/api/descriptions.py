"""How a session is described in JSON: never with its data, nor with its key."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from django_redsess import online
from django_redsess.contrib.api.parameters import Json
from django_redsess.online import labels, places


def described(sessions: Iterable[online.Session], own_sid: str | None) -> list[Json]:
    """
    Describe sessions as allauth's API does, and more. ``own_sid`` is the session of the request.

    The places of addresses are asked for together: call this once a page.
    """
    sessions = list(sessions)
    found_places = places.by_address(each.address for each in sessions)
    return [
        {
            "id": each.sid,
            "user_id": each.user_id or None,
            "ip": each.address,
            "user_agent": each.user_agent,
            "created_at": seconds(each.created_at),
            "last_seen_at": seconds(each.last_seen_at),
            "expires_at": seconds(each.expires_at),
            "is_current": each.sid == own_sid,
            "device": labels.browser_name(each.user_agent),
            "place": found_places.get(each.address, ""),
            "size": each.size,
        }
        for each in sessions
    ]


def seconds(at: datetime | None) -> float | None:
    """Return a time in seconds since 1970, as allauth's API has times."""
    return None if at is None else at.timestamp()
