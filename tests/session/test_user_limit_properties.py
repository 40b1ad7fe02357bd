"""Whoever signs in and out, in whatever order: those are left whom a model in plain lists leaves."""

import itertools
from dataclasses import dataclass
from typing import Any

import pytest
import redis as redis_py
from django.conf import settings as django_settings
from django.contrib.auth import SESSION_KEY, login, logout
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest
from django.test import override_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_redsess import online
from django_redsess.backend import SessionStore
from django_redsess.exceptions import SessionLimitReached
from django_redsess.transport.keys import sid_of
from tests.helpers.oracle import disagreements
from tests.helpers.properties import run_machine
from tests.helpers.site.people import person
from tests.helpers.store import make_due, make_seen, make_signed_in, stored

pytestmark = pytest.mark.both_servers

users = st.sampled_from(["1", "2"])
which = st.integers(0, 5)
maxima = st.sampled_from([None, 1, 2, 3])
policies = st.sampled_from(["end_oldest", "end_least_recent", "refuse"])


@dataclass
class One:
    """A session that should be there; ``user`` is "" for a guest's. No two have a time in common."""

    key: str
    user: str = ""
    login_at: int = 0
    seen_at: int = 0


class Limited(RuleBasedStateMachine):
    """Two users who sign in here and there, beside a model of who is left."""

    redis: redis_py.Redis

    def __init__(self) -> None:
        super().__init__()
        self.redis.flushall()
        self.clock = itertools.count(1000, 1000)
        self.there: list[One] = []
        self.gone: list[str] = []
        self.due = 0
        self.maximum: int | None = None
        self.policy = "end_oldest"
        self.overridden: Any = None

    def teardown(self) -> None:
        if self.overridden is not None:
            self.overridden.disable()
        self.redis.flushall()

    @initialize(maximum=maxima, policy=policies)
    def begin(self, maximum: int | None, policy: str) -> None:
        self.set_limit(maximum, policy)

    @rule(maximum=maxima, policy=policies)
    def set_limit(self, maximum: int | None, policy: str) -> None:
        """Have another limit, lower than before or higher."""
        if self.overridden is not None:
            self.overridden.disable()
        self.maximum, self.policy = maximum, policy
        changes = {"MAX_SESSIONS_PER_USER": maximum, "SESSION_LIMIT_POLICY": policy}
        self.overridden = override_settings(REDSESS={**django_settings.REDSESS, **changes})
        self.overridden.enable()

    @rule()
    def come(self) -> None:
        """Come as a guest."""
        session = SessionStore()
        session["colour"] = "blue"
        session.save()
        self.there.append(One(str(session.session_key)))

    @rule(user=users, times=st.sampled_from([1, 1, 1, 2]))
    def sign_in_without_a_session(self, user: str, times: int) -> None:
        self._sign_in(None, user, times)

    @precondition(lambda self: self.there)
    @rule(user=users, number=which, times=st.sampled_from([1, 1, 1, 2]))
    def sign_in(self, user: str, number: int, times: int) -> None:
        """Sign in as a guest, again as the same user, or as another one."""
        self._sign_in(self._one(number), user, times)

    @precondition(lambda self: self.there)
    @rule(number=which)
    def sign_out(self, number: int) -> None:
        one = self._one(number)
        request = self._request(one)
        logout(request)
        self._end(one)

    @precondition(lambda self: self.there)
    @rule(number=which)
    def run_out(self, number: int) -> None:
        """Have the time of a session run out. It is as good as gone, and in Redis until somebody takes it out."""
        one = self._one(number)
        make_due(self.redis, sid_of(one.key))
        self._end(one)
        self.due += 1

    @precondition(lambda self: any(one.user for one in self.there))
    @rule(number=which)
    def be_seen(self, number: int) -> None:
        signed_in = [one for one in self.there if one.user]
        one = signed_in[number % len(signed_in)]
        one.seen_at = next(self.clock)
        make_seen(self.redis, sid_of(one.key), one.seen_at)

    @precondition(lambda self: self.there)
    @rule(number=which)
    def rotate(self, number: int) -> None:
        one = self._one(number)
        session = SessionStore(one.key)
        session.cycle_key()
        session.save()
        self._moved(one, session)
        if one.user:
            self._is_seen_now(one)

    # What must hold after each step

    @invariant()
    def those_are_left_whom_the_model_leaves(self) -> None:
        found = {one.key: SessionStore(one.key).load().get(SESSION_KEY, "") for one in self.there}
        assert found == {one.key: one.user for one in self.there}
        assert [SessionStore(key).load() for key in self.gone] == [{}] * len(self.gone)
        assert disagreements(self.redis) == []
        # What is due may be in Redis still, nothing else.
        assert len(self.there) <= stored(self.redis) <= len(self.there) + self.due

    @rule()
    def count(self) -> None:
        for user in ("1", "2"):
            assert online.count(user_ids=[user]) == sum(one.user == user for one in self.there)

    # The model

    def _sign_in(self, one: One | None, user: str, times: int) -> None:
        request = self._request(one)
        others = [other for other in self.there if other.user == user and other is not one]
        again = one is not None and one.user == user
        excess = 0 if self.maximum is None or again else max(0, len(others) + 1 - self.maximum)
        refused = self.policy == "refuse" and excess > 0
        try:
            for _ in range(times):
                login(request, person(user))
            request.session.save()
        except SessionLimitReached:
            assert refused
            assert request.user.is_anonymous
            assert request.session.is_empty()
            if one is not None:
                self._end(one)
            return
        assert not refused
        if one is None or one.user not in ("", user):
            # The session of another user is over, and this is a new one.
            if one is not None:
                self._end(one)
            one = One(str(request.session.session_key))
            self.there.append(one)
        self._moved(one, request.session)
        one.user = user
        one.login_at = next(self.clock)
        make_signed_in(self.redis, sid_of(one.key), one.login_at)
        self._is_seen_now(one)
        oldest_first = sorted(others, key=lambda other: other.seen_at if "recent" in self.policy else other.login_at)
        for other in oldest_first[:excess]:
            self._end(other)

    def _is_seen_now(self, one: One) -> None:
        one.seen_at = next(self.clock)
        make_seen(self.redis, sid_of(one.key), one.seen_at)

    def _one(self, number: int) -> One:
        return self.there[number % len(self.there)]

    def _request(self, one: One | None) -> HttpRequest:
        request = HttpRequest()
        request.session = SessionStore(one.key if one else None)
        request.user = AnonymousUser()
        return request

    def _moved(self, one: One, session: SessionStore) -> None:
        if one.key != session.session_key:
            self.gone.append(one.key)
        one.key = str(session.session_key)

    def _end(self, one: One) -> None:
        self.there.remove(one)
        self.gone.append(one.key)


# Where there are four, a guest who signs in may move to another.
@pytest.mark.parametrize("partitions", [4, pytest.param(1, marks=pytest.mark.slow)], indirect=True)
def test_those_are_left_whom_the_model_leaves(redis, partitions: int, users_in_no_table) -> None:
    run_machine(Limited, redis)
