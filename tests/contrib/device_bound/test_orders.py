"""In whatever order things happen: the browser with the key is always let in, and copies of its cookies are not."""

from contextlib import ExitStack
from typing import Any, NamedTuple

import redis as redis_py
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_redsess import online, testing
from tests.helpers.device_browser import DeviceBrowser, make_key, sign
from tests.helpers.properties import run_machine
from tests.helpers.store import dump

REFRESH = "/device-bound/refresh"
SOON, LATE = 30, 720
"""Seconds. A challenge lives longer than the first, and a proof less long than the second."""

yes_or_no = st.sampled_from([True, False])
waits = st.sampled_from([LATE, SOON, 0])
users = st.sampled_from([1, 2])


class Proof(NamedTuple):
    """A proof cookie that the owner has had; for which binding it was issued, and when."""

    cookie: str | None = None
    binding: int = 0
    issued_at: int = 0


class Orders(RuleBasedStateMachine):
    """A browser that binds its sessions, and a thief who has a copy of each cookie that it ever had."""

    redis: redis_py.Redis
    new_device: Any

    @initialize()
    def begin(self) -> None:
        self.opened = ExitStack()
        self.opened.enter_context(testing.own_store())
        self.owner: DeviceBrowser = self.new_device(registers=False)
        self.thief: DeviceBrowser = self.new_device(registers=False)
        self.now, self.user = 0, "nobody"
        # Of the owner's session: when it was offered to be bound, when it was bound, and the number of the binding.
        self.offered_at: int | None = None
        self.bound_at: int | None = None
        self.binding = 0
        # What the thief has: the owner's session keys, and proofs. The first is none.
        self.keys, self.proofs = [""], [Proof()]
        self.sign_in(1, registers=True)

    def teardown(self) -> None:
        if hasattr(self, "opened"):
            self.opened.close()

    def _wait(self, seconds: int) -> None:
        self.opened.enter_context(testing.travel(seconds))
        self.now += seconds
        if self.now - self.proofs[-1].issued_at >= 600:
            self.owner.proof = None

    @rule(user=users, registers=yes_or_no)
    def sign_in(self, user: int, registers: bool) -> None:
        stays = self.user == str(user) and self.bound_at is not None
        self.owner.offer = None
        assert self.owner.sign_in_as(user).status_code == 200
        assert (self.owner.offer is None) == stays
        self.user = str(user)
        if not stays:
            self.bound_at, self.offered_at = None, self.now
        if registers:
            self.register()

    @rule(seconds=waits)
    def register_later(self, seconds: int) -> None:
        self._wait(seconds)
        self.register()

    def register(self) -> None:
        if self.owner.offer is None:
            return
        is_good = self.user != "nobody" and self.bound_at is None and self.now - (self.offered_at or 0) <= SOON
        assert (self.owner.register().status_code == 200) == is_good
        if is_good:
            self.bound_at, self.binding = self.now, self.binding + 1
            self._has_new_proof()

    @rule(seconds=waits)
    def refresh(self, seconds: int) -> None:
        self._wait(seconds)
        answer = self.owner.refresh()
        # The browser may be binding the session now: it must not forget that.
        is_new = self.user != "nobody" and self.bound_at is None and self.now - (self.offered_at or 0) <= 10
        assert answer is None or answer.status_code == (503 if is_new else 200)
        assert self.bound_at is None or self.owner.bound is not None
        if answer is not None and answer.status_code == 200 and self.owner.bound is not None:
            self._has_new_proof()

    def _has_new_proof(self) -> None:
        self.proofs.append(Proof(self.owner.proof, self.binding, self.now))

    @precondition(lambda self: self.user != "nobody")
    @rule()
    def change_key(self) -> None:
        self.owner.get("/held/cycle/")

    @precondition(lambda self: self.user != "nobody")
    @rule(ends=yes_or_no, comes_back=yes_or_no)
    def leave(self, ends: bool, comes_back: bool) -> None:
        if ends:
            assert len(online.end(self.owner.sid)) == 1
        else:
            self.owner.get("/held/sign-out/")
        self.user, self.bound_at = "nobody", None
        if comes_back:
            self.sign_in(1, registers=True)

    @rule(seconds=waits, age=st.sampled_from([1, 2, 3, 0]), key_age=st.sampled_from([1, 1, 1, 2]), writes=yes_or_no)
    def use_copies(self, seconds: int, age: int, key_age: int, writes: bool) -> None:
        """Use a copy of a session key with one of the last proofs, or without any."""
        self._wait(seconds)
        proof = self.proofs[-age] if 0 < age <= len(self.proofs) else self.proofs[0]
        self.thief.cookie, self.thief.proof = self.keys[-min(key_age, len(self.keys))], proof.cookie
        is_present, before = self.thief.cookie == self.owner.cookie, dump(self.redis)
        answer = self.thief.send("get", "/held/write/colour/blue/" if writes else "/held/who/")
        if answer.status_code == 401:
            assert dump(self.redis) == before
        if not is_present or self.user == "nobody":
            assert answer.content in (b"nobody", b"done") or answer.status_code == 400
        elif self.bound_at is None:
            assert answer.status_code == 200
        elif self.now > self.bound_at:
            is_proven = proof.cookie and proof.binding == self.binding and self.now - proof.issued_at <= 600
            assert answer.status_code == (200 if is_proven else 401)

    @rule()
    def refresh_with_another_key(self) -> None:
        named = {"sec_secure_session_id": '"sessionid@testserver"'}
        self.thief.cookie, self.thief.proof = self.keys[-1], self.proofs[-1].cookie
        answer = self.thief.send("post", REFRESH, **named)
        if "Secure-Session-Challenge" in answer:
            challenge = answer["Secure-Session-Challenge"].split('"')[1]
            answer = self.thief.send("post", REFRESH, secure_session_response=sign(make_key(), challenge), **named)
            assert answer.status_code in (400, 503)
        assert list(answer.cookies) == []

    @invariant()
    def the_owner_is_let_in(self) -> None:
        if not hasattr(self, "owner"):
            return
        refreshes = self.owner.refreshes
        answer = self.owner.get("/held/who/")
        assert (answer.status_code, answer.content.decode()) == (200, self.user)
        if self.owner.refreshes > refreshes and self.owner.bound is not None:
            self._has_new_proof()
        if self.owner.cookie not in (None, self.keys[-1]):
            self.keys.append(self.owner.cookie)


def test_any_order(partitions: int, users_in_no_table, redis: redis_py.Redis, new_device) -> None:
    run_machine(type("Here", (Orders,), {"new_device": staticmethod(new_device)}), redis)
