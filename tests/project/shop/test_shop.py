"""The shop: its pages answer, and what it does with the package works as the documentation says."""

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_redsess import viewed
from testproject.shop.models import Product

pytestmark = pytest.mark.django_db

HOME, POPULAR, BASKET, FORGET = "/", "/popular/", "/basket/", "/history/forget/"


@pytest.fixture
def products() -> list[Product]:
    return Product.objects.bulk_create([Product(slug=slug, name=slug) for slug in ("larch", "maple", "rowan")])


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password="countess")


def add(client: Client, slug: str, quantity: int = 1) -> Any:
    return client.post(reverse("shop:add", args=[slug]), {"quantity": quantity})


def forms(page: Any) -> list[dict[str, str]]:
    """Return what the two forms of the strip of viewed products send: that to clear it, and that to forget one."""
    found = re.findall(rf'action="{FORGET}">(.*?)</form>', page.content.decode(), re.DOTALL)
    return [dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)) for form in found]


def test_looking_around_starts_no_session(client: Client, products: list[Product]) -> None:
    pages = (HOME, POPULAR, BASKET, "/products/larch/", "/login/", reverse("shop:picture", args=["larch"]))
    assert [client.get(page).status_code for page in pages] == [200] * len(pages)
    assert client.post(FORGET, follow=True).status_code == 200
    assert client.get("/products/no-such-kite/").status_code == add(client, "no-such-kite").status_code == 404
    assert "sessionid" not in client.cookies


def test_a_history_is_forgotten_by_its_forms_and_the_views_stay_counted(products: list[Product], ada: User) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(ada)
    for slug in ("larch", "maple", "rowan"):
        assert browser.get(reverse("shop:product", args=[slug])).status_code == 200
    clear, one = forms(browser.get("/?page=1"))
    # Neither another site nor a link can do it.
    assert (browser.post(FORGET).status_code, browser.get(FORGET).status_code) == (403, 405)
    for item, left in (("no-such", ["rowan", "maple", "larch"]), ("larch", ["rowan", "maple"])):
        assert browser.post(FORGET, {**one, "item": item})["Location"] == "/?page=1"
        assert [entry.item for entry in viewed.recent(browser.session)] == left
    clear, _ = forms(browser.get("/products/maple/"))
    browser.post(FORGET, clear, follow=True)
    assert [entry.item for entry in viewed.recent(browser.session)] == []
    assert viewed.count("larch") == 1


@pytest.mark.parametrize(
    "address",
    ["https://evil.example/", "//evil.example/", "/\\evil.example/", "/\t/evil.example", "javascript:alert(1)", ""],
)
def test_only_a_path_of_the_shop_is_gone_back_to(client: Client, address: str) -> None:
    response = client.post(FORGET, {"next": address})
    assert (response.status_code, response["Location"]) == (302, HOME)


@pytest.mark.parametrize("login", ["/login/", "/admin/login/"])
def test_a_refused_guest_reads_why_and_keeps_the_basket(client, products, ada, settings, login: str) -> None:
    User.objects.update(is_staff=True)
    settings.REDSESS = {**settings.REDSESS, "MAX_SESSIONS_PER_USER": 1, "SESSION_LIMIT_POLICY": "refuse"}
    elsewhere, form = Client(), {"username": "ada", "password": "countess"}
    assert elsewhere.post(login, form).status_code == 302
    page = client.post(login, form)
    assert (page.status_code, "You are already signed in on 1 device" in page.content.decode()) == (200, True)
    assert "sessionid" not in client.cookies
    add(client, "larch", 2)
    assert client.post(login, form).status_code == 200
    elsewhere.post("/logout/")
    assert client.post(login, form).status_code == 302
    assert client.session["basket"] == {"larch": 2}
