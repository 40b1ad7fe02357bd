from __future__ import annotations

import re
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from redis import Redis

from django_redsess import viewed
from testproject.shop.catalogue import CATALOGUE, load_catalogue
from testproject.shop.models import Product
from tests.behind import have_views

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


HOME, POPULAR, BASKET, FORGET = "/", "/popular/", "/basket/", "/history/forget/"


def shown(page: Any, section: str) -> list[str]:
    """Return the products that a section of the page shows, in order."""
    found = re.search(rf'<section [^>]*"{section}">.*?</section>', page.content.decode(), re.DOTALL)
    assert found, f"the page has no section {section}"
    return re.findall(r'<a href="/products/([^/]+)/"', found[0])


def recent(client: Client, url: str = HOME) -> list[str]:
    return shown(client.get(url), "recently-viewed")


def ranked(page: Any) -> list[tuple[int, str, int]]:
    return [(entry.rank, entry.product.slug, entry.views) for entry in page.context["ranked"]]


def forms(page: Any) -> list[dict[str, str]]:
    """Return what the two forms of the strip of viewed products send: that to clear it, and that to forget one."""
    found = re.findall(rf'action="{FORGET}">(.*?)</form>', page.content.decode(), re.DOTALL)
    return [dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form)) for form in found]


def have_products(count: int) -> list[str]:
    products = [Product(slug=f"item-{number}", name=f"Item {number}") for number in range(count)]
    return [product.slug for product in Product.objects.bulk_create(products)]


def history(client: Client) -> list[str]:
    return [entry.item for entry in viewed.recent(client.session)]


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
    for url in (HOME, POPULAR, BASKET, "/products/larch/"):
        client.get(url)
    assert settings.SESSION_COOKIE_NAME not in client.cookies


def test_the_home_page_takes_as_many_queries_for_many_products_as_for_few(
    client: Client, products: list[Product], django_assert_num_queries: Any
) -> None:
    Product.objects.bulk_create([Product(slug=f"item-{number}", name="x") for number in range(200)])
    with django_assert_num_queries(2):
        client.get(reverse("shop:home"))


@pytest.mark.parametrize("url", [HOME, "/products/larch/", BASKET])
def test_both_strips_are_on_the_page(signed_in: Client, products: list[Product], url: str) -> None:
    look_at(signed_in, "maple", "rowan", "maple")
    page = signed_in.get(url)
    assert shown(page, "recently-viewed") == ["maple", "rowan"]
    assert shown(page, "most-viewed") == ["maple", "rowan"]


@pytest.mark.parametrize("url", [HOME, "/products/larch/", BASKET])
def test_strips_that_have_nothing_to_show_say_so(client: Client, products: list[Product], url: str) -> None:
    page = client.get(url).content.decode()
    assert "Nothing here yet." in page
    assert "Nobody has looked at a kite yet." in page
    assert "Clear my history" not in page


def test_recently_viewed_products_come_newest_first(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "rowan", "larch")
    assert recent(signed_in) == ["larch", "rowan", "maple"]


def test_the_product_that_is_shown_is_not_listed_as_viewed(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "rowan")
    assert recent(signed_in, "/products/maple/") == ["rowan", "larch"]


def test_the_product_that_is_shown_takes_no_place_in_the_strip(signed_in: Client) -> None:
    load_catalogue()
    slugs = list(Product.objects.values_list("slug", flat=True))[:7]
    look_at(signed_in, *slugs)
    assert recent(signed_in, f"/products/{slugs[-1]}/") == slugs[-2::-1]


def test_a_strip_shows_six_products(signed_in: Client) -> None:
    load_catalogue()
    look_at(signed_in, *Product.objects.values_list("slug", flat=True)[:8])
    page = signed_in.get(HOME)
    assert (len(shown(page, "recently-viewed")), len(shown(page, "most-viewed"))) == (6, 6)


def test_a_deleted_product_is_left_out_of_the_strips(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple")
    Product.objects.get(slug="larch").delete()
    page = signed_in.get(HOME)
    assert shown(page, "recently-viewed") == ["maple"]
    assert shown(page, "most-viewed") == ["maple"]


def test_the_most_viewed_products_come_with_their_views(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "larch")
    page = signed_in.get(HOME)
    assert shown(page, "most-viewed") == ["larch", "maple"]
    assert re.findall(r"<small>(\d views?)</small>", page.content.decode()) == ["2 views", "1 view"]


@pytest.mark.parametrize("url", [HOME, POPULAR, BASKET, "/products/larch/"])
def test_a_page_takes_as_many_queries_for_many_viewed_products_as_for_one(
    signed_in: Client, products: list[Product], url: str
) -> None:
    load_catalogue()
    look_at(signed_in, "maple")
    with CaptureQueriesContext(connection) as with_one:
        signed_in.get(url)
    look_at(signed_in, *Product.objects.values_list("slug", flat=True))
    with CaptureQueriesContext(connection) as with_many:
        signed_in.get(url)
    assert len(with_many) == len(with_one)


def test_the_popular_page_ranks_products_by_their_views(
    client: Client, redis: Redis, products: list[Product], partitions: int
) -> None:
    have_views(redis, {"larch": 1, "maple": 1200, "rowan": 7})
    page = client.get(POPULAR)
    assert ranked(page) == [(1, "maple", 1200), (2, "rowan", 7), (3, "larch", 1)]
    assert "1,200 views" in page.content.decode()


def test_products_with_as_many_views_share_a_rank(client: Client, redis: Redis, products: list[Product]) -> None:
    have_views(redis, {"larch": 3, "maple": 5, "rowan": 3})
    assert [rank for rank, _, _ in ranked(client.get(POPULAR))] == [1, 2, 2]


def test_a_rank_is_shared_across_pages(client: Client, redis: Redis) -> None:
    slugs = have_products(30)
    have_views(redis, {**dict.fromkeys(slugs[:20], 9), **dict.fromkeys(slugs[20:28], 5), slugs[28]: 1, slugs[29]: 1})
    assert [rank for rank, _, _ in ranked(client.get(POPULAR, {"page": 2}))] == [21, 21, 21, 21, 29, 29]


def test_each_viewed_product_is_on_one_of_the_pages(client: Client, redis: Redis, partitions: int) -> None:
    slugs = have_products(60)
    have_views(redis, {slug: 1 + number % 3 for number, slug in enumerate(slugs)})
    pages = [ranked(client.get(POPULAR, {"page": number})) for number in (1, 2, 3)]
    assert [len(page) for page in pages] == [24, 24, 12]
    assert sorted(slug for page in pages for _, slug, _ in page) == sorted(slugs)


def test_bars_are_as_long_as_the_share_of_the_first_products_views(client: Client, redis: Redis) -> None:
    slugs = have_products(26)
    have_views(redis, {slug: 200 - number for number, slug in enumerate(slugs[:24])})
    have_views(redis, {slugs[24]: 100, slugs[25]: 50})
    assert re.findall(r'<rect width="(\d+%)"', client.get(POPULAR, {"page": 2}).content.decode()) == ["50%", "25%"]


def test_the_popular_page_leaves_out_products_that_are_gone(
    client: Client, redis: Redis, products: list[Product]
) -> None:
    have_views(redis, {"larch": 9, "no-such-kite": 5, "<script>": 4, "maple": 2})
    page = client.get(POPULAR)
    assert ranked(page) == [(1, "larch", 9), (4, "maple", 2)]
    assert b"<script" not in page.content


@pytest.mark.parametrize(
    ("asked", "answered"), [("junk", 1), ("", 1), ("0", 2), ("-1", 2), ("999999", 2), ("9" * 99, 2)]
)
def test_a_page_that_is_none_is_answered_with_one_that_is(
    client: Client, redis: Redis, asked: str, answered: int
) -> None:
    have_views(redis, dict.fromkeys(have_products(25), 1))
    page = client.get(POPULAR, {"page": asked})
    assert (page.status_code, page.context["page"].number) == (200, answered)


def test_the_popular_page_says_that_nothing_was_viewed_yet(client: Client) -> None:
    assert "Nobody has looked at a kite yet." in client.get(POPULAR).content.decode()


def test_the_popular_page_says_where_all_products_of_a_page_are_gone(client: Client, redis: Redis) -> None:
    have_views(redis, {"no-such-kite": 5})
    assert "The kites that were here are no longer sold." in client.get(POPULAR).content.decode()


def test_the_popular_page_is_linked_to_in_the_navigation_and_from_the_strip(
    signed_in: Client, products: list[Product]
) -> None:
    look_at(signed_in, "larch")
    assert signed_in.get(HOME).content.decode().count(f'<a href="{POPULAR}">') == 2


def test_clearing_the_history_leaves_the_views_counted(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple")
    page = signed_in.post(FORGET, {"next": BASKET}, follow=True)
    assert page.redirect_chain == [(BASKET, 302)]
    assert "Your history is cleared." in page.content.decode()
    assert history(signed_in) == []
    assert shown(page, "most-viewed") == ["larch", "maple"]


def test_the_history_stays_cleared_where_a_product_was_shown(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple")
    clear, _ = forms(signed_in.get("/products/maple/"))
    signed_in.post(FORGET, clear, follow=True)
    assert history(signed_in) == []


def test_forgetting_one_product_leaves_the_others(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch", "maple", "rowan")
    page = signed_in.post(FORGET, {"item": "maple", "next": "/?page=1"}, follow=True)
    assert page.redirect_chain == [("/?page=1", 302)]
    assert shown(page, "recently-viewed") == ["rowan", "larch"]
    assert viewed.views("maple") == 1


def test_the_strip_comes_back_to_the_page_it_is_on(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch")
    assert [form["next"] for form in forms(signed_in.get("/?page=1"))] == ["/?page=1", "/?page=1"]


@pytest.mark.parametrize("item", ["maple", "", "x" * 65, "\0", "<b>"])
def test_forgetting_what_is_not_in_the_history_forgets_nothing(
    signed_in: Client, products: list[Product], item: str
) -> None:
    look_at(signed_in, "larch")
    page = signed_in.post(FORGET, {"item": item}, follow=True)
    assert "That is no longer on your list." in page.content.decode()
    assert history(signed_in) == ["larch"]


@pytest.mark.parametrize(
    "address",
    [
        "https://evil.example/",
        "http://testserver/basket/",
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "\\\\evil.example",
        " //evil.example",
        "/\t/evil.example",
        "javascript:alert(1)",
        "",
    ],
)
def test_only_a_path_of_the_shop_is_gone_back_to(signed_in: Client, address: str) -> None:
    response = signed_in.post(FORGET, {"next": address})
    assert (response.status_code, response["Location"]) == (302, HOME)


def test_a_history_is_not_cleared_by_following_a_link(signed_in: Client, products: list[Product]) -> None:
    look_at(signed_in, "larch")
    assert signed_in.get(FORGET).status_code == 405
    assert history(signed_in) == ["larch"]


def test_a_history_is_not_cleared_by_another_site(products: list[Product]) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.create_user("ada"))
    look_at(browser, "larch")
    assert browser.post(FORGET).status_code == 403
    assert history(browser) == ["larch"]


def test_the_forms_of_the_strip_are_accepted(products: list[Product]) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.force_login(User.objects.create_user("ada"))
    look_at(browser, "larch", "maple")
    clear, one = forms(browser.get(HOME))
    browser.post(FORGET, {**one, "item": "larch"})
    assert history(browser) == ["maple"]
    browser.post(FORGET, clear)
    assert history(browser) == []


def test_clearing_a_history_starts_no_session(client: Client) -> None:
    assert client.post(FORGET, follow=True).status_code == 200
    assert settings.SESSION_COOKIE_NAME not in client.cookies


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
