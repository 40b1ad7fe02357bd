"""Users whose keys are no numbers, part by part. Each part begins with everybody signed in, with two browsers each."""

import html
import json
import os
import re
from collections.abc import Callable, Iterable
from io import StringIO
from typing import Any
from uuid import UUID

import pytest
import redis
from django.conf import settings
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection
from django.http import HttpResponse
from django.urls import reverse

from django_redsess import online
from django_redsess.admin import UserSessionsMixin
from django_redsess.signals import EndedSession, Reason, sessions_ended
from tests.helpers.admin_pages import LIST, page_of
from tests.helpers.driven.pages import Browser, check, confirmed, link, links, text_of
from tests.helpers.site.user_models.models import User
from tests.helpers.store import keyspace, make_due, sid_of

USERS = "/admin/user_models/user/"
ACCOUNT = "/account/sessions/"

STRANGE_NAME = 'Zoë "O\'Neil" <i>&amp;'

KEYS = {
    # By user name. One is the beginning of others, some are those of pages, and one is as long as can be.
    "text": {
        "admin": "admin/?#&=%2F+_3A{*}[\\:login",
        "helper": "helper",
        "alice": "a",
        "bob": "a:b",
        "carol": "a ",
        STRANGE_NAME: "a:b c/ü\"'€_5F&user=%2F+#?",
        "dave": "add",
        "erin": "é" * 127 + "e",
    },
    "uuid": {
        "admin": UUID("a0000000-0000-4000-8000-000000000001"),
        "helper": UUID("00000000-0000-4000-8000-000000000002"),
        "alice": UUID("00000000-0000-4000-8000-000000000003"),
        "bob": UUID("00000000-0000-0000-0000-000000000004"),
        STRANGE_NAME: UUID("ffffffff-ffff-4fff-bfff-ffffffffffff"),
    },
}

STAFF = ("admin", "helper")

# How the two browsers of each sign in, which is how they are called.
BROWSERS = ONE, OTHER = "by client", "by form"


@admin.register(User)
class Users(UserSessionsMixin, UserAdmin):
    pass


class Site:
    """The people and their browsers. ``told`` are the user ids and reasons that the signal brought."""

    def __init__(self) -> None:
        self.redis = redis.from_url(os.environ["REDIS_URL"])
        self.told: list[tuple[Any, Reason]] = []
        sessions_ended.connect(self._note_ends)
        self.users: dict[str, Any] = {}
        self._followed: set[tuple[str, str]] = set()
        for name, key in KEYS[settings.USER_KEY].items():
            rights = {"is_staff": name in STAFF, "is_superuser": name == "admin"}
            self.users[name] = get_user_model().objects.create_user(name, id=key, password=name, **rights)
        self.people = [name for name in self.users if name not in STAFF]
        self.browsers = {(name, how): Browser() for name in self.people for how in BROWSERS}
        self.admin = Browser()
        assert self.admin.login(username="admin", password="admin")
        self.sign_in()

    def key(self, name: str) -> str:
        return str(self.users[name].pk)

    def page_of(self, name: str, view: str = "change") -> str:
        """Return where the admin's page of a user is, or another ``view`` of it."""
        return reverse(f"admin:user_models_user_{view}", args=[quote(self.key(name))])

    def sid(self, name: str, how: str) -> str:
        return sid_of(self.browsers[name, how].cookies["sessionid"].value)

    def sids(self, name: str) -> set[str]:
        return {self.sid(name, how) for how in BROWSERS}

    def sign_in(self) -> None:
        """See that each of the people is signed in with both browsers."""
        for (name, how), browser in self.browsers.items():
            if ACCOUNT in browser.get("/").text:
                continue
            if how == ONE:
                assert browser.login(username=name, password=name)
                continue
            # As a guest with a session, which keeps what is in it.
            browser.post("/basket/marmalade/add/", {"quantity": 1})
            page = browser.post("/login/", {"username": name, "password": name}, follow=True)
            assert f"Signed in as {name}" in text_of(page)
            assert "Marmalade" in text_of(browser.get("/basket/"))

    def signed_in(self) -> set[tuple[str, str]]:
        """Tell who sees their own sessions, and with which browser."""
        return {of for of, browser in self.browsers.items() if browser.get(ACCOUNT).status_code == 200}

    def confirm(self, question: HttpResponse, count: int, reason: str = "", browser: Browser | None = None) -> str:
        """Answer the admin's question, which must be about so many sessions; return what the page after it says."""
        text = text_of(question)
        assert re.search(rf"end {count} session{'' if count == 1 else 's'}( of [^?]*)?[?]", text), text
        return text_of(confirmed(browser or self.admin, question, LIST + "end/", message=reason))

    def end_both(self, name: str, reason: str, question: HttpResponse) -> None:
        assert f"2 sessions of {name} were ended." in self.confirm(question, 2, reason)

    def listed(self, query: str | dict[str, Any]) -> list[str]:
        """
        Return whose sessions the admin's list has, sorted.

        See that each name leads to the page of a session, and that one to the page of its user.
        """
        page = self.admin.get(LIST + query) if isinstance(query, str) else self.admin.get(LIST, query)
        found = re.findall(rf'<a href="({LIST}[^"]+/change/)[^"]*">\s*<bdi>([^<]*)</bdi>', page.text)
        assert f"{len(found)} online session" in text_of(page)
        rows = [(html.unescape(href), html.unescape(name)) for href, name in found]
        for href, name in set(rows) - self._followed:
            [of_user] = {each for each in links(self.admin.get(href), USERS) if each.endswith("/change/")}
            assert f"Change user {name}" in text_of(self.admin.get(of_user))
            self._followed.add((href, name))
        return sorted(name for _, name in rows)

    def records(self) -> dict[bytes, bytes]:
        """Return what is stored of each session."""
        return {sid: record for each in keyspace().partitions for sid, record in self.redis.hgetall(each.login).items()}

    def _note_ends(self, sessions: list[EndedSession], **_: Any) -> None:
        self.told.extend((each.user_id, each.reason) for each in sessions)


def twice(names: Iterable[str]) -> list[str]:
    """Name everybody two times, sorted: once for each browser."""
    return sorted([*names] * 2)


def json_of(*arguments: str) -> list[dict[str, str]]:
    """Return what the command ``online`` lists."""
    out = StringIO()
    call_command("online", "--json", *arguments, stdout=out)
    return [json.loads(line) for line in out.getvalue().splitlines()]


def shown(site: Site) -> None:
    """Every page, function and command shows each user's sessions, and nobody else's."""
    everybody = sorted([*twice(site.people), "admin"])
    assert site.listed("") == everybody
    assert site.listed({"staff": "true"}) == ["admin"]
    assert site.listed({"user": "a:b c"}) == []
    assert site.listed({"user": [site.key(name) for name in site.people[:2]]}) == twice(site.people[:2])
    assert online.count(user_ids=[site.key(name) for name in site.people]) == len(site.browsers)
    for name, other in zip(site.people, [*site.people[1:], site.people[0]], strict=True):
        sids, key = site.sids(name), site.key(name)
        for found in (online.of_user(site.users[name]), online.find(sorted(sids)), online.sessions(user_ids=[key])):
            assert {session.sid for session in found} == sids, name
            assert {session.user_id for session in found} == {key}
        for lines in (json_of("--user", name), json_of("--search", name)):
            assert {line["id"] for line in lines} == sids
            assert {(line["user_id"], line["user"]) for line in lines} == {(key, name)}

        assert site.listed({"q": name}) == site.listed({"user": key}) == twice([name])
        filters = [each for each in links(site.admin.get(LIST, {"user": key}), "?") if "user=" in each]
        assert filters
        for query in filters:
            # Nobody here is a guest, of the staff, or has a browser that a filter names.
            assert site.listed(query) in (twice([name]), []), query
        for how in BROWSERS:
            page = site.admin.get(page_of(site.sid(name, how)))
            [sid] = sids - {site.sid(name, how)}
            others = {each.partition("?")[0] for each in links(page, LIST) if "/change/" in each}
            assert others == {page_of(sid)}, others
            assert site.listed(link(page, "All sessions of this user").removeprefix(LIST)) == twice([name])
            own = site.browsers[name, how]
            page = own.get(ACCOUNT)
            assert "You are signed in on 2 devices" in text_of(page)
            assert re.findall(rf"{ACCOUNT}(\S+)/end/", page.text) == [sid]
            tried = own.post(f"{ACCOUNT}{site.sid(other, how)}/end/", follow=True)
            assert "That device was already signed out." in text_of(tried)
        page = site.admin.get(site.page_of(name))
        assert f"Change user {name}" in text_of(page)
        assert site.listed(link(page, "2 sessions").removeprefix(LIST)) == twice([name])
    assert site.signed_in() == set(site.browsers)


def all_of_the_list(site: Site, name: str, reason: str) -> None:
    chosen = {"action": "end_selected", "_selected_action": ["x"], "select_across": "1"}
    site.end_both(name, reason, site.admin.post(LIST, chosen, query_params={"user": site.key(name)}))


def all_on_the_page_of_one(site: Site, name: str, reason: str) -> None:
    page = site.admin.get(page_of(site.sid(name, ONE)))
    site.end_both(name, reason, site.admin.get(link(page, "End all sessions of this user")))


def on_the_users_page(site: Site, name: str, reason: str) -> None:
    site.end_both(name, reason, site.admin.get(link(site.admin.get(site.page_of(name)), "End all of them")))
    assert "This user is not signed in." in text_of(site.admin.get(site.page_of(name)))


def in_the_list_of_users(site: Site, name: str, reason: str) -> None:
    chosen = {"action": "end_sessions", "_selected_action": [site.key(name)]}
    site.end_both(name, reason, site.admin.post(USERS, chosen))


def all_others_by_self_service(site: Site, name: str, reason: str) -> None:
    page = site.browsers[name, ONE].post(f"{ACCOUNT}end-others/", follow=True)
    assert "1 other device was signed out." in text_of(page)


def by_command(site: Site, name: str, reason: str) -> None:
    call_command("endsessions", name, keep=[site.sid(name, OTHER)], interactive=False, verbosity=0)


def by_function(site: Site, name: str, reason: str) -> None:
    assert online.end_user(site.users[name], keep=site.sid(name, ONE)) == 1


def by_the_cleaner(site: Site, name: str, reason: str) -> None:
    make_due(site.redis, *site.sids(name))
    call_command("cleansessions", verbosity=0)


def by_signing_out(site: Site, name: str, reason: str) -> None:
    assert "Sign in" in text_of(site.browsers[name, ONE].post("/logout/", follow=True))


BY_THE_ADMIN = (all_of_the_list, all_on_the_page_of_one, on_the_users_page, in_the_list_of_users)
"""Ways to end all sessions of one user, which are in the user's history then."""

ALL_WAYS: dict[Callable[[Site, str, str], None], tuple[str, ...]] = {
    **dict.fromkeys(BY_THE_ADMIN, BROWSERS),
    all_others_by_self_service: (OTHER,),
    by_command: (ONE,),
    by_function: (OTHER,),
    by_the_cleaner: BROWSERS,
    by_signing_out: (ONE,),
}
"""Each way to end sessions of one user, and with which browsers those were."""

REASONS = {by_the_cleaner: Reason.EXPIRED, by_signing_out: Reason.LOGOUT}


def ended(site: Site) -> None:
    """Each way to end sessions ends those that it is to end, tells whose they were, and leaves all others."""
    for way, browsers in ALL_WAYS.items():
        for number, name in enumerate(site.people):
            site.sign_in()
            site.told.clear()
            way(site, name, f"{way.__name__}, {number}.")
            assert site.signed_in() == set(site.browsers) - {(name, how) for how in browsers}, way
            assert site.told == [(site.key(name), REASONS.get(way, Reason.KICKED))] * len(browsers), (way, site.told)
        check()
    for number, name in enumerate(site.people):
        page = text_of(site.admin.get(site.page_of(name, "history")))
        assert page.count("Ended ") == len(BY_THE_ADMIN), page
        for way in BY_THE_ADMIN:
            assert f"Message: {way.__name__}, {number}." in page, way


def protected(site: Site) -> None:
    """Who is no superuser ends all sessions but those of superusers."""
    allowed = ["view_onlinesession", "end_onlinesession", "end_all_onlinesession", "view_user"]
    site.users["helper"].user_permissions.set(Permission.objects.filter(codename__in=allowed))
    helper = Browser()
    assert helper.login(username="helper", password="helper")
    refused = helper.get(LIST + "confirm/", {"user": site.key("admin")})
    assert "only a superuser can end" in refused.text
    named = {"sids": sid_of(site.admin.cookies["sessionid"].value), "message": "protected"}
    assert "only superusers can end it" in helper.post(LIST + "end/", named, follow=True).text
    everybody = len(site.browsers)
    question = helper.get(LIST + "confirm/")
    assert f"{everybody} sessions were ended." in site.confirm(question, everybody, browser=helper)
    assert not site.signed_in()
    assert site.listed("") == ["admin", "helper"]
    assert {user_id for user_id, _ in site.told} == {site.key(name) for name in site.people}


def deleted(site: Site) -> None:
    """Sessions of a user who is no longer there are called by the key, and can be ended by it."""
    for name in site.people:
        key = site.key(name)
        with connection.cursor() as cursor:
            # Django's own delete() would tell the site, which may end the sessions.
            cursor.execute("DELETE FROM user_models_user WHERE username = %s", [name])
        called = " ".join(f"deleted user {key}".split())
        page = text_of(site.admin.get(LIST, {"user": key}))
        assert page.count(called) == 2, page
        site.told.clear()
        question = site.admin.get(LIST + "confirm/", {"user": key})
        # The message cuts a long name.
        assert f"2 sessions of {called[:90]}" in site.confirm(question, 2)
        assert [user_id for user_id, _ in site.told] == [key] * 2
        left = site.people[site.people.index(name) + 1 :]
        assert site.listed("") == sorted([*left, *left, "admin"])


def too_long(site: Site) -> None:
    """A user whose key no session can hold is not signed in, and the error names the limit."""
    get_user_model().objects.create_user("frank", id="é" * 128, password="frank")
    form, limit = {"username": "frank", "password": "frank"}, "at most 255 bytes; this one has 256"
    browser = Browser()
    browser.post("/basket/marmalade/add/", {"quantity": 1})
    before = site.records()
    with pytest.raises(ValueError, match=limit):
        browser.login(**form)
    browser.raise_request_exception = False
    answer = browser.post("/login/", form)
    assert answer.status_code == 500
    # For the developer: the shop has DEBUG.
    assert limit in answer.text
    assert not answer.cookies
    assert site.records() == before
    assert site.listed("") == sorted([*twice(site.people), "admin"])
    assert "Sign in" in text_of(browser.get("/"))
    assert "Marmalade" in text_of(browser.get("/basket/"))


PARTS = {part.__name__: part for part in (shown, ended, protected, deleted, too_long)}


def main(part: str) -> None:
    PARTS[part](Site())
    check()
