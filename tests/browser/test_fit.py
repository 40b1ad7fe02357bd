"""Every page fits its window: of a phone and of a desk, light and dark, in each language, with each theme."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import translation
from playwright.sync_api import Page, expect

from django_redsess import cleaning
from testproject import people
from testproject.people import PASSWORD
from testproject.servers import Server
from testproject.shop.models import Product
from tests.browser.test_contrast import DARK, too_weak
from tests.helpers.behind import have_views
from tests.helpers.browsing import LIST, MOST_VIEWED, KeepPicture, Visitor, pages_of_admin, sign_in
from tests.helpers.shop import use_our_templates
from tests.helpers.texts import LANGUAGES

pytestmark = pytest.mark.slow

OWN = "/account/sessions/"

OURS = "[class^=redsess], [class*=' redsess'], [class^=field-]"

FITS = "document.documentElement.scrollWidth <= window.innerWidth"


@pytest.fixture
def admin(visitor: Visitor, server: Server) -> Callable[..., Page]:
    """Return a function that opens a browser in which the administrator of a shop has signed in."""
    people.bring_in_shoppers()
    cleaning.sample()
    have_views(server.client, {"slow-heron": 123_456, "x" * 64: 700, "marmalade": 5000})

    def open_page(width: int = 1280, dark: bool = False) -> Page:
        page = visitor(width, dark)
        sign_in(page, "admin", "admin")
        return page

    return open_page


@DARK
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("theme", ["django", "unfold", "jazzmin"])
def test_pages_of_the_admin(
    request: pytest.FixtureRequest, keep_picture: KeepPicture, theme: str, width: int, dark: bool
) -> None:
    if theme == "django":
        page = request.getfixturevalue("admin")(width, dark)
    else:
        page = request.getfixturevalue("demo_visitor")(theme)(width, dark)
        sign_in(page, "admin", "admin")
    for path, name in (
        *pages_of_admin(page),
        (LIST + "confirm/?q=amelia", "confirm-one"),
        (LIST + "numbers/?range=week", "over-time"),
        (LIST + "?q=nobody", "empty"),
        (MOST_VIEWED + "?q=nothing", "no-item"),
        (MOST_VIEWED + "confirm/", "reset"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.ok, path
        keep_picture(page, f"{theme}-{name}-{width}{'-dark' * dark}")
        assert page.evaluate(FITS), path
        if theme == "django":
            assert too_weak(page, OURS) == [], path
    if theme == "django":
        # Other fields of a user's page may be too wide.
        page.goto(f"/admin/auth/user/{User.objects.get(username='amelia').pk}/change/")
        assert too_weak(page, OURS) == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("language", LANGUAGES)
def test_pages_in_each_language(
    admin: Callable[..., Page], keep_picture: KeepPicture, language: str, width: int
) -> None:
    page = admin(width)
    page.set_extra_http_headers({"Accept-Language": translation.to_language(language)})
    for path, name in (*pages_of_admin(page), (LIST + "confirm/?q=kavya", "confirm-one"), (OWN, "own")):
        page.goto(path)
        keep_picture(page, f"{language}-{name}-{width}")
        assert page.evaluate(FITS), path
        tables = page.locator(".redsess-confirm .redsess-scroll" if width == 390 else ".results, .redsess-scroll")
        assert tables.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)"), path
        # No harmful button is what the keyboard reaches first.
        assert "confirm" not in name or page.evaluate("document.activeElement === document.body")
        if name != "own":  # It has the shop's frame, which is English.
            direction = page.evaluate("getComputedStyle(document.querySelector('#content')).direction")
            assert direction == ("rtl" if language == "ar" else "ltr")


@DARK
@pytest.mark.parametrize("width", [320, 768, 1280])
def test_pages_of_the_shop(visitor: Visitor, settings: Any, keep_picture: KeepPicture, width: int, dark: bool) -> None:
    people.bring_in_shoppers()
    Product.objects.create(slug="long", name="Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen")
    page = visitor(width, dark)

    def fit(*paths: str, of: str) -> None:
        for path in paths:
            page.goto(path)
            keep_picture(page, f"{of}-{path.strip('/').replace('/', '-') or 'home'}-{width}{'-dark' * dark}")
            assert page.evaluate(FITS), path

    fit("/", "/products/rock-pool/", "/basket/", "/login/", of="stranger")
    sign_in(page, "alice", PASSWORD)
    for slug in ("night-ferry", "paper-moon", "tide-table", "long", "red-admiral", "string-of-pearls"):
        page.goto(f"/products/{slug}/")
    expect(page.get_by_role("region", name="Recently viewed").get_by_role("listitem")).not_to_have_count(0)
    fit("/", "/products/rock-pool/", "/popular/", "/basket/", of="viewer")
    for address, user_agent in (
        ("198.51.100.23", people.SAFARI_IPHONE),
        ("2001:db8:90:1200:ffff:1234:5678:1f", people.FIREFOX_LINUX),
        ("", 300 * "x"),
    ):
        browser = Client(headers={"user-agent": user_agent}, REMOTE_ADDR=address)
        browser.post("/login/", {"username": "alice", "password": PASSWORD})
    fit(OWN, of="own")
    use_our_templates(settings)
    fit(OWN, of="own-plain")
    expect(page.get_by_role("heading", level=2)).to_have_count(4)
