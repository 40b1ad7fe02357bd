"""Every page fits its window: of a phone and of a desk, in each language and theme, and can be read by all."""

import re
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.utils import timezone, translation
from playwright.sync_api import Page, expect

from django_redsess import cleaning, online
from django_redsess.accounts import reauthentication
from testproject import people, sign_ins
from testproject.people import PASSWORD
from testproject.servers import Server, free_port
from testproject.shop.models import Product
from tests.helpers.browsing import LIST, MOST_VIEWED, KeepPicture, Visitor, pages_of_admin, sign_in
from tests.helpers.online import AdmitsAll
from tests.helpers.outages import caches
from tests.helpers.shop import use_our_templates
from tests.helpers.store import binding, have_views, make_bound
from tests.helpers.texts import LANGUAGES

pytestmark = pytest.mark.slow

SIGN_INS = "/admin/redsess_history/signin/"

OWN = "/account/sessions/"

OURS = "[class^=redsess], [class*=' redsess'], [class^=field-]"

FITS = "document.documentElement.scrollWidth <= window.innerWidth"


# Of all text inside of what the selector finds: where its contrast with what is behind it is below that of WCAG's AA.
TOO_WEAK = """
selector => {
    const numbers = colour => { const [r, g, b, a = 1] = colour.match(/[\\d.]+/g).map(Number); return [r, g, b, a] };
    const over = (top, under) => top.slice(0, 3).map((part, i) => part * top[3] + under[i] * (1 - top[3]));
    const luminance = colour => {
        const [r, g, b] = colour.map(part => part / 255).map(
            part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.backgroundColor = "Canvas";
    const canvas = numbers(getComputedStyle(probe).backgroundColor).slice(0, 3);
    probe.remove();
    const around = element => element ? [...around(element.parentElement), element] : [];
    const weak = [];
    const look = (element, text) => {
        if (!text.trim() || !element.checkVisibility({ visibilityProperty: true })) return;
        const style = getComputedStyle(element), chain = around(element);
        const behind = chain.reduce(
            (under, each) => over(numbers(getComputedStyle(each).backgroundColor), under), canvas);
        const front = numbers(element instanceof SVGElement ? style.fill : style.color);
        front[3] *= chain.reduce((product, each) => product * getComputedStyle(each).opacity, 1);
        const [low, high] = [luminance(over(front, behind)), luminance(behind)].sort((one, other) => one - other);
        const size = parseFloat(style.fontSize), contrast = (high + 0.05) / (low + 0.05);
        const needed = size >= 24 || (size >= 18.66 && style.fontWeight >= 700) ? 3 : 4.5;
        if (contrast < needed) weak.push(`${text.trim().slice(0, 40)}: ${contrast.toFixed(2)}`);
        seen += 1;
    };
    let seen = 0;
    for (const part of document.querySelectorAll(selector)) {
        const texts = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
        while (texts.nextNode()) look(texts.currentNode.parentElement, texts.currentNode.data);
        for (const button of part.querySelectorAll("input[type=submit]")) look(button, button.value);
    }
    return [seen, [...new Set(weak)]];
}
"""


def too_weak(page: Page, selector: str) -> list[str]:
    """Return the texts that are hard to read, light or dark, in what the selector finds."""
    found = []
    # Else colours are on their way from one scheme to the other.
    page.add_style_tag(content="* { transition: none !important }")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        seen, weak = page.evaluate(TOO_WEAK, selector)
        assert seen
        found += weak
    return found


def pages_of_an_end(page: Page) -> list[tuple[str, str]]:
    """Return the paths of what staff has ended, of one of these sign-ins, and of its user's history."""
    ended = SIGN_INS + "?who_ended=staff"
    page.goto(ended)
    links = page.locator("#result_list a[href*='/signin/'][href*='/change/']")
    one = links.first.get_attribute("href") or ""
    return [(ended, "ended-by-staff"), (one, "sign-in"), (one.partition("change/")[0] + "history/", "history")]


def far_away(addresses: list[str]) -> dict[str, str]:
    """Give each address a place with a long name."""
    return dict.fromkeys(addresses, "Llanfairpwllgwyngyllgogerychwyrndrobwll, United Kingdom")


@pytest.fixture(autouse=True)
def with_places(settings: Any) -> None:
    settings.REDSESS = {**settings.REDSESS, "PLACES": f"{__name__}.far_away"}


def resized(page: Page, *widths: int) -> Iterator[int]:
    """Let the page's window have each width, and see that the page fits it."""
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        yield width
        assert page.evaluate(FITS), (page.url, width)


@pytest.fixture
def admin(visitor: Visitor, server: Server, monkeypatch: pytest.MonkeyPatch) -> Page:
    """A browser in which the administrator of a shop has signed in."""
    people.bring_in_shoppers()
    for session in online.sessions()[1::2]:
        make_bound(server.client, session.sid)
    monkeypatch.setattr(binding, "guard", AdmitsAll())
    sign_ins.make()
    cleaning.take_sample()
    have_views(server.client, {"slow-heron": 123_456, "x" * 64: 700, "marmalade": 5000})
    page = visitor()
    sign_in(page, "admin", "admin")
    return page


@pytest.mark.parametrize("theme", ["django", "unfold", "jazzmin"])
@pytest.mark.usefixtures("transactional_db")
def test_pages_of_the_admin(request: pytest.FixtureRequest, keep_picture: KeepPicture, theme: str) -> None:
    if theme == "django":
        page = request.getfixturevalue("admin")
        until = timezone.now() + timedelta(days=1)
        online.block(User.objects.get(username="kavya"), until=until, message="Call us. " * 22)
    else:
        page = request.getfixturevalue("demo_visitor")(theme)()
        sign_in(page, "admin", "admin")
    for path, name in (
        *pages_of_admin(page),
        (LIST + "confirm/?q=amelia", "confirm-one"),
        (LIST + "numbers/?range=week", "over-time"),
        (LIST + "?q=nobody", "empty"),
        (SIGN_INS, "sign-ins"),
        (SIGN_INS + "?q=admin&who_ended=nobody", "no-sign-in"),
        *pages_of_an_end(page),
        (MOST_VIEWED + "?q=nothing", "no-item"),
        (MOST_VIEWED + "confirm/", "reset"),
    ):
        response = page.goto(path)
        assert response is not None
        assert response.ok, path
        for width in resized(page, 360, 1280):
            keep_picture(page, f"{theme}-{name}-{width}")
            assert theme != "django" or too_weak(page, OURS) == [], path
    if theme == "django":
        # Other fields of a user's page may be too wide.
        page.goto(f"/admin/auth/user/{User.objects.get(username='amelia').pk}/change/")
        assert too_weak(page, OURS) == []


@pytest.mark.parametrize("path", [LIST, SIGN_INS])
def test_on_a_phone_the_filters_are_reached_from_the_first_screen(admin: Page, path: str) -> None:
    admin.set_viewport_size({"width": 390, "height": 800})
    admin.goto(path)
    filters, show = admin.locator("#changelist-filter"), admin.get_by_role("link", name="Filters", exact=True)
    expect(filters).to_be_hidden()
    expect(show).to_be_in_viewport()
    # It needs no script.
    show.click()
    expect(filters).to_be_in_viewport()
    assert admin.evaluate(FITS)
    admin.get_by_role("link", name="Hide the filters").click()
    expect(filters).to_be_hidden()
    expect(show).to_be_in_viewport()
    admin.set_viewport_size({"width": 1280, "height": 800})
    expect(filters).to_be_visible()
    expect(show).to_be_hidden()


def test_the_column_of_places_is_wide_enough_for_a_browser_and_a_place(admin: Page) -> None:
    admin.goto(SIGN_INS)
    assert (admin.locator("#result_list th.column-sender").bounding_box() or {})["width"] >= 190
    assert admin.evaluate(FITS)


def test_pages_in_each_language(admin: Page, keep_picture: KeepPicture) -> None:
    ended = (SIGN_INS + "?reason=kicked", "sign-ins")
    paths = (*pages_of_admin(admin), (LIST + "confirm/?q=kavya", "confirm-one"), ended, (OWN, "own"))
    for language, (path, name) in product(LANGUAGES, paths):
        admin.set_extra_http_headers({"Accept-Language": translation.to_language(language)})
        admin.goto(path)
        # No harmful button is what the keyboard reaches first.
        assert "confirm" not in name or admin.evaluate("document.activeElement === document.body")
        if name != "own":  # It has the shop's frame, which is English.
            direction = admin.evaluate("getComputedStyle(document.querySelector('#content')).direction")
            assert direction == ("rtl" if language == "ar" else "ltr")
        for width in resized(admin, 390, 1280):
            keep_picture(admin, f"{language}-{name}-{width}")
            tables = admin.locator(".redsess-confirm .redsess-scroll" if width == 390 else ".results, .redsess-scroll")
            fit = tables.evaluate_all("all => all.every(one => one.scrollWidth <= one.clientWidth)")
            assert fit, (language, path, width)


def test_pages_of_the_shop(visitor: Visitor, server: Server, settings: Any, keep_picture: KeepPicture) -> None:
    people.bring_in_shoppers()
    Product.objects.create(slug="long", name="Donaudampfschifffahrtsgesellschaftskapitänsmützenabzeichen")
    page = visitor()

    def fit(*paths: str, of: str) -> None:
        for path in paths:
            page.goto(path)
            for width in resized(page, 320, 768, 1280):
                keep_picture(page, f"{of}-{path.strip('/').replace('/', '-') or 'home'}-{width}")

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
    for session in online.of_user(User.objects.get(username="alice"))[::2]:
        make_bound(server.client, session.sid)
    fit(OWN, of="own")
    use_our_templates(settings)
    fit(OWN, of="own-plain")
    expect(page.get_by_role("heading", level=2)).to_have_count(4)


@pytest.mark.parametrize(("frame", "language"), [("shop", "en"), ("plain", "en"), ("plain", "ar")])
def test_pages_that_ask_for_the_password(
    visitor: Visitor, settings: Any, monkeypatch: pytest.MonkeyPatch, keep_picture: KeepPicture, frame, language
) -> None:
    monkeypatch.setattr(reauthentication, "RECENT_SECONDS", 0)
    settings.ROOT_URLCONF = "tests.helpers.site.urls"
    Client().post("/login/", {"username": "alice", "password": PASSWORD})
    page = visitor()
    sign_in(page, "alice", PASSWORD)
    if frame == "plain":
        use_our_templates(settings)
        settings.LANGUAGE_CODE = language

    def fit(step: str) -> None:
        for width in resized(page, 320, 1280):
            keep_picture(page, f"{step}-{frame}-{language}-{width}")
        assert too_weak(page, "main") == []

    page.goto(OWN)
    fit("own")
    page.locator(".redsess-sessions form a").click()
    fit("password")
    # The keyboard is where the password goes.
    page.keyboard.type("not the password")
    page.keyboard.press("Enter")
    expect(page.locator("[aria-invalid=true]")).to_be_focused()
    fit("wrong-password")
    page.keyboard.type(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/sessions/not-me/$"))
    fit("not-me")
    expect(page.locator("main a[href='/account/password/']")).to_be_visible()


def test_text_of_pages_that_stand_alone_has_contrast(visitor: Visitor, settings: Any) -> None:
    page = visitor()
    sign_in(page, "alice", PASSWORD)
    Client().post("/login/", {"username": "alice", "password": PASSWORD})
    use_our_templates(settings)
    page.goto("/account/sessions/")
    assert too_weak(page, "body") == []
    page.get_by_role("link", name="Sign out everywhere else").click()
    assert too_weak(page, "body") == []
    page.get_by_role("button", name="Sign out everywhere else").click()
    assert too_weak(page, "body") == []
    settings.CACHES = caches(f"redis://127.0.0.1:{free_port()}/0")
    page.goto("/account/sessions/")
    assert too_weak(page, "body") == []
