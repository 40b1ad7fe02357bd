"""The way back from the pages that end sessions: to the list as it was, or to a user's page."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from django.contrib.admin import site
from django.contrib.auth.models import User
from django.http import HttpRequest, QueryDict
from django.test import RequestFactory
from django.urls import resolve

from django_redsess.admin.links import (
    FILTERS,
    PAGE,
    ReturnPage,
    end_url,
    return_page_of,
    without_return_page,
)
from tests.helpers.admin_pages import CONFIRM, LIST, page_of

USERS = "/admin/auth/user/"


def at(url: str, **posted: str) -> HttpRequest:
    """A request for one of the admin's pages."""
    request = RequestFactory().post(url, posted) if posted else RequestFactory().get(url)
    request.resolver_match = resolve(request.path)
    return request


def parameters(url: str) -> dict[str, str]:
    """The parameters of a URL of the page that asks."""
    assert urlsplit(url).path == CONFIRM
    return QueryDict(urlsplit(url).query).dict()


def test_from_the_list_the_question_returns_to_the_list_as_it_is() -> None:
    request = at(f"{LIST}?q=bob+b&who=everyone&o=-2&p=3")
    url = end_url(request, site, sid="a.b")
    assert parameters(url) == {"sid": "a.b", FILTERS: "q=bob+b&who=everyone&o=-2&p=3"}
    assert return_page_of(at(url)).url(site) == f"{LIST}?q=bob+b&who=everyone&o=-2&p=3"


def test_from_a_sessions_page_it_returns_to_the_list_that_led_there() -> None:
    url = end_url(at(page_of("x" * 20) + "?_changelist_filters=q%3Dbob%26p%3D2"), site, query="user=5&user=6")
    assert QueryDict(urlsplit(url).query).getlist("user") == ["5", "6"]
    assert return_page_of(at(url)).url(site) == f"{LIST}?q=bob&p=2"


def test_without_a_list_before_it_returns_to_the_whole_list() -> None:
    assert end_url(at(LIST), site) == CONFIRM
    assert return_page_of(at(CONFIRM)).url(site) == LIST


def test_the_form_passes_the_return_page_on() -> None:
    page = return_page_of(at(f"{LIST}?q=bob"))
    assert return_page_of(at(f"{LIST}end/", **page.parameters)) == page


def test_from_a_users_page_it_returns_there_with_the_users_list_behind_it() -> None:
    request = at(f"{USERS}5/change/?_changelist_filters=q%3Dann")
    url = end_url(request, site, query="user=5")
    assert parameters(url) == {"user": "5", FILTERS: "q=ann", PAGE: "user:5"}
    assert return_page_of(at(url)).url(site) == f"{USERS}5/change/?_changelist_filters=q%3Dann"


def test_from_the_list_of_users_it_returns_there() -> None:
    page = return_page_of(at(f"{USERS}?q=ann", action="end_sessions"))
    assert page.url(site) == f"{USERS}?q=ann"


HOSTILE = [
    *("//elsewhere.example/", "https://elsewhere.example/?q=1", "javascript:alert(1)", "\r\nLocation: //e.example"),
    *("a\x00b", "q=%00", "../../logout/", "&&&", "?", "#top", "_changelist_filters=q%3D1", "q=" + "x" * 100_000),
]


@pytest.mark.parametrize("value", HOSTILE, ids=lambda value: value[:12])
def test_no_value_leads_elsewhere(value) -> None:
    for parameter in (FILTERS, PAGE):
        for given in (value, f"user:{value}"):
            url = return_page_of(at(f"{LIST}end/", **{parameter: given})).url(site)
            assert urlsplit(url).path == LIST or urlsplit(url).path.startswith(USERS)
            assert not urlsplit(url).netloc
            assert len(url) < 7000
            assert not set(url) & set("\r\n\x00 ")


def test_a_query_string_that_is_too_long_for_a_url_is_dropped() -> None:
    request = at(f"{LIST}?" + "&".join(f"user={number}" for number in range(1000)))
    assert parameters(end_url(request, site, sid="x")) == {"sid": "x"}


def test_the_return_page_is_no_filter() -> None:
    assert without_return_page(QueryDict(f"q=a&{FILTERS}=q%3Db&user=1&user=2&{PAGE}=users")) == "q=a&user=1&user=2"


@pytest.mark.django_db
def test_a_user_whose_key_is_text_has_a_page_to_return_to() -> None:
    user = User(pk="a/b:c")
    url = ReturnPage(page=f"user:{user.pk}").url(site)
    assert resolve(urlsplit(url).path).kwargs["object_id"] == "a_2Fb_3Ac"
