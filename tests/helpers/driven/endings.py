"""All ways to end sessions of one user: each ends those of some of the user's browsers, for a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from django.contrib.admin.utils import quote
from django.core.management import call_command

from django_redsess import online
from django_redsess.signals import Reason
from tests.helpers.behind import make_due
from tests.helpers.driven.people import ACCOUNT, BROWSERS, LIST, USERS, Site, link
from tests.helpers.markup import text_of


class Ending(NamedTuple):
    """A way to end the sessions of ``browsers``; ``in_history`` if it is to be read in the user's history."""

    end: Callable[[Site, str, str], None]
    browsers: tuple[str, ...]
    reason: Reason = Reason.KICKED
    in_history: bool = False


def selected(site: Site, name: str, reason: str) -> None:
    chosen = {"action": "end_selected", "_selected_action": [site.sid(name, "by form")]}
    question = site.admin.post(LIST, chosen)
    assert name in text_of(question)
    assert f"The session of {name} was ended: " in site.confirm(question, 1, reason)


def all_of_the_list(site: Site, name: str, reason: str) -> None:
    chosen = {"action": "end_selected", "_selected_action": ["x"], "select_across": "1"}
    question = site.admin.post(LIST, chosen, query_params={"user": site.key(name)})
    assert f"2 sessions of {name} were ended." in site.confirm(question, 2, reason)


def on_its_page(site: Site, name: str, reason: str) -> None:
    page = site.admin.get(f"{LIST}{quote(site.sid(name, 'by client'))}/change/")
    question = site.admin.get(link(page, "End this session"))
    # Its browser is known: with it came the message about the sessions that were ended before.
    assert f"The session of {name} was ended: " in site.confirm(question, 1, reason)


def all_on_the_page_of_one(site: Site, name: str, reason: str) -> None:
    page = site.admin.get(f"{LIST}{quote(site.sid(name, 'by client'))}/change/")
    question = site.admin.get(link(page, "End all sessions of this user"))
    assert f"Do you want to end 2 sessions of {name}" in text_of(question)
    assert f"2 sessions of {name} were ended." in site.confirm(question, 2, reason)


def on_the_users_page(site: Site, name: str, reason: str) -> None:
    page = site.admin.get(site.page_of(name))
    question = site.admin.get(link(page, "End all of them"))
    assert f"Do you want to end 2 sessions of {name}" in text_of(question)
    assert f"2 sessions of {name} were ended." in site.confirm(question, 2, reason)
    assert "This user is not signed in." in text_of(site.admin.get(site.page_of(name)))


def in_the_list_of_users(site: Site, name: str, reason: str) -> None:
    question = site.admin.post(USERS, {"action": "end_sessions", "_selected_action": [site.key(name)]})
    assert f"2 sessions of {name} were ended." in site.confirm(question, 2, reason)


def by_self_service(site: Site, name: str, reason: str) -> None:
    here = site.browsers[name, "by form"]
    page = here.post(f"{ACCOUNT}{site.sid(name, 'by client')}/end/", follow=True)
    assert "The session was ended" in text_of(page)
    assert "You are signed in on this device only." in text_of(page)


def all_others_by_self_service(site: Site, name: str, reason: str) -> None:
    here = site.browsers[name, "by client"]
    assert "You are signed in with 2 browsers" in text_of(here.get(ACCOUNT))
    assert "1 other session was ended." in text_of(here.post(f"{ACCOUNT}end-others/", follow=True))


def by_command(site: Site, name: str, reason: str) -> None:
    call_command("endsessions", name, interactive=False, verbosity=0)


def all_but_one_by_command(site: Site, name: str, reason: str) -> None:
    call_command("endsessions", name, keep=[site.sid(name, "by form")], interactive=False, verbosity=0)


def one_by_command(site: Site, name: str, reason: str) -> None:
    call_command("endsessions", site.sid(name, "by form"), interactive=False, verbosity=0)


def by_function(site: Site, name: str, reason: str) -> None:
    assert online.end_user(site.users[name], keep=site.sid(name, "by client")) == 1


def by_the_cleaner(site: Site, name: str, reason: str) -> None:
    make_due(site.redis, *site.sids(name))
    call_command("cleansessions", verbosity=0)


def by_signing_out(site: Site, name: str, reason: str) -> None:
    assert "Sign in" in text_of(site.browsers[name, "by client"].post("/logout/", follow=True))


ONE, OTHER = BROWSERS

ENDINGS = [
    Ending(selected, (OTHER,), in_history=True),
    Ending(all_of_the_list, BROWSERS, in_history=True),
    Ending(on_its_page, (ONE,), in_history=True),
    Ending(all_on_the_page_of_one, BROWSERS, in_history=True),
    Ending(on_the_users_page, BROWSERS, in_history=True),
    Ending(in_the_list_of_users, BROWSERS, in_history=True),
    Ending(by_self_service, (ONE,)),
    Ending(all_others_by_self_service, (OTHER,)),
    Ending(by_command, BROWSERS),
    Ending(all_but_one_by_command, (ONE,)),
    Ending(one_by_command, (OTHER,)),
    Ending(by_function, (OTHER,)),
    Ending(by_the_cleaner, BROWSERS, Reason.EXPIRED),
    Ending(by_signing_out, (ONE,), Reason.LOGOUT),
]
