"""Two requests that change the same session: how their changes become one."""

import math
import time
from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.contrib.auth.models import User
from hypothesis import given, settings
from hypothesis import strategies as st

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionStoreUnavailable
from django_redsess.session import saving
from django_redsess.session.merge import merge, same
from tests.helpers.properties import Data, exactly, merged, some_data, values
from tests.helpers.strange_values import (
    Agrees,
    EncryptingSerializer,
    PickleSerializer,
    Refuses,
    WithoutEq,
    state_of,
    written_by,
)


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


SERIALIZERS = [PickleSerializer, EncryptingSerializer]

strange_values = st.recursive(
    st.one_of(
        values,
        st.builds(WithoutEq, st.integers(0, 1)),
        st.builds(Agrees, st.integers(0, 1)),
        st.builds(Refuses, st.integers(0, 1)),
        st.builds(lambda name: User(pk=1, username=name), st.sampled_from(["alice", "lukas"])),
        st.sampled_from([math.nan, 0.0, -0.0, 1.0, Decimal("1.0"), Decimal("1.00"), Decimal("sNaN"), object]),
        st.frozensets(st.sampled_from([0, 8, 16, "a", "b"])),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=2),
        st.tuples(inner, inner),
        st.dictionaries(st.sampled_from(["x", "y", 1]), inner, max_size=2),
        st.builds(lambda value: [value, value], inner),
        st.builds(OrderedDict, st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2)),
    ),
    max_leaves=4,
)


@pytest.mark.parametrize("serializer", SERIALIZERS)
@settings(max_examples=30)
@given(before=strange_values, after=strange_values, others=strange_values)
def test_a_change_is_what_the_serializer_writes_whatever_the_values_say_of_equality(
    new_session, serializer, before: object, after: object, others: object
) -> None:
    with written_by(serializer):
        session = new_session(kept=before, changed=before)
        one, other = loaded(session), loaded(session)
        other["kept"] = others
        other["others"] = True
        other.save()
        one["changed"] = after
        one.save()
        found = loaded(session)
        assert state_of(dict(one.items())) == state_of(dict(found.items()))
        assert state_of(found["kept"]) == state_of(others)
        assert state_of(found["changed"]) == state_of(after)
        assert found["others"]


def test_what_is_not_even_equal_to_itself_is_no_change(new_session) -> None:
    session = new_session(rate=math.nan, rates=[math.nan, 0.0])
    one, other = loaded(session), loaded(session)
    other["rate"], other["rates"] = 1, 2
    other.save()
    one["more"] = True
    one.save()
    assert dict(loaded(session).items()) == {"rate": 1, "rates": 2, "more": True}


def test_a_zero_of_another_sign_is_a_change(new_session) -> None:
    session = new_session(rate=0.0)
    one, other = loaded(session), loaded(session)
    other["more"] = True
    other.save()
    one["rate"] = -0.0
    one.save()
    assert math.copysign(1, loaded(session)["rate"]) == -1


@pytest.mark.parametrize("serializer", SERIALIZERS)
@pytest.mark.parametrize("kind", [WithoutEq, Agrees, Refuses])
def test_an_object_that_was_saved_again_unchanged_is_no_change(new_session, serializer, kind) -> None:
    with written_by(serializer):
        session = new_session()
        one = loaded(session)
        one["thing"] = {"held": [kind(1), {"a", "b"}]}
        one.save()
        other = loaded(session)
        other["thing"] = kind(2)
        other.save()
        one["more"] = True
        one.save()
        assert state_of(loaded(session)["thing"]) == state_of(kind(2))
