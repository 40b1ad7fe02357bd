"""Offers to bind a session to its device, while sessions move."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.contrib.moving.conftest import grow

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("moving", "users_in_no_table")]


def test_a_session_that_is_used_in_the_other_store_is_not_bound(new_device: Callable[..., Any]) -> None:
    device = new_device()
    assert "Secure-Session-Registration" not in device.sign_in_as(1)
    assert device.get("/held/who/").content == b"1"
    device.offer = ("/device-bound/register", "any")
    assert (device.register().status_code, device.bound) == (403, None)
    answer = device.send("post", "/device-bound/refresh", sec_secure_session_id='"any"')
    assert answer.content == b'{"continue": false}'
    assert list(answer.cookies) == []


def test_a_session_that_moves_to_the_new_store_is_bound_at_the_next_sign_in(
    new_device: Callable[..., Any], step: Callable[..., Any]
) -> None:
    device = new_device()
    device.sign_in_as(1)
    with step(2):
        assert device.get("/held/who/").content == b"1"
        assert "Secure-Session-Registration" in device.sign_in_as(1)
        assert device.bound
        device.proof = None
        assert device.get("/held/who/").content == b"1"


def test_a_session_is_bound_while_a_store_grows(
    moving: Any, new_device: Callable[..., Any], step: Callable[..., Any], left_alone: None
) -> None:
    grow(moving, PREFIX="before", PARTITIONS=1)
    with step(1):
        device = new_device()
        device.sign_in_as(1)
        assert device.bound
        device.proof = None
        assert device.get("/held/who/").content == b"1"
    with step(2):
        device.proof = None
        assert device.get("/held/who/").content == b"1"
        assert device.refreshes == 4
        assert device.bound
