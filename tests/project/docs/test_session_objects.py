"""The snippets of the guide "From Session.objects" do what it says. Each is run as the page has it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import Group, User

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.behind import make_due, stored
from tests.project.docs.pages import DOCS, blocks

pytestmark = pytest.mark.django_db

OURS = [
    block for block in blocks(DOCS / "howto" / "from-session-objects.rst") if block.caption == "with django-redsess"
]

NewSession = Callable[..., SessionStore]


def run(containing: str, **names: Any) -> dict[str, Any]:
    """Run the snippet of ours that has this text."""
    [text] = [block.text for block in OURS if containing in block.text]
    exec(text, names)
    return names


def test_those_that_end_sessions(new_session: NewSession) -> None:
    user, other = User.objects.create_user("ada"), User.objects.create_user("bob")
    mine = [new_session(user=str(user.pk)) for _ in range(3)]
    new_session(user=str(other.pk))
    guest = new_session()
    run("keep=request", user=user, request=SimpleNamespace(session=mine[1]))
    assert [session.sid for session in online.of_user(user)] == [mine[1].sid]
    run("end_user(user)\n", user=user)
    assert online.of_user(user) == []
    assert online.count() == 1
    run("end_all()")
    assert [session.sid for session in online.sessions(guests=True)] == [guest.sid]


def test_those_that_find_sessions(new_session: NewSession) -> None:
    user = User.objects.create_user("ada")
    session = new_session(user=str(user.pk), basket=[3])
    found = run("users = ", User=User)
    assert (list(found["users"]), found["count"]) == ([user], 1)
    assert len(run("devices = ", user=user)["devices"]) == 1
    assert run("session_key=key", key=session.session_key)["basket"] == [3]
    assert run("details = ", sid=session.sid)["basket"] == [3]
    session.delete()
    assert run("details = ", sid=session.sid)["basket"] is None


def test_the_one_that_removes_expired_sessions(new_session: NewSession, redis: redis_py.Redis) -> None:
    make_due(redis, new_session(user="1").sid)
    assert stored(redis) == 1
    run("cleansessions")
    assert stored(redis) == 0


def test_the_session_that_refers_to_a_cart_does_so_after_a_sign_in(new_session: NewSession) -> None:
    # Any model that can be made without arguments is a cart.
    cart_of = run("def cart_of", Cart=Group)["cart_of"]
    request = SimpleNamespace(session=new_session())
    cart = cart_of(request)
    request.session.cycle_key()
    request.session.save()
    again = SimpleNamespace(session=SessionStore(request.session.session_key))
    assert cart_of(again) == cart


def test_each_snippet_is_run() -> None:
    assert len(OURS) == 9
