"""The shop: its pages answer, and what it does with the package works as the documentation says."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_redsess import viewed
from testproject.shop.models import Product
from tests.helpers.behind import have_views

pytestmark = pytest.mark.django_db

HOME, POPULAR, BASKET, FORGET = "/", "/popular/", "/basket/", "/history/forget/"

REFUSED = "You already have 3 sessions"


@pytest.fixture
def products() -> list[Product]:
    return Product.objects.bulk_create([Product(slug=slug, name=slug) for slug in ("larch", "maple", "rowan")])


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password="countess")


@pytest.fixture
def signed_in(client: Client, ada: User) -> Client:
    client.force_login(ada)
    return client


@pytest.fixture
def fill_up(settings: Any, ada: User) -> Callable[[str], list[Client]]:
    """Return a function that signs ada in as often as she may."""

    def fill_up(policy: str) -> list[Client]:
        settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": 3, "SESSION_LIMIT_POLICY": policy}
        browsers = [Client() for _ in range(3)]
        assert [sign_in(browser).status_code for browser in browsers] == [302, 302, 302]
        return browsers

    return fill_up


def sign_in(browser: Client, address: str = "/login/") -> Any:
    return browser.post(address, {"username": "ada", "password": "countess"})


def add(client: Client, slug: str, quantity: Any = 1) -> Any:
    return client.post(reverse("shop:add", args=[slug]), {"quantity": quantity})


def basket(client: Client) -> Any:
    return client.session.get("basket", {})


def look_at(client: Client, *slugs: str) -> None:
    for slug in slugs:
        assert client.get(reverse("shop:product", args=[slug])).status_code == 200


def history(client: Client) -> list[str]:
    return [entry.item for entry in viewed.recent(client.session)]


def shown(page: Any, section: str) -> list[str]:
    """Return the products that a section of the page shows, in order."""
    found = re.search(rf'<section [^>]*"{section}">.*?</section>', page.content.decode(), re.DOTALL)
    assert found, f"the page has no section {section}"
    return re.findall(r'<a href="/products/([^/]+)/"', found[0])


def forms(page: Any) -> list[dict[str, str]]:
    """Return what the two forms of the strip of viewed products send: that to clear it, and that to forget one."""
    found = re.findall(rf'action="{FORGET}">(.*?)</form>', page.content.decode(), re.DOTALL)
    return [dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)) for form in found]


def test_looking_around_starts_no_session(client: Client, products: list[Product]) -> None:
    pages = (HOME, POPULAR, BASKET, "/products/larch/", "/login/", reverse("shop:picture", args=["larch"]))
    assert [client.get(page).status_code for page in pages] == [200] * len(pages)
    assert client.post(FORGET, follow=True).status_code == 200
    assert client.get("/products/no-such-kite/").status_code == add(client, "no-such-kite").status_code == 404
    assert settings.SESSION_COOKIE_NAME not in client.cookies


def test_the_basket_holds_what_was_put_in(client: Client, products: list[Product]) -> None:
    for slug, quantity in (("larch", 2), ("larch", 3), ("maple", 20), ("maple", 1), ("rowan", 1), ("rowan", "two")):
        add(client, slug, quantity)
    assert basket(client) == {"larch": 5, "maple": 20, "rowan": 1}
    for slug, quantity in (("larch", 7), ("maple", 0), ("no-such-kite", 3)):
        client.post(reverse("shop:change", args=[slug]), {"quantity": quantity})
    assert basket(client) == {"larch": 7, "rowan": 1}
    Product.objects.get(slug="rowan").delete()
    assert [line.product.slug for line in client.get(BASKET).context["lines"]] == ["larch"]


@pytest.mark.parametrize("url", [HOME, BASKET, "/products/larch/"])
def test_both_strips_show_products_that_there_are(signed_in: Client, products: list[Product], url: str) -> None:
    look_at(signed_in, "larch", "maple", "rowan", "maple")
    Product.objects.get(slug="rowan").delete()
    page = signed_in.get(url)
    # The product that a page is about is not listed as viewed on it.
    assert shown(page, "recently-viewed") == ["maple", "larch"][: 1 if "larch" in url else 2]
    assert sorted(shown(page, "most-viewed")) == ["larch", "maple"]


def test_the_popular_page_ranks_products_by_their_views(client: Client, redis: Any, partitions: int) -> None:
    slugs = [f"item-{number}" for number in range(60)]
    Product.objects.bulk_create([Product(slug=slug, name=slug) for slug in slugs])
    have_views(redis, {slug: 1 + number % 3 for number, slug in enumerate(slugs)})
    have_views(redis, {"no-such-kite": 5, "<script>": 4})
    pages = [client.get(POPULAR, {"page": number}) for number in (1, 2, 3, "junk", 999)]
    assert b"<script" not in pages[0].content
    ranked = [[(entry.rank, entry.product.slug) for entry in page.context["ranked"]] for page in pages]
    assert sorted(slug for page in ranked[:3] for _, slug in page) == sorted(slugs)
    # Of as many views each, over the pages.
    assert [rank for page in ranked[:3] for rank, _ in page] == [3] * 20 + [23] * 20 + [43] * 20
    assert ranked[3:] == [ranked[0], ranked[2]]


def test_a_history_is_forgotten_by_its_forms_and_the_views_stay_counted(products: list[Product], ada: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    look_at(browser, "larch", "maple", "rowan")
    clear, one = forms(browser.get("/?page=1"))
    # Neither another site nor a link can do it.
    assert (browser.post(FORGET).status_code, browser.get(FORGET).status_code) == (403, 405)
    for item, left in (("no-such", ["rowan", "maple", "larch"]), ("larch", ["rowan", "maple"])):
        assert browser.post(FORGET, {**one, "item": item})["Location"] == "/?page=1"
        assert history(browser) == left
    clear, _ = forms(browser.get("/products/maple/"))
    browser.post(FORGET, clear, follow=True)
    assert history(browser) == []
    assert viewed.count("larch") == 1


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/", "//evil.example/", "/\\evil.example/", "/\t/evil.example", "javascript:alert(1)", ""],
)
def test_only_a_path_of_the_shop_is_gone_back_to(signed_in: Client, address: str) -> None:
    response = signed_in.post(FORGET, {"next": address})
    assert (response.status_code, response["Location"]) == (302, HOME)


@pytest.mark.parametrize("login", ["/login/", "/admin/login/"])
def test_a_refused_guest_reads_why_and_signs_in_with_the_basket_after_signing_out_elsewhere(
    client: Client, fill_up: Callable[[str], list[Client]], products: list[Product], login: str
) -> None:
    User.objects.update(is_staff=True)
    first, *_ = fill_up("refuse")
    page = sign_in(client, login)
    assert (page.status_code, REFUSED in page.content.decode()) == (200, True)
    assert settings.SESSION_COOKIE_NAME not in client.cookies
    add(client, "larch", 2)
    assert sign_in(client, login).status_code == 200
    first.post("/logout/")
    assert sign_in(client, login).status_code == 302
    assert basket(client) == {"larch": 2}


@pytest.mark.parametrize(
    ("policy", "login", "behind"),
    [("end_oldest", "/login/", "/account/sessions/"), ("end_least_recent", "/admin/login/", "/admin/")],
)
def test_who_signed_in_elsewhere_reads_that_above_the_form_to_sign_in(
    client: Client, fill_up: Callable[[str], list[Client]], policy: str, login: str, behind: str
) -> None:
    User.objects.update(is_staff=True)
    first, *others = fill_up(policy)
    assert sign_in(client, login).status_code == 302
    page = first.get(behind, follow=True)
    assert page.redirect_chain == [(f"{login}?next={behind}", 302)]
    assert "Your session was ended, because you signed in elsewhere." in page.content.decode()
    assert [browser.get(behind).status_code for browser in (*others, client)] == [200, 200, 200]
