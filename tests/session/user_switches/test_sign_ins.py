"""Users sign in where somebody is signed in already: every list says so, and names nobody twice."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers.behind import make_older
from tests.helpers.same_session import items_of, listed, name_in, sign_in
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]


def test_a_guest_who_signs_in_takes_what_was_viewed_along(browser, redis, limit) -> None:
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    browser.cookie = guest.session_key
    browser.get("/items/records/lamp")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])


def test_another_user_who_signs_in_takes_the_place_and_nothing_that_was_viewed(browser, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/items/records/lamp")
    old_sid, old_cookie = browser.sid, browser.cookie
    assert sign_in(browser, "bob") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("bob", ["bob"], [])
    assert [item for item, _ in viewed.recent(old_sid)] == []
    browser.cookie = old_cookie
    assert name_in(browser) == "nobody"


def test_another_user_who_signs_in_where_that_user_is_signed_in_elsewhere(browser, users, redis, limit) -> None:
    elsewhere = Browser(Client())
    sign_in(elsewhere, "bob")
    sign_in(browser, "alice")
    assert sign_in(browser, "bob") == 200
    assert listed(redis) == ["bob"] * (1 if limit else 2)
    assert (name_in(browser), name_in(elsewhere)) == ("bob", "nobody" if limit else "bob")


def test_the_same_user_who_signs_in_again_has_one_session_and_all_that_was_viewed(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/items/records/lamp")
    make_older(redis, browser.sid, 60)
    before = online.get(browser.sid).login_at
    for _ in range(2):
        assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], ["lamp"])
    assert online.get(browser.sid).login_at > before


def test_the_same_user_who_signs_in_again_takes_the_place_of_the_others_only_with_a_limit(
    browser, redis, limit
) -> None:
    elsewhere = Browser(Client())
    sign_in(browser, "alice")
    sign_in(elsewhere, "alice")
    if limit:
        assert (name_in(browser), listed(redis)) == ("nobody", ["alice"])
    assert sign_in(browser, "alice") == 200
    assert listed(redis) == ["alice"] * (1 if limit else 2)
    assert (name_in(browser), name_in(elsewhere)) == ("alice", "nobody" if limit else "alice")


@pytest.mark.parametrize("names", ["alice+alice", "alice+alice+alice"])
def test_two_sign_ins_of_one_user_in_one_request_make_one_session(browser, redis, limit, names: str) -> None:
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis)) == ("alice", ["alice"])
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis)) == ("alice", ["alice"])


@pytest.mark.parametrize("names", ["alice+bob", "bob+alice+bob", "alice+carol+bob", "carol+alice+bob+bob"])
@pytest.mark.parametrize("first", ["", "alice", "bob"])
def test_of_several_users_who_sign_in_in_one_request_the_last_one_is_signed_in(
    browser, redis, limit, first: str, names: str
) -> None:
    if first:
        sign_in(browser, first)
        browser.get("/items/records/lamp")
    assert sign_in(browser, names) == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("bob", ["bob"], [])


def test_a_sign_in_that_another_follows_in_the_request_ends_nobodys_session(browser, redis, limit) -> None:
    elsewhere = Browser(Client())
    sign_in(elsewhere, "alice")
    assert sign_in(browser, "alice+bob") == 200
    assert (name_in(browser), name_in(elsewhere), listed(redis)) == ("bob", "alice", ["alice", "bob"])


def test_who_signs_in_again_with_another_password_gets_a_new_session(browser, users, redis, limit) -> None:
    sign_in(browser, "alice")
    browser.get("/items/records/lamp")
    User.objects.filter(username="alice").update(password="another")
    assert sign_in(browser, "alice") == 200
    assert (name_in(browser), listed(redis), items_of(browser)) == ("alice", ["alice"], [])


@pytest.mark.parametrize("names", [("alice", "bob"), ("alice", "alice")])
def test_two_sign_ins_of_one_guest_at_once_get_a_session_each(redis, limit, meanwhile, names) -> None:
    guest = SessionStore()
    guest["colour"] = "blue"
    guest.save()
    one, other = Browser(Client()), Browser(Client())
    one.cookie = other.cookie = guest.session_key
    meanwhile(lambda: sign_in(other, names[1]))
    assert sign_in(one, names[0]) == 200
    replaced = limit is not None and names[0] == names[1]
    assert (name_in(one), name_in(other)) == (names[0], "nobody" if replaced else names[1])
    assert listed(redis) == sorted(names[:1] if replaced else names)


@pytest.mark.parametrize("names", [("bob", "carol"), ("bob", "bob")])
def test_two_other_users_who_sign_in_at_once_get_a_session_each(redis, limit, meanwhile, names) -> None:
    one, other = Browser(Client()), Browser(Client())
    sign_in(one, "alice")
    other.cookie = one.cookie
    meanwhile(lambda: sign_in(other, names[1]))
    assert sign_in(one, names[0]) == 200
    replaced = limit is not None and names[0] == names[1]
    assert (name_in(one), name_in(other)) == (names[0], "nobody" if replaced else names[1])
    assert listed(redis) == sorted(names[:1] if replaced else names)


def test_the_same_user_who_signs_in_again_twice_at_once_gets_a_session_each(redis, limit, meanwhile) -> None:
    one, other = Browser(Client()), Browser(Client())
    sign_in(one, "alice")
    other.cookie = one.cookie
    meanwhile(lambda: sign_in(other, "alice"))
    assert sign_in(one, "alice") == 200
    assert (name_in(one), name_in(other)) == ("alice", "nobody" if limit else "alice")
    assert listed(redis) == ["alice"] * (1 if limit else 2)
