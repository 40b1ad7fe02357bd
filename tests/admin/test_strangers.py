"""What somebody can't do to the sessions of others who has the admin's addresses, and what its pages give away."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_redsess.backend import SessionStore
from tests.helpers.admin_pages import CONFIRM, END, LIST, Page, page_of

pytestmark = pytest.mark.django_db

PERMISSIONS = ("view_onlinesession", "end_onlinesession", "end_all_onlinesession")

ALL = {"latest": 10**15}
"""What is posted to end everybody's sessions."""

PASSWORD = "a password"


class Visitor:
    """Somebody who signed in by the form, as browsers do."""

    def __init__(self, name: str, **kind: Any) -> None:
        self.user = User.objects.create_user(name, password=PASSWORD, **kind)
        # The user agent tells whose session a page shows.
        self.client = Client(headers={"user-agent": f"Browser of {name}"})
        self.client.post("/login/", {"username": name, "password": PASSWORD})

    @property
    def key(self) -> str:
        return self.client.cookies["sessionid"].value

    @property
    def sid(self) -> str:
        return str(SessionStore(self.key).sid)

    def may(self, *permissions: str) -> Visitor:
        self.user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
        return self

    def is_signed_in(self) -> bool:
        return bool(self.client.get("/").wsgi_request.user.is_authenticated)


@pytest.fixture
def victim(db) -> Visitor:
    return Visitor("victim")


@pytest.fixture
def administrator(db) -> Visitor:
    return Visitor("administrator", is_staff=True).may(*PERMISSIONS)


def test_a_session_key_is_in_no_page_address_cookie_log_line_or_history(
    administrator, victim, new_session, caplog
) -> None:
    caplog.set_level(logging.DEBUG)
    administrator.may(*PERMISSIONS, "view_session_data", "view_user")
    guest = new_session(colour="blue")
    keys = {victim.key, administrator.key, guest.session_key}
    client = administrator.client
    queries = ("", "?guests=true", f"?q={victim.sid}", "?q=victim", f"?user={victim.user.pk}", f"?q={victim.key}")
    answers = [client.get(LIST + query) for query in queries]
    assert "Browser of victim" in answers[0].text
    # A key that is searched for finds nothing.
    assert "Browser of victim" not in answers[-1].text
    answers += [client.get(page_of(sid)) for sid in (victim.sid, administrator.sid, guest.sid)]
    answers += [client.get(CONFIRM + query) for query in ("", f"?sid={victim.sid}", f"?user={victim.user.pk}")]
    answers.append(client.post(LIST, {"action": "end_selected", "_selected_action": [victim.sid]}))
    answers.append(client.post(END, {"sids": victim.sid, "message": "Robbed"}))
    of_user = f"/admin/auth/user/{victim.user.pk}/"
    answers += [client.get(path) for path in (LIST, of_user + "change/", of_user + "history/", "/admin/")]
    told = [*caplog.messages, repr(list(LogEntry.objects.values()))]
    for response in answers:
        assert response.status_code in (200, 302)
        told += [f"{name}: {value}" for name, value in response.headers.items()]
        # What was searched for is in the page that answers.
        if victim.key not in response.wsgi_request.GET.get("q", ""):
            told.append(response.text)
    assert sum(key in text for key in keys for text in told) == 0, "a session key was given away"


@pytest.mark.parametrize("field", ["sids", "query", "latest", "progress", "message", "own"])
@pytest.mark.parametrize(
    "value",
    ["\0", "x" * 1_000_000, "\r\nSet-Cookie: sessionid=forged", "<script>alert(1)</script>"],
    ids=["NUL", "1 MB", "CRLF", "markup"],
)
def test_a_hostile_field_of_the_form_ends_no_other_session_and_is_no_error(administrator, victim, field, value) -> None:
    fields = {"query": "user=nobody", **ALL, field: value}
    if field == "latest":
        fields["query"] = ""
    response = administrator.client.post(END, fields, follow=True)
    assert response.status_code in (200, 400)
    assert "<script>alert" not in response.text
    assert "Set-Cookie" not in str(response.headers)
    if field != "query":
        assert victim.is_signed_in()


@pytest.mark.usefixtures("partitions")
def test_what_is_no_sid_is_ignored_where_ends_are_confirmed(administrator, victim, settings) -> None:
    settings.REDSESS = {**settings.REDSESS, "CONFIRM_ENDS": (1, 10)}
    for text in ("%", "% ../.. é", "0" * 19, "--" + "a" * 18):
        response = administrator.client.post(END, {"sids": text}, follow=True)
        assert response.status_code == 200
        assert "was ended" not in Page(response).text
    assert victim.is_signed_in()
