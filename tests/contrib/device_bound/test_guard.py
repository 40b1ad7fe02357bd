"""Which requests open a session that is bound to a device, and what the others leave alone."""

import pytest

pytestmark = pytest.mark.usefixtures("users_in_no_table")


@pytest.fixture
def device(new_device, later):
    """A browser whose session was bound a while ago."""
    browser = new_device()
    browser.sign_in_as(1)
    later(30)
    return browser


def test_a_request_with_the_proof_opens_the_session(device) -> None:
    assert device.send("get", "/held/who/").content == b"1"


def test_a_request_without_proof_is_refused(device) -> None:
    device.proof = None
    response = device.send("get", "/held/who/")
    assert (response.status_code, list(response.cookies)) == (401, [])
    assert device.get("/held/who/").content == b"1"
