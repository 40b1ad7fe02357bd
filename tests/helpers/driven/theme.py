"""Every page of the admin once, as an administrator uses it, under the theme of the settings."""

from __future__ import annotations

import html
import re

from django.contrib.admin.utils import quote
from django.contrib.auth.models import User
from django.http import HttpResponse

from django_redsess import online
from tests.helpers.driven.people import LIST, Browser, check
from tests.helpers.markup import hidden, text_of

MOST_VIEWED = "/admin/django_redsess/popularitem/"


def main() -> None:
    User.objects.create_superuser("admin", password="admin")
    people = {name: User.objects.create_user(name, password=name) for name in ("alice", "bob", "carol")}
    browsers = {name: Browser() for name in people}
    for name, browser in browsers.items():
        assert browser.login(username=name, password=name)
    admin = Browser()
    assert admin.login(username="admin", password="admin")
    [bob] = online.of_user(people["bob"])

    assert names(admin.get(LIST)) == ["admin", "carol", "bob", "alice"]
    assert names(admin.get(LIST, {"o": "3"})) == ["alice", "bob", "carol", "admin"]
    assert names(admin.get(LIST, {"q": "ARO"})) == ["carol"]
    assert names(admin.get(LIST, {"q": bob.sid})) == ["bob"]
    assert set(names(admin.get(LIST, {"active": "5m"}))) == {"admin", *people}
    assert names(admin.get(LIST, {"staff": "1"})) == ["admin"]
    assert names(admin.get(LIST, {"user": people["bob"].pk})) == ["bob"]
    links = filters(admin.get(LIST))
    for name in ("who", "active", "staff"):
        assert any(f"{name}=" in link for link in links), links
    for link in links:
        listed = admin.get(LIST + link)
        assert listed.status_code == 200, link
        # Nobody here is a guest, or has a browser that a filter names.
        assert names(listed) or re.search("who=guests|browser=|system=", link), link

    page = text_of(admin.get(f"{LIST}{quote(bob.sid)}/change/"))
    for shown in ("Viewed items", "_auth_user_id", "Ends:", "End this session", bob.sid):
        assert shown in page, shown
    assert "bob" in text_of(admin.get(LIST + "confirm/", {"user": people["bob"].pk}))
    assert "1 session" in text_of(admin.get(f"/admin/auth/user/{people['bob'].pk}/change/"))

    question = admin.post(LIST, {"action": "end_selected", "_selected_action": [bob.sid]})
    assert "end 1 session?" in text_of(question)
    answer = admin.post(LIST + "end/", {**hidden(question), "message": "Back at noon."}, follow=True)
    assert "session of bob was ended" in text_of(answer)
    assert names(answer) == ["admin", "carol", "alice"]
    assert "Back at noon." in text_of(browsers["bob"].get("/"))
    history = text_of(admin.get(f"/admin/auth/user/{people['bob'].pk}/history/"))
    assert "Ended 1 session. Message: Back at noon." in history

    chosen = {"action": "end_selected", "_selected_action": ["x"], "select_across": "1"}
    question = admin.post(LIST + "?q=alice", chosen)
    assert "session of alice was ended" in text_of(admin.post(LIST + "end/", hidden(question), follow=True))
    question = admin.post(
        "/admin/auth/user/", {"action": "end_sessions", "_selected_action": [user.pk for user in people.values()]}
    )
    assert "session of carol was ended" in text_of(admin.post(LIST + "end/", hidden(question), follow=True))
    assert names(admin.get(LIST)) == ["admin"]

    assert "Nothing has been viewed yet." in text_of(admin.get(MOST_VIEWED))
    browser = Browser()
    assert browser.login(username="alice", password="alice")
    for slug, times in (("slow-heron", 3), ("marmalade", 2), ("blue-hour", 1)):
        for _ in range(times):
            browser.get(f"/products/{slug}/")
    page = text_of(admin.get(MOST_VIEWED))
    for shown in ("Most viewed", "6 views of 3 items", "Slow Heron slow-heron", "Blue Hour", "33.3%", "Reset all"):
        assert shown in page, shown
    assert "1 most viewed item" in text_of(admin.get(MOST_VIEWED, {"q": "marmalade"}))
    question = admin.post(MOST_VIEWED, {"action": "reset_selected", "_selected_action": ["marmalade"]})
    assert "reset 2 views of 1 item?" in text_of(question)
    assert "1 item was reset (2 views)." in text_of(admin.post(MOST_VIEWED + "reset/", hidden(question), follow=True))
    question = admin.get(MOST_VIEWED + "confirm/")
    assert "reset 4 views of 2 items, all there are?" in text_of(question)
    assert "All items were reset (4 views)." in text_of(
        admin.post(MOST_VIEWED + "reset/", hidden(question), follow=True)
    )
    check()


def names(response: HttpResponse) -> list[str]:
    """Return the users in a list of sessions, from the top."""
    page = response.content.decode()
    return re.findall(r'<a href="[^"]+/onlinesession/[^"]+/change/[^"]*"[^>]*>\s*<bdi>(\w+)</bdi>', page)


def filters(response: HttpResponse) -> set[str]:
    """Return where the filters of a list lead: by links or, with django-jazzmin, by the options of a form."""
    page = response.content.decode()
    links = set(re.findall(r'href="(\?[^"]*)"', page))
    links |= {f"?{name}={value}" for name, value in re.findall(r'<option data-name="(\w+)" value="(\w+)"', page)}
    return {html.unescape(link) for link in links if re.search("who=|active=|staff=|browser=|system=", link)}
