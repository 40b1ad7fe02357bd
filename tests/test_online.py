import threading

import pytest

from django_redsess import online, store
from tests.behind import make_due

pytestmark = pytest.mark.usefixtures("partitions")


def sign_in(new_session, *users: str) -> list[str]:
    """Sign these users in one after the other, a moment apart, and return the sids."""
    sids = []
    for user in users:
        # Times are milliseconds: within one, the order would be that of the sids.
        threading.Event().wait(0.002)
        sids.append(new_session(user).sid)
    return sids


def test_newest_sign_in_comes_first(new_session) -> None:
    sids = sign_in(new_session, "a", "b", "c")
    assert [session.sid for session in online.sessions()] == sids[::-1]
    assert [session.sid for session in online.sessions(newest_first=False)] == sids


def test_pages_follow_on_each_other(new_session) -> None:
    sids = sign_in(new_session, *"abcdefghij")
    pages = [[session.sid for session in online.sessions(offset=offset, limit=4)] for offset in (0, 4, 8, 12)]
    assert pages == [sids[:5:-1], sids[5:1:-1], sids[1::-1], []]


def test_sessions_of_some_users_page_in_the_same_order(new_session) -> None:
    sids = sign_in(new_session, "a", "b", "a", "c", "b", "a")
    wanted = [sids[5], sids[4], sids[2], sids[1], sids[0]]
    assert [session.sid for session in online.sessions(user_ids=["a", "b"])] == wanted
    assert [session.sid for session in online.sessions(user_ids=["a", "b"], offset=1, limit=2)] == wanted[1:3]
    assert [session.sid for session in online.sessions(user_ids=["a", "b"], newest_first=False)] == wanted[::-1]
    assert online.count(user_ids=["a", "b"]) == 5


def test_what_cannot_be_asked_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="offset must be 0 or more, not -1"):
        online.sessions(offset=-1)
    for ask in (online.sessions, online.count):
        with pytest.raises(ValueError, match="At most 1000 users can be asked for at once, not 1001"):
            ask(user_ids=["a"] * 1001)


def test_no_users_have_no_sessions(new_session) -> None:
    sign_in(new_session, "a")
    assert online.sessions(user_ids=[]) == []
    assert online.count(user_ids=[]) == 0


def test_guests_are_not_listed_and_can_be_found(new_session) -> None:
    guest = new_session(colour="blue")
    assert online.count() == 0
    assert online.sessions() == []
    found = online.get(guest.sid)
    assert (found.user_id, found.login_at) == ("", None)


@pytest.mark.parametrize("sid", ["", "x" * 20, "not a sid", "a:b", "x" * 1_000_000])
def test_an_unknown_sid_is_none(sid: str) -> None:
    assert online.get(sid) is None
    assert online.end(sid) == []


def test_of_user_takes_a_user(new_session, django_user_model, db) -> None:
    user = django_user_model.objects.create(username="alice")
    [sid] = sign_in(new_session, str(user.pk))
    assert [session.sid for session in online.of_user(user)] == [sid]


def test_ending_a_session_takes_it_out_of_everything(redis, new_session) -> None:
    sids = sign_in(new_session, "a", "a", "b")
    assert {(ended.sid, ended.user_id) for ended in online.end(sids[0], sids[2])} == {(sids[0], "a"), (sids[2], "b")}
    assert [session.sid for session in online.sessions()] == [sids[1]]


def test_ending_what_is_gone_is_no_error(new_session) -> None:
    [sid] = sign_in(new_session, "a")
    assert [ended.user_id for ended in online.end(sid)] == ["a"]
    assert online.end(sid) == []


def test_more_sessions_than_a_batch_are_ended(new_session) -> None:
    sids = [new_session("a").sid for _ in range(1100)]
    assert {session.sid for session in online.find(sids)} == set(sids)
    assert len(online.end(*sids)) == 1100
    assert online.count() == 0


def test_counts_leave_out_what_is_due(redis, new_session) -> None:
    sids = sign_in(new_session, "a", "b", "c")
    make_due(redis, sids[1])
    assert online.count() == 2
    assert [session.sid for session in online.sessions()] == [sids[2], sids[0]]


def test_a_page_and_its_count_take_a_round_trip_a_partition_each(commands, partitions, new_session) -> None:
    sign_in(new_session, "a", "b")
    online.count()
    online.sessions()
    commands()
    online.count()
    online.sessions()
    assert commands()["evalsha"] == 2 * partitions


def test_a_record_that_was_tampered_with_shows_no_details(redis, new_session, caplog) -> None:
    [sid] = sign_in(new_session, "a")
    login = store.keyspace().of_sid(sid).login
    redis.hset(login, sid, redis.hget(login, sid) + b"x")
    assert [(session.sid, session.user_id) for session in online.sessions()] == [(sid, "")]
    assert "is not usable" in caplog.text
