"""Sessions that must be bound, by ``DEVICE_BOUND_REQUIRED``: a minute after the sign-in, others open no more."""

from typing import Any

import pytest

from tests.helpers.site import people


def everybody(user: Any) -> bool:
    return True


def only_the_first(user: Any) -> bool:
    return bool(user.pk == 1)


def nobody_knows(user: Any) -> bool:
    raise RuntimeError("The rule fails.")


pytestmark = pytest.mark.usefixtures("users_in_no_table")


@pytest.fixture
def required(settings):
    def require(function: Any) -> None:
        path = f"{__name__}.{function.__name__}"
        settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_REQUIRED": path}

    return require


def signed_in(new_device, user_id: int = 1, **options: Any) -> Any:
    device = new_device(**options)
    device.sign_in_as(user_id)
    return device


def test_a_session_that_is_bound_in_time_goes_on(new_device, required, later) -> None:
    required(everybody)
    device = signed_in(new_device)
    later(90)
    assert device.get("/held/who/").content == b"1"


def test_a_session_that_is_not_bound_opens_for_a_minute(new_device, required, later) -> None:
    required(everybody)
    device = signed_in(new_device, registers=False)
    later(55)
    assert device.get("/held/who/").content == b"1"
    later(62)
    response = device.get("/held/who/", accept="text/html")
    assert (response.status_code, list(response.cookies)) == (401, [])
    text = response.content.decode()
    assert "<h1>This browser can’t be used for your account</h1>" in text
    assert "For your account, a session must be bound to your device. This browser has not done that." in text
    assert "Sign in again with another browser, such as a current version of Chrome or Edge." in text
    later(6000)
    assert device.get("/held/write/colour/blue/").status_code == 401


def test_registrations_after_the_minute_are_refused(new_device, required, later) -> None:
    required(everybody)
    device = signed_in(new_device, registers=False)
    later(62)
    assert device.register().status_code == 403
    assert device.get("/held/who/").status_code == 401


def test_a_copy_of_the_cookie_does_not_open_it_either(new_device, required, later) -> None:
    required(everybody)
    device, thief = signed_in(new_device, registers=False), new_device()
    thief.cookie = device.cookie
    later(62)
    assert thief.get("/held/who/").status_code == 401


def test_who_signs_in_again_has_another_minute(new_device, required, later) -> None:
    required(everybody)
    device = signed_in(new_device, registers=False)
    later(62)
    assert device.get("/held/who/").status_code == 401
    assert device.get("/login/", accept="text/html").status_code == 200
    later(0)
    device.client.cookies.clear()
    device.registers = True
    device.sign_in_as(1)
    later(200)
    assert device.get("/held/who/").content == b"1"


def test_a_second_sign_in_in_the_same_session_leaves_a_binding_alone(new_device, required, later) -> None:
    required(everybody)
    device = signed_in(new_device)
    later(30)
    device.registers = False
    device.sign_in_as(1)
    later(200)
    assert device.get("/held/who/").content == b"1"


@pytest.mark.parametrize("how", ["signs out before", "has another password"])
def test_a_session_that_replaces_a_bound_one_must_be_bound_too(new_device, required, later, how: str) -> None:
    required(everybody)
    people.passwords.clear()
    device = signed_in(new_device)
    later(30)
    assert device.get("/held/who/").content == b"1"
    device.registers = False
    if how == "signs out before":
        assert device.get("/held/sign-in-anew/1/").status_code == 200
    else:
        # login() ends a session with another hash.
        people.passwords[1] = "another"
        assert device.sign_in_as(1).status_code == 200
    assert device.get("/held/who/").content == b"1"
    later(95)
    assert device.get("/held/who/").status_code == 401
    people.passwords.clear()


def test_sessions_of_other_users_need_not_be_bound(new_device, required, later) -> None:
    required(only_the_first)
    device = signed_in(new_device, 2, registers=False)
    later(90)
    assert device.get("/held/who/").content == b"2"


def test_the_next_user_of_the_browser_need_not_bind(new_device, required, later) -> None:
    required(only_the_first)
    device = signed_in(new_device, 1, registers=False)
    device.sign_in_as(2)
    later(90)
    assert device.get("/held/who/").content == b"2"


def test_a_rule_that_fails_signs_nobody_in(new_device, required) -> None:
    required(nobody_knows)
    device = new_device(registers=False)
    assert device.sign_in_as(1).status_code == 500
    assert device.get("/held/who/").content == b"nobody"


def test_a_session_that_was_there_before_the_setting_goes_on(new_device, required, later) -> None:
    device = signed_in(new_device, registers=False)
    required(everybody)
    later(90)
    assert device.get("/held/who/").content == b"1"
