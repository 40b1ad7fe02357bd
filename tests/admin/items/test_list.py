"""The admin's page of the most viewed items: what it lists, in which order, and how it is searched."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from io import StringIO
from typing import Any
from xml.etree import ElementTree

import pytest
from django.contrib import admin as admin_pages
from django.contrib.auth.models import User
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import NoReverseMatch

from django_redsess import viewed
from django_redsess.models import PopularItem
from django_redsess.transport.keys import keyspace
from django_redsess.viewed import popularity
from testproject.shop.models import Product
from tests.helpers.admin_pages import Page, staff, words
from tests.helpers.behind import have_views
from tests.helpers.items import STRANGE
from tests.helpers.most_viewed import (
    LIST,
    answer,
    names,
    rows,
    select,
)

pytestmark = [pytest.mark.django_db, pytest.mark.on_cluster]

LOOKED_UP = {"VIEWED_RESOLVE": "tests.admin.items.test_list.things"}

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
        settings.REDSESS = {**settings.REDSESS, **LOOKED_UP}
        monkeypatch.setitem(globals(), "things", function)

    return use


# What the list shows.


def test_list_shows_the_most_viewed_first(partitions, admin_client, known) -> None:
    found = rows(admin_client.get(LIST))
    # Those with as many views come in a fixed order, which is not that of their names.
    assert sorted((row["rank"], row["name"], row["viewed"]) for row in found) == [
        ("1", "kite", "1,250"),
        ("2", "lamp", "400"),
        ("2", "rope", "400"),
        ("4", "tail", "3"),
    ]
    assert [row["rank"] for row in found] == ["1", "2", "2", "4"]


def test_list_has_a_title_and_the_totals(admin_client, known) -> None:
    page = admin_client.get(LIST)
    assert "<h1>Most viewed items</h1>" in page.text
    assert "2,053 views of 4 items" in Page(page).text
    assert "2,053 views of 4 items" in Page(admin_client.get(LIST + "?q=tail")).text


@pytest.mark.usefixtures("partitions")
def test_the_list_says_since_when_it_counts(admin_client, redis, new_session) -> None:
    session = new_session("7")
    for item in ("kite", "lamp", "rope", "tail"):
        viewed.record(session, item)
    since = viewed.total().since
    assert since is not None
    before = int(redis.time()[0])
    assert before - 60 < since.timestamp() <= before
    for partition in keyspace().partitions:
        if redis.hexists(partition.totals, "views_since"):
            redis.hset(partition.totals, "views_since", 1_780_000_000)
    viewed.record(session, "kite")
    text = "4 items, counted since May 28, 2026, 8:26 p.m. UTC"
    assert text in Page(admin_client.get(LIST)).text
    viewed.reset_all()
    assert viewed.total() == (0, 0, None)
    viewed.record(session, "kite")
    assert text not in Page(admin_client.get(LIST)).text
    assert viewed.total().since >= since


def test_one_view_of_one_item_is_told_in_the_singular(admin_client, redis) -> None:
    have_views(redis, {"kite": 1})
    assert "1 view of 1 item" in Page(admin_client.get(LIST)).text


def test_the_share_is_told_and_drawn(admin_client, redis) -> None:
    have_views(redis, {"kite": 75_000, "lamp": 24_990, "tail": 10})
    found = rows(admin_client.get(LIST))
    assert [row["share"] for row in found] == ["75.0%", "25.0%", "< 0.1%"]
    drawn = [re.search(r"<svg.*</svg>", row["share_html"])[0] for row in found]
    widths = [ElementTree.fromstring(each).findall("path")[1].get("d") for each in drawn]
    # The longest bar is that of the most viewed.
    assert widths == ["M0 0h100.00v8h-100.00z", "M0 0h33.32v8h-33.32z", "M0 0h0.01v8h-0.01z"]


def test_the_bar_needs_no_style_and_is_not_read_out(admin_client, known) -> None:
    for row in rows(admin_client.get(LIST)):
        assert not re.search(r"style|script|\bon\w+=", row["share_html"])
        assert ElementTree.fromstring(re.search(r"<svg.*</svg>", row["share_html"])[0]).get("aria-hidden") == "true"


def test_numbers_are_written_as_the_language_does(admin_client, known, settings) -> None:
    settings.LANGUAGE_CODE = "de"
    found = rows(admin_client.get(LIST))[0]
    assert found["viewed"] == "1.250"
    assert "60,9" in found["share"]
    assert "h100.00v" in found["share_html"]


def test_an_empty_list_says_what_to_do_where_nothing_is_named_so_far(admin_client, settings) -> None:
    page = admin_client.get(LIST).text
    assert "Nothing has been viewed yet." in page
    assert "VIEWED_VIEWS" not in page
    settings.REDSESS = {**settings.REDSESS, "VIEWED_VIEWS": {}}
    page = Page(admin_client.get(LIST))
    assert "Nothing has been viewed yet." in page.text
    assert 'REDSESS["VIEWED_VIEWS"]' in page.text
    assert "Reset all" not in page.links


def test_a_list_that_is_not_empty_does_not(admin_client, known) -> None:
    for query in ("", "?q=other"):
        assert "Nothing has been viewed" not in admin_client.get(LIST + query).text


def test_what_a_visitor_views_is_listed(admin_client, products, client) -> None:
    client.post("/login/", {"username": User.objects.create_user("alice", password="secret"), "password": "secret"})
    client.get("/products/lamp/")
    [row] = rows(admin_client.get(LIST))
    assert (row["name"], row["viewed"], row["share"]) == ("Best lamp lamp", "1", "100.0%")


@pytest.mark.parametrize("item", STRANGE)
def test_any_item_is_shown_as_text(admin_client, redis, item) -> None:
    have_views(redis, {item: 3})
    response = admin_client.get(LIST)
    [row] = rows(response)
    assert row["name"] == words(str(PopularItem(item=item)))
    assert "<script>alert" not in response.text


# Names and links.


def test_an_item_is_called_by_its_object_with_its_id_beside(admin_client, known, products) -> None:
    found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
    assert set(found) == {"Best kite kite", "Best lamp lamp", "rope", "tail"}
    assert f'href="/admin/shop/product/{products["kite"].pk}/change/"' in found["Best kite kite"]
    assert "<a" not in found["rope"]


def test_names_come_in_one_query(admin_client, known, products) -> None:
    with CaptureQueriesContext(connection) as queries:
        assert "Best kite kite" in names(admin_client.get(LIST))
    # Who asks, and the names of all items.
    assert len(queries) == 2


def test_who_may_not_see_the_object_in_the_admin_is_led_to_its_own_page(client, known, products) -> None:
    staff(client, "view_popularitem")
    assert 'href="/products/kite/"' in rows(client.get(LIST))[0]["name_html"]
    staff(client, "view_popularitem", "view_product", name="other")
    assert f'href="/admin/shop/product/{products["kite"].pk}/change/"' in rows(client.get(LIST))[0]["name_html"]


def test_an_object_without_an_admin_page_is_led_to_its_own(admin_client, known, products, monkeypatch) -> None:
    monkeypatch.delitem(admin_pages.site._registry, Product)
    assert 'href="/products/kite/"' in rows(admin_client.get(LIST))[0]["name_html"]


def test_an_object_without_any_page_is_no_link(admin_client, known, resolve) -> None:
    resolve(lambda items: {"kite": "Red kite", "tail": Thing("Tail")})
    found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
    assert "<a" not in found["Red kite kite"]
    assert "<a" not in found["Tail tail"]


def test_an_object_called_by_its_id_has_it_once(admin_client, known, resolve) -> None:
    resolve(lambda items: {"kite": Thing("kite", "/kite/"), "tail": Thing("", "/tail/")})
    found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
    assert '<a href="/kite/"><bdi>kite</bdi></a>' in found["kite"]
    assert '<a href="/tail/"><bdi>tail</bdi></a>' in found["tail"]


def test_a_name_and_a_link_full_of_markup_are_shown_as_text(admin_client, known, resolve) -> None:
    resolve(lambda items: {"kite": Thing("<script>alert(1)</script>", '"><script>alert(2)</script>')})
    response = admin_client.get(LIST)
    assert "<script>alert(1)</script> kite" in names(response)
    assert "<script>alert" not in response.text
    assert "<script>alert" not in select(admin_client, "kite").text


def test_the_function_that_finds_objects_is_called_once_a_page(admin_client, known, resolve) -> None:
    calls: list[list[str]] = []
    resolve(lambda items: calls.append(items) or {})
    admin_client.get(LIST)
    assert [sorted(items) for items in calls] == [["kite", "lamp", "rope", "tail"]]


def test_an_address_is_a_link_if_it_stays_on_the_site_or_is_one_of_the_web(admin_client, known, resolve) -> None:
    links = ["/kite/", "kite", "?item=kite", "http://a.example/kite", "HTTPS://a.example/?a=b:c"]
    others = [
        *("javascript:alert(1)", " JavaScript:alert(1)", "\x01javascript:alert(1)", "java\nscript:alert(1)"),
        *("\tjavascript:alert(1)", "data:text/html,x", "ftp://a.example/kite", "http:///a.example", ""),
        *("//a.example", "/\\a.example", "\\\\a.example", "///a.example"),
    ]
    for url in (*links, *others):
        resolve(lambda items, url=url: {"kite": Thing("Kite", url)})
        found = {row["name"]: row["name_html"] for row in rows(admin_client.get(LIST))}
        assert ("href=" in found["Kite kite"]) == (url in links), url


@pytest.mark.parametrize("fails", ["raises", "is none", "returns nothing", "has no names"])
def test_a_function_that_fails_is_logged_and_told_and_ids_are_shown(
    admin_client, known, resolve, settings, caplog, fails
) -> None:
    class Nameless:
        def __str__(self) -> str:
            raise ValueError("no name")

    def failing(items: list[str]) -> Any:
        match fails:
            case "raises":
                raise RuntimeError("no database")
            case "returns nothing":
                return None
        return {"kite": Nameless()}

    resolve(failing)
    if fails == "is none":
        settings.REDSESS = {**settings.REDSESS, "VIEWED_RESOLVE": "tests.nowhere.things"}
    with caplog.at_level(logging.ERROR, logger="django_redsess"):
        response = admin_client.get(LIST)
    assert names(response)[0] == "kite"
    [message] = Page(response).messages
    assert 'REDSESS["VIEWED_RESOLVE"]' in message
    [record] = caplog.records
    assert record.name == "django_redsess"
    assert record.exc_info is not None
    assert "kite" in Page(select(admin_client, "kite")).text


# Search.


@pytest.mark.parametrize("item", [item for item in STRANGE if "\0" not in item and item.strip()])
def test_search_finds_an_item_by_its_whole_id(admin_client, redis, item) -> None:
    have_views(redis, {item: 3, "another": 5})
    [row] = rows(admin_client.get(LIST, {"q": item}))
    assert row["name"] == words(str(PopularItem(item=item)))
    assert row["rank"] == "2"


def test_search_does_not_mind_blanks_around(admin_client, known) -> None:
    assert names(admin_client.get(LIST, {"q": "  tail\t"})) == ["tail"]
    assert len(names(admin_client.get(LIST, {"q": "   "}))) == 4


@pytest.mark.parametrize(
    "term",
    [
        "kit",
        "KITE",
        "*",
        "k*",
        "%",
        "k_te",
        "x" * 65,
        "x" * 10_000,
        "a " * 3000,
        "<script>",
        '"kite"',
        "kite lamp",
        "é",
    ],
    ids=lambda term: term[:9],
)
def test_search_finds_nothing_else(admin_client, known, term) -> None:
    response = admin_client.get(LIST, {"q": term})
    assert names(response) == []
    assert "0 most viewed items" in Page(response).text
    assert Page(response).messages == []


@pytest.mark.parametrize("term", ["%00", "kite%00", "%ff%fe", "%ED%A0%80"])
def test_a_search_term_that_is_no_text_breaks_nothing(admin_client, known, term) -> None:
    assert admin_client.get(f"{LIST}?q={term}").status_code == 200


def test_search_says_what_it_takes(admin_client, known) -> None:
    assert "Search by the whole id of an item" in admin_client.get(LIST).text


@pytest.mark.parametrize(
    "query",
    [
        *(
            "o=1",
            "o=-3",
            "o=99",
            "o=x",
            "all=",
            "p=2&all=1",
            "_facets=True",
            "nonsense=1",
            "e=1",
            "views=3",
            "views__gt=1",
        ),
        *("item=kite", "item=kite&item=lamp", "item__in=kite,lamp", "item__contains=k", "pk__in=a", "_to_field=item"),
        *("_popup=1", "%00=%00", "=", "&&"),
    ],
)
def test_a_strange_query_is_answered(admin_client, known, query) -> None:
    assert admin_client.get(f"{LIST}?{query}", follow=True).status_code in (200, 400)


def test_no_query_changes_the_order(admin_client, known) -> None:
    for query in ("?o=1", "?o=-3", "?o=2.3"):
        assert names(admin_client.get(LIST + query)) == names(admin_client.get(LIST))


# Pages.


@pytest.mark.parametrize("shallow", [2000, 2])
def test_all_pages_together_show_each_item_once_with_its_rank(
    partitions, admin_client, redis, monkeypatch, few_on_a_page, shallow
) -> None:
    monkeypatch.setattr(popularity, "SHALLOW", shallow)
    have_views(redis, {f"item{number}": 1 + number // 3 for number in range(11)})
    found = [row for number in range(1, 7) for row in rows(admin_client.get(LIST, {"p": number}))]
    assert len({row["name"] for row in found}) == len(found) == 11
    assert [int(row["rank"]) for row in found] == [1, 1, 3, 3, 3, 6, 6, 6, 9, 9, 9]
    assert [int(row["viewed"]) for row in found] == [4, 4, 3, 3, 3, 2, 2, 2, 1, 1, 1]


@pytest.mark.parametrize(("number", "count"), [("999999", 2), ("9" * 30, 2), ("0", 2), ("-1", 2), ("abc", 2)])
def test_a_page_that_is_not_there_is_the_nearest(admin_client, known, few_on_a_page, number, count) -> None:
    assert len(rows(admin_client.get(LIST, {"p": number}))) == count


def test_a_hundred_items_are_on_a_page(admin_client, redis) -> None:
    have_views(redis, {f"item{number}": number + 1 for number in range(150)})
    assert len(rows(admin_client.get(LIST))) == 100
    assert len(rows(admin_client.get(LIST, {"all": ""}))) == 100


@pytest.mark.parametrize(("query", "calls"), [("", 2), ("?p=2", 4), ("?q=kite", 4)])
def test_a_page_takes_few_commands(partitions, admin_client, known, commands, few_on_a_page, query, calls) -> None:
    admin_client.get(LIST)
    commands()
    assert rows(admin_client.get(LIST + query))
    # The session, and of each partition the total, the page and, below the top, the rank of its first item.
    assert commands()["evalsha"] <= 1 + calls * partitions


# The model that has no table.


@pytest.mark.parametrize("item", ["kite", "add", "a_2Fb", "_2E", "%00", "x" * 5000, "NaN", "_5F5F", "confirm", "é"])
def test_an_item_has_no_page_but_its_place_in_the_list(admin_client, known, item) -> None:
    response = admin_client.get(f"{LIST}{item}/change/", follow=True)
    assert response.status_code == 200
    assert response.redirect_chain[0][0].startswith(f"{LIST}?q=")
    if item == "kite":
        assert names(response) == ["kite"]


def test_the_history_of_the_front_page_leads_to_the_item_in_the_list(admin_client, redis) -> None:
    have_views(redis, {"a/b_c": 3})
    answer(admin_client, select(admin_client, "a/b_c"))
    have_views(redis, {"a/b_c": 1})
    links = Page(admin_client.get("/admin/")).links
    assert names(admin_client.get(links["a/b_c"], follow=True)) == ["a/b_c"]


@pytest.mark.parametrize("item", ["kite", "other", "a_2Fb", "%00"])
def test_items_cannot_be_added_changed_or_deleted(admin_client, known, item) -> None:
    assert admin_client.get(LIST + "add/").status_code == 403
    assert admin_client.post(f"{LIST}{item}/change/", {"views": "1"}).status_code in (302, 403)
    assert admin_client.post(f"{LIST}{item}/delete/", {"post": "yes"}).status_code in (302, 403)
    assert admin_client.get(f"{LIST}{item}/history/", follow=True).status_code == 200
    assert "delete_selected" not in admin_client.get(LIST).text
    assert {entry.item: entry.views for entry in viewed.popular()} == known


def test_the_front_page_leads_to_the_list(admin_client, known) -> None:
    assert Page(admin_client.get("/admin/")).links["Most viewed items"] == LIST
    assert admin_client.get("/admin/django_redsess/").status_code == 200


def test_what_a_database_may_not_take_has_no_page_of_history(admin_client, redis) -> None:
    have_views(redis, {"a\0b": 3, "kite": 2})
    assert admin_client.get(f"{LIST}kite/history/").status_code == 200
    assert admin_client.get(f"{LIST}a%00b/history/").status_code == 302


@pytest.mark.parametrize("options", [{}, {"use_base_manager": True}, {"natural_foreign": True}])
def test_dumpdata_knows_of_no_items(known, options) -> None:
    out = StringIO()
    call_command("dumpdata", stdout=out, **options)
    assert "django_redsess.popularitem" not in {entry["model"] for entry in json.loads(out.getvalue())}


def test_deleting_a_user_does_not_ask_the_missing_table(admin_client, known) -> None:
    user = User.objects.create_user("alice")
    url = f"/admin/auth/user/{user.pk}/delete/"
    assert admin_client.get(url).status_code == 200
    assert admin_client.post(url, {"post": "yes"}).status_code == 302
    assert not User.objects.filter(username="alice").exists()
