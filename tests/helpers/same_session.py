"""Users who change within one session, and whether all lists agree on it."""

from __future__ import annotations

import redis as redis_py
from django.contrib.auth.models import User

from django_redsess import online, viewed
from tests.helpers.behind import stored
from tests.helpers.visitors import Browser


def sign_in(browser: Browser, names: str) -> int:
    return browser.get(f"{browser.views}/sign-in/{names}/").status_code


def name_in(browser: Browser) -> str:
    return browser.get("/who/").content.decode()


def items_of(browser: Browser) -> list[str]:
    return [item for item, _ in viewed.recent(browser.sid or "")]


def listed(redis: redis_py.Redis) -> list[str]:
    """Who is signed in, once for each session; see that all lists agree on it, and that there is no other session."""
    everybody = {str(user.pk): user.username for user in User.objects.all()}
    sessions = online.sessions()
    assert len({session.sid for session in sessions}) == len(sessions) == online.count()
    for user in User.objects.all():
        sids = sorted(session.sid for session in sessions if session.user_id == str(user.pk))
        assert sorted(session.sid for session in online.of_user(user)) == sids
        assert online.count(user_ids=[str(user.pk)]) == len(sids)
    assert stored(redis) == len(sessions)
    return sorted(everybody[session.user_id] for session in sessions)
