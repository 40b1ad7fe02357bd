"""What stands for an item in forms, and how it is shown."""

from __future__ import annotations

import pytest

from django_redsess.models import PopularItem
from django_redsess.querysets import item_of, key_of
from tests.helpers.items import STRANGE

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("item", STRANGE)
def test_a_key_passes_a_form_and_stands_for_one_item(item: str) -> None:
    assert item_of(key_of(item)) == item
    assert not set("\0\r\n") & set(key_of(item))


@pytest.mark.parametrize("item", ["kite", "a/b", "%00", "_5F", "a b", "é"])
def test_the_key_of_an_ordinary_item_is_the_item(item: str) -> None:
    assert key_of(item) == item


def test_what_cannot_be_seen_is_shown_by_a_picture_of_it() -> None:
    assert str(PopularItem(item="a\0b\nc")) == "a␀b␊c"
    assert str(PopularItem(item="<b>kite")) == "<b>kite"
