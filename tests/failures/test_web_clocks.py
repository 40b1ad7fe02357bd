"""
The clock of a web server is ten minutes fast or slow: what its pages, its API and its commands do goes by the server's.

Sessions themselves are looked at in ``test_clocks.py``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.contrib.auth.models import User
from django.core.management import call_command
from django.test import Client
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.history import repair
from django_redsess.contrib.history.blocks import restore_blocks
from django_redsess.contrib.history.models import BlockCopy, SignIn
from django_redsess.models import OnlineSession
from django_redsess.online import labels
from tests.contrib.history.rows import row
from tests.helpers.accounts import sign_in
from tests.helpers.admin_pages import CONFIRM, LIST, answer, staff
from tests.helpers.api import status
from tests.helpers.store import make_older, now_of

pytestmark = pytest.mark.django_db

AHEAD = timedelta(minutes=10)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


@pytest.fixture(autouse=True, params=[AHEAD, -AHEAD], ids=["fast", "slow"])
def web_clock(request, redis) -> Iterator[timedelta]:
    ahead: timedelta = request.param
    with time_machine.travel(time.time() + ahead.total_seconds()):
        assert abs(timezone.now() - now_of(redis) - ahead) < timedelta(minutes=1)
        yield ahead


@pytest.fixture
def alice() -> User:
    return User.objects.create_user("alice")


@pytest.fixture
def root() -> Client:
    return sign_in(User.objects.create_superuser("root"))


def is_in(at: datetime, expected: timedelta, redis: Any) -> bool:
    """Whether a time is so far ahead by the server's clock, give or take what the test has taken."""
    return abs(at - now_of(redis) - expected) < timedelta(minutes=1)


def test_who_is_active_is_found_by_its_sid(redis, alice, new_session) -> None:
    session = new_session(str(alice.pk))
    active = OnlineSession.online.active(300)
    assert [each.sid for each in active.filter(sid=session.sid)] == [session.sid]
    assert active.filter(sid__in=[session.sid]).count() == active.count() == 1
    # Ten minutes ago it was not active in the last five minutes.
    make_older(redis, session.sid, 600)
    assert active.filter(sid=session.sid).count() == active.count() == 0


@pytest.mark.parametrize("way", ["page", "command"])
def test_a_block_for_an_hour_is_for_an_hour(redis, alice, root, way: str) -> None:
    sign_in(alice)
    if way == "page":
        answer(root, root.get(f"{CONFIRM}?user={alice.pk}"), block=f"1 {alice.pk}")
    else:
        call_command("blockuser", "alice", time="1h", stdout=StringIO())
    [block] = online.blocked()
    assert is_in(block.until, HOUR, redis)


def test_the_longest_block_by_the_api_is_measured_by_the_servers_clock(redis, alice, history) -> None:
    client = staff(Client(), "view_onlinesession", "end_onlinesession", "block_user")
    address = f"users/{alice.pk}/block"
    # A week, and an hour for clocks that differ.
    for more, expected in ((HOUR - timedelta(minutes=5), 200), (HOUR + timedelta(minutes=5), 403)):
        until = now_of(redis) + timedelta(days=7) + more
        assert status(client, "put", address, {"until": until.isoformat()}) == expected
        online.unblock(alice)


def test_pages_and_commands_say_how_long_ago_a_session_was_seen(redis, alice, root, new_session) -> None:
    session = new_session(str(alice.pk))
    [found] = [each for each in online.sessions() if each.sid == session.sid]
    assert "just now" in labels.when(found.last_seen_at)
    assert "in 1 hour" in labels.when(now_of(redis) + HOUR + timedelta(seconds=30)).replace("\xa0", " ")
    assert root.get(LIST).text.count("just now") >= 2
    out = StringIO()
    call_command("online", user=["alice"], stdout=out)
    assert "just now" in out.getvalue()


def test_the_history_is_pruned_and_mended_by_the_servers_clock(redis, settings, history, alice) -> None:
    settings.REDSESS = {**settings.REDSESS, "HISTORY_DAYS": 1}
    before = now_of(redis) - datetime.now(UTC)
    # Two rows that are older than a day and younger, by five minutes; and the latest, which stays in any case.
    for ago in (DAY + timedelta(minutes=5), DAY - timedelta(minutes=5), HOUR):
        row(alice, ago=ago - before, ended_at=now_of(redis))
    assert sum(count for count, _ in repair.prune()) == 1
    assert SignIn.objects.count() == 2
    SignIn.objects.update(ended_at=None)
    assert sum(count for count, _ in repair.close_ended()) == 2
    assert all(is_in(each.ended_at, timedelta(0), redis) for each in SignIn.objects.all())


def test_the_copy_of_a_block_is_kept_as_long_as_the_block(redis, history, alice) -> None:
    until = now_of(redis) + timedelta(minutes=5)
    online.block(alice, until=until)
    assert BlockCopy.objects.count() == 1
    list(restore_blocks())
    assert BlockCopy.objects.count() == 1
    redis.flushall()
    list(restore_blocks())
    block = online.block_of(alice)
    assert block is not None
    assert abs(block.until - until) < timedelta(seconds=1)
