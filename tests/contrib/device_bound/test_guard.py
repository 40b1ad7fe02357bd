"""Which requests open a session that is bound to a device, and what the others leave alone."""

import pytest

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound import protocol
from tests.helpers.store import dump, now_of, sid_of

LIFE = 600 + 60


def is_deleted(response) -> bool:
    """Tell whether the response deletes the proof cookie. No response here touches another one."""
    name = protocol.proof_cookie_name()
    assert set(response.cookies) <= {name}
    return name in response.cookies and response.cookies[name]["max-age"] == 0


def proof_of(redis, *, seconds: int = 0, binding_id: bytes = b"another ") -> str:
    """Return a proof that this site has made so many seconds ago, or will have made."""
    return protocol.make_proof(binding_id, int(now_of(redis).timestamp() * 1000) - seconds * 1000)


def id_in(device) -> bytes:
    found = protocol.read_proof(device.proof)
    assert found is not None
    return found.id


def test_the_proof_opens_the_session(device) -> None:
    assert device.send("get", "/held/who/").content == b"1"


def test_without_a_proof_nothing_opens_it_until_the_browser_proves_itself(device) -> None:
    device.proof = None
    response = device.send("get", "/held/who/")
    assert (response.status_code, list(response.cookies)) == (401, [])
    assert device.get("/held/who/").content == b"1"


@pytest.mark.parametrize("seconds", [LIFE - 5, -LIFE + 5])
def test_a_proof_is_good_for_its_life_before_and_after_its_time(device, redis, later, seconds: int) -> None:
    later(0)
    device.proof = proof_of(redis, seconds=seconds, binding_id=id_in(device))
    assert device.send("get", "/held/who/", user_agent="another").status_code == 200


@pytest.mark.parametrize("seconds", [LIFE + 5, -LIFE - 5])
def test_an_old_proof_opens_nothing_and_is_deleted(device, redis, later, seconds: int) -> None:
    later(0)
    device.proof = proof_of(redis, seconds=seconds, binding_id=id_in(device))
    response = device.send("get", "/held/who/", user_agent="another")
    assert (response.status_code, is_deleted(response)) == (401, True)
    assert device.get("/held/who/").content == b"1"


def test_the_proof_of_another_session_opens_nothing_and_is_deleted(device, new_device) -> None:
    other = new_device()
    other.sign_in_as(2)
    device.proof = other.proof
    response = device.send("get", "/held/who/")
    assert (response.status_code, is_deleted(response)) == (401, True)


@pytest.mark.parametrize("change", ["made up", "", "A" * 40, "é", "changed"])
def test_a_proof_that_this_site_has_not_made_opens_nothing_and_stays(device, change: str) -> None:
    device.proof = (device.proof or "")[:-2] + "AA" if change == "changed" else change
    response = device.send("get", "/held/who/")
    assert (response.status_code, list(response.cookies)) == (401, [])


def test_a_proof_signed_with_a_fallback_of_the_key_is_good(device, settings) -> None:
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another key of this site, which is as long"
    assert device.send("get", "/held/who/").content == b"1"


PATHS = (
    "/held/who/ /held/read/colour/ /held/write/colour/blue/ /held/write-and-save/colour/blue/ /held/cycle/ "
    "/held/sign-out/ /held/item/kite/ /held/sign-in/1/ /held/sign-in/2/ /swallowed/ /fails-by-it/ /condition/"
)


@pytest.mark.parametrize("path", PATHS.split())
def test_a_refused_request_changes_nothing(device, redis, settings, path: str) -> None:
    settings.REDSESS = {**settings.REDSESS, "SLIDING": True, "TOUCH_INTERVAL": 0}
    settings.SESSION_SAVE_EVERY_REQUEST = True
    device.send("get", "/held/read/colour/")
    device.proof = None
    before = dump(redis)
    response = device.send("get", path)
    assert (response.status_code, list(response.cookies)) == (401, [])
    assert dump(redis) == before


def test_an_old_proof_moves_no_last_seen_time(device, redis, later, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 0}
    device.send("get", "/held/who/")
    later(LIFE + 30)
    before = dump(redis)
    assert device.send("get", "/held/who/").status_code == 401
    assert dump(redis) == before


def test_a_page_without_a_session_needs_no_proof(device) -> None:
    device.proof = None
    assert device.send("get", "/plain/").content == b"plain"


def test_an_ended_session_is_told_and_not_refused(device) -> None:
    device.proof = None
    online.end(str(device.sid), message="Bye.")
    response = device.send("get", "/who/")
    assert (response.status_code, response.content) == (200, b"nobody")
    assert response["X-Session-Ended"].startswith("kicked")


def test_requests_that_were_under_way_at_the_registration_go_on(new_device, users_in_no_table, later) -> None:
    device = new_device()
    device.sign_in_as(1)
    device.proof = None
    assert device.send("get", "/held/who/").content == b"1"
    assert device.send("get", "/held/who/", user_agent="of a thief").status_code == 401
    later(12)
    assert device.send("get", "/held/who/").status_code == 401


def test_the_endpoints_need_no_proof(device) -> None:
    device.proof = None
    assert device.refresh_once().status_code == 403
    assert device.refresh().status_code == 200


def test_code_without_a_request_needs_no_proof(device) -> None:
    assert SessionStore(device.cookie)["_auth_user_id"] == "1"
    assert online.details(str(device.sid)) is not None


class TestObserving:
    """``DEVICE_BOUND = "observe"``: requests without proof are as good as others."""

    @pytest.fixture(autouse=True)
    def observes(self, settings) -> None:
        settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND": "observe"}

    def test_they_open_the_session_and_change_it(self, device) -> None:
        device.proof = None
        assert device.send("get", "/held/write/colour/blue/").status_code == 200
        response = device.send("get", "/held/read/colour/")
        assert (response.content, list(response.cookies)) == (b"blue", [])

    def test_they_count_as_seen(self, device, redis, settings) -> None:
        settings.REDSESS = {**settings.REDSESS, "TOUCH_INTERVAL": 0}
        device.proof = None
        before = online.get(sid_of(device.cookie)).last_seen_at
        device.send("get", "/held/who/")
        assert online.get(sid_of(device.cookie)).last_seen_at > before

    def test_the_sign_in_page_has_the_user(self, device) -> None:
        device.proof = None
        device.send("get", "/login/")
        assert device.send("get", "/held/who/").content == b"1"

    def test_a_session_that_must_be_bound_goes_on(self, new_device, users_in_no_table, settings, later) -> None:
        required = "tests.contrib.device_bound.test_required.everybody"
        settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_REQUIRED": required}
        device = new_device(registers=False)
        device.sign_in_as(1)
        later(90)
        assert device.send("get", "/held/who/").content == b"1"
