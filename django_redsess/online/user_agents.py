"""Browsers and operating systems as searches name them, and what a search asks of the sender of the last request."""

from __future__ import annotations

import re
import zlib
from functools import lru_cache
from ipaddress import ip_network

from django_redsess.online.listing import SessionFilter
from django_redsess.session.address_index import named_network
from django_redsess.session.compression import unpacked_client

BROWSERS = ("Chrome", "Edge", "Firefox", "Safari", "Opera", "Samsung Internet")
"""The browsers that lists offer as a filter."""

SYSTEMS = ("Windows", "macOS", "Linux", "Android", "iOS")
"""The operating systems that lists offer as a filter."""

# Most browsers also name those that they are compatible with, so the first of these that is found decides.
_PRODUCTS = (
    *(("Edge", product) for product in ("Edg", "EdgA", "EdgiOS", "Edge")),
    *(("Opera", product) for product in ("OPR", "OPiOS", "OPT", "Opera")),
    ("Samsung Internet", "SamsungBrowser"),
    *(("Firefox", product) for product in ("Firefox", "FxiOS")),
    *(("Chrome", product) for product in ("CriOS", "HeadlessChrome", "Chrome", "Chromium")),
)
_APPLE_DEVICES = ("iPad", "iPhone", "iPod")
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    *(("iOS", device) for device in _APPLE_DEVICES),
    *(("macOS", text) for text in ("Mac OS X", "Macintosh")),
    ("ChromeOS", "CrOS"),
    *(("Linux", text) for text in ("Linux", "X11")),
)
_ALSO = {"mac os x": "macos", "mac": "macos", "chrome os": "chromeos"}

PROGRAM_MAX = 40
"""A longer name of a program is not shown to users."""

_PRODUCT = re.compile(r"([A-Za-z][\w.+-]*)/v?(\d+)?")


@lru_cache(maxsize=4096)
def system_of(user_agent: str) -> str:
    """Return the operating system in ``user_agent``, such as "Windows". ``""`` if unknown."""
    return next((system for system, text in _SYSTEMS if text in user_agent), "")


def apple_device_of(user_agent: str) -> str:
    """Return "iPhone", "iPad" or "iPod", which people know better than iOS. ``""`` for any other device."""
    return next((device for device in _APPLE_DEVICES if device in user_agent), "")


def program_of(user_agent: str) -> str:
    """Return the name at the beginning of ``user_agent``, such as "curl". ``""`` if it says nothing or is too long."""
    found = _PRODUCT.match(user_agent)
    name = found[1] if found else ""
    # Most browsers, and programs that pass for one, begin with it.
    return "" if name == "Mozilla" or len(name) > PROGRAM_MAX else name


@lru_cache(maxsize=4096)
def device_kind_of(user_agent: str) -> str:
    """
    Return "phone", "tablet" or "desktop". ``""`` if the system is unknown, as of most programs.

    An iPad that asks for pages as a Mac does, which is its default, counts as a desktop.
    """
    system = system_of(user_agent)
    if apple_device_of(user_agent) == "iPad" or (system == "Android" and "Mobile" not in user_agent):
        return "tablet"
    if system in ("iOS", "Android"):
        return "phone"
    return "desktop" if system else ""


def is_browser(user_agent: str, browser: str) -> bool:
    """Tell whether a name of the browser that sent ``user_agent`` begins with ``browser``. Case does not matter."""
    wanted = " ".join(browser.lower().split())
    # "Chrome 12" is not the beginning of "Chrome 120" to a reader.
    digit = wanted[-1:].isdigit()
    return any(
        name.startswith(wanted) and not (digit and name[len(wanted) : len(wanted) + 1].isdigit())
        for name in _names_of(user_agent)
    )


def is_system(user_agent: str, system: str) -> bool:
    """Tell whether ``user_agent`` names this operating system. Case does not matter."""
    wanted = " ".join(system.lower().split())
    return bool(user_agent) and system_of(user_agent).lower() == _ALSO.get(wanted, wanted)


@lru_cache(maxsize=4096)
def browser_and_system(user_agent: str) -> str:
    """Return browser and system without versions, such as "Firefox on Windows". ``""`` if neither is known."""
    browser, system = browser_of(user_agent), system_of(user_agent)
    return f"{browser} on {system}" if browser and system else browser or system


def browser_of(user_agent: str) -> str:
    """Return which of ``BROWSERS`` has sent ``user_agent``. ``""`` for another one."""
    lower = {name.lower(): name for name in BROWSERS}
    return next((lower[name] for each in _names_of(user_agent) if (name := each.rstrip(" 0123456789")) in lower), "")


@lru_cache(maxsize=4096)
def _names_of(user_agent: str) -> tuple[str, ...]:
    # "Chrome 120" and "Chrome Mobile 120"; "HeadlessChrome 120", as it calls itself. In lower case.
    products = dict(_PRODUCT.findall(user_agent))
    first = next(iter(products), "")
    family, product = next((known for known in _PRODUCTS if known[1] in products), ("", first))
    version = products.get(product, "")
    if not family and "Safari" in products and "Version" in products and "Android" not in user_agent:
        family, product, version = "Safari", "Safari", products["Version"]
    names = [family, product] if family else [product]
    if family and "Mobile" in user_agent:
        names += [f"{family} Mobile", f"Mobile {family}"]
    return tuple(f"{name} {version}".strip().lower() for name in names if name)


PACKED_MAX = 400
"""No client part is longer: a user agent has 256 bytes at most."""

IPV4_BYTES, IPV6_BYTES = 4, 16


class Wanted:
    """
    The network, the browser and the system that a search asks for.

    Raises ValueError if the filter's network is none.
    """

    def __init__(self, session_filter: SessionFilter) -> None:
        self.network = None if session_filter.network is None else named_network(session_filter.network)
        self.browser, self.system = session_filter.browser, session_filter.system
        if self.network is not None:
            network = ip_network(self.network.text)
            self._address_bytes = network.max_prefixlen // 8
            self._shift = network.max_prefixlen - network.prefixlen
            self._begin = int(network.network_address) >> self._shift
        # Of each user agent, as packed: whether it is asked for. No packed one is the beginning of another.
        self._agents: dict[bytes, bool] = {}

    def has(self, address: str, user_agent: str) -> bool:
        """Tell whether a session of this sender is asked for."""
        return (self.network is None or self.network.has(address)) and self._has_agent(user_agent)

    def has_packed(self, client: bytes) -> bool:
        """
        Tell whether a session with this client part is asked for. See :attr:`Record.client_packed`.

        It may be that of a forged record: False if it can't be unpacked.
        """
        if not client or len(client) > PACKED_MAX:
            return False
        # Most are told apart by this. But a user agent may end in these bytes by chance.
        if self.network and int.from_bytes(client[-self._address_bytes :], "big") >> self._shift != self._begin:
            return False
        for length in (IPV4_BYTES, IPV6_BYTES, 0):
            has_agent = self._agents.get(client[: len(client) - length])
            if has_agent is not None:
                return has_agent and (self.network is None or length == self._address_bytes)
        try:
            address, user_agent = unpacked_client(client)
        except (ValueError, OSError, zlib.error):
            return False
        length = (IPV6_BYTES if ":" in address else IPV4_BYTES) if address else 0
        has_agent = self._agents[client[: len(client) - length]] = self._has_agent(user_agent)
        return has_agent and (self.network is None or length == self._address_bytes)

    def _has_agent(self, user_agent: str) -> bool:
        return (self.browser is None or is_browser(user_agent, self.browser)) and (
            self.system is None or is_system(user_agent, self.system)
        )
