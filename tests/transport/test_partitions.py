"""Several partitions: where sessions are, and what happens when their number changes."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from django_redsess.transport.keys import keyspace
from tests.helpers.outages import full
from tests.helpers.store import pool, stored

pytestmark = pytest.mark.both_servers


@pytest.fixture(autouse=True)
def four_partitions(settings) -> None:
    settings.REDSESS = {"PARTITIONS": 4}


@pytest.fixture
def fresh_process() -> None:
    """As if nothing had been asked of the store by this process yet."""
    pool().invalidate()


def test_all_sessions_of_a_user_are_in_one_partition(new_session) -> None:
    space = keyspace()
    for user in ("7", "8", "9", "ä:ö"):
        sids = {new_session(user).sid for _ in range(5)}
        assert {space.of_sid(sid) for sid in sids} == {space.of_user(user)}
        assert {found.sid for found in online.sessions(user_ids=[user])} == sids


@pytest.mark.parametrize("number", range(8))
def test_sign_in_moves_a_session_home_with_all_it_has(redis, new_session, number: int) -> None:
    session = new_session(colour="blue")
    for item in ("lamp", "vase"):
        viewed.record(session, item)
    old_key = session.session_key
    session.cycle_key()
    session["_auth_user_id"] = f"{number}"
    session.save()
    assert keyspace().of_sid(session.sid) == keyspace().of_user(f"{number}")
    assert SessionStore(session.session_key)["colour"] == "blue"
    assert [found.item for found in viewed.recent(session)] == ["vase", "lamp"]
    assert SessionStore(old_key).load() == {}
    assert stored(redis) == 1


def test_a_users_list_and_count_ask_one_partition_only(commands, new_session) -> None:
    new_session("7")
    commands()
    assert len(online.sessions(user_ids=["7"])) == online.count(user_ids=["7"]) == 1
    assert commands()["evalsha"] == 2


@pytest.mark.parametrize("now", [1, 2, 8])
def test_another_number_of_partitions_is_an_error_that_says_so(fresh_process, settings, new_session, now: int) -> None:
    session = new_session("7")
    settings.REDSESS = {"PARTITIONS": now}
    for use in (SessionStore(session.session_key).load, online.count, SessionStore().create):
        with pytest.raises(ImproperlyConfigured, match=r"spread over 4 partitions.*REDSESS\['PARTITIONS'\] back to 4"):
            use()
    settings.REDSESS = {"PARTITIONS": 4}
    assert SessionStore(session.session_key)["_auth_user_id"] == "7"


def test_another_prefix_may_have_another_number(fresh_process, settings, new_session) -> None:
    new_session("7")
    settings.REDSESS = {"PARTITIONS": 2, "PREFIX": "other"}
    assert online.count() == 0
    settings.REDSESS = {"PARTITIONS": 4}


def test_a_full_server_is_used_though_it_cannot_note_the_number(fresh_process, redis) -> None:
    with full(redis):
        assert online.count() == 0
    assert redis.keys() == []
