"""The two endpoints: what they accept, what they refuse and by which name, and what they leave alone."""

import pytest

pytestmark = pytest.mark.usefixtures("users_in_no_table")


def test_a_session_is_bound_after_the_sign_in(new_device) -> None:
    device = new_device()
    response = device.sign_in_as(1)
    assert response.status_code == 200
    assert device.bound is not None
    assert device.proof
    device.proof = None
    assert device.get("/held/who/").content == b"1"
    assert device.proof
    assert device.refreshes == 2
