"""What users see and end of their own sessions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from django_redsess import online
from django_redsess.accounts import reauthentication
from django_redsess.online.fields import iso_time
from tests.helpers.accounts import PASSWORD, count, sid_of, sign_in, told_to
from tests.helpers.api import ask, get, ids, status, walk
from tests.helpers.store import drive, make_older

pytestmark = pytest.mark.django_db

OWN, PASSWORD_URL = "me/sessions", "me/reauthenticate"


@pytest.fixture
def long_ago(here, redis) -> None:
    make_older(redis, sid_of(here), reauthentication.RECENT_SECONDS + 1)


def test_a_user_lists_the_own_sessions_and_no_data_of_them(alice, here, there, root) -> None:
    session = here.session
    session["basket"] = "secret"
    session.save()
    answer = get(here, OWN)
    assert answer["next_cursor"] is None
    assert [(each["id"], each["is_current"]) for each in answer["sessions"]] == [
        (sid_of(there), False),
        (sid_of(here), True),
    ]
    [own] = [each for each in answer["sessions"] if each["is_current"]]
    found = online.get(sid_of(here))
    assert found is not None
    assert found.created_at is not None
    assert own == {
        "id": found.sid,
        "user_id": str(alice.pk),
        "user": "alice",
        "address": found.address,
        "user_agent": found.user_agent,
        "created_at": iso_time(found.created_at),
        "last_seen_at": iso_time(found.last_seen_at),
        "expires_at": iso_time(found.expires_at),
        "is_current": True,
        "device": "",
        "place": "",
        "newest_item": None,
        "device_bound": False,
    }
    assert "secret" not in str(answer)
    assert get(here, f"{OWN}/{sid_of(here)}") == own


def test_pages_have_each_session_once(alice, here) -> None:
    sids = {sid_of(here), *(sid_of(sign_in(alice)) for _ in range(4))}
    found = walk(here, OWN, limit=2)
    assert (len(found), set(found)) == (5, sids)


def test_another_users_session_is_as_an_unknown_one(here, root) -> None:
    for sid in (sid_of(root), "x" * 20, "nothing", here.cookies["sessionid"].value):
        # Not in the assert: the last one is a key.
        found = [status(here, method, f"{OWN}/{sid}") for method in ("get", "delete")]
        assert found == [404, 404]
    assert online.get(sid_of(root))


def test_a_user_ends_another_own_session_and_its_device_is_told(alice, here, there) -> None:
    assert status(here, "delete", f"{OWN}/{sid_of(there)}") == 204
    assert count(alice) == 1
    reason, text = told_to(there)
    assert reason == "kicked"
    assert "from another one" in text
    assert status(here, "delete", f"{OWN}/{sid_of(there)}") == 404


def test_the_end_of_the_present_session_signs_out(alice, here) -> None:
    assert status(here, "delete", f"{OWN}/{sid_of(here)}") == 204
    assert count(alice) == 0
    assert status(here, "get", OWN) == 401


def test_all_others_end_and_the_present_one_gets_a_new_key(alice, here, there, redis) -> None:
    elsewhere, key = sign_in(alice), here.cookies["sessionid"].value
    answer = ask(here, "delete", OWN)
    assert answer.json() == {"ended": 2, "may_return": False}
    is_new = answer.cookies["sessionid"].value != key
    assert is_new
    assert count(alice) == 1
    assert [status(each, "get", OWN) for each in (here, there, elsewhere)] == [200, 401, 401]


@pytest.mark.usefixtures("long_ago")
def test_the_password_is_asked_again_and_stamped(alice, here, there) -> None:
    for path in (OWN, f"{OWN}/{sid_of(there)}"):
        problem = ask(here, "delete", path).json()
        assert (problem["status"], problem["type"].rpartition("#")[2]) == (403, "password-required")
    assert count(alice) == 2
    assert status(here, "post", PASSWORD_URL, {"password": "wrong"}) == 403
    assert status(here, "delete", OWN) == 403
    copy = here.cookies["sessionid"].value
    assert status(here, "post", PASSWORD_URL, {"password": PASSWORD}) == 204
    is_new = here.cookies["sessionid"].value != copy
    assert is_new
    assert ask(here, "delete", OWN).json() == {"ended": 1, "may_return": False}


@pytest.mark.usefixtures("long_ago", "there")
def test_too_many_wrong_passwords_have_to_wait(alice, here) -> None:
    statuses = [status(here, "post", PASSWORD_URL, {"password": "wrong"}) for _ in range(5)]
    assert statuses == [403, 403, 403, 403, 429]
    answer = ask(here, "post", PASSWORD_URL, {"password": PASSWORD})
    assert (answer.status_code, answer["Retry-After"]) == (429, str(reauthentication.RECENT_SECONDS))
    assert status(here, "delete", OWN) == 403
    assert count(alice) == 2


@pytest.mark.usefixtures("long_ago")
def test_the_end_of_the_present_session_asks_for_no_password(alice, here) -> None:
    assert status(here, "delete", f"{OWN}/{sid_of(here)}") == 204
    assert count(alice) == 0


def test_a_wrong_password_is_refused_even_just_after_the_sign_in(here) -> None:
    assert status(here, "post", PASSWORD_URL, {"password": "wrong"}) == 403


def test_a_list_has_the_sessions_of_its_user_only(here, root) -> None:
    User.objects.create_user("bob")
    assert ids(get(here, OWN)) == [sid_of(here)]
    assert ids(get(root, OWN)) == [sid_of(root)]


def test_an_end_meanwhile_is_401(alice, here, there, monkeypatch) -> None:
    end_user, sid = online.end_user, sid_of(here)

    def ends_too_late(*args: Any, **options: Any) -> int:
        ended = end_user(*args, **options)
        online.end(sid)
        return ended

    monkeypatch.setattr(online, "end_user", ends_too_late)
    assert status(here, "delete", OWN) == 401
    assert count(alice) == 0


@pytest.mark.parametrize("saves_always", [False, True])
def test_an_end_at_any_moment_is_401(alice, monkeypatch, settings, saves_always) -> None:
    """The session ends before the first, the second, … time that a request asks the server."""
    settings.SESSION_SAVE_EVERY_REQUEST = saves_always
    found = set()
    for moment in range(1, 7):
        here, calls = sign_in(alice), iter(range(1, 100))
        sid = sid_of(here)

        def ends(steps: Any, sid: str = sid, calls: Iterator[int] = calls, moment: int = moment) -> Any:
            if next(calls) == moment:
                online.end(sid)
            return drive(steps)

        monkeypatch.setattr("django_redsess.session.store.drive", ends)
        found.add(status(here, "post", PASSWORD_URL, {"password": PASSWORD}))
        monkeypatch.setattr("django_redsess.session.store.drive", drive)
    # The last one is after all that the request does.
    assert found == {401, 204}
