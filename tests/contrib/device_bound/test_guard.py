"""Which requests open a session that is bound to a device, and what the others leave alone."""

import pytest

from django_redsess.contrib.device_bound.guard import GO_ON, refused_response

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


def test_a_page_that_goes_on_by_itself_stays_on_this_site(rf) -> None:
    request = rf.get("/")
    request.path = request.path_info = "//elsewhere.example/"
    page = refused_response(GO_ON, False, request).content.decode()
    assert 'content="0; url=/%2Felsewhere.example/"' in page
    assert 'href="/%2Felsewhere.example/"' in page
