"""The clock of a test's store can be moved."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User
from django.test import AsyncClient, Client

from django_redsess import cleaning, online, viewed
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SignInRefused
from django_redsess.testing import own_store, travel
from tests.helpers import every_operation
from tests.helpers.store import scripts

MINUTE = 60
HOUR = 3600
DAY = 24 * HOUR


def last_seen_at(session: SessionStore) -> datetime:
    found = online.get(session.sid)
    assert found is not None
    return found.last_seen_at


@pytest.mark.django_db
@pytest.mark.parametrize("timeout", ["IDLE_TIMEOUT", "ABSOLUTE_TIMEOUT"])
@pytest.mark.parametrize("kind", ["sync", "async"])
def test_a_time_out_is_tested_without_waiting(settings, partitions, timeout: str, kind: str) -> None:
    settings.REDSESS = {timeout: 30 * MINUTE}
    bob = User.objects.create_user("bob", is_staff=True)
    client: Any = Client() if kind == "sync" else AsyncClient()
    get = client.get if kind == "sync" else async_to_sync(client.get)
    with own_store():
        client.force_login(bob)
        with travel(29 * MINUTE):
            assert get("/admin/").status_code == 200
            # Within another, it counts from that one's time.
            with travel(timedelta(minutes=29)):
                assert get("/admin/").status_code == (200 if timeout == "IDLE_TIMEOUT" else 302)
        with travel(timedelta(hours=2)):
            assert get("/admin/").status_code == 302


def test_last_seen_samples_and_the_cleaner_go_by_the_moved_clock(settings, new_session, redis) -> None:
    settings.REDSESS = {"TOUCH_INTERVAL": 10, "IDLE_TIMEOUT": DAY}
    with own_store():
        session = new_session("1")
        cleaning.take_sample()
        at = last_seen_at(session).replace(microsecond=0) + timedelta(hours=3)
        with travel(at):
            every_operation.request(session.session_key, {})
            assert at - timedelta(seconds=10) <= last_seen_at(session) < at + timedelta(hours=1)
            assert online.count(active_seconds=MINUTE) == 1
            cleaning.take_sample()
            taken = [sample.at for sample in online.samples()]
            assert timedelta(hours=2) < taken[-1] - taken[0] < timedelta(hours=4)
        with travel(2 * DAY):
            assert sum(cleaning.expire_sessions()) == 1


@pytest.mark.django_db
def test_a_block_ends_and_so_does_what_expires_in_the_server_by_itself(new_session) -> None:
    bob = User.objects.create_user("bob")
    with own_store():
        session = new_session(str(bob.pk))
        online.end_user(bob)
        online.block(bob, until=datetime.now(UTC) + timedelta(hours=2), message="Call us.")
        with travel(HOUR):
            with pytest.raises(SignInRefused):
                Client().force_login(bob)
            assert SessionStore(session.session_key).ended is not None
        with travel(2 * DAY):
            Client().force_login(bob)
            assert online.count() == 1
            # The note of a session that was ended stays for a day.
            assert SessionStore(session.session_key).ended is None


def test_popularity_counts_since_the_moved_time(new_session) -> None:
    with own_store(), travel(10 * DAY):
        session = new_session("1")
        viewed.record(session, "lamp")
        assert viewed.total().since > datetime.now(UTC) + timedelta(days=9)


def test_each_script_that_reads_the_clock_is_moved() -> None:
    plain = {script.name: script.text for script in scripts.all_scripts()}
    with own_store(), travel(HOUR):
        moved = {script.name for script in scripts.all_scripts() if script.text != plain[script.name]}
    # What agreement replies is read by this process's clock, which is moved by itself.
    assert moved == {name for name, text in plain.items() if '"TIME"' in text} - {"agreement"}
    assert plain == {script.name: script.text for script in scripts.all_scripts()}


def test_only_the_clock_of_a_tests_own_store_moves_and_only_ahead() -> None:
    with pytest.raises(RuntimeError, match="own_store"), travel(1):
        pass
    with own_store():
        for wrong in (-1, timedelta(days=-1), datetime(2001, 2, 3, tzinfo=UTC)):
            with pytest.raises(ValueError, match="ahead"), travel(wrong):
                pass
        with pytest.raises(ValueError, match="zone"), travel(datetime(2100, 1, 1)):
            pass
        with pytest.raises(TypeError, match="timedelta"), travel("tomorrow"):  # type: ignore[arg-type]
            pass
