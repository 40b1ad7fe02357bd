"""What the public functions refuse, and what they answer without a question to the server."""

import pytest

from django_redsess import viewed
from django_redsess import viewed as items

pytestmark = pytest.mark.unit

FUNCTIONS = ["record", "recent", "forget", "popular", "count", "rank", "total", "reset", "reset_all"]


CALLS: list[list[str]] = []


def find(items: list[str]) -> dict[object, str]:
    CALLS.append(items)
    there = {5: "number 5", "lamp": "the lamp"}
    return {item: thing for item, thing in there.items() if str(item) in items}


def test_a_session_of_another_engine_is_a_clear_error() -> None:
    from django.contrib.sessions.backends.signed_cookies import SessionStore as OtherSession

    with pytest.raises(TypeError, match=r"django_redsess\.backend"):
        viewed.record(OtherSession(), "lamp")


@pytest.mark.parametrize(
    "item", ["", "x" * 65, "\udcff", None, 1.5, True, b"lamp", pytest.param(10**5000, id="5001 digits")]
)
@pytest.mark.parametrize("function", [viewed.count, viewed.reset, items.item_id])
def test_every_function_refuses_what_can_be_no_item(function, item: object) -> None:
    with pytest.raises(ValueError, match=r"^An item id is an integer, or text of 1 to 64 bytes in UTF-8\.$"):
        function(item)


def test_an_offset_below_0_is_a_clear_error() -> None:
    with pytest.raises(ValueError, match="offset must be 0 or more, not -1"):
        viewed.popular(offset=-1)


def test_objects_are_looked_up_with_one_call(settings) -> None:
    CALLS.clear()
    settings.REDSESS = {"VIEWED_RESOLVE": f"{__name__}.find"}
    assert viewed.resolve(["5", "lamp", "gone"]) == {"5": "number 5", "lamp": "the lamp"}
    assert CALLS == [["5", "lamp", "gone"]]
    assert viewed.resolve([]) == {}
    assert len(CALLS) == 1


def test_without_a_function_there_are_no_objects(settings) -> None:
    settings.REDSESS = {}
    assert viewed.resolve(["lamp"]) == {}
