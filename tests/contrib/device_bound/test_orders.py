"""In whatever order things happen: the browser with the key is always let in, and a copy of its cookies is not."""

from contextlib import ExitStack
from typing import Any

import redis as redis_py
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_redsess import online, testing
from tests.helpers.device_browser import DeviceBrowser, make_key, sign
from tests.helpers.properties import run_machine
from tests.helpers.store import dump

REFRESH = "/device-bound/refresh"


class Orders(RuleBasedStateMachine):
    """A browser that binds its sessions, and a thief who copies what it has at one moment."""

    redis: redis_py.Redis
    new_device: Any

    @initialize()
    def begin(self) -> None:
        self.opened = ExitStack()
        self.opened.enter_context(testing.own_store())
        self.now = 0
        self.owner: DeviceBrowser = self.new_device(registers=False)
        self.thief: DeviceBrowser = self.new_device(registers=False)
        self.user = "nobody"
        # Of the owner's session: whether it is bound, and since when; and the offer, if it is good.
        self.bound_at: int | None = None
        self.offered_at: int | None = None
        # Whether the thief has the cookie of the owner's present session.
        self.has_cookie = False

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            self.opened.close()

    @rule(seconds=st.booleans())
    def time_passes(self, seconds: bool) -> None:
        ahead = 720 if seconds else 30
        self.opened.enter_context(testing.travel(ahead))
        self.now += ahead
        if ahead > 600:
            self.owner.proof = None

    @rule(user=st.booleans())
    def sign_in(self, user: bool) -> None:
        name = "1" if user else "2"
        stays = self.user == name and self.bound_at is not None
        self.owner.offer = None
        assert self.owner.sign_in_as(int(name)).status_code == 200
        assert (self.owner.offer is None) == stays
        self.user, self.has_cookie = name, False
        if not stays:
            self.bound_at, self.offered_at = None, self.now

    @precondition(lambda self: self.owner.offer is not None)
    @rule()
    def register(self) -> None:
        answer = self.owner.register()
        is_good = self.bound_at is None and self.offered_at is not None and self.now - self.offered_at <= 30
        assert (answer.status_code == 200) == is_good
        if is_good:
            self.bound_at = self.now

    @rule()
    def refresh(self) -> None:
        answer = self.owner.refresh()
        if answer is not None:
            assert answer.status_code == 200
            assert (self.owner.bound is not None) == (self.bound_at is not None)

    @rule()
    def lose_proof(self) -> None:
        self.owner.proof = None

    @precondition(lambda self: self.user != "nobody")
    @rule()
    def change_key(self) -> None:
        self.owner.get("/held/cycle/")
        self.has_cookie = False

    @rule()
    def sign_out(self) -> None:
        self.owner.get("/held/sign-out/")
        self._over()

    @precondition(lambda self: self.user != "nobody")
    @rule()
    def end(self) -> None:
        assert len(online.end(self.owner.sid)) == 1
        self._over()

    def _over(self) -> None:
        self.user, self.bound_at, self.offered_at, self.has_cookie = "nobody", None, None, False

    @precondition(lambda self: self.user != "nobody")
    @rule(with_proof=st.booleans())
    def steal(self, with_proof: bool) -> None:
        self.thief.cookie, self.has_cookie = self.owner.cookie, True
        self.thief.proof = self.owner.proof if with_proof else None

    @precondition(lambda self: self.thief.cookie is not None)
    @rule(path=st.booleans())
    def use_copy(self, path: bool) -> None:
        before = dump(self.redis)
        answer = self.thief.send("get", "/held/who/" if path else "/held/write/colour/blue/")
        if answer.status_code == 401:
            assert dump(self.redis) == before
        if not self.has_cookie or self.bound_at is None or self.now - self.bound_at < 10:
            return
        if self.thief.proof is None:
            assert answer.status_code == 401

    @precondition(lambda self: self.thief.cookie is not None)
    @rule()
    def use_copy_of_everything_too_late(self) -> None:
        """After the life of the proof, a copy opens nothing, whatever else it has."""
        if self.has_cookie and self.bound_at is not None:
            self.time_passes(True)
            assert self.thief.send("get", "/held/who/").status_code == 401

    @precondition(lambda self: self.thief.cookie is not None)
    @rule()
    def refresh_with_another_key(self) -> None:
        named = {"sec_secure_session_id": '"sessionid@testserver"'}
        answer = self.thief.send("post", REFRESH, **named)
        if "Secure-Session-Challenge" in answer:
            challenge = answer["Secure-Session-Challenge"].split('"')[1]
            answer = self.thief.send("post", REFRESH, secure_session_response=sign(make_key(), challenge), **named)
            assert answer.status_code in (400, 503)
        assert list(answer.cookies) == []

    @invariant()
    def the_owner_is_let_in(self) -> None:
        if hasattr(self, "owner"):
            answer = self.owner.get("/held/who/")
            assert (answer.status_code, answer.content.decode()) == (200, self.user)


def test_any_order(users_in_no_table, redis: redis_py.Redis, new_device) -> None:
    run_machine(type("Here", (Orders,), {"new_device": staticmethod(new_device)}), redis)
