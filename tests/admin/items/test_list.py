"""The admin's page of the most viewed items: what it lists, in which order, and how it is searched."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib import admin as admin_pages
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch

from django_redsess import viewed
from django_redsess.admin import viewed_items
from django_redsess.models import PopularItem
from django_redsess.viewed import popularity
from testproject.shop.models import Product
from tests.helpers.admin_pages import Page, staff, words
from tests.helpers.items import LIST, STRANGE, answer, asked, checkboxes, lines, names, rows, select, select_all
from tests.helpers.store import have_views

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

things: Callable[[list[str]], Any]
"""What the setting names: each test sets its own."""


class Thing:
    """What an item may be that is no model."""

    def __init__(self, name: str, url: str | None = None) -> None:
        self.name, self.url = name, url

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        if self.url is None:
            raise NoReverseMatch
        return self.url


@pytest.fixture
def resolve(settings, monkeypatch) -> Callable[[Any], None]:
    """Return a function that makes another the one that finds the objects of items."""

    def use(function: Any) -> None:
        settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": f"{__name__}.things"}
        monkeypatch.setitem(globals(), "things", function)

    return use


def test_list_shows_the_most_viewed_first(partitions, admin_client, known) -> None:
    response = admin_client.get(LIST)
    found = rows(response)
    # Those with as many views come in a fixed order, which is not that of their names.
    assert sorted((row["rank"], row["name"], row["viewed"], row["share"]) for row in found) == [
        ("1", "kite", "1,250", "60.9%"),
        ("2", "lamp", "400", "19.5%"),
        ("2", "rope", "400", "19.5%"),
        ("4", "tail", "3", "0.1%"),
    ]
    assert [row["rank"] for row in found] == ["1", "2", "2", "4"]
    assert "2,053 views of 4 items" in Page(response).text
    for query in ("?o=1", "?o=-3", "?o=2.3"):
        assert rows(admin_client.get(LIST + query)) == found


def test_the_list_says_since_when_it_counts(partitions, admin_client, new_session) -> None:
    viewed.record(new_session("7"), "kite")
    assert re.search(r"1 view of 1 item, counted since \w+\.? \d+, \d{4}", Page(admin_client.get(LIST)).text)
    viewed.reset_all()
    assert "counted since" not in Page(admin_client.get(LIST)).text


def test_a_small_share_is_told_in_any_language(admin_client, redis, settings) -> None:
    have_views(redis, {"kite": 75_000, "lamp": 24_990, "tail": 10})
    settings.LANGUAGE_CODE = "de"
    found = rows(admin_client.get(LIST))
    assert [row["share"].replace("\xa0", " ") for row in found] == ["75,0 %", "25,0 %", "< 0,1 %"]


def test_an_item_has_the_name_and_the_page_of_its_object(admin_client, client, known, products, monkeypatch) -> None:
    in_admin, on_site = f'href="/admin/shop/product/{products["kite"].pk}/change/"', 'href="/products/kite/"'
    with CaptureQueriesContext(connection) as queries:
        found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
    # Who asks, and the names of all items.
    assert len(queries) == 2
    assert set(found) == {"Best kite kite", "Best lamp lamp", "rope", "tail"}
    assert in_admin in found["Best kite kite"]
    assert "<a" not in found["rope"]
    staff(client, "view_popularitem")
    assert on_site in rows(client.get(LIST))[0]["name_html"]
    staff(client, "view_popularitem", "view_product", name="other")
    assert in_admin in rows(client.get(LIST))[0]["name_html"]
    monkeypatch.delitem(admin_pages.site._registry, Product)
    assert on_site in rows(admin_client.get(LIST))[0]["name_html"]


def test_an_object_may_have_no_page_or_no_name_of_its_own(admin_client, known, resolve) -> None:
    calls: list[list[str]] = []
    things = {"kite": "Red kite", "tail": Thing("Tail"), "lamp": Thing("lamp", "/lamp/"), "rope": Thing("", "/rope/")}
    resolve(lambda items: calls.append(items) or things)
    found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
    assert "<a" not in found["Red kite kite"]
    assert "<a" not in found["Tail tail"]
    # Called by its id, it has that once.
    assert '<a href="/lamp/"><bdi>lamp</bdi></a>' in found["lamp"]
    assert '<a href="/rope/"><bdi>rope</bdi></a>' in found["rope"]
    assert [sorted(items) for items in calls] == [["kite", "lamp", "rope", "tail"]]


def test_an_address_is_a_link_if_it_is_of_the_site_or_the_web_and_markup_is_text(
    admin_client, redis, known, resolve
) -> None:
    links = ["/kite/", "kite", "?item=kite", "http://a.example/kite", "HTTPS://a.example/?a=b:c"]
    others = [
        *("javascript:alert(1)", " JavaScript:alert(1)", "\x01javascript:alert(1)", "java\nscript:alert(1)"),
        *("\tjavascript:alert(1)", "data:text/html,x", "ftp://a.example/kite", "http:///a.example", ""),
        *("//a.example", "/\\a.example", "\\\\a.example", "///a.example"),
    ]
    urls = {f"kite{number}": url for number, url in enumerate([*links, *others])}
    have_views(redis, dict.fromkeys(urls, 5))
    resolve(lambda items: {item: Thing("Kite", url) for item, url in urls.items()})
    found = {row["name"].removeprefix("Kite "): row["name_html"] for row in rows(admin_client.get(LIST))}
    assert [url for item, url in urls.items() if "href=" in found[item]] == links
    resolve(lambda items: {"kite": Thing("<script>alert(1)</script>", '"><script>alert(2)</script>')})
    response = admin_client.get(LIST)
    assert "<script>alert(1)</script> kite" in names(response)
    assert "<script>alert" not in response.text + select(admin_client, "kite").text


class Nameless:
    def __str__(self) -> str:
        raise ValueError("no name")


@pytest.mark.parametrize(
    "fails",
    [lambda items: 1 / 0, None, lambda items: None, lambda items: {"kite": Nameless()}],
    ids=["raises", "is none", "returns nothing", "has no names"],
)
def test_a_function_that_fails_is_told_and_ids_are_shown(admin_client, known, resolve, settings, caplog, fails) -> None:
    if fails:
        resolve(fails)
    else:
        settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "tests.nowhere.things"}
    response = admin_client.get(LIST)
    assert names(response)[0] == "kite"
    [message] = Page(response).messages
    assert 'REDSESS["VIEWED_RESOLVE"]' in message
    [record] = [record for record in caplog.records if record.name == "django_redsess"]
    assert (record.levelname, bool(record.exc_info)) == ("ERROR", True)
    assert "kite" in Page(select(admin_client, "kite")).text


def test_any_item_is_shown_as_text_found_by_its_whole_id_and_reset(admin_client, redis) -> None:
    have_views(redis, {**dict.fromkeys(STRANGE, 3), "another": 5})
    response, shown = admin_client.get(LIST), [str(PopularItem(item=item)) for item in STRANGE]
    assert sorted(names(response)) == sorted(["another", *map(words, shown)])
    for item in STRANGE:
        if "\0" not in item and item.strip():
            [row] = rows(admin_client.get(LIST, {"q": item}))
            assert (row["name"], row["rank"]) == (words(str(PopularItem(item=item))), "2")
    assert names(admin_client.get(LIST, {"q": "  another\t"})) == ["another"]
    question = select(admin_client, *(key for key in checkboxes(response) if key != "another"))
    assert f"reset {3 * len(STRANGE)} views of {len(STRANGE)} items" in asked(question)
    assert "<script>alert" not in response.text + question.text
    response = answer(admin_client, question)
    assert names(response) == ["another"]
    assert sorted(lines()) == sorted((text, text, "Reset 3 views.") for text in shown)
    assert admin_client.get("/admin/").status_code == 200


def test_items_are_found_by_parts_of_their_names(admin_client, known, products, redis, monkeypatch, resolve) -> None:
    for term, found in {
        "best": ["Best kite kite", "Best lamp lamp"],
        "KIT": ["Best kite kite"],
        "lam est": ["Best lamp lamp"],
        "best rope": [],
        "tail": ["tail"],
        "<b>": [],
    }.items():
        response = admin_client.get(LIST, {"q": term})
        assert names(response) == found, term
        assert "were searched" not in Page(response).text
    assert [row["rank"] for row in rows(admin_client.get(LIST, {"q": "best"}))] == ["1", "2"]
    question = select_all(admin_client, "?q=best")
    assert asked(question) == "Do you want to reset 1,650 views of 2 items?"
    # Beyond the first items, the whole id finds one.
    monkeypatch.setattr(viewed_items, "NAMED_MAX", 1)
    response = admin_client.get(LIST, {"q": "best"})
    assert names(response) == ["Best kite kite"]
    assert "The names of the 1 most viewed items were searched." in Page(response).text
    assert names(admin_client.get(LIST, {"q": "lamp"})) == ["Best lamp lamp"]
    calls: list[int] = []
    resolve(lambda items: calls.append(len(items)) or dict.fromkeys(items, "A thing"))
    monkeypatch.setattr(viewed_items, "NAMED_MAX", 1000)
    assert len(rows(admin_client.get(LIST, {"q": "thing"}))) == 4
    assert calls == [4, 4]


def test_search_finds_nothing_else_and_no_query_breaks_it(admin_client, known) -> None:
    for term in ("kit", "KITE", "k*", "%", "k_te", "a " * 3000, "<script>", '"kite"'):
        response = admin_client.get(LIST, {"q": term})
        assert names(response) == [], term[:9]
        assert Page(response).messages == [], term[:9]
    for query in (
        *("o=99", "o=x", "p=2&all=1", "p=-1", "p=9999", "_facets=True", "nonsense=1", "item__in=kite,lamp", "=&&"),
        *("item__contains=k", "pk__in=a", "_to_field=item", "_popup=1", "%00=%00", "q=kite%00", "q=%ED%A0%80"),
    ):
        assert admin_client.get(f"{LIST}?{query}", follow=True).status_code in (200, 400), query


@pytest.mark.parametrize("shallow", [2000, 2])
def test_all_pages_show_each_item_once(partitions, admin_client, redis, monkeypatch, few_on_a_page, shallow) -> None:
    monkeypatch.setattr(popularity, "SHALLOW", shallow)
    have_views(redis, {f"item{number}": 1 + number // 3 for number in range(11)})
    found = [row for number in range(1, 7) for row in rows(admin_client.get(LIST, {"p": number}))]
    assert len({row["name"] for row in found}) == len(found) == 11
    assert [int(row["rank"]) for row in found] == [1, 1, 3, 3, 3, 6, 6, 6, 9, 9, 9]
    assert [int(row["viewed"]) for row in found] == [4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize(("query", "calls"), [("", 2), ("?p=2", 4), ("?q=kite", 4)])
def test_a_page_takes_few_commands(partitions, admin_client, known, commands, few_on_a_page, query, calls) -> None:
    admin_client.get(LIST)
    commands()
    assert rows(admin_client.get(LIST + query))
    # The session, and of each partition the total, the page and, below the top, the rank of its first item.
    assert commands()["evalsha"] <= 1 + calls * partitions


def test_an_item_has_no_page_but_its_place_in_the_list(admin_client, known) -> None:
    for item in ("kite", "add", "a_2Fb", "%00", "x" * 5000, "_5F5F", "é"):
        response = admin_client.get(f"{LIST}{item}/change/", follow=True)
        assert response.status_code == 200
        assert response.redirect_chain[0][0].startswith(f"{LIST}?q="), item
        assert item != "kite" or names(response) == ["kite"]


def test_the_history_of_the_front_page_leads_to_the_item_in_the_list(admin_client, redis) -> None:
    have_views(redis, {"a/b_c": 3})
    answer(admin_client, select(admin_client, "a/b_c"))
    have_views(redis, {"a/b_c": 1})
    links = Page(admin_client.get("/admin/")).links
    assert names(admin_client.get(links["a/b_c"], follow=True)) == ["a/b_c"]


def test_items_cannot_be_added_changed_or_deleted(admin_client, known) -> None:
    assert admin_client.get(LIST + "add/").status_code == 403
    assert "delete_selected" not in admin_client.get(LIST).text
    for item in ("kite", "other", "a_2Fb", "%00"):
        assert admin_client.post(f"{LIST}{item}/change/", {"views": "1"}).status_code in (302, 403)
        assert admin_client.post(f"{LIST}{item}/delete/", {"post": "yes"}).status_code in (302, 403)
        assert admin_client.get(f"{LIST}{item}/history/", follow=True).status_code == 200
    assert {entry.item: entry.views for entry in viewed.popular()} == known
