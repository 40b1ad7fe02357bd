"""Resetting views in the admin: what is asked before, who may, and what is written down."""

from __future__ import annotations

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import viewed
from tests.helpers.admin_pages import Page, staff
from tests.helpers.items import CONFIRM, LIST, RESET, answer, asked, lines, names, rows, select, select_all, told
from tests.helpers.store import have_views

pytestmark = pytest.mark.django_db


def test_a_question_takes_few_commands(partitions, admin_client, redis, commands) -> None:
    have_views(redis, {f"item{number}": number + 1 for number in range(20)})
    admin_client.get(LIST)
    commands()
    assert asked(select(admin_client, *(f"item{number}" for number in range(20))))
    # The session, the views of each item, and of each partition the total: for the list, and for the question.
    assert commands()["evalsha"] <= 1 + 20 + 2 * partitions


def test_the_action_asks_first_and_resets_what_was_selected(partitions, admin_client, admin_user, known) -> None:
    response = select(admin_client, "lamp", "tail")
    assert asked(response) == "Do you want to reset 403 views of 2 items?"
    page = Page(response).text
    assert "lamp, 400 views" in page
    assert "tail, 3 views" in page
    assert "kite" not in page
    assert viewed.count("lamp") == 400
    response = answer(admin_client, response)
    assert told(response) == "2 items were reset (403 views)."
    assert set(names(response)) == {"kite", "rope"}
    assert viewed.total()[:2] == (2, 1650)
    assert sorted(lines()) == [("lamp", "lamp", "Reset 400 views."), ("tail", "tail", "Reset 3 views.")]
    assert {line.user for line in LogEntry.objects.all()} == {admin_user}


@pytest.mark.parametrize("way", ["button", "action on all"])
def test_all_items_are_reset(partitions, admin_client, known, few_on_a_page, way) -> None:
    if way == "button":
        response = admin_client.get(Page(admin_client.get(LIST)).links["Reset all"])
    else:
        # Of several pages, not the items of one.
        response = select_all(admin_client)
    assert asked(response) == "Do you want to reset 2,053 views of 4 items, all there are?"
    assert viewed.total().items == 4
    response = answer(admin_client, response)
    assert told(response) == "All items were reset (2,053 views)."
    assert rows(response) == []
    assert viewed.total() == (0, 0, None)
    assert lines() == [(None, "most viewed items", "Reset the views of all items: 2053.")]
    assert admin_client.get("/admin/").status_code == 200
    assert told(admin_client.get(CONFIRM, follow=True)) == "There are no views here to reset."


@pytest.mark.parametrize("query", ["?q=lamp", "?item=lamp"])
def test_all_of_a_search_are_what_it_found(admin_client, known, query) -> None:
    response = select_all(admin_client, query)
    assert asked(response) == "Do you want to reset 400 views of 1 item?"
    answer(admin_client, response)
    assert viewed.count("lamp") == 0
    assert viewed.total().items == 3
    assert select_all(admin_client, query).status_code == 302
    assert viewed.total().items == 3


def test_what_is_gone_before_or_after_the_question_is_told(admin_client, known) -> None:
    viewed.reset("lamp")
    response = select(admin_client, "kite", "lamp", "tail", "x" * 100)
    assert asked(response) == "Do you want to reset 1,253 views of 2 items?"
    assert "2 items that were chosen have no views any more" in Page(response).text
    viewed.reset("kite")
    response = answer(admin_client, response)
    assert told(response) == "1 item was reset (3 views). 1 item was not reset: it had no views any more."
    assert lines() == [("tail", "tail", "Reset 3 views.")]
    response = admin_client.get(select(admin_client, "lamp", "tail").headers["Location"])
    assert told(response) == "There are no views here to reset."


def test_a_form_that_was_tampered_with_or_sent_twice_resets_nothing(admin_client, known) -> None:
    items = [{"item": item} for item in ("", "x" * 10_000, "\t%", "\t%ff", "\0")]
    for data in ({}, {"items": "kite"}, *items):
        assert told(admin_client.post(RESET, data, follow=True)) == "There are no views here to reset."
    assert viewed.total().items == 4
    for question in (select(admin_client, "lamp"), admin_client.get(CONFIRM)):
        answer(admin_client, question)
        written = len(lines())
        assert told(answer(admin_client, question)) == "There are no views here to reset."
        assert len(lines()) == written


def test_what_was_reset_before_an_outage_is_in_the_history(admin_client, known, monkeypatch) -> None:
    question, reset = select(admin_client, "kite", "tail"), viewed.reset
    done: list[str] = []

    def reset_one(item: str) -> int:
        if done:
            raise RuntimeError("out")
        done.append(item)
        return reset(item)

    monkeypatch.setattr(viewed, "reset", reset_one)
    with pytest.raises(RuntimeError):
        answer(admin_client, question)
    assert [line[0] for line in lines()] == done


def test_who_may_not_view_sees_and_resets_nothing(client, known) -> None:
    for number, permissions in enumerate([(), ("reset_popularitem",), ("view_onlinesession", "end_onlinesession")]):
        staff(client, *permissions, name=f"staff{number}")
        for url in (LIST, CONFIRM, LIST + "kite/change/"):
            assert client.get(url).status_code == 403
        for data in ({"item": "kite"}, {"all": "1"}):
            assert client.post(RESET, data).status_code == 403
        assert select(client, "kite").status_code == 403
    client.logout()
    for url in (LIST, CONFIRM, LIST + "kite/change/"):
        assert client.get(url).headers["Location"].startswith("/admin/login/")
    assert client.post(RESET, {"all": "1"}).headers["Location"].startswith("/admin/login/")
    assert viewed.total().items == 4


def test_who_may_only_view_or_no_longer_reset_is_offered_nothing_and_resets_nothing(client, known) -> None:
    staff(client, "view_popularitem", "reset_popularitem")
    assert told(answer(client, select(client, "tail"))) == "1 item was reset (3 views)."
    question = select(client, "kite")
    User.objects.get().user_permissions.clear()
    assert answer(client, question).status_code == 403
    staff(client, "view_popularitem", name="viewer")
    response = client.get(LIST)
    assert len(rows(response)) == 3
    assert "Reset all" not in Page(response).links
    assert "reset_selected" not in response.text
    assert client.get(CONFIRM).status_code == 403
    for data in ({"item": "kite"}, {"all": "1"}):
        assert client.post(RESET, data).status_code == 403
    select(client, "kite")
    select_all(client)
    assert viewed.total().items == 3


def test_only_a_post_with_the_csrf_token_that_the_page_brings_resets(admin_client, admin_user, known) -> None:
    for method in ("get", "head", "put", "delete", "options"):
        assert getattr(admin_client, method)(RESET + "?all=1").status_code == 405, method
    assert admin_client.post(CONFIRM, {"all": "1"}).status_code == 405
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    assert client.post(RESET, {"all": "1"}).status_code == 403
    assert client.post(RESET, {"item": "kite"}).status_code == 403
    assert select(client, "kite").status_code == 403
    assert viewed.total().items == 4
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', client.get(CONFIRM).text)[1]
    assert client.post(RESET, {"all": "1", "csrfmiddlewaretoken": token}).status_code == 302
    assert viewed.total().items == 0
