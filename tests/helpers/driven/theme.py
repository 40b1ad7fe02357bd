"""Every page of the admin once, as an administrator uses it, under the theme of the settings."""

import html
import re

from django.contrib.auth.models import User
from django.http import HttpResponse

from django_redsess import online
from tests.helpers.admin_pages import LIST, page_of
from tests.helpers.driven.pages import Browser, check, confirmed, text_of
from tests.helpers.items import LIST as MOST_VIEWED

USERS = "/admin/auth/user/"


def main() -> None:
    people = {name: User.objects.create_user(name, password=name) for name in ("alice", "bob", "carol")}
    User.objects.create_superuser("admin", password="admin")
    browsers = {name: Browser() for name in (*people, "admin")}
    for name, browser in browsers.items():
        assert browser.login(username=name, password=name)
    admin, keys = browsers["admin"], {name: user.pk for name, user in people.items()}
    [bob] = online.of_user(people["bob"])

    assert names(admin.get(LIST)) == ["admin", "carol", "bob", "alice"]
    assert names(admin.get(LIST, {"q": "ARO"})) == ["carol"]
    filters = filters_of(admin.get(LIST))
    for name in ("guests", "active", "staff"):
        assert any(f"{name}=" in link for link in filters), filters
    for link in filters:
        # Nobody here is a guest, or has a browser that a filter names.
        assert names(admin.get(LIST + link)) or re.search("guests=only|browser=|system=", link), link
    page = text_of(admin.get(page_of(bob.sid)))
    for shown in ("Viewed items", "_auth_user_id", "Ends:", "End this session", bob.sid):
        assert shown in page, shown
    assert "1 session" in text_of(admin.get(f"{USERS}{keys['bob']}/change/"))

    question = admin.post(LIST, {"action": "end_selected", "_selected_action": [bob.sid]})
    assert "end 1 session?" in text_of(question)
    answer = confirmed(admin, question, LIST + "end/", message="Back at noon.")
    assert "session of bob was ended" in text_of(answer)
    assert names(answer) == ["admin", "carol", "alice"]
    assert "Back at noon." in text_of(browsers["bob"].get("/"))
    assert "Message: Back at noon." in text_of(admin.get(f"{USERS}{keys['bob']}/history/"))
    question = admin.post(USERS, {"action": "end_sessions", "_selected_action": [keys["alice"], keys["carol"]]})
    assert "2 sessions were ended" in text_of(confirmed(admin, question, LIST + "end/"))
    assert names(admin.get(LIST)) == ["admin"]

    assert "Nothing has been viewed yet." in text_of(admin.get(MOST_VIEWED))
    for slug in ("slow-heron", "slow-heron", "marmalade"):
        admin.get(f"/products/{slug}/")
    page = text_of(admin.get(MOST_VIEWED))
    for shown in ("Most viewed", "3 views of 2 items", "Slow Heron slow-heron", "Reset all"):
        assert shown in page, shown
    question = admin.post(MOST_VIEWED, {"action": "reset_selected", "_selected_action": ["marmalade"]})
    assert "1 item was reset (1 view)." in text_of(confirmed(admin, question, MOST_VIEWED + "reset/"))
    question = admin.get(MOST_VIEWED + "confirm/")
    assert "were reset" in text_of(confirmed(admin, question, MOST_VIEWED + "reset/"))
    assert "Nothing has been viewed yet." in text_of(admin.get(MOST_VIEWED))
    check()


def names(response: HttpResponse) -> list[str]:
    """Return the users in a list of sessions, from the top."""
    assert response.status_code == 200
    page = response.content.decode()
    return re.findall(r'<a href="[^"]+/onlinesession/[^"]+/change/[^"]*"[^>]*>\s*<bdi>(\w+)</bdi>', page)


def filters_of(response: HttpResponse) -> set[str]:
    """Return where the filters of a list lead: by links or, with django-jazzmin, by the options of a form."""
    page = response.content.decode()
    links = set(re.findall(r'href="(\?[^"]*)"', page))
    links |= {f"?{name}={value}" for name, value in re.findall(r'<option data-name="(\w+)" value="(\w+)"', page)}
    return {html.unescape(link) for link in links if re.search("guests=|active=|staff=|browser=|system=", link)}
