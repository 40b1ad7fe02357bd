"""How the changes of two requests become one, as a function of three dictionaries."""

import pytest
from hypothesis import given, settings

from django_redsess.session.merge import merge, same
from tests.helpers.merging import Data, exactly, merged, some_data

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("base", "mine", "theirs", "merged"),
    [
        ({}, {"a": 1}, {"b": 2}, {"a": 1, "b": 2}),
        ({"a": 1}, {}, {"a": 1, "b": 2}, {"b": 2}),
        ({"a": 1}, {"a": 1, "b": 2}, {}, {"b": 2}),
        ({"a": 1}, {"a": 2}, {}, {"a": 2}),
        ({"a": 1}, {}, {"a": 2}, {}),
        ({"a": 1}, {"a": 2}, {"a": 3}, {"a": 2}),
        ({"a": 1}, {"a": 1}, {"a": 3}, {"a": 3}),
        ({"a": None}, {}, {"a": None}, {}),
        ({}, {"a": None}, {}, {"a": None}),
        ({"a": 1}, {"a": True}, {"a": 1, "b": 2}, {"a": True, "b": 2}),
        ({"a": [{"b": 0}]}, {"a": [{"b": False}]}, {"a": 3}, {"a": [{"b": False}]}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, {"a": 3}, {"a": 3}),
    ],
)
def test_own_changes_hold_and_all_others_stay(base, mine, theirs, merged) -> None:
    assert same(merge(base, mine, theirs), merged)


def test_what_says_who_is_signed_in_moves_as_one_group() -> None:
    base = {"_auth_user_id": "7", "_auth_user_backend": "a", "_auth_user_hash": "old"}
    mine = {**base, "_auth_user_hash": "new"}
    theirs = {"_auth_user_id": "8", "_auth_user_backend": "b", "_auth_user_hash": "other"}
    assert merge(base, mine, theirs) == mine
    assert merge(base, base, theirs) == theirs
    assert merge(base, {}, theirs) == {}


@settings(max_examples=200)
@given(base=some_data, mine=some_data, theirs=some_data)
def test_a_merge_is_what_the_model_makes_of_it(base: Data, mine: Data, theirs: Data) -> None:
    assert exactly(merge(base, mine, theirs)) == exactly(merged(base, mine, theirs))
