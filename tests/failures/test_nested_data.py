"""Session data nested so deep that what can be written somewhere can't be read elsewhere."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session import record
from tests.helpers.admin_pages import Page, page_of, staff
from tests.helpers.store import dump

pytestmark = pytest.mark.django_db


def nested(depth: int, inner: Any = "lamp") -> Any:
    """Return so many lists and dicts, one in the other."""
    for level in range(depth):
        inner = [inner] if level % 2 else {"in": inner}
    return inner


@pytest.mark.parametrize("depth", [201, 950, 100_000])
@pytest.mark.parametrize("awaited", [False, True])
def test_what_is_nested_too_deep_is_refused_and_what_was_stored_stays(new_session, redis, depth, awaited) -> None:
    session = new_session("7", colour="blue")
    before = dump(redis)
    late = SessionStore(session.session_key)
    late["colour"], late["basket of alice"] = "red", nested(depth)
    with pytest.raises(ValueError, match=r"'basket of alice' .* more than 200 levels") as caught:
        asyncio.run(late.asave()) if awaited else late.save()
    assert "lamp" not in str(caught.value)
    assert dump(redis) == before
    assert SessionStore(session.session_key)["colour"] == "blue"
    # The same object, once that is taken out.
    del late["basket of alice"]
    late.save()
    assert SessionStore(session.session_key)["colour"] == "red"


def test_what_may_be_saved_can_be_read_far_down_a_stack(new_session) -> None:
    session = new_session("7", basket=nested(200))

    def read(frames: int) -> Any:
        return read(frames - 1) if frames else SessionStore(session.session_key).get("basket")

    assert read(500) == nested(200)


def test_much_data_that_is_not_deep_is_saved(new_session) -> None:
    basket = {f"item {number}": {"sizes": [1, 2], "in": nested(100)} for number in range(50)}
    assert SessionStore(new_session("7", basket=basket).session_key)["basket"] == basket
    keys = {f"key {number}": [number] for number in range(10_000)}
    assert dict(SessionStore(new_session("7", **keys).session_key).items()) == {"_auth_user_id": "7", **keys}


def test_a_view_that_nests_too_deep_fails_and_its_visitor_keeps_the_session(browser, alice) -> None:
    browser.client.raise_request_exception = False
    browser.sign_in(alice)
    browser.post(f"{browser.views}/write/colour/blue/")
    sid = browser.sid
    assert browser.post(f"{browser.views}/nest/950/").status_code == 500
    assert browser.get("/who/").content == b"alice"
    assert browser.sid == sid
    assert browser.get(f"{browser.views}/read/colour/").content == b"blue"
    assert browser.get(f"{browser.views}/read/nested/").content == b""


@pytest.mark.parametrize("permissions", [(), ("view_session_data",)], ids=["keys", "values"])
def test_the_page_of_a_session_of_an_earlier_release_is_shown(client, new_session, monkeypatch, permissions) -> None:
    monkeypatch.setattr(record, "DEPTH_MAX", 10_000)
    staff(client, "view_onlinesession", *permissions)
    # How deep something can be written, read and shown depends on how deep the stack is where that happens.
    for depth in [200, *range(640, 940, 50)]:
        session = None
        with suppress(RecursionError):
            session = new_session("7", basket=nested(depth))
        if session is not None:
            response = client.get(page_of(session.sid))
            assert response.status_code == 200, depth
            assert "basket" in Page(response).text or "can't be read" in Page(response).text, depth
            online.end(session.sid)


def test_of_very_many_keys_the_page_lists_some(client, new_session) -> None:
    session = new_session("7", **{f"key {number}": number for number in range(10_000)})
    staff(client, "view_onlinesession", "view_session_data")
    page = Page(client.get(page_of(session.sid)))
    assert page.text.count("key ") == 500
    # The user's id is one of them.
    assert "And 9501 more keys." in page.text
