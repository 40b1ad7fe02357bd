"""
A month of sign-ins that the demo makes up: how its shoppers came before they are here now, and how they went.

Each has a rhythm and devices of their own. One account was stolen: somebody elsewhere signed in with it, on a device
that was new, and the administrator ended that.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.contrib.history.models import SignIn, who_ended
from django_redsess.contrib.history.receivers import row_of_beginning
from django_redsess.signals import Reason
from testproject.people import (
    CHROME_WINDOWS,
    FIREFOX_WINDOWS,
    MORE_BROWSERS,
    PASSWORD,
    SAFARI_IPHONE,
    SHOPPERS,
    account,
)

DAYS = 30
GONE = ("Nora Keller", "192.0.2.200", CHROME_WINDOWS)
"""A shopper who is not here now: the administrator has ended the session of a thief, and hers."""

THIEF = ("203.0.113.77", FIREFOX_WINDOWS)

# How most go. The others are given.
ENDS = (*[Reason.EXPIRED] * 6, *[Reason.LOGOUT] * 5, Reason.REPLACED, Reason.KICKED)


def make(now: datetime | None = None) -> None:
    """Write the sign-ins of the past month, and those of the sessions that are here now, in place of what was there."""
    now, chance = now or datetime.now(UTC), Random(5)
    # By its device, a browser that is here now is known again when its user signs in with it once more.
    devices = {(row.user_id, row.user_agent): row.device_cookie for row in SignIn.objects.order_by("login_ms")}
    SignIn.objects.all().delete()
    gone, last_name = GONE[0].split()
    account(gone.lower(), PASSWORD, first_name=gone, last_name=last_name)
    users = {user.username: user for user in User.objects.all()}
    rows = _stolen(users[gone.lower()], users["admin"], now)
    for name, address, user_agent in (*SHOPPERS, *MORE_BROWSERS, GONE):
        user = users[name.split()[0].lower()]
        rows += _past(user, address, user_agent, now, chance)
        if chance.random() < 0.6:
            # On the way, with a telephone.
            rows += _past(user, f"198.51.100.{chance.randrange(200, 250)}", SAFARI_IPHONE, now, chance, often=0.3)
    for user in users.values():
        for each in online.of_user(user):
            if each.created_at:
                row = _row(user, each.created_at, each.address, each.user_agent, last_seen_at=each.last_seen_at)
                row.device_cookie = devices.get((user.pk, each.user_agent), "")
                rows.append(row)
    # Two sign-ins of a user are never in the same millisecond.
    SignIn.objects.bulk_create({(row.user_id, row.login_ms): row for row in rows}.values())


def _past(user: User, address: str, user_agent: str, now: datetime, chance: Random, often: float = 0.7) -> list[SignIn]:
    rows, is_first = [], True
    for days_ago in range(DAYS, 1, -1):
        if chance.random() > often:
            continue
        at = now - timedelta(days=days_ago, minutes=chance.randrange(9 * 60))
        last_seen_at = at + timedelta(minutes=chance.randrange(2, 90))
        reason = chance.choice(ENDS)
        ended_at = last_seen_at + timedelta(hours=12) if reason is Reason.EXPIRED else last_seen_at
        # Nobody knows about one in thirty: a process was killed before it wrote.
        is_about = chance.random() < 0.03
        rows.append(
            _row(
                user,
                at,
                address,
                user_agent,
                last_seen_at=last_seen_at,
                ended_at=ended_at,
                ended_at_is_approximate=is_about,
                reason="" if is_about else reason,
                # On another device of one's own.
                ended_by=str(user.pk) if reason is Reason.KICKED and not is_about else "",
                is_new_device=is_first,
            )
        )
        is_first = False
    return rows


def _stolen(user: User, admin: User, now: datetime) -> list[SignIn]:
    came, ended = now - timedelta(hours=26), now - timedelta(hours=25)
    end: dict[str, Any] = {"ended_at": ended, "reason": Reason.KICKED, "ended_by": str(admin.pk)}
    message = "Your password was stolen. Call us."
    return [
        _row(user, came, *THIEF, last_seen_at=ended, is_new_device=True, stored_message=message, **end),
        _row(user, came - timedelta(hours=2), *GONE[1:], last_seen_at=came, is_new_device=False, **end),
    ]


def _row(user: User, at: datetime, address: str, user_agent: str, **fields: object) -> SignIn:
    row = row_of_beginning(user.pk, at, address, user_agent)
    for name, value in fields.items():
        setattr(row, name, value)
    row.who_ended = who_ended(str(user.pk), row.reason, row.ended_by)
    return row
