"""What a thief tries, and what an operator meets: each found by somebody who read the code to break it."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.http import HttpRequest, HttpResponse

from django_redsess.backend import SessionStore
from django_redsess.contrib.device_bound.protocol import read_proof
from tests.helpers.device_browser import DeviceBrowser, jwk_of, make_key, sign
from tests.helpers.outages import caches, full
from tests.helpers.permissions import listed
from tests.helpers.store import Binding, keyspace, make_older

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


def test_long_texts_in_place_of_a_proof_are_not_kept(device, thief) -> None:
    read_proof.cache_clear()
    for number in range(5):
        thief.client.cookies["sessionid_proof"] = f"{number}" * 5000
        thief.cookie = device.cookie
        assert thief.send("get", "/held/who/").status_code == 401
        # A cookie that names no session is enough.
        thief.cookie = "unknown" * 4
        assert thief.send("get", "/held/who/").content == b"nobody"
    assert read_proof.cache_info().currsize == 0


def stored_records(redis: Any) -> dict[bytes, bytes]:
    return dict(redis.hgetall(keyspace().partitions[0].login))


def last_seen(redis: Any, device: DeviceBrowser) -> float:
    return float(redis.zscore(keyspace().partitions[0].recent, device.sid))


def rights() -> list[str]:
    """Return the rules that the docs give to the user of the server, but for its password."""
    return [rule for rule in listed() if rule[0] in "+~&%"]


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


def ends_first(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    """End each session of a user that comes to a path of the app, before the view."""

    def middleware(request: HttpRequest) -> HttpResponse:
        if request.path.startswith("/device-bound/") and "_auth_user_id" in request.session:
            request.session.flush()
        return get_response(request)

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


@pytest.mark.parametrize("middleware", ["ends_first"], indirect=True)
def test_other_middleware_finds_no_session_at_an_endpoint_without_a_proof(new_device) -> None:
    device, thief = new_device(registers=False), new_device()
    device.sign_in_as(1)
    session = SessionStore(device.cookie)
    session.bind(Binding(b"an  id  ", 1, 1, b"\x02" * 33))
    session.save()
    thief.cookie = device.cookie
    for path in ("/device-bound/refresh", "/device-bound/register"):
        response = thief.send("post", path, sec_secure_session_id="x")
        assert (response.status_code, list(response.cookies)) == (403, [])
    assert SessionStore(device.cookie).get("_auth_user_id") == "1"


@pytest.mark.parametrize("path", ["who", "count/x", "cycle", "sign-out", "sign-in/2", "item/a", "write/colour/red"])
@pytest.mark.parametrize("how", [{}, OF_THIS_SITE, SKIPPED])
def test_a_copy_does_nothing_to_the_session_at_the_sign_in_page(
    settings, redis, device, thief, path: str, how: dict[str, str]
) -> None:
    # Whatever the sign-in page does with a session, it does with none or with a new one.
    settings.LOGIN_URL = f"/held/{path}/"
    before, records = device.cookie, stored_records(redis)
    response = thief.send("get", settings.LOGIN_URL, **how)
    assert response.status_code == 200
    assert response.content in (b"nobody", b"0", b"done", b"ok", b"written")
    key = response.cookies.get("sessionid")
    assert key is None or key.value not in ("", before)
    assert stored_records(redis).items() >= records.items()
    assert still_opens(device)
    assert device.cookie == before


def test_a_link_from_another_site_to_the_sign_in_page_signs_nobody_out(settings, device, later) -> None:
    settings.LOGIN_URL = "/held/count/x/"
    later(30)
    device.proof = None
    response = device.send("get", settings.LOGIN_URL, **FROM_ANOTHER_SITE)
    assert (response.status_code, list(response.cookies)) == (401, [])
    assert device.get(settings.LOGIN_URL, **OF_THIS_SITE).content == b"0"
    assert still_opens(device)


def test_a_server_that_has_forgotten_its_scripts_is_told_them_again(redis, device) -> None:
    for _ in range(2):
        make_older(redis, str(device.sid), 20)
        redis.script_flush()
        seen = last_seen(redis, device)
        assert device.send("get", "/held/who/").content == b"1"
        assert last_seen(redis, device) > seen
    redis.script_flush()
    challenge = device.challenge()
    redis.script_flush()
    assert device.refresh_once(challenge).status_code == 200


def test_on_a_full_server_proven_pages_open_and_a_refresh_is_tried_again_later(redis, device) -> None:
    make_older(redis, str(device.sid), 20)
    with full(redis):
        assert device.send("get", "/held/who/").content == b"1"
        assert device.refresh_once(device.challenge()).status_code == 503
        assert device.bound
    assert device.refresh_once(device.challenge()).status_code == 200
    assert still_opens(device)


def test_a_new_secret_key_with_the_old_one_as_fallback_keeps_all(settings, new_device, later) -> None:
    device, other = new_device(), new_device(registers=False)
    device.sign_in_as(1)
    other.sign_in_as(2)
    challenge = device.challenge()
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "another secret key"
    later(30)
    assert device.send("get", "/held/who/").content == b"1"
    assert device.refresh_once(challenge).status_code == 200
    assert other.register().status_code == 200


def test_the_rights_of_the_docs_are_enough(settings, server, redis, new_device) -> None:
    redis.execute_command("ACL", "SETUSER", "shop", "reset", "on", "nopass", *rights())
    settings.CACHES = caches(server.url.replace("redis://", "redis://shop:any@"))
    device = new_device()
    device.sign_in_as(1)
    assert device.bound
    make_older(redis, str(device.sid), 20)
    seen = last_seen(redis, device)
    assert device.send("get", "/held/who/").content == b"1"
    assert last_seen(redis, device) > seen
    assert device.refresh().status_code == 200
    redis.execute_command("ACL", "DELUSER", "shop")
