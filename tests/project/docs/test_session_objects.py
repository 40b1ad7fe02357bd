"""The snippets of the guide "From Session.objects" do what it says. Each is run as the page has it."""

from types import SimpleNamespace
from typing import Any

import pytest
import redis as redis_py
from django.contrib.auth.models import Group, User

from django_redsess import online
from django_redsess.backend import SessionStore
from tests.helpers.store import make_due, stored
from tests.project.docs.pages import DOCS, blocks

pytestmark = pytest.mark.django_db

GUIDE = DOCS / "howto" / "from-session-objects.rst"
OURS = [block.text for block in blocks(GUIDE) if block.heading == "with django-redsess"]


def run(containing: str, **names: Any) -> dict[str, Any]:
    """Run the snippet of ours that has this text."""
    [text] = [text for text in OURS if containing in text]
    exec(text, names)
    return names


def test_sessions_are_found_and_ended(new_session, redis: redis_py.Redis) -> None:
    user, other = User.objects.create_user("ada"), User.objects.create_user("bob")
    mine = [new_session(user=str(user.pk), basket=[3]) for _ in range(3)]
    new_session(user=str(other.pk))
    guest = new_session()
    found = run("users = ", User=User)
    assert (set(found["users"]), found["count"]) == ({user, other}, 4)
    assert len(run("devices = ", user=user)["devices"]) == 3
    assert run("session_key=key", key=mine[0].session_key)["basket"] == [3]
    assert run("details = ", sid=mine[0].sid)["basket"] == [3]
    run("keep=request", user=user, request=SimpleNamespace(session=mine[1]))
    assert [session.sid for session in online.of_user(user)] == [mine[1].sid]
    run("end_user(user)\n", user=user)
    assert (online.of_user(user), online.count()) == ([], 1)
    assert run("details = ", sid=mine[1].sid)["basket"] is None
    run("end_all()")
    assert [session.sid for session in online.sessions(guests=True)] == [guest.sid]
    make_due(redis, guest.sid)
    run("cleansessions")
    assert stored(redis) == 0


def test_the_session_that_refers_to_a_cart_does_so_after_a_sign_in(new_session) -> None:
    # Any model that can be made without arguments is a cart.
    cart_of = run("def cart_of", Cart=Group)["cart_of"]
    request = SimpleNamespace(session=new_session())
    cart = cart_of(request)
    request.session.cycle_key()
    request.session.save()
    assert cart_of(SimpleNamespace(session=SessionStore(request.session.session_key))) == cart
    # Both tests run all snippets.
    assert len(OURS) == 9
