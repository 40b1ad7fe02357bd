"""Two requests that change the same session: how their changes become one."""

import time
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import saving
from django_redsess.session.merge import merge, same
from tests.helpers.properties import Data, exactly, merged, some_data


def loaded(session: SessionStore) -> SessionStore:
    """Return another object of the same session, which has read its data."""
    other = SessionStore(session.session_key)
    other.get("anything")
    return other


def test_each_of_two_saves_keeps_the_others_change(new_session) -> None:
    session = new_session(colour="blue", size=1)
    one, other = loaded(session), loaded(session)
    one["basket"] = ["lamp"]
    del one["colour"]
    one.save()
    other["size"] = 2
    other.save()
    assert dict(loaded(session).items()) == {"basket": ["lamp"], "size": 2}
    assert dict(other.items()) == {"basket": ["lamp"], "size": 2}


def test_what_the_serializer_changes_by_itself_is_no_change(new_session) -> None:
    session = new_session()
    one = loaded(session)
    one["place"] = (1, 2)
    one.save()
    other = loaded(session)
    other["place"] = [3]
    other.save()
    one["more"] = True
    one.save()
    assert loaded(session)["place"] == [3]


def test_a_merge_leaves_the_objects_that_the_request_holds(new_session) -> None:
    session = new_session(colour="blue")
    one, other = loaded(session), loaded(session)
    basket = one.setdefault("basket", [])
    other["colour"] = "red"
    other.save()
    one.save()
    basket.append("lamp")
    one.save()
    assert dict(loaded(session).items()) == {"basket": ["lamp"], "colour": "red"}


def test_reading_again_does_not_make_others_changes_ones_own(new_session) -> None:
    session = new_session(colour="blue")
    one, other = loaded(session), loaded(session)
    other["colour"] = "red"
    other.save()
    one.load()
    other["colour"] = "green"
    other.save()
    one["size"] = 1
    one.save()
    assert loaded(session)["colour"] == "green"


@pytest.mark.usefixtures("partitions")
@pytest.mark.parametrize("before", ["7", ""], ids=["rotation", "sign-in"])
def test_a_new_key_keeps_what_another_request_saved_meanwhile(new_session, before: str) -> None:
    session = new_session(before)
    one, other = loaded(session), loaded(session)
    one.cycle_key()
    one["_auth_user_id"] = "7"
    other["colour"] = "blue"
    other.save()
    one.save()
    assert loaded(one)["colour"] == "blue"
    assert [found.sid for found in online.sessions()] == [one.sid]


def test_a_save_that_never_gets_its_turn_is_an_outage_in_bounded_time(new_session, monkeypatch) -> None:
    session = new_session()
    monkeypatch.setattr(saving, "SAVE_SECONDS_MAX", 0.2)
    slow = loaded(session)
    dumps = slow.serializer.dumps

    class Overtaken(slow.serializer):
        def dumps(self, data):
            # Between what this one read and its next try, somebody else saves.
            other = loaded(session)
            other["time"] = datetime.now(UTC).isoformat()
            monkeypatch.setattr(other, "serializer", slow.__class__().serializer)
            other.save()
            return dumps(self, data)

    slow.serializer = Overtaken
    slow["colour"] = "blue"
    began = time.monotonic()
    with pytest.raises(SessionStoreUnavailable):
        slow.save()
    assert 0.2 < time.monotonic() - began < 5
    assert "colour" not in loaded(session)


@pytest.mark.unit
@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}),
        ({}, {"a": None}, {}, {"a": None}),
        ({"a": 1}, {"a": True}, {"a": 1, "b": 2}, {"a": True, "b": 2}),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}, {"a": 3}, {"a": [{"b": False}]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, {"a": 3}, {"a": 3}),
    ],
)
def test_own_changes_hold_and_all_others_stay(base, mine, theirs, merged) -> None:
    assert same(merge(base, mine, theirs), merged)


@pytest.mark.unit
@settings(max_examples=200)
@given(base=some_data, mine=some_data, theirs=some_data)
def test_a_merge_is_what_the_model_makes_of_it(base: Data, mine: Data, theirs: Data) -> None:
    assert exactly(merge(base, mine, theirs)) == exactly(merged(base, mine, theirs))
