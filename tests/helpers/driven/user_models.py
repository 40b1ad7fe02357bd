"""Users whose keys are no numbers, part by part. Each part begins with everybody signed in."""

from __future__ import annotations

import json
from io import StringIO
from operator import attrgetter
from urllib.parse import parse_qs

import pytest
from django.contrib.admin.utils import quote
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.core.management import call_command
from django.db import connection

# It registers the users in the admin.
import tests.helpers.site.user_models.admin  # noqa: F401
from django_redsess import online
from django_redsess.transport.keys import keyspace
from tests.helpers.driven.endings import ENDINGS
from tests.helpers.driven.people import ACCOUNT, BROWSERS, LIST, Browser, Site, link, links, sids, twice
from tests.helpers.markup import text_of


def shown(site: Site) -> None:
    """Every page, function and command shows each user's sessions, and nobody else's."""
    everybody = {name: site.sids(name) for name in site.people}
    functions(site, everybody)
    admin_list(site)
    admin_pages(site)
    self_service(site)
    commands(site, everybody)
    assert site.signed_in() == set(site.browsers)


def functions(site: Site, everybody: dict[str, set[str]]) -> None:
    owners = {sid: site.key(name) for name, his in everybody.items() for sid in his}
    for name, his in everybody.items():
        of_user = online.of_user(site.users[name])
        assert sids(of_user) == his, name
        assert {session.user_id for session in of_user} == {site.key(name)}
        assert online.count(user_ids=[site.key(name)]) == 2
        assert [session.sid for session in online.find(sorted(his))] == sorted(his)
        assert {session.user_id for session in online.find(sorted(his))} == {site.key(name)}
    keys = [site.key(name) for name in site.people]
    assert online.count(user_ids=keys) == len(owners)
    assert sids(online.sessions(user_ids=keys)) == set(owners)
    for field in ("login_at", "seen_at"):
        for sign in ("", "-"):
            listed = online.sessions(order=sign + field)
            times = [attrgetter(field)(session) for session in listed]
            assert times == sorted(times, reverse=bool(sign))
            found = {session.sid: session.user_id for session in listed}
            assert found == {**owners, site.admin_sid: site.key("admin")}


def admin_list(site: Site) -> None:
    all_of_them = sorted([*twice(site.people), "admin"])
    assert site.listed("") == all_of_them
    assert site.listed({"staff": "1"}) == ["admin"]
    for name in site.people:
        assert site.listed({"q": name}) == twice([name])
        assert site.listed({"user": site.key(name)}) == twice([name])
        page = site.admin.get(LIST, {"user": site.key(name)})
        followed = links(page, "?")
        assert any("user=" in query_string for query_string in followed)
        for query_string in followed:
            query = parse_qs(query_string[1:])
            of_users = [each for each in all_of_them if query.get("user", [site.key(each)]) == [site.key(each)]]
            expected = [each for each in of_users if "staff" not in query or each == "admin"]
            # Nobody here is a guest, or has a browser that a filter names.
            if query.get("who") == ["guests"] or {"browser", "system"} & set(query):
                expected = []
            assert site.listed(query_string) == expected, query_string
    assert site.listed({"user": "a:b c"}) == []
    both = site.people[:2]
    assert site.listed({"user": [site.key(name) for name in both]}) == twice(both)


def admin_pages(site: Site) -> None:
    for name in site.people:
        for how in BROWSERS:
            page = site.admin.get(f"{LIST}{quote(site.sid(name, how))}/change/")
            [other] = site.sids(name) - {site.sid(name, how)}
            others = {found.partition("?")[0] for found in links(page, LIST) if "/change/" in found}
            assert others == {f"{LIST}{quote(other)}/change/"}, others
            assert site.listed(link(page, "All sessions of this user").removeprefix(LIST)) == twice([name])
        page = site.admin.get(link(page, name))
        assert f"Change user {name}" in text_of(page)
        assert site.listed(link(page, "2 sessions").removeprefix(LIST)) == twice([name])


def self_service(site: Site) -> None:
    for name, other in zip(site.people, [*site.people[1:], site.people[0]], strict=True):
        for how in BROWSERS:
            browser = site.browsers[name, how]
            page = browser.get(ACCOUNT)
            assert "You are signed in with 2 browsers" in text_of(page)
            [sid] = site.sids(name) - {site.sid(name, how)}
            assert f"{ACCOUNT}{sid}/end/" in page.text
            assert page.text.count("/end/") == 1
            tried = browser.post(f"{ACCOUNT}{site.sid(other, how)}/end/", follow=True)
            assert "That session had already ended." in text_of(tried)


def commands(site: Site, everybody: dict[str, set[str]]) -> None:
    def lines(*arguments: str) -> list[dict[str, str]]:
        out = StringIO()
        call_command("online", "--json", *arguments, stdout=out)
        return [json.loads(line) for line in out.getvalue().splitlines()]

    for name, his in everybody.items():
        for found in (lines("--user", name), lines("--search", name)):
            assert {line["sid"] for line in found} == his
            assert {(line["user_id"], line["user"]) for line in found} == {(site.key(name), name)}
        assert [line["user_id"] for line in lines("--sid", min(his))] == [site.key(name)]
    assert [line["user"] for line in lines("--staff")] == ["admin"]
    for_people = StringIO()
    call_command("online", stdout=for_people)
    for name in everybody:
        assert for_people.getvalue().count(f"\n{name} ") == 2, name


def ended(site: Site) -> None:
    """Each way to end sessions ends those that it is to end, tells whose they were, and leaves all others."""
    expected: dict[str, list[str]] = {name: [] for name in site.people}
    for ending in ENDINGS:
        for name in site.people:
            site.sign_in()
            site.told.clear()
            reason = f"{ending.end.__name__}, {site.people.index(name)}."
            ending.end(site, name, reason)
            assert site.signed_in() == set(site.browsers) - {(name, how) for how in ending.browsers}, reason
            assert site.told == [(site.key(name), ending.reason)] * len(ending.browsers), (reason, site.told)
            if ending.in_history:
                count = len(ending.browsers)
                expected[name].append(f"Ended {count} session{'s' * (count > 1)}. Message: {reason}")
        site.check()
    for name, written in expected.items():
        page = text_of(site.admin.get(site.page_of(name, "history")))
        assert page.count("Ended ") == len(written), page
        for line in written:
            assert line in page, line


def protected(site: Site) -> None:
    """Who is no superuser ends all sessions but those of superusers."""
    allowed = ["view_onlinesession", "end_onlinesession", "end_all_onlinesession", "view_user"]
    site.users["helper"].user_permissions.set(Permission.objects.filter(codename__in=allowed))
    helper = Browser()
    assert helper.login(username="helper", password="helper")
    refused = helper.get(LIST + "confirm/", {"user": site.key("admin")})
    assert "only a superuser can end" in refused.text
    named = {"sids": site.admin_sid, "message": "protected"}
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
        assert "2 online sessions" in page
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
    before = records(site)
    with pytest.raises(ValueError, match=limit):
        browser.login(**form)
    with pytest.raises(ValueError, match=limit):
        browser.post("/login/", form)
    browser.raise_request_exception = False
    answer = browser.post("/login/", form)
    assert answer.status_code == 500
    # For the developer: the shop has DEBUG.
    assert limit in answer.text
    assert not answer.cookies
    assert records(site) == before
    assert site.listed("") == sorted([*twice(site.people), "admin"])
    assert "Sign in" in text_of(browser.get("/"))
    assert "Marmalade" in text_of(browser.get("/basket/"))


def records(site: Site) -> dict[bytes, bytes]:
    """Return what is stored of each session."""
    return {sid: record for each in keyspace().partitions for sid, record in site.redis.hgetall(each.login).items()}


PARTS = {part.__name__: part for part in (shown, ended, protected, deleted, too_long)}


def main(part: str) -> None:
    site = Site()
    PARTS[part](site)
    site.check()
