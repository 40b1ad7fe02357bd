"""Ending a user's sessions and deactivating the account, in one step."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import User
from django.db import connection
from django.db.models.signals import post_save
from django.test import Client

from django_redsess.backend import SessionStore
from django_redsess.models import OnlineSession
from django_redsess.signals import Reason
from testproject.servers import free_port
from tests.helpers.admin_pages import CONFIRM, END, Page, answer, have_own_rule, left, staff, told
from tests.helpers.online import sign_in
from tests.helpers.outages import caches

pytestmark = pytest.mark.django_db

BUTTON = "Deactivate the account…"

MAY = ("view_onlinesession", "end_onlinesession", "view_user", "change_user")


def offered(response: Any) -> str:
    """The value of the button that deactivates; "" where there is none."""
    found = re.search(rf'<button type="submit" name="deactivate" value="([^"]*)"[^>]*>{BUTTON}<', response.text)
    return html.unescape(found[1]) if found else ""


def question_about(client: Client, user: User) -> Any:
    return client.get(f"{CONFIRM}?user={user.pk}")


def deactivate(client: Client, response: Any, **fields: str) -> Any:
    """Press the button that deactivates, and confirm it, unless the first form has an error."""
    assert offered(response)
    second = answer(client, response, deactivate=offered(response), **fields)
    return answer(client, second) if "is_confirmed" in Page(second).fields else second


def is_active(user: User) -> bool:
    return User.objects.get(pk=user.pk).is_active


@pytest.fixture
def once_saved(users) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Return a function that sets what happens when bob was saved, before that is committed."""
    actions: list[Callable[[], object]] = []

    def act(instance: User, **kwargs: Any) -> None:
        if instance.pk == users["bob"].pk:
            for action in actions:
                action()

    post_save.connect(act, sender=User)
    yield actions.append
    post_save.disconnect(act, sender=User)


def test_the_account_is_deactivated_and_its_sessions_end(admin_client, admin_user, users, sids, new_session) -> None:
    more = sign_in(new_session, str(users["bob"].pk))[0]
    response = deactivate(admin_client, admin_client.get(f"{CONFIRM}?sid={sids['bob']}"), message="Left us")
    assert not is_active(users["bob"])
    assert not {sids["bob"], more} & left()
    assert {sids["alice"], sids["carol"]} < left()
    assert told(response) == "The account of bob was deactivated. 2 sessions of bob were ended."
    lines = [(line.user, line.object_id, line.change_message) for line in LogEntry.objects.order_by("pk")]
    key = str(users["bob"].pk)
    assert lines == [
        (admin_user, key, "Deactivated the account. Message: Left us"),
        (admin_user, key, "Ended 2 sessions. Message: Left us"),
    ]


def test_it_is_asked_a_second_time_and_says_what_it_does(admin_client, users, sids, new_session) -> None:
    sign_in(new_session, str(users["bob"].pk))
    first = admin_client.get(f"{CONFIRM}?sid={sids['bob']}")
    written = {"message": "You have <b>left</b>.", "note": "Ticket\n77"}
    second = answer(admin_client, first, deactivate=offered(first), **written)
    page = Page(second)
    assert is_active(users["bob"])
    assert len(left()) == 5
    assert not LogEntry.objects.exists()
    assert "Do you want to deactivate the account of bob?" in page.text
    assert "All 2 sessions of this user end now." in page.text
    assert "The user reads: “You have <b>left</b>.”" in page.text
    assert page.links["No, take me back"] == Page(first).links["No, take me back"]
    answer(admin_client, second)
    assert not is_active(users["bob"])
    assert {line.change_message for line in LogEntry.objects.all()} == {
        "Deactivated the account. Message: You have <b>left</b>. · Internal note: Ticket 77",
        "Ended 2 sessions. Message: You have <b>left</b>. · Internal note: Ticket 77",
    }


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("switch", [True, False], ids=["END_ON_DEACTIVATION", "without"])
def test_who_is_signed_out_reads_the_administrators_message(settings, admin_client, users, switch) -> None:
    settings.REDSESS = {**settings.REDSESS, "END_ON_DEACTIVATION": switch}
    shopper = Client()
    shopper.force_login(users["bob"])
    deactivate(admin_client, question_about(admin_client, users["bob"]), message="You have left us.")
    response = shopper.get("/")
    ended = response.wsgi_request.session.ended
    assert (ended.reason, ended.message) == (Reason.KICKED, "You have left us.")
    assert not response.wsgi_request.user.is_authenticated


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("atomic", [False, True], ids=["", "ATOMIC_REQUESTS"])
def test_no_session_begins_in_between(admin_client, users, new_session, monkeypatch, once_saved, atomic) -> None:
    monkeypatch.setitem(connection.settings_dict, "ATOMIC_REQUESTS", atomic)
    response = question_about(admin_client, users["bob"])
    new_session(str(users["bob"].pk))
    late: list[SessionStore] = []
    # Other processes still see an active account.
    once_saved(lambda: late.append(new_session(str(users["bob"].pk))))
    deactivate(admin_client, response)
    assert len(late) == 1
    assert not is_active(users["bob"])
    assert left() == {admin_client.session.sid}


def test_an_account_that_somebody_has_deactivated_meanwhile_does_no_harm(admin_client, users, sids) -> None:
    response = question_about(admin_client, users["bob"])
    User.objects.filter(pk=users["bob"].pk).update(is_active=False, first_name="Robert")
    deactivate(admin_client, response)
    # Only the one field was saved.
    assert User.objects.get(pk=users["bob"].pk).first_name == "Robert"
    assert sids["bob"] not in left()
    new = question_about(admin_client, users["bob"])
    assert not offered(new)


def test_it_is_offered_where_all_sessions_are_of_one_user(admin_client, users, sids, new_session) -> None:
    guest, more = new_session(colour="blue").sid, new_session(str(users["bob"].pk)).sid

    def chosen(*sids: str) -> str:
        fields = {"action": "end_selected", "_selected_action": sids}
        return offered(admin_client.post(CONFIRM.replace("confirm/", ""), fields))

    bob = str(users["bob"].pk)
    assert chosen(sids["bob"], more) == offered(admin_client.get(f"{CONFIRM}?q=bob")) == bob
    assert not chosen(sids["bob"], sids["carol"])
    assert not chosen(sids["bob"], guest)
    assert not chosen(guest)
    assert not offered(admin_client.get(f"{CONFIRM}?user={bob}&user={users['carol'].pk}"))


def test_nobody_deactivates_the_own_account(admin_client, admin_user, new_session) -> None:
    other = new_session(str(admin_user.pk)).sid
    response = admin_client.get(f"{CONFIRM}?sid={other}")
    assert not offered(response)
    assert answer(admin_client, response, deactivate=str(admin_user.pk)).status_code == 403
    assert is_active(admin_user)
    assert other in left()


def test_it_takes_permission_to_change_users_and_to_end_sessions(admin_client, users, sids, new_session) -> None:
    bob = str(users["bob"].pk)
    viewer = staff(Client(), "view_onlinesession", "view_user", "change_user", name="viewer")
    assert viewer.post(END, {"deactivate": bob}).status_code == 403
    for name, permissions in (("no users", MAY[:2]), ("users to view", MAY[:3])):
        client = staff(Client(), *permissions, name=name)
        response = question_about(client, users["bob"])
        assert not offered(response)
        assert answer(client, response, deactivate=bob).status_code == 403
    assert is_active(users["bob"])
    assert sids["bob"] in left()
    assert not LogEntry.objects.exists()
    client = staff(Client(), *MAY)
    deactivate(client, question_about(client, users["bob"]))
    assert not is_active(users["bob"])
    # Only superusers deactivate a superuser.
    root = User.objects.create_superuser("root")
    new_session(str(root.pk))
    assert not offered(question_about(client, root))
    assert client.post(END, {"deactivate": str(root.pk), "is_confirmed": "on"}).status_code == 403
    assert is_active(root)
    deactivate(admin_client, question_about(admin_client, root))
    assert not is_active(root)


RULES = {
    "get_queryset": lambda self, request: OnlineSession.online.filter(user_id="0"),
    "has_end_permission": lambda self, request, obj=None: str(obj) != "bob",
    "has_view_permission": lambda self, request, obj=None: str(obj) != "bob",
}


@pytest.mark.parametrize("name", RULES)
def test_a_rule_of_the_sites_own_holds_for_deactivating(admin_client, users, sids, monkeypatch, name) -> None:
    have_own_rule(monkeypatch, name, RULES[name])
    assert not offered(question_about(admin_client, users["bob"]))
    forged = {"deactivate": str(users["bob"].pk), "is_confirmed": "on"}
    assert admin_client.post(END, forged).status_code == 403
    assert is_active(users["bob"])
    assert sids["bob"] in left()
    if name != "get_queryset":
        deactivate(admin_client, question_about(admin_client, users["alice"]))
        assert not is_active(users["alice"])


def test_a_users_admin_that_does_not_let_it_be_changed_is_respected(admin_client, users, sids, monkeypatch) -> None:
    of_users = admin.site._registry[User]
    for target, name, value in (
        (of_users, "has_change_permission", lambda request, obj=None: obj != users["bob"]),
        (of_users, "get_queryset", lambda request: User.objects.exclude(username="bob")),
        (type(of_users), "readonly_fields", ("is_active",)),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, name, value)
            assert not offered(question_about(admin_client, users["bob"]))
    assert offered(question_about(admin_client, users["bob"]))
    monkeypatch.delitem(admin.site._registry, User)
    assert not offered(question_about(admin_client, users["bob"]))


def test_who_is_none_or_a_form_with_an_error_deactivates_nobody_and_forgets_the_button(
    admin_client, users, sids
) -> None:
    for value in ("nobody", "0", "9" * 30, "\0", "-1", "1 OR 1=1"):
        forged = {"sids": sids["bob"], "deactivate": value, "is_confirmed": "on"}
        assert admin_client.post(END, forged).status_code in (200, 403)
    assert len(left()) == 4
    response = deactivate(admin_client, question_about(admin_client, users["bob"]), message="x" * 201)
    assert is_active(users["bob"])
    answer(admin_client, response, message="")
    assert is_active(users["bob"])
    assert sids["bob"] not in left()


@pytest.mark.django_db(transaction=True)
def test_in_an_outage_it_says_what_was_done(settings, admin_client, users, sids, once_saved) -> None:
    question, working = question_about(admin_client, users["bob"]), settings.CACHES
    out_of_reach = {**settings.CACHES, **caches(f"redis://127.0.0.1:{free_port()}/0")}
    once_saved(lambda: setattr(settings, "CACHES", out_of_reach))
    response = deactivate(admin_client, question, message="Left us")
    settings.CACHES = working
    assert "But its sessions could not be ended" in Page(response).text
    assert not is_active(users["bob"])
    assert sids["bob"] in left()
    assert LogEntry.objects.get().change_message == "Deactivated the account. Message: Left us"
    answer(admin_client, question_about(admin_client, users["bob"]))
    assert sids["bob"] not in left()
