from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

from django_redsess import viewed
from testproject.shop import strips
from testproject.shop.catalogue import CATALOGUE, load_catalogue
from testproject.shop.models import Product

pytestmark = pytest.mark.django_db


@pytest.fixture
def products() -> list[Product]:
    return Product.objects.bulk_create([Product(slug=slug, name=slug) for slug in ("larch", "maple", "rowan")])


@pytest.fixture
def signed_in(client: Client) -> Client:
    client.force_login(User.objects.create_user("ada"))
    return client


def add(client: Client, slug: str, quantity: Any = 1) -> Any:
    return client.post(reverse("shop:add", args=[slug]), {"quantity": quantity})


def basket(client: Client) -> Any:
    return client.session.get("basket", {})


def look_at(client: Client, *slugs: str) -> None:
    for slug in slugs:
        assert client.get(reverse("shop:product", args=[slug])).status_code == 200


def strip(client: Client, url: str) -> list[str]:
    return [product.slug for product, _ in client.get(url).context["recently_viewed"]]


def test_loading_the_catalogue_twice_restores_each_product_and_adds_none() -> None:
    load_catalogue()
    Product.objects.update(name="changed")
    load_catalogue()
    assert [product.name for product in Product.objects.all()] == [entry.name for entry in CATALOGUE]


def test_adding_a_product_again_adds_to_its_pieces(client: Client, products: list[Product]) -> None:
    add(client, "larch", 2)
    add(client, "larch", 3)
    assert basket(client) == {"larch": 5}


def test_the_header_counts_the_pieces(client: Client, products: list[Product]) -> None:
    add(client, "larch", 2)
    add(client, "maple", 3)
    assert client.get(reverse("shop:home")).context["basket_pieces"] == 5


def test_the_basket_never_holds_more_of_a_product_than_is_sold(client: Client, products: list[Product]) -> None:
    add(client, "larch", 20)
    add(client, "larch", 1)
    assert basket(client) == {"larch": 20}


@pytest.mark.parametrize("quantity", ["", "two", "-1", "0", "21"])
def test_a_bad_quantity_leaves_the_basket_alone_and_says_so(
    client: Client, products: list[Product], quantity: str
) -> None:
    response = client.post(reverse("shop:add", args=["larch"]), {"quantity": quantity}, follow=True)
    assert basket(client) == {}
    assert "Choose between 1 and 20 pieces." in response.content.decode()


def test_changing_the_quantity_replaces_it(client: Client, products: list[Product]) -> None:
    add(client, "larch", 2)
    client.post(reverse("shop:change", args=["larch"]), {"quantity": 7})
    assert basket(client) == {"larch": 7}


def test_changing_the_quantity_to_none_removes_the_product(client: Client, products: list[Product]) -> None:
    add(client, "larch")
    add(client, "maple")
    client.post(reverse("shop:change", args=["larch"]), {"quantity": 0})
    assert basket(client) == {"maple": 1}


def test_changing_what_is_not_in_the_basket_puts_nothing_in(client: Client, products: list[Product]) -> None:
    client.post(reverse("shop:change", args=["no-such-kite"]), {"quantity": 3})
    assert basket(client) == {}


def test_the_basket_page_takes_out_a_product_that_is_gone(client: Client, products: list[Product]) -> None:
    add(client, "larch")
    add(client, "maple")
    Product.objects.get(slug="larch").delete()
    page = client.get(reverse("shop:basket"))
    assert [line.product.slug for line in page.context["lines"]] == ["maple"]
    assert page.context["basket_pieces"] == 1


@pytest.mark.parametrize("name", ["shop:product", "shop:picture"])
def test_an_unknown_product_is_not_found(client: Client, name: str) -> None:
    assert client.get(reverse(name, args=["no-such-kite"])).status_code == 404


def test_an_unknown_product_can_not_be_added(client: Client) -> None:
    assert add(client, "no-such-kite").status_code == 404
    assert basket(client) == {}


def test_looking_around_starts_no_session(client: Client, products: list[Product]) -> None:
    for url in (reverse("shop:home"), reverse("shop:product", args=["larch"]), reverse("shop:basket")):
        client.get(url)
    assert settings.SESSION_COOKIE_NAME not in client.cookies


def test_the_home_page_takes_as_many_queries_for_many_products_as_for_few(
    client: Client, products: list[Product], django_assert_num_queries: Any
) -> None:
    Product.objects.bulk_create([Product(slug=f"item-{number}", name="x") for number in range(200)])
    with django_assert_num_queries(2):
        client.get(reverse("shop:home"))


def test_recently_viewed_products_come_newest_first(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "rowan", "larch")
    assert strip(signed_in, reverse("shop:home")) == ["larch", "rowan", "maple"]


def test_the_product_that_is_shown_is_not_listed_as_viewed(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "rowan")
    assert strip(signed_in, reverse("shop:product", args=["maple"])) == ["rowan", "larch"]


def test_the_product_that_is_shown_takes_no_place_in_the_strip(signed_in: Client) -> None:
    load_catalogue()
    slugs = list(Product.objects.values_list("slug", flat=True))[: strips.LENGTH + 1]
    look_at(signed_in, *slugs)
    assert strip(signed_in, reverse("shop:product", args=[slugs[-1]])) == slugs[-2::-1]


def test_a_deleted_product_is_left_out_of_the_strips(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple")
    Product.objects.get(slug="larch").delete()
    page = signed_in.get(reverse("shop:home"))
    assert [product.slug for product, _ in page.context["recently_viewed"]] == ["maple"]
    assert [product.slug for product, _ in page.context["most_viewed"]] == ["maple"]


def test_the_most_viewed_products_come_with_their_views(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "larch")
    page = signed_in.get(reverse("shop:home"))
    assert [(product.slug, views) for product, views in page.context["most_viewed"]] == [("larch", 2), ("maple", 1)]


def test_a_picture_is_drawn_for_a_product_that_has_only_a_name(client: Client, products: list[Product]) -> None:
    response = client.get(reverse("shop:picture", args=["larch"]))
    assert response["Content-Type"] == "image/svg+xml"
    assert response.content.startswith(b"<svg")


def test_looking_at_a_picture_is_no_view(signed_in: Client, products: list[Product]) -> None:
    signed_in.get(reverse("shop:picture", args=["larch"]))
    assert viewed.views("larch") == 0


def test_a_picture_can_be_cached_for_everyone(signed_in: Client, products: list[Product]) -> None:
    response = signed_in.get(reverse("shop:picture", args=["larch"]))
    assert "public" in response["Cache-Control"]
    assert not response.has_header("Vary")
