"""Which requests open a session that is bound to a device, and what the others leave alone."""

from pathlib import Path

import pytest

from django_redsess.contrib.device_bound import guard
from tests.helpers.site import TEMPLATES

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


def test_a_page_that_goes_on_by_itself_stays_on_this_site(rf, settings) -> None:
    settings.TEMPLATES = [{**TEMPLATES[0], "DIRS": [Path(guard.__file__).parent / "templates"]}]
    request = rf.get("/")
    request.path = request.path_info = "//elsewhere.example/"
    page = guard.refused_response(guard.GO_ON, False, request).content.decode()
    assert 'content="0; url=/%2Felsewhere.example/"' in page
    assert 'href="/%2Felsewhere.example/"' in page
