from __future__ import annotations

import html
import re
from collections.abc import Callable
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
from testproject.shop.catalogue import load_catalogue
from testproject.shop.models import Product
from tests.helpers.behind import have_views
from tests.helpers.shop import AskedNobody

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
        page = client.get(reverse("shop:home"))
    assert "/products/item-" in page.content.decode()


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
    assert viewed.count("maple") == 1


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
    assert viewed.count("larch") == 0


def test_a_picture_can_be_cached_for_everyone(signed_in: Client, products: list[Product]) -> None:
    response = signed_in.get(reverse("shop:picture", args=["larch"]))
    assert "public" in response["Cache-Control"]
    assert not response.has_header("Vary")


REFUSED = "You already have 3 sessions, and more are not allowed. Sign out of one of them first."


@pytest.fixture
def limit(settings: Any) -> Callable[..., None]:
    """Return a function that sets how many sessions a user may have, and what a sign-in above that does."""

    def set_limit(maximum: int, policy: str) -> None:
        settings.REDSESS = {
            **settings.REDSESS,
            "MAX_SESSIONS_PER_USER": maximum,
            "SESSION_LIMIT_POLICY": policy,
        }

    return set_limit


@pytest.fixture
def ada() -> User:
    return User.objects.create_user("ada", password="countess")


def sign_in(browser: Client, address: str = "/login/", **more: str) -> Any:
    return browser.post(address, {"username": "ada", "password": "countess", **more})


def name_shown(page: Any) -> str:
    """Return what the page shows in the field for the user name."""
    found = re.search(r'<input [^>]*name="username"[^>]*>', page.content.decode())
    assert found
    return "".join(re.findall(r' value="([^"]*)"', found[0]))


def fill_up(limit: Callable[..., None], policy: str = "refuse") -> list[Client]:
    """Sign ada in as often as she may."""
    limit(3, policy)
    browsers = [Client() for _ in range(3)]
    assert [sign_in(browser).status_code for browser in browsers] == [302, 302, 302]
    return browsers


def alert(page: Any) -> str:
    """Return what the page says in an alert, without its markup."""
    found = re.search(r'<div role="alert">(.*?)</div>', page.content.decode(), re.DOTALL)
    return html.unescape(re.sub("<[^>]*>", "", found[1])).strip() if found else ""


def main_of(page: Any) -> str:
    found = re.search(r"<main.*?</main>", page.content.decode(), re.DOTALL)
    assert found
    return found[0]


def test_a_refused_sign_in_is_told_in_the_form_and_the_name_is_kept(
    client: Client, limit: Callable[..., None], ada: User
) -> None:
    fill_up(limit)
    page = sign_in(client)
    assert (page.status_code, alert(page), name_shown(page)) == (200, REFUSED, "ada")
    assert "<title>Error: Sign in" in page.content.decode()
    assert settings.SESSION_COOKIE_NAME not in client.cookies


def test_a_wrong_password_is_told_in_the_same_place(client: Client, ada: User) -> None:
    page = sign_in(client, password="count")
    assert "Please enter a correct username and password." in alert(page)
    assert name_shown(page) == "ada"


def test_no_alert_is_on_the_page_before_anything_was_sent(client: Client) -> None:
    page = client.get("/login/")
    assert 'role="alert"' not in page.content.decode()
    assert "<title>Sign in" in page.content.decode()


def test_a_refused_guest_keeps_the_basket(
    client: Client, limit: Callable[..., None], ada: User, products: list[Product]
) -> None:
    fill_up(limit)
    add(client, "larch", 2)
    assert alert(sign_in(client)) == REFUSED
    assert basket(client) == {"larch": 2}


def test_a_refused_user_signs_in_after_signing_out_elsewhere_and_has_the_basket(
    client: Client, limit: Callable[..., None], ada: User, products: list[Product]
) -> None:
    first, *_ = fill_up(limit)
    add(client, "larch", 2)
    sign_in(client)
    first.post("/logout/")
    assert sign_in(client).status_code == 302
    assert basket(client) == {"larch": 2}


def test_a_sign_in_that_only_login_refuses_is_answered_with_a_page_of_the_shop(
    client: Client, limit: Callable[..., None], ada: User, settings: Any
) -> None:
    fill_up(limit)
    settings.ROOT_URLCONF = AskedNobody
    page = sign_in(client)
    assert page.status_code == 403
    assert 'class="masthead"' in page.content.decode()
    assert REFUSED in main_of(page)
    assert '<a href="/login/">Back to sign in</a>' in main_of(page)
    assert "Signed in as" not in page.content.decode()


def test_a_refused_sign_in_leaves_no_last_login(
    client: Client, limit: Callable[..., None], ada: User, settings: Any
) -> None:
    fill_up(limit)
    ada.refresh_from_db()
    before = ada.last_login
    assert before is not None
    settings.ROOT_URLCONF = AskedNobody
    assert sign_in(client).status_code == 403
    ada.refresh_from_db()
    assert ada.last_login == before


def test_what_is_not_for_a_user_is_answered_with_a_page_of_the_shop_that_leads_back_to_it(client: Client) -> None:
    client.force_login(User.objects.create_user("clerk", is_staff=True))
    page = client.get("/admin/django_redsess/onlinesession/")
    assert page.status_code == 403
    assert "This page is not for everyone." in main_of(page)
    assert '<a href="/">Back to the kites</a>' in main_of(page)
    assert "Signed in as <b>clerk</b>" in page.content.decode()


def test_a_form_without_its_token_is_answered_with_the_page_that_django_has_for_it(ada: User) -> None:
    page = sign_in(Client(enforce_csrf_checks=True))
    assert page.status_code == 403
    assert "CSRF verification failed." in page.content.decode()
    assert "No flying here" not in page.content.decode()


@pytest.mark.parametrize("policy", ["end_oldest", "end_least_recent"])
def test_who_signed_in_elsewhere_reads_that_above_the_form_to_sign_in(
    client: Client, limit: Callable[..., None], ada: User, policy: str
) -> None:
    first, *others = fill_up(limit, policy)
    assert sign_in(client).status_code == 302
    page = first.get("/account/sessions/", follow=True)
    assert page.redirect_chain == [("/login/?next=/account/sessions/", 302)]
    assert "Your session was ended, because you signed in elsewhere." in page.content.decode()
    assert [browser.get("/account/sessions/").status_code for browser in (*others, client)] == [200, 200, 200]


def test_who_signed_in_elsewhere_reads_that_on_the_page_to_sign_in_to_the_admin(
    client: Client, limit: Callable[..., None], ada: User
) -> None:
    User.objects.update(is_staff=True)
    first, *_ = fill_up(limit, "end_oldest")
    sign_in(client, "/admin/login/")
    page = first.get("/admin/", follow=True)
    assert page.redirect_chain == [("/admin/login/?next=/admin/", 302)]
    assert "Your session was ended, because you signed in elsewhere." in page.content.decode()


def test_the_admin_tells_a_refused_sign_in_in_its_form(client: Client, limit: Callable[..., None], ada: User) -> None:
    User.objects.update(is_staff=True)
    fill_up(limit)
    page = sign_in(client, "/admin/login/")
    assert page.status_code == 200
    assert re.findall(r'<p class="errornote">\s*(.*?)\s*</p>', page.content.decode(), re.DOTALL) == [REFUSED]
    assert name_shown(page) == "ada"


def test_the_admin_tells_who_is_not_of_the_staff_what_it_always_does(client: Client, ada: User) -> None:
    page = sign_in(client, "/admin/login/")
    assert "Please enter the correct username and password for a staff account." in page.content.decode()
