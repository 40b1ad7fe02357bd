"""The offer and the two endpoints: what they accept, what they refuse and by which name, and what they leave alone."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis as redis_py
from django.http import HttpResponse
from django.test import Client
from django.urls import get_script_prefix, set_script_prefix

from django_redsess import online, testing
from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound import protocol
from testproject.servers import free_port
from tests.helpers.device_browser import DeviceBrowser, jwk_of, make_key, sign
from tests.helpers.outages import caches
from tests.helpers.store import binding, dump, have_agreed, keyspace

pytestmark = pytest.mark.usefixtures("users_in_no_table")

REGISTER, REFRESH = "/device-bound/register", "/device-bound/refresh"
IDENTIFIER = {"sec_secure_session_id": '"any"'}

NewDevice = Callable[..., DeviceBrowser]


def binding_of(device: DeviceBrowser) -> binding.Binding | None:
    """Return what the session of this browser is bound by."""
    session = SessionStore(device.cookie)
    session.load()
    packed = session.snapshot.record.binding if session.snapshot.record else b""
    return binding.Binding.unpack(packed) if packed else None


def refused(response: HttpResponse) -> tuple[int, str]:
    """Return the status and the name of a refusal, which no cache stores, and which changes no cookie."""
    assert "no-store" in response["Cache-Control"]
    assert list(response.cookies) == []
    return response.status_code, json.loads(response.content)["error"]


@pytest.fixture
def moved() -> Iterator[Callable[[float], Any]]:
    """Return a function that moves the clock of the store ahead."""
    with testing.own_store():
        yield testing.travel


# The order of things.


@pytest.mark.parametrize("algorithm", ["ES256", "RS256"])
def test_a_session_is_bound_after_the_sign_in_and_proves_itself(new_device: NewDevice, algorithm: str) -> None:
    device = new_device(algorithm=algorithm)
    device.sign_in_as(1)
    first = binding_of(device)
    assert first
    assert len(first.public_key) == (33 if algorithm == "ES256" else 256)
    assert first.proved_at == first.bound_at
    assert protocol.read_proof(device.proof)[0] == first.id
    device.proof = None
    assert device.get("/held/who/").content == b"1"
    proved = binding_of(device)
    assert proved == first._replace(proved_at=proved.proved_at)
    assert proved.proved_at > first.proved_at
    assert protocol.read_proof(device.proof)[0] == first.id
    assert device.refreshes == 2


def test_browsers_are_told_what_is_bound(new_device: NewDevice) -> None:
    device = new_device(registers=False)
    answer = device.sign_in_as(1)
    assert device.offer[0] == REGISTER
    answer = device.register()
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert json.loads(answer.content) == {
        "session_identifier": "sessionid@testserver",
        "refresh_url": REFRESH,
        "scope": {
            "include_site": False,
            "scope_specification": [{"type": "exclude", "domain": "*", "path": "/static/"}],
        },
        "credentials": [
            {"type": "cookie", "name": "sessionid_proof", "attributes": "path=/; samesite=Lax; Secure; HttpOnly"}
        ],
    }
    assert list(answer.cookies) == ["sessionid_proof"]


def test_the_binding_goes_with_the_session_and_ends_with_it(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    first, key = binding_of(device), device.cookie
    device.get("/held/cycle/")
    assert device.cookie != key
    assert binding_of(device) == first
    device.proof = None
    assert device.get("/held/who/").content == b"1"
    device.get("/held/sign-out/")
    device.proof = None
    assert device.get("/held/who/").content == b"nobody"
    assert device.bound is None
    device.sign_in_as(1)
    assert binding_of(device).id != first.id


def test_another_user_of_the_browser_is_bound_anew(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    first = binding_of(device)
    device.sign_in_as(2)
    assert binding_of(device).id != first.id
    assert device.get("/held/who/").content == b"2"


def test_who_signs_in_again_stays_bound_and_gets_no_offer(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    first = binding_of(device)
    assert "Secure-Session-Registration" not in device.sign_in_as(1)
    assert binding_of(device) == first


# The offer.


def test_an_offer_is_made_with_the_cookie_of_a_sign_in_only(new_device: NewDevice, history: None) -> None:
    device = new_device(registers=False)
    assert "Secure-Session-Registration" not in device.get("/held/write/colour/red/")
    # The history's cookie is sent, too.
    answer = device.sign_in_as(1)
    assert "Secure-Session-Registration" in answer
    assert "sessionid_device" in answer.cookies
    for path in ("/held/who/", "/held/write/colour/blue/", "/held/cycle/"):
        assert "Secure-Session-Registration" not in device.get(path)


def test_an_offer_needs_https(new_device: NewDevice, settings) -> None:
    device = new_device(registers=False)
    path = f"{device.views}/held/sign-in/1/"
    assert "Secure-Session-Registration" not in device._ask(device.client.get, path)
    # Behind a proxy that says nothing about it.
    settings.SESSION_COOKIE_SECURE = True
    assert "Secure-Session-Registration" in device._ask(device.client.get, path)


def test_without_the_urls_nothing_is_offered(new_device: NewDevice, settings) -> None:
    settings.ROOT_URLCONF = "tests.helpers.site.held"
    assert "Secure-Session-Registration" not in new_device().sign_in_as(1)


# Registration.


def test_registrations_are_refused_by_name(new_device: NewDevice, redis: redis_py.Redis) -> None:
    device, other = new_device(registers=False), new_device(registers=False)
    nobody = new_device()
    nobody.offer = (REGISTER, "any")
    assert refused(nobody.register()) == (403, "no_session")
    nobody.get("/held/write/colour/red/")
    assert refused(nobody.register()) == (403, "no_session")
    device.sign_in_as(1)
    other.sign_in_as(1)
    before = dump(redis)
    for field, reason in {"": "no_jws", "abc": "no_jws", sign(make_key(), "c"): "no_jwk"}.items():
        answer = device.send("post", REGISTER, **({"secure_session_response": field} if field else {}))
        assert refused(answer) == (400, reason)
    assert refused(device.register(jwk=jwk_of(make_key()))) == (400, "wrong_signature")
    assert refused(device.register(typ="JWT")) == (400, "wrong_typ")
    assert refused(device.register(challenge="another")) == (403, "wrong_challenge")
    assert refused(device.register(challenge=other.offer[1])) == (403, "wrong_challenge")
    assert dump(redis) == before


def test_a_bound_session_is_not_bound_again(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    first = binding_of(device)
    assert refused(device.register()) == (403, "already_bound")
    assert binding_of(device) == first


def test_a_session_is_bound_in_the_first_minute(new_device: NewDevice, moved: Callable[[float], Any]) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    with moved(61):
        assert refused(device.register()) == (403, "old_challenge")
    with moved(58):
        assert device.register().status_code == 200


def test_the_offer_survives_a_new_key(new_device: NewDevice) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    device.get("/held/cycle/")
    assert device.register().status_code == 200


def once(monkeypatch, name: str, action: Callable[[], object]) -> None:
    """Have ``action`` happen between the load of an endpoint and its save: when it checks the challenge."""
    checks = getattr(protocol, name)

    def checked(*args: Any) -> Any:
        monkeypatch.setattr(protocol, name, checks)
        action()
        return checks(*args)

    monkeypatch.setattr(protocol, name, checked)


def test_of_two_registrations_at_once_the_first_wins(
    new_device: NewDevice, monkeypatch, moved: Callable[[float], Any]
) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    copy = new_device(registers=False)
    copy.cookie, copy.offer = device.cookie, device.offer
    once(monkeypatch, "is_registration_challenge", copy.register)
    assert refused(device.register()) == (403, "already_bound")
    assert device.bound is None
    assert binding_of(copy).id == protocol.read_proof(copy.proof)[0]
    # Not at once: a request may be under way that the browser sent before it was bound.
    with moved(11):
        assert device.get("/held/who/").status_code == 401
        assert copy.get("/held/who/").content == b"1"


def test_a_registration_and_a_save_at_once_lose_nothing(new_device: NewDevice, monkeypatch) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    once(monkeypatch, "is_registration_challenge", lambda: device.get("/held/write/colour/red/"))
    assert device.register().status_code == 200
    assert binding_of(device)
    assert device.get("/held/read/colour/").content == b"red"


# Refreshes.


def test_refreshes_are_refused_by_name(new_device: NewDevice, moved: Callable[[float], Any]) -> None:
    device, other = new_device(), new_device()
    device.sign_in_as(1)
    other.sign_in_as(1)
    before, bound = binding_of(device), device.bound
    assert refused(device.send("post", REFRESH)) == (400, "no_session_id")
    assert refused(device.refresh_once()) == (403, "no_jws")
    assert refused(device.refresh_once("another")) == (403, "wrong_challenge")
    assert refused(device.refresh_once(other.challenge())) == (403, "wrong_challenge")
    assert refused(device.refresh_once(device.offer[1])) == (403, "wrong_challenge")
    challenge = device.challenge()
    with moved(61):
        assert refused(device.refresh_once(challenge)) == (403, "old_challenge")
        challenge = device.challenge()
        wrong = {
            "wrong_signature": {"key": other.key},
            "wrong_typ": {"typ": "JWT"},
            "jwk_in_refresh": {"jwk": jwk_of(device.key)},
            "wrong_alg": {"key": make_key("RS256")},
        }
        for reason, options in wrong.items():
            assert refused(device.refresh_once(challenge, **options)) == (400, reason)
            assert device.bound is None
            device.bound = bound
        assert binding_of(device) == before
        assert device.refresh_once(challenge).status_code == 200


def test_a_challenge_is_accepted_once(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    challenge = device.challenge()
    assert device.refresh_once(challenge).status_code == 200
    assert refused(device.refresh_once(challenge)) == (403, "used_challenge")
    assert device.refresh().status_code == 200


def test_of_two_refreshes_at_once_one_signs_again(new_device: NewDevice, monkeypatch) -> None:
    device = new_device()
    device.sign_in_as(1)
    challenge = device.challenge()
    once(monkeypatch, "read_refresh_challenge", lambda: device.refresh_once(challenge))
    assert refused(device.refresh_once(challenge)) == (403, "used_challenge")
    assert device.refresh().status_code == 200


def test_a_browser_that_has_just_bound_may_have_its_older_key(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    assert refused(device.refresh_once(device.challenge(), key=make_key())) == (503, "wrong_signature")
    assert device.bound


def test_a_clock_that_steps_back_locks_nobody_out(new_device: NewDevice, moved: Callable[[float], Any]) -> None:
    device = new_device()
    with moved(3600):
        device.sign_in_as(1)
        assert device.refresh().status_code == 200
    assert device.refresh().status_code == 200
    assert device.refresh().status_code == 200


@pytest.mark.parametrize("loads_first", [False, True], ids=["", "middleware loads the session"])
def test_a_session_that_is_gone_ends_in_the_browser_in_good_order(new_device, settings, loads_first: bool) -> None:
    settings.CSRF_USE_SESSIONS = loads_first
    device = new_device()
    device.sign_in_as(1)
    online.end(device.sid, message="A phone was lost.")
    answer = device.refresh_once()
    assert (answer.status_code, json.loads(answer.content)) == (200, {"continue": False})
    # The cookie stays, and so does the message, for a page that can show it.
    assert list(answer.cookies) == []
    assert "X-Session-Ended" not in answer
    assert "A phone was lost." in device.get("/who-and-messages/").content.decode()


def test_an_unbound_session_has_nothing_to_refresh(new_device: NewDevice, moved: Callable[[float], Any]) -> None:
    device = new_device(registers=False)
    for path in ("/held/who/", "/held/write/colour/red/"):
        device.get(path)
        answer = device.send("post", REFRESH, **IDENTIFIER)
        assert (answer.status_code, json.loads(answer.content)) == (200, {"continue": False})
        assert list(answer.cookies) == []
    device.sign_in_as(1)
    # The browser may be about to bind the session: it would forget that key, and not one of before.
    assert refused(device.send("post", REFRESH, **IDENTIFIER)) == (503, "not_bound_yet")
    with moved(11):
        answer = device.send("post", REFRESH, **IDENTIFIER)
        assert (answer.status_code, json.loads(answer.content)) == (200, {"continue": False})


def test_a_late_cookie_is_no_reason_to_forget_the_key(new_device: NewDevice) -> None:
    device = new_device()
    device.sign_in_as(1)
    key = device.cookie
    device.get("/held/cycle/")
    newer, device.cookie = device.cookie, key
    assert refused(device.refresh_once()) == (503, "late")
    device.cookie = newer
    assert device.refresh().status_code == 200


def test_a_new_key_during_a_refresh_is_no_reason_to_forget_the_key(new_device: NewDevice, monkeypatch) -> None:
    device = new_device()
    device.sign_in_as(1)
    challenge = device.challenge()
    once(monkeypatch, "read_refresh_challenge", lambda: device.get("/held/cycle/"))
    key = device.cookie
    assert refused(device.refresh_once(challenge)) == (503, "late")
    assert device.cookie != key
    assert device.refresh().status_code == 200


def test_an_end_during_a_refresh_is_final(new_device: NewDevice, monkeypatch, redis: redis_py.Redis) -> None:
    device = new_device()
    device.sign_in_as(1)
    challenge = device.challenge()
    once(monkeypatch, "read_refresh_challenge", lambda: online.end(device.sid))
    assert refused(device.refresh_once(challenge)) == (503, "late")
    assert device.refresh().status_code == 200
    assert device.bound is None
    assert online.count() == 0


def test_an_outage_is_a_503(new_device: NewDevice, settings) -> None:
    device = new_device()
    device.sign_in_as(1)
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    answer = device.refresh_once()
    assert (answer.status_code, list(answer.cookies)) == (503, [])
    assert device.bound


# What the endpoints leave alone.


def test_a_refresh_is_no_activity(
    new_device: NewDevice, settings, moved: Callable[[float], Any], redis: redis_py.Redis
) -> None:
    settings.REDSESS = {**settings.REDSESS, "IDLE_TIMEOUT": 600, "SLIDING": True}
    settings.SESSION_SAVE_EVERY_REQUEST = settings.CSRF_USE_SESSIONS = True
    device = new_device()
    device.sign_in_as(1)
    before = times_of(redis, device)
    with moved(300):
        device.proof = None
        device.challenge()
        assert times_of(redis, device) == before
        # The device has been seen, and its user has done nothing.
        assert device.refresh().status_code == 200
        assert times_of(redis, device)[0] == before[0]
        device.get("/held/who/")
        assert times_of(redis, device)[0] != before[0]


def times_of(redis: redis_py.Redis, device: DeviceBrowser) -> list[float | None]:
    """Return the deadline of the browser's session, and when it was last seen."""
    partition = keyspace().of_sid(device.sid)
    return [redis.zscore(name, device.sid) for name in (partition.expire, partition.recent)]


def test_the_endpoints_take_posts_without_a_token(device_bound: None) -> None:
    client = Client(enforce_csrf_checks=True)
    for path in (REGISTER, REFRESH):
        assert client.get(path, secure=True).status_code == 405
        answer = client.post(path, secure=True)
        assert answer.status_code in (400, 403)
        assert "error" in json.loads(answer.content)


def test_each_request_takes_two_round_trips_at_most(new_device: NewDevice, round_trips: Callable[[], int]) -> None:
    have_agreed()
    device = new_device(registers=False)
    device.sign_in_as(1)
    round_trips()
    assert device.register().status_code == 200
    assert round_trips() == 2
    challenge = device.challenge()
    assert round_trips() == 1
    assert device.refresh_once(challenge).status_code == 200
    assert round_trips() == 2
    online.end(device.sid)
    round_trips()
    device.refresh_once()
    assert round_trips() == 2


# Where the site is.


@pytest.fixture
def below_shop(settings) -> Iterator[None]:
    """Serve the site below ``/shop``, with its cookie there."""
    settings.FORCE_SCRIPT_NAME, settings.SESSION_COOKIE_PATH = "/shop", "/shop/"
    settings.STATIC_URL = "/shop/static/"
    before = get_script_prefix()
    # As Django's handlers do, and its test client does not.
    set_script_prefix("/shop/")
    yield
    set_script_prefix(before)


def test_a_site_below_a_path(new_device: NewDevice, below_shop: None) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    assert device.offer == (f"/shop{REGISTER}", device.offer[1])
    device.offer = (REGISTER, device.offer[1])
    device.register()
    assert device.bound["session_identifier"] == "sessionid@testserver/shop"
    assert device.bound["refresh_url"] == f"/shop{REFRESH}"
    assert device.bound["scope"]["scope_specification"][0]["path"] == "/shop/static/"
    assert device.bound["credentials"][0]["attributes"] == "path=/shop/; samesite=Lax; Secure; HttpOnly"


@pytest.mark.parametrize("static", [None, "/", "/shop/", "https://cdn.example/", "//cdn.example/static/"])
def test_nothing_but_a_path_of_static_files_is_left_out(
    new_device: NewDevice, settings, below_shop: None, static: str | None
) -> None:
    settings.STATIC_URL = static
    device = new_device(registers=False)
    device.sign_in_as(1)
    device.offer = (REGISTER, device.offer[1])
    device.register()
    assert device.bound["scope"] == {"include_site": False}


def test_subdomains_share_a_session(new_device: NewDevice, settings) -> None:
    settings.SESSION_COOKIE_DOMAIN = ".shop.example"
    settings.REDSESS = {**settings.REDSESS, "DEVICE_BOUND_ORIGINS": ["https://accounts.shop.example"]}
    device = new_device()
    device.sign_in_as(1)
    assert device.bound["session_identifier"] == "sessionid@.shop.example"
    assert device.bound["scope"]["origin"] == "https://shop.example"
    assert device.bound["scope"]["include_site"] is True
    assert device.bound["credentials"][0]["attributes"].startswith("path=/; domain=.shop.example; ")
    answer = device.get("/.well-known/device-bound-sessions")
    assert json.loads(answer.content) == {"registering_origins": ["https://accounts.shop.example"]}
