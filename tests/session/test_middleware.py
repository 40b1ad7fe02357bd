import pytest
from django.contrib.auth.models import User
from django.test import AsyncClient, Client, RequestFactory

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.session.client import parse_network, read_client
from testproject.servers import free_port
from tests.helpers.outages import caches
from tests.helpers.site import MIDDLEWARE
from tests.helpers.visitors import Browser, assert_unavailable

pytestmark = pytest.mark.django_db


def sign_in(client: Client, **headers: str) -> str:
    """Sign a new user in over the sign-in page, and return the sid."""
    User.objects.create_user("alice", password="secret")
    response = client.post("/login/", {"username": "alice", "password": "secret"}, **headers)
    assert response.status_code == 302
    return online.sessions()[0].sid


COOKIES = {
    "SESSION_COOKIE_SECURE": True,
    "SESSION_COOKIE_HTTPONLY": True,
    "SESSION_COOKIE_SAMESITE": "Strict",
    "SESSION_COOKIE_DOMAIN": "example.com",
    "SESSION_COOKIE_PATH": "/shop/",
}


@pytest.mark.parametrize("with_settings", [True, False])
@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_the_cookie_is_set_and_taken_away_as_the_settings_say(
    settings, kind: type[Client] | type[AsyncClient], with_settings: bool
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    for name, value in COOKIES.items():
        setattr(settings, name, value if with_settings else None)
    if not with_settings:
        settings.SESSION_COOKIE_PATH = "/"
    visitor = Browser(kind())
    cookies = [visitor.get(f"{visitor.views}/write/colour/red/").cookies["sessionid"]]
    visitor.cookie = "too short"
    cookies.append(visitor.get("/plain/").cookies["sessionid"])
    for cookie in cookies:
        where = [cookie[name] for name in ("domain", "path", "samesite")]
        assert where == (["example.com", "/shop/", "Strict"] if with_settings else ["", "/", ""])
    assert [bool(cookies[0][name]) for name in ("secure", "httponly")] == [with_settings] * 2
    assert (cookies[1].value, cookies[1]["max-age"]) == ("", 0)


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("x" * 1_000_000, "x" * 256),
        ("ä" * 200, "ä" * 128),
        ("a\r\nb\x00c\x1bd\x85e", "abcde"),
        ("caf\udce9", "caf"),
        ("a\u202eb\u2066c\u061cd\xade\u200b", "abcde"),
    ],
)
def test_a_hostile_user_agent_is_cut_and_cleaned(client, header: str, kept: str) -> None:
    assert online.get(sign_in(client, HTTP_USER_AGENT=header)).user_agent == kept


@pytest.mark.parametrize(
    ("proxies", "forwarded", "kept"),
    [
        (0, "192.0.2.1", "198.51.100.9"),
        (1, "192.0.2.1", "192.0.2.1"),
        (1, "203.0.113.66, 192.0.2.1", "192.0.2.1"),
        (2, "203.0.113.66, 192.0.2.1, 10.0.0.5", "192.0.2.1"),
        (2, "192.0.2.1", ""),
        (1, "", ""),
        (1, "192.0.2.1, unknown", ""),
        (1, "192.0.2.1:51234", "192.0.2.1"),
        (1, "[2001:db8::1]:51234", "2001:db8::1"),
        (1, "::ffff:192.0.2.1", "192.0.2.1"),
        (1, "fe80::1%\n<b>", "fe80::1"),
    ],
)
def test_so_many_proxies_are_believed_as_are_trusted(client, settings, proxies, forwarded, kept) -> None:
    settings.REDSESS = {"TRUSTED_PROXY_COUNT": proxies}
    sid = sign_in(client, REMOTE_ADDR="198.51.100.9", HTTP_X_FORWARDED_FOR=forwarded)
    assert online.get(sid).address == kept


FORMS = {
    "192.0.2.1": "192.0.2.1",
    " 192.0.2.1 ": "192.0.2.1",
    "192.0.2.1:51234": "192.0.2.1",
    '"192.0.2.1:51234"': "192.0.2.1",
    "2001:db8::1": "2001:db8::1",
    "2001:DB8:0::0:1": "2001:db8::1",
    "[2001:db8::1]": "2001:db8::1",
    "[2001:db8::1]:51234": "2001:db8::1",
    '"[2001:db8::1]:51234"': "2001:db8::1",
    "fe80::1%eth0": "fe80::1",
    "[fe80::1%eth0]:51234": "fe80::1",
    "::ffff:192.0.2.1": "192.0.2.1",
    "::FFFF:192.0.2.1:51234": "192.0.2.1",
    "[::ffff:192.0.2.1]:51234": "192.0.2.1",
    # A port is not told from the last part of an address without brackets.
    "2001:db8::1:4711": "2001:db8::1:4711",
}
"""How servers and proxies write an address."""

NO_ADDRESSES = (
    *("unknown", "_hidden", '"_hidden:4711"', "unix:", "localhost:80", '"', "[]", "[]:1", ":80", "%eth0"),
    *("192.0.2.1:", "192.0.2.1:123456", "192.0.2.1:8a", "192.0.2.1:80:80", "192.0.2.1/24", "192.0.2.256:80"),
    *("[2001:db8::1", "2001:db8::1]:80", "[[2001:db8::1]]", "[2001:db8::1]80", "[2001:db8::1]:", "for=192.0.2.1"),
    *("192.0.2.1;203.0.113.9", "\u0661.2.3.4:80"),
)


@pytest.mark.unit
@pytest.mark.parametrize("proxies", [0, 1])
def test_an_address_is_read_however_it_is_written(settings, proxies: int) -> None:
    settings.REDSESS = {"TRUSTED_PROXY_COUNT": proxies}
    for text, kept in {**FORMS, **dict.fromkeys(NO_ADDRESSES, "")}.items():
        # Of the entries, the one that the proxy wrote is read, and no other in its place.
        headers = {"HTTP_X_FORWARDED_FOR": f"203.0.113.66, {text}"} if proxies else {"REMOTE_ADDR": text}
        assert read_client(RequestFactory().get("/", **headers)).address == kept, text


@pytest.mark.unit
def test_a_server_without_an_address_gives_none() -> None:
    # As servers do on a Unix socket.
    for absent in (None, "", b""):
        assert read_client(RequestFactory().get("/", REMOTE_ADDR=absent)).address == ""


@pytest.mark.unit
def test_a_search_takes_an_address_however_it_is_written() -> None:
    found = {text: parse_network(text) for text in FORMS}
    assert {text: network and network.text for text, network in found.items()} == FORMS
    assert [parse_network(text) for text in NO_ADDRESSES if "/" not in text] == [None] * (len(NO_ADDRESSES) - 1)
    networks = {
        "[2001:db8::1]/32": "2001:db8::/32",
        " 192.0.2.7/24": "192.0.2.0/24",
        "::ffff:192.0.2.0/120": "192.0.2.0/24",
    }
    assert {text: parse_network(text).text for text in networks} == networks


@pytest.mark.unit
def test_the_beginning_of_an_address_stands_for_its_network() -> None:
    networks = {
        "198.51.100": "198.51.100.0/24",
        "198.51.100.": "198.51.100.0/24",
        "198.51.100.*": "198.51.100.0/24",
        " 198.51 ": "198.51.0.0/16",
        "10.": "10.0.0.0/8",
        "10.*": "10.0.0.0/8",
        "198.51.100/24": "198.51.100.0/24",
        "198.51.100./26": "198.51.100.0/26",
        "2001:db8:": "2001:db8::/32",
        "2001:DB8": "2001:db8::/32",
        "2001:470": "2001:470::/32",
        "2001:db8:*": "2001:db8::/32",
        "fe80:": "fe80::/16",
        "2001:2:3:4:5:6:7": "2001:2:3:4:5:6:7:0/112",
        # It is a whole address.
        "2001:db8::": "2001:db8::",
    }
    assert {text: parse_network(text).text for text in networks} == networks
    names = ("198", "10/8", "300.1", "198..51", ".198", "198.51.100.7.", "198.051", "198.51.100/33", "\uff11.51")
    for name in (*names, "12:30", "aa:bb:cc", "add:", "198.51:80", "v1.2", "*", ".", ":", ""):
        assert parse_network(name) is None, name


def test_no_beginning_is_kept_as_the_address_of_a_visitor(client) -> None:
    assert online.get(sign_in(client, REMOTE_ADDR="198.51.100")).address == ""


@pytest.mark.parametrize(
    ("option", "address", "kept"),
    [
        ("full", "192.0.2.77", "192.0.2.77"),
        ("truncated", "192.0.2.77", "192.0.2.0"),
        ("truncated", "2001:db8:1:2::3", "2001:db8:1::"),
        ("none", "192.0.2.77", ""),
        # What is no address.
        *(("full", address, "") for address in ("", "1.2.3.4, 5.6.7.8", "192.0.2.1\r\nx", "x" * 1_000_000)),
    ],
)
def test_as_much_of_the_address_is_kept_as_the_site_wants(client, settings, option, address, kept) -> None:
    settings.REDSESS = {"CLIENT_ADDRESS": option}
    assert online.get(sign_in(client, REMOTE_ADDR=address)).address == kept


@pytest.mark.parametrize("kind", [Client, AsyncClient], ids=["wsgi", "asgi"])
def test_what_was_read_varies_by_cookie_and_what_failed_is_not_saved(
    settings, users_in_no_table, kind: type[Client] | type[AsyncClient]
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    visitor = Browser(kind(raise_request_exception=False))
    visitor.get(f"{visitor.views}/write/colour/red/")
    response = visitor.get(f"{visitor.views}/read/colour/")
    assert (response.content, response["Vary"]) == (b"red", "Cookie")
    cookie = visitor.cookie
    assert visitor.get("/held/sign-in-and-fail/7/").status_code == 500
    assert visitor.cookie == cookie
    assert dict(SessionStore(cookie).items()) == {"colour": "red"}


@pytest.fixture
def visitor(request, settings) -> Browser:
    """A visitor of the tests' site, with a subclass of our middleware in place of ours, over WSGI or ASGI."""
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    settings.MIDDLEWARE = ["tests.helpers.site.middleware.Extended", *MIDDLEWARE[1:]]
    return Browser(request.param())


both_ways = pytest.mark.parametrize("visitor", [Client, AsyncClient], ids=["wsgi", "asgi"], indirect=True)


@both_ways
def test_what_a_subclass_overrides_is_called_may_use_the_session_and_may_answer(visitor: Browser) -> None:
    for _ in range(2):
        answer = visitor.get(f"{visitor.views}/write/colour/red/", headers={"X-Reads": "1"})
        assert (answer.status_code, answer["X-Colour"]) == (200, "red")
    answer = visitor.get(f"{visitor.views}/write/colour/blue/", headers={"X-Closed": "1"})
    assert (answer.status_code, answer.content, answer["X-Colour"]) == (451, b"closed", "red")
    assert visitor.get(f"{visitor.views}/read/colour/").content == b"red"


@both_ways
@pytest.mark.parametrize("headers", [{"X-Reads": "1"}, {}], ids=["on the way in", "on the way out"])
def test_what_a_subclass_can_not_read_is_a_503(visitor: Browser, settings, headers: dict[str, str]) -> None:
    visitor.get(f"{visitor.views}/write/colour/red/")
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    assert_unavailable(visitor.get(f"{visitor.views}/plain/", headers=headers))
