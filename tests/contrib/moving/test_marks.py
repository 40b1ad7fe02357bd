"""How long a mark lives: as long as its row may."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.sessions.models import Session
from django.utils import timezone

from django_redsess import online
from django_redsess.contrib.moving import SessionStore, in_bulk
from tests.helpers.store import keyspace, sid_of

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "moving")]


def pass_time(redis: Any, row: Session, by: timedelta) -> None:
    """Have all keys that expire, and the row, come as near to their ends as they will have after this time."""
    for name in redis.keys():
        left = redis.pttl(name)
        if left > 0:
            # A time that is over deletes the key.
            redis.pexpire(name, left - int(by.total_seconds() * 1000))
    row.expire_date -= by


@pytest.mark.parametrize("how", ["moved and ended", "ended in step 2", "ended in step 1", "ended with all"])
@pytest.mark.parametrize("days", [60, 1 / 24], ids=["a row that lives long", "a row that was prolonged"])
def test_what_has_ended_does_not_return_before_its_row_ends(moving, old_session, step, redis, how, days) -> None:
    key = old_session("7").session_key
    row = Session.objects.get(pk=key)
    row.expire_date = timezone.now() + timedelta(days=days)
    row.save()
    with step(1 if how == "ended in step 1" else 2):
        if how == "ended with all":
            online.end_all()
        else:
            session = SessionStore(key)
            if how == "moved and ended":
                assert session.load()
            session.flush()
    # A process of the release before writes it once more, and prolongs it by the age of a cookie.
    row.expire_date = max(row.expire_date, timezone.now() + timedelta(seconds=moving.SESSION_COOKIE_AGE))
    pass_time(redis, row, row.expire_date - timezone.now() - timedelta(minutes=1))
    Session.objects.filter(pk=key).delete()
    row.save(force_insert=True)
    for number in (1, 2):
        with step(number):
            assert SessionStore(key).load() == {}


FOREIGN = ["9" * 5000, "1024", "²", "-1", "0x1", "\n", "departed"]


@pytest.mark.parametrize("mark", FOREIGN, ids=lambda mark: ascii(mark[:9]))
@pytest.mark.parametrize("number", [1, 2])
def test_a_mark_that_another_program_wrote_fails_no_request(old_session, step, redis, number: int, mark: str) -> None:
    key = old_session("7").session_key
    name = keyspace().of_sid(sid_of(key)).moved_of(sid_of(key))
    redis.set(name, mark)
    with step(number):
        for _ in in_bulk.move_rows():
            pass
        session = SessionStore(key)
        assert session.load() == {}
        session.flush()
    # No release writes it, so the oracle does not know it.
    redis.delete(name)
