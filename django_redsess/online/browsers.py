"""Browsers, operating systems and devices: as searches name them, and as pages show them."""

from __future__ import annotations

import re
from functools import lru_cache

from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext, pgettext_lazy

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
        for name in _browser_names(user_agent)
    )


def is_system(user_agent: str, system: str) -> bool:
    """Tell whether ``user_agent`` names this operating system. Case does not matter."""
    wanted = " ".join(system.lower().split())
    return bool(user_agent) and system_of(user_agent).lower() == _ALSO.get(wanted, wanted)


@lru_cache(maxsize=4096)
def browser_and_system(user_agent: str) -> str:
    """Return browser and system without versions, such as "Firefox on Windows". ``""`` if neither is known."""
    browser, system = known_browser_of(user_agent), system_of(user_agent)
    return f"{browser} on {system}" if browser and system else browser or system


def known_browser_of(user_agent: str) -> str:
    """Return which of ``BROWSERS`` has sent ``user_agent``. ``""`` for another one."""
    lower = {name.lower(): name for name in BROWSERS}
    return next(
        (lower[name] for each in _browser_names(user_agent) if (name := each.rstrip(" 0123456789")) in lower), ""
    )


@lru_cache(maxsize=4096)
def _browser_names(user_agent: str) -> tuple[str, ...]:
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


def browser_name(user_agent: str) -> str:
    """
    Return the names of browser and system, such as "Firefox 145 on Linux" or "Safari 26 on iPhone".

    Returns ``user_agent`` itself if ua-parser does not know the browser, or is not installed (extra ``browsers``).
    """
    try:
        from ua_parser import parse
    except ImportError:
        return user_agent
    known = parse(user_agent)
    if known.user_agent is None:
        return user_agent
    # The device says whether it is mobile: "Mobile Safari on iPhone" would say it twice.
    family = known.user_agent.family.removeprefix("Mobile ").removesuffix(" iOS").removesuffix(" Mobile")
    browser = " ".join(filter(None, (family, known.user_agent.major)))
    if known.os is None:
        return browser
    # As the filters name it, and its maker.
    system = apple_device_of(user_agent) or known.os.family.replace("Mac OS X", "macOS")
    return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}


def known_client(user_agent: str) -> str:
    """
    Return browser and system without versions, such as "Safari on iPhone". ``""`` if neither is one of ours.

    Any other name would come from the user agent: a word that its sender has chosen.
    """
    browser = known_browser_of(user_agent)
    system = apple_device_of(user_agent) or system_of(user_agent)
    if browser and system:
        return gettext("%(browser)s on %(system)s") % {"browser": browser, "system": system}
    return browser or system


def device_name(user_agent: str) -> str:
    """
    Return what users call a device: "Safari on iPhone"; of a program that we do not know, its name. ``""`` for neither.

    It is for the user's own pages. The sender has chosen the name of a program: see :func:`known_client`.
    """
    return known_client(user_agent) or program_of(user_agent)


_DEVICE_NAMES: dict[str, Promise] = {
    "phone": pgettext_lazy("a device", "Phone"),
    "tablet": pgettext_lazy("a device", "Tablet"),
    "desktop": pgettext_lazy("a device", "Computer"),
}
# In a square of 16. Lines have the colour of the text beside them.
_DEVICE_SHAPES = {
    "phone": SafeString('<rect x="4.5" y="1.5" width="7" height="13" rx="1.5"/><path d="M7 12.5h2"/>'),
    "tablet": SafeString('<rect x="2.5" y="1.5" width="11" height="13" rx="1.5"/><path d="M7 12.5h2"/>'),
    "desktop": SafeString('<rect x="1.5" y="2.5" width="13" height="8.5" rx="1"/><path d="M8 11v2.5M5 13.5h6"/>'),
}


def device_icon(user_agent: str) -> SafeString:
    """Return a picture of the kind of device that ``user_agent`` names, as HTML. Nothing if it names none."""
    kind = device_kind_of(user_agent)
    if not kind:
        return SafeString()
    return format_html(
        '<svg class="redsess-device" role="img" aria-label="{}" width="16" height="16" viewBox="0 0 16 16" fill="none" '
        'stroke="currentColor">{}</svg> ',
        _DEVICE_NAMES[kind],
        _DEVICE_SHAPES[kind],
    )
