"""Which browser and which operating system a user agent is taken for, and by which names each is found."""

import zlib

import pytest

from django_redsess.online.browsers import (
    BROWSERS,
    SYSTEMS,
    browser_name,
    device_icon,
    device_kind_of,
    is_browser,
    is_system,
    known_client,
    system_of,
)
from django_redsess.online.listing import SessionFilter, filter_of
from django_redsess.online.searching import SearchMatcher
from tests.helpers.store import AGENTS, WINDOW_BITS, Client, pack_client

pytestmark = pytest.mark.unit

WINDOWS = "Mozilla/5.0 (Windows NT 10.0; Win64; x64)"
MAC = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7)"
IPHONE = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X)"
ANDROID = "Mozilla/5.0 (Linux; Android 10; K)"
WEBKIT = "AppleWebKit/537.36 (KHTML, like Gecko)"
CHROME = f"{WINDOWS} {WEBKIT} Chrome/120.0.0.0 Safari/537.36"

KNOWN = {
    CHROME: ("Chrome", "Windows"),
    f"{ANDROID} {WEBKIT} Chrome/120.0.0.0 Mobile Safari/537.36": ("Chrome", "Android"),
    f"{IPHONE} {WEBKIT} CriOS/120.0 Mobile/15E148 Safari/604.1": ("Chrome", "iOS"),
    f"Mozilla/5.0 (X11; Linux x86_64) {WEBKIT} HeadlessChrome/120.0.0.0 Safari/537.36": ("Chrome", "Linux"),
    f"Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) {WEBKIT} Chrome/120.0.0.0 Safari/537.36": ("Chrome", "ChromeOS"),
    f"{CHROME} Edg/120.0.0.0": ("Edge", "Windows"),
    f"{ANDROID} {WEBKIT} Chrome/120.0.0.0 Mobile Safari/537.36 EdgA/120.0.0.0": ("Edge", "Android"),
    f"{CHROME} OPR/106.0.0.0": ("Opera", "Windows"),
    f"{ANDROID} {WEBKIT} SamsungBrowser/28.0 Chrome/120.0.0.0 Mobile Safari/537.36": ("Samsung Internet", "Android"),
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:140.0) Gecko/20100101 Firefox/140.0": ("Firefox", "Windows"),
    f"{IPHONE} {WEBKIT} FxiOS/140.0 Mobile/15E148 Safari/604.1": ("Firefox", "iOS"),
    f"{MAC} AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1 Safari/605.1.15": ("Safari", "macOS"),
    f"{IPHONE} {WEBKIT} Version/26.1 Mobile/15E148 Safari/604.1": ("Safari", "iOS"),
    "curl/8.5.0": ("", ""),
    "": ("", ""),
}


def test_the_system_is_told() -> None:
    assert {agent: system_of(agent) for agent in KNOWN} == {agent: system for agent, (_, system) in KNOWN.items()}
    assert {family for family, _ in KNOWN.values()} == {*BROWSERS, ""}
    assert {system for _, system in KNOWN.values()} == {*SYSTEMS, "ChromeOS", ""}


def test_each_family_and_each_system_finds_its_own() -> None:
    for agent, (family, system) in KNOWN.items():
        assert [name for name in BROWSERS if is_browser(agent, name)] == [family] * bool(family)
        assert [name for name in SYSTEMS if is_system(agent, name)] == [system] * (system in SYSTEMS)


def test_a_browser_is_found_by_the_beginning_of_its_names_and_not_by_other_texts() -> None:
    for name in ("chrome", " CHROME  120 ", "Chr", "Headless", "Chrome Mobile", "Mobile Safari 26"):
        assert any(is_browser(agent, name) for agent in KNOWN), name
    for name in ("Chrome 12", "Chrome 1", "hrome", "Safari 537", "Mozilla", "Gecko", "Curl 9"):
        assert not any(is_browser(agent, name) for agent in KNOWN), name


def test_other_programs_and_other_names_of_systems() -> None:
    assert is_browser("curl/8.5.0", "curl")
    assert is_browser("python-requests/2.32.3", "python-requests 2")
    assert is_system(f"{MAC} {WEBKIT}", "Mac OS X")
    assert not is_system("", "")
    assert not is_browser("", "")


ADDRESSES = ["", "198.51.100.7", "198.51.101.7", "2001:db8::7", "2001:db8:1::c633:6407"]


@pytest.mark.parametrize("network", [None, "198.51.100.7", "198.51.100.0/24", "0.0.0.0/0", "2001:db8::/48", "::/0"])
@pytest.mark.parametrize("asked", [{}, {"browser": "Chrome"}, {"system": "iOS"}])
def test_packed_clients_are_told_as_unpacked_ones(network: str | None, asked: dict[str, str]) -> None:
    if network is None and not asked:
        asked = {"browser": "Firefox"}
    wanted = SearchMatcher(filter_of(None, network=network, **asked))
    for agent in (*KNOWN, CHROME):
        for address in ADDRESSES:
            packed = pack_client(Client(address, agent))
            assert wanted.matches_packed(packed) == wanted.matches_client(address, agent), (address, agent)


def test_forged_clients_match_nothing_and_raise_nothing() -> None:
    whole = pack_client(Client("198.51.100.7", CHROME))
    for wanted in (SearchMatcher(SessionFilter(browser="Chrome")), SearchMatcher(SessionFilter(system="Windows"))):
        for forged in (b"\xff", b"\0", whole[1:], whole[:4], whole + b"123", bytes(1000), b"7" * 40, inflating()):
            assert not wanted.matches_packed(forged)


def inflating() -> bytes:
    """A client part of less than 400 bytes that stands for a user agent of 300 000."""
    deflate = zlib.compressobj(9, zlib.DEFLATED, WINDOW_BITS, zdict=AGENTS)
    return deflate.compress(CHROME.encode() + b"7" * 300_000) + deflate.flush()


IPAD = IPHONE.replace("iPhone;", "iPad;")
SAFARI = "AppleWebKit/605.1.15 (KHTML, like Gecko) Version/26.1"


@pytest.mark.parametrize(
    ("agent", "name", "kind"),
    [
        (f"{IPHONE} {SAFARI} Mobile/15E148 Safari/604.1", "Safari 26 on iPhone", "phone"),
        (f"{IPAD} {SAFARI} Mobile/15E148 Safari/604.1", "Safari 26 on iPad", "tablet"),
        (f"{IPHONE} {WEBKIT} CriOS/143.0 Mobile/15E148 Safari/604.1", "Chrome 143 on iPhone", "phone"),
        (f"{IPHONE} {WEBKIT} FxiOS/145.0 Mobile/15E148 Safari/604.1", "Firefox 145 on iPhone", "phone"),
        (f"{ANDROID} {WEBKIT} Chrome/143.0.0.0 Mobile Safari/537.36", "Chrome 143 on Android", "phone"),
        ("Mozilla/5.0 (Android 14; Mobile; rv:145.0) Gecko/145.0 Firefox/145.0", "Firefox 145 on Android", "phone"),
        (f"{ANDROID} {WEBKIT} Chrome/143.0.0.0 Safari/537.36", "Chrome 143 on Android", "tablet"),
        (f"{MAC} {SAFARI} Safari/605.1.15", "Safari 26 on macOS", "desktop"),
        (CHROME, "Chrome 120 on Windows", "desktop"),
        ("curl/8.5.0", "curl 8", ""),
        ("", "", ""),
    ],
)
def test_a_device_has_the_name_that_people_know_and_a_picture_of_its_kind(agent: str, name: str, kind: str) -> None:
    assert browser_name(agent) == name
    if name != "curl 8":
        family, _, system = name.partition(" on ")
        assert known_client(agent) == " on ".join(filter(None, (family.rstrip(" 0123456789"), system)))
    assert device_kind_of(agent) == kind
    icon = device_icon(agent)
    assert bool(icon) == bool(kind)
    assert not kind or f'aria-label="{ {"phone": "Phone", "tablet": "Tablet", "desktop": "Computer"}[kind] }"' in icon
