"""What lists tell of sessions that browsers have bound."""

import pytest

from django_redsess import online

pytestmark = pytest.mark.usefixtures("users_in_no_table")


def found(**asked: bool) -> list[str]:
    sids = [each.sid for each in online.sessions(**asked)]
    assert online.count(**asked) == len(sids)
    return sids


def test_a_session_is_listed_as_bound_once_its_browser_has_bound_it(new_device) -> None:
    plain, bound = new_device(registers=False), new_device(registers=False)
    plain.sign_in_as(1)
    bound.sign_in_as(2)
    assert found(device_bound=True) == []
    bound.register()
    assert (found(device_bound=True), found(device_bound=False)) == ([bound.sid], [plain.sid])
    # Another key, and the same binding.
    bound.get("/held/cycle/")
    assert found(device_bound=True) == [bound.sid]
    # Who signs in there next has a session that is yet to be bound.
    bound.registers = False
    bound.sign_in_as(3)
    assert found(device_bound=True) == []


def test_a_session_that_has_yet_to_be_bound_is_not_listed_as_bound(new_device, settings) -> None:
    required = "tests.contrib.device_bound.test_required.everybody"
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_REQUIRED": required}
    device = new_device(registers=False)
    device.sign_in_as(1)
    assert (found(device_bound=True), found(device_bound=False)) == ([], [device.sid])
    assert online.details(device.sid).bound_at is None
    device.register()
    assert (found(device_bound=True), found(device_bound=False)) == ([device.sid], [])


def test_details_tell_when_the_device_has_proved_itself_last(device) -> None:
    before = online.details(device.sid)
    assert before.bound_at == before.proved_at
    device.proof = None
    assert device.get("/held/who/").status_code == 200
    after = online.details(device.sid)
    assert after.bound_at == before.bound_at
    assert after.proved_at > after.bound_at
