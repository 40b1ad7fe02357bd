"""Browsers and operating systems, as searches name them."""

from __future__ import annotations

import re
from functools import lru_cache

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
_SYSTEMS = (
    ("Windows", "Windows"),
    ("Android", "Android"),
    ("iOS", "iPhone"),
    ("iOS", "iPad"),
    ("iOS", "iPod"),
    ("macOS", "Mac OS X"),
    ("macOS", "Macintosh"),
    ("ChromeOS", "CrOS"),
    ("Linux", "Linux"),
    ("Linux", "X11"),
)
_ALSO = {"mac os x": "macos", "mac": "macos", "chrome os": "chromeos"}

_PRODUCT = re.compile(r"([A-Za-z][\w.+-]*)/v?(\d+)?")


@lru_cache(maxsize=4096)
def system_of(user_agent: str) -> str:
    """Return the operating system in ``user_agent``, such as "Windows". ``""`` if unknown."""
    return next((system for system, text in _SYSTEMS if text in user_agent), "")


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
def _names_of(user_agent: str) -> tuple[str, ...]:
    # "Chrome 120" and "Chrome Mobile 120"; "HeadlessChrome 120", as it calls itself. In lower case.
    family, product, version = _browser(user_agent)
    names = [family, product] if family else [product]
    if family and "Mobile" in user_agent:
        names += [f"{family} Mobile", f"Mobile {family}"]
    return tuple(f"{name} {version}".strip().lower() for name in names if name)


@lru_cache(maxsize=4096)
def _browser(user_agent: str) -> tuple[str, str, str]:
    # The browser, the name that it gives itself, and its version.
    products = dict(_PRODUCT.findall(user_agent))
    for family, product in _PRODUCTS:
        if product in products:
            return family, product, products[product]
    if "Safari" in products and "Version" in products and "Android" not in user_agent:
        return "Safari", "Safari", products["Version"]
    product = next(iter(products), "")
    return "", product, products.get(product, "")
