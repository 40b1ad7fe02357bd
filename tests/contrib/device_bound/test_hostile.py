"""What a thief tries, and what an operator meets: each found by somebody who read the code to break it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from tests.helpers.device_browser import DeviceBrowser, jwk_of, make_key, sign
from tests.helpers.store import keyspace

pytestmark = pytest.mark.usefixtures("users_in_no_table")

NAVIGATION = {"sec_fetch_mode": "navigate", "sec_fetch_dest": "document", "accept": "text/html"}
FROM_ANOTHER_SITE = {**NAVIGATION, "sec_fetch_site": "cross-site"}
OF_THIS_SITE = {**NAVIGATION, "sec_fetch_site": "same-origin"}
SKIPPED = {**OF_THIS_SITE, "secure_session_skipped": "unreachable"}


@pytest.fixture(autouse=True)
def middleware(request, settings) -> None:
    """Add a middleware of this module below the others, if a test names one."""
    if name := getattr(request, "param", ""):
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, f"{__name__}.{name}"]


@pytest.fixture
def device(new_device) -> DeviceBrowser:
    """A browser whose session was bound a while ago."""
    browser: DeviceBrowser = new_device()
    browser.sign_in_as(1)
    return browser


@pytest.fixture
def thief(new_device, device, later) -> DeviceBrowser:
    """Another browser, whose own user has signed in, too. It has a copy of the session's cookie, and its own proof."""
    browser: DeviceBrowser = new_device()
    browser.sign_in_as(2)
    browser.cookie = device.cookie
    later(30)
    return browser


def stored_records(redis: Any) -> dict[bytes, bytes]:
    return dict(redis.hgetall(keyspace().partitions[0].login))


def still_opens(device: DeviceBrowser) -> bool:
    return device.get("/held/who/").content == b"1"


def test_a_key_that_a_thief_makes_binds_nothing(device, thief) -> None:
    assert device.offer is not None
    path, challenge = device.offer
    key = make_key()
    # Even with the challenge of the sign-in's answer: the session is bound.
    response = thief.send("post", path, secure_session_response=sign(key, challenge, jwk=jwk_of(key)))
    assert response.status_code == 403
    assert list(response.cookies) == []
    assert still_opens(device)


def test_the_challenge_of_an_own_sign_in_binds_no_other_session(new_device) -> None:
    victim, thief = new_device(registers=False), new_device(registers=False)
    victim.sign_in_as(1)
    thief.sign_in_as(2)
    thief.cookie = victim.cookie
    assert thief.register().status_code == 403
    assert victim.register().status_code == 200


def test_a_proof_of_an_own_session_opens_no_other(device, thief) -> None:
    assert thief.proof
    assert thief.send("get", "/held/who/").status_code == 401
    assert thief.send("get", "/held/sign-out/").status_code == 401
    assert still_opens(device)


def test_a_signed_challenge_is_accepted_once(device, thief) -> None:
    challenge = device.challenge()
    assert device.refresh_once(challenge).status_code == 200
    field = sign(device.key, challenge)
    again = thief.send("post", device.bound["refresh_url"], sec_secure_session_id="x", secure_session_response=field)
    assert again.status_code == 403
    assert list(again.cookies) == []


def test_an_own_key_refreshes_no_other_session(device, thief) -> None:
    assert thief.refresh_once(thief.challenge()).status_code == 400
    assert still_opens(device)


@pytest.mark.parametrize("method", ["head", "options", "get", "put", "delete", "patch"])
def test_only_a_post_reaches_an_endpoint(device, thief, method: str) -> None:
    url = device.bound["refresh_url"]
    response = thief.send(method, url, sec_secure_session_id="x", x_http_method_override="POST")
    assert response.status_code == 405
    assert list(response.cookies) == []


STRANGE_CHALLENGES = ["", "\ud800", "é" * 10, "A" * 30, "=" * 30, "\x00", "A" * 3000]


@pytest.mark.parametrize("challenge", STRANGE_CHALLENGES, ids=range(len(STRANGE_CHALLENGES)))
def test_a_strange_challenge_is_refused_and_breaks_nothing(new_device, challenge: str) -> None:
    device = new_device(registers=False)
    device.sign_in_as(1)
    assert device.register(challenge=challenge).status_code in (400, 403)
    assert device.register().status_code == 200
    assert device.refresh_once(challenge).status_code in (400, 403, 503)


@pytest.mark.parametrize("proof", ["x", "é", '"', "A" * 40, "A" * 4000, "=" * 40], ids=range(6))
def test_a_made_up_proof_proves_nothing_and_is_not_deleted(thief, proof: str) -> None:
    thief.proof = proof
    response = thief.send("get", "/held/who/")
    assert response.status_code == 401
    assert list(response.cookies) == []


def test_paths_that_look_like_an_endpoint_open_nothing(device, thief) -> None:
    url = device.bound["refresh_url"]
    for path in (f"/held/who/?{url}", f"/held/who/{url}", f"{url}/../../held/who/", f"/{url}", f"{url}/", url.upper()):
        assert thief.send("post", path, sec_secure_session_id="x").status_code in (301, 401, 404), path
    assert still_opens(device)


def reads_first(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Read the session of each request, whether there is such a page or not, as many a site does."""

    def middleware(request: HttpRequest) -> HttpResponse:
        request.session.get("colour")
        return get_response(request)

    return middleware


def writes_last(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """Note each request in its session, after the view."""

    def middleware(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        request.session["last_path"] = request.path
        return response

    return middleware


@pytest.mark.parametrize("path", ["/%2Fevil.example/a?b", "/%2F%2Fevil.example", "/%5Cevil.example/"])
@pytest.mark.parametrize("how", [FROM_ANOTHER_SITE, OF_THIS_SITE, SKIPPED])
@pytest.mark.parametrize("middleware", ["reads_first"], indirect=True)
def test_the_page_of_a_refusal_leads_to_this_site_only(thief, path: str, how: dict[str, str]) -> None:
    response = thief.send("get", path, **how)
    assert response.status_code == 401
    links = re.findall(r'(?:href|url)="?([^"]*)"', response.content.decode())
    assert links
    assert not [link for link in links if link.startswith(("//", "/\\"))]


@pytest.mark.parametrize("headers", [{}, {"sec_secure_session_id": "x"}, {"secure_session_response": "x"}])
@pytest.mark.parametrize("path", ["/device-bound/refresh", "/device-bound/register"])
@pytest.mark.parametrize("method", ["get", "post"])
@pytest.mark.parametrize("middleware", ["writes_last"], indirect=True)
def test_a_request_for_an_endpoint_saves_nothing_that_other_middleware_writes(
    redis, device, thief, headers: dict[str, str], path: str, method: str
) -> None:
    before = stored_records(redis)
    assert thief.send(method, path, **headers).status_code in (400, 403, 405)
    assert stored_records(redis) == before
    assert still_opens(device)
