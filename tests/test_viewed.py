from dataclasses import replace

import pytest

from django_redsess import online, store, viewed
from django_redsess.backend import SessionStore
from tests.behind import names_of_sessions

pytestmark = pytest.mark.usefixtures("partitions")


def items_of(session: SessionStore) -> list[str]:
    return [found.item for found in viewed.recent(session)]


def test_items_come_newest_first(new_session) -> None:
    session = new_session()
    for item in ("lamp", "vase", "bowl"):
        assert viewed.record(session, item)
    assert items_of(session) == ["bowl", "vase", "lamp"]


def test_an_item_viewed_again_moves_to_the_front(new_session) -> None:
    session = new_session()
    for item in ("lamp", "vase", "lamp"):
        viewed.record(session, item)
    assert items_of(session) == ["lamp", "vase"]


def test_the_newest_25_are_kept(new_session) -> None:
    session = new_session()
    for item in range(40):
        viewed.record(session, item)
    assert items_of(session) == [str(item) for item in reversed(range(15, 40))]


def test_how_many_are_kept_is_a_setting(new_session, settings) -> None:
    settings.REDSESS = {"VIEWED_PER_SESSION": 2}
    session = new_session()
    for item in range(5):
        viewed.record(session, item)
    assert items_of(session) == ["4", "3"]


def test_the_newest_stays_first_when_the_clock_stepped_back(redis, new_session) -> None:
    session = new_session()
    redis.zadd(store.keyspace().of_sid(session.sid).viewed_by(session.sid), {"before": 10_000_000_000_000})
    viewed.record(session, "now")
    assert items_of(session) == ["now", "before"]


def test_most_viewed_come_first_over_all_partitions(new_session) -> None:
    for item, times in (("lamp", 2), ("vase", 3), ("bowl", 1)):
        for _ in range(times):
            viewed.record(new_session(), item)
    assert viewed.popular() == [("vase", 3), ("lamp", 2), ("bowl", 1)]
    assert viewed.popular(limit=1) == [("vase", 3)]
    assert [viewed.views(item) for item in ("lamp", "vase", "nothing")] == [2, 3, 0]


@pytest.mark.parametrize("limit", [0, -1])
def test_no_items_are_asked_for_and_none_come(new_session, limit: int) -> None:
    session = new_session()
    viewed.record(session, "lamp")
    assert viewed.recent(session, limit=limit) == []
    assert viewed.popular(limit=limit) == []


def test_a_session_that_is_gone_views_nothing(redis, new_session) -> None:
    session = new_session("7")
    online.end(session.sid)
    assert not viewed.record(session, "lamp")
    assert names_of_sessions(redis) == []
    assert viewed.popular() == []


def test_a_visitor_without_a_session_views_nothing(redis) -> None:
    assert not viewed.record(SessionStore(), "lamp")
    assert redis.keys() == []


def test_a_view_leaves_the_deadline_alone(new_session) -> None:
    session = new_session("7")
    before = online.get(session.sid)
    viewed.record(session, "lamp")
    assert online.get(session.sid) == replace(before, newest_item="lamp")


@pytest.mark.parametrize("item", ["a", "ä" * 32, "x" * 64, "a:b", "nul\0", "line\nbreak", "NaN", "-1", 0, 12345])
def test_what_can_be_an_item(new_session, item: str | int) -> None:
    session = new_session()
    assert viewed.record(session, item)
    assert items_of(session) == [str(item)]


@pytest.mark.parametrize("item", ["", "x" * 65, "ä" * 33, "x" * 1_000_000, "\udcff", None, 1.5, True, b"lamp"])
def test_what_cannot_be_an_item_is_a_clear_error(redis, new_session, item: object) -> None:
    session = new_session()
    with pytest.raises(ValueError, match="An item id is an integer, or text of 1 to 64 bytes"):
        viewed.record(session, item)
    assert items_of(session) == []


def test_a_session_of_another_engine_is_a_clear_error() -> None:
    from django.contrib.sessions.backends.signed_cookies import SessionStore as OtherSession

    with pytest.raises(TypeError, match=r"django_redsess\.backend"):
        viewed.record(OtherSession(), "lamp")


def test_recording_is_one_round_trip_a_partition(commands, new_session) -> None:
    session = new_session()
    viewed.record(session, "lamp")
    commands()
    viewed.record(session, "lamp")
    same = store.keyspace().of_sid(session.sid) == store.keyspace().of_item("lamp")
    assert commands()["evalsha"] == (1 if same else 2)


def test_a_view_in_the_request_that_signs_in_is_kept(new_session) -> None:
    session = new_session(colour="blue")
    session.cycle_key()
    session["_auth_user_id"] = "7"
    assert viewed.record(session, "lamp")
    session.save()
    assert [found.item for found in viewed.recent(session)] == ["lamp"]
