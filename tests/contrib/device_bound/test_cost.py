"""Round trips to the server: of a page in a bound session, and of what browsers do by themselves."""

import pytest

from tests.helpers.device_browser import DeviceBrowser
from tests.helpers.store import make_older

pytestmark = pytest.mark.usefixtures("users_in_no_table")


@pytest.fixture
def device(new_device) -> DeviceBrowser:
    browser: DeviceBrowser = new_device()
    browser.sign_in_as(1)
    return browser


@pytest.mark.parametrize("is_due", [True, False], ids=["touched", "not touched"])
def test_a_page_of_a_bound_session_takes_one_round_trip(redis, device, round_trips, is_due: bool) -> None:
    device.get("/held/who/")
    if is_due:
        make_older(redis, str(device.sid), 20)
    round_trips()
    assert device.get("/held/who/").content == b"1"
    assert round_trips() == 1


def test_a_refusal_takes_one_round_trip(device, later, round_trips) -> None:
    later(30)
    device.proof = None
    for _ in range(2):
        round_trips()
        assert device.send("get", "/held/who/").status_code == 401
        assert round_trips() == 1


def test_a_refresh_takes_one_round_trip_and_then_two(device, round_trips) -> None:
    round_trips()
    challenge = device.challenge()
    assert round_trips() == 1
    assert device.refresh_once(challenge).status_code == 200
    assert round_trips() == 2


def test_a_registration_takes_two_round_trips(new_device, round_trips) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    round_trips()
    assert device.register().status_code == 200
    assert round_trips() == 2


def test_a_sign_in_takes_no_round_trip_more_with_an_offer(new_device, round_trips) -> None:
    device = new_device(registers=False)
    # Before the first, a process asks for the time.
    device.sign_in_as(1)
    sent = []
    for user_id, secure in ((2, False), (3, True)):
        other = new_device(registers=False)
        round_trips()
        # Nothing is offered over plain HTTP.
        response = other._ask(other.client.get, f"{other.views}/held/sign-in/{user_id}/", secure=secure)
        assert ("Secure-Session-Registration" in response) == secure
        sent.append(round_trips())
    assert sent == [2, 2]
