"""The user id in a session's data is edited by hand, by one request and by two at once: every list says so."""

from __future__ import annotations

import asyncio

import pytest
import redis as redis_py
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import UpdateError
from django.test import Client

from django_redsess import online, viewed
from django_redsess.backend import SessionStore
from tests.helpers.behind import stored
from tests.helpers.same_session import items_of, name_in
from tests.helpers.site.edits import EDITS, deleted
from tests.helpers.site.views import MODEL_BACKEND
from tests.helpers.visitors import Browser

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions")]

AFTER_EDIT = {
    "to_bob": ["bob"],
    "to_bob_as_a_number": ["bob"],
    "to_a_number": ["alice"],
    "to_none": [],
    "deleted": [],
}

USER_AFTER = {**AFTER_EDIT, "to_carol": ["carol"], "another_hash": ["alice"]}


def data_of(user: User) -> dict[str, str]:
    return {
        SESSION_KEY: str(user.pk),
        BACKEND_SESSION_KEY: MODEL_BACKEND,
        HASH_SESSION_KEY: user.get_session_auth_hash(),
    }


@pytest.fixture
def of_alice(users: dict[str, User]) -> SessionStore:
    """A session in which alice is signed in, who has viewed a lamp."""
    session = SessionStore()
    session.update({**data_of(users["alice"]), "colour": "blue"})
    session.save()
    viewed.record(session, "lamp")
    return SessionStore(session.session_key)


def listed_with_guests(redis: redis_py.Redis) -> tuple[list[str], int]:
    """Who is signed in, and how many guests there are."""
    everybody = {str(user.pk): user.username for user in User.objects.all()}
    names = sorted(everybody[session.user_id] for session in online.sessions())
    for user in User.objects.all():
        assert len(online.of_user(user)) == names.count(user.username)
    assert online.count() == len(names)
    return names, stored(redis) - len(names)


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_id_that_is_edited_by_hand_back_and_forth_is_in_every_list(
    of_alice, users, redis, how: str, is_async: bool
) -> None:
    def save() -> None:
        if is_async:
            asyncio.run(of_alice.asave())
        else:
            of_alice.save()

    of_alice.get("colour")
    for _ in range(2):
        EDITS[how](of_alice)
        save()
        assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
        session = SessionStore(of_alice.session_key)
        assert session["colour"] == "blue"
        assert [item for item, _ in viewed.recent(session)] == ["lamp"]
        of_alice[SESSION_KEY] = str(users["alice"].pk)
        save()
        assert listed_with_guests(redis) == (["alice"], 0)
    # Without its user, it ends no more with that user.
    deleted(of_alice)
    save()
    assert online.end_user(users["alice"]) == 0
    assert listed_with_guests(redis) == ([], 1)


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_view_may_edit_the_user_id(of_alice, redis, how: str) -> None:
    browser = Browser(Client())
    browser.cookie = of_alice.session_key
    assert browser.get(f"/edit/{how}/").status_code == 200
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    assert SessionStore(browser.cookie)["colour"] == "blue"
    assert items_of(browser) == ["lamp"]
    # The hash is alice's: whom Django takes for signed in is another question.
    assert name_in(browser) == ("alice" if how == "to_a_number" else "nobody")


# Edited by two requests at once: the first of a pair saves before the second does.

PAIRS = [
    ("to_bob", "to_carol"),
    ("to_bob", "deleted"),
    ("deleted", "to_bob"),
    ("to_none", "deleted"),
    ("to_bob", "another_hash"),
    ("another_hash", "to_bob"),
    ("deleted", "another_hash"),
    ("to_a_number", "to_bob"),
    ("to_bob_as_a_number", "to_bob"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_of_two_requests_that_edit_the_user_at_once_one_holds(of_alice, redis, meanwhile, first, second) -> None:
    early, late = Browser(Client()), Browser(Client())
    early.cookie = late.cookie = of_alice.session_key
    meanwhile(lambda: early.get(f"/edit/{first}/"))
    status = late.get(f"/edit/{second}/").status_code
    moved = early.cookie != of_alice.session_key
    assert status == (400 if moved else 200)
    after = USER_AFTER[first if moved else second]
    assert listed_with_guests(redis) == (after, 0 if after else 1)
    assert items_of(early if moved else late) == ["lamp"]


@pytest.mark.parametrize("how", AFTER_EDIT)
def test_a_user_edited_while_another_request_writes_something_else_keeps_both(of_alice, redis, how: str) -> None:
    later = SessionStore(of_alice.session_key)
    later["colour"] = "red"
    EDITS[how](of_alice)
    of_alice.save()
    moved = of_alice.session_key != later.session_key
    if moved:
        with pytest.raises(UpdateError):
            later.save()
    else:
        later.save()
    assert listed_with_guests(redis) == (AFTER_EDIT[how], 0 if AFTER_EDIT[how] else 1)
    assert SessionStore(of_alice.session_key)["colour"] == ("blue" if moved else "red")
