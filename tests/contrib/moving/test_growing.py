"""Sessions that move between two stores of this engine: each is in one of them, and what holds in one holds in both."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from django.http import HttpRequest

from django_redsess import online
from django_redsess.accounts.reauthentication import give_password
from django_redsess.backend import SessionStore
from django_redsess.contrib.moving.checks import check_sibling_agreement
from django_redsess.contrib.moving.growing.stores import site_stores
from django_redsess.contrib.moving.growing.transfer import transfer_sessions
from django_redsess.exceptions import SessionLimitReached
from django_redsess.online.ending import BulkEnding
from django_redsess.online.listing import filter_of, moving_from
from tests.contrib.moving.conftest import grow, session_of
from tests.contrib.moving.test_ends import OWN, in_own_store, sign_in, the_store_before, user_in
from tests.contrib.moving.test_interleavings import Work
from tests.helpers.serving import serving
from tests.helpers.site import MIDDLEWARE
from tests.helpers.store import (
    REFUSE,
    Client,
    Limit,
    Steps,
    Store,
    Visit,
    blocks,
    drive,
    dump,
    faults,
    keyspace,
    pool,
    sid_of,
    using,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("partitions", "moving", "left_alone", "grows")]


@pytest.fixture
def grows(moving: Any) -> None:
    grow(moving, **OWN)


def sids_in(store: Store | None) -> set[str]:
    with using(store):
        return {each.sid for each in online.sessions(guests=True)}


def in_both() -> set[str]:
    """The sids of sessions that are in two stores at once."""
    return sids_in(the_store_before()) & sids_in(None)


def test_step_1_is_the_plain_engine_on_the_store_before(step) -> None:
    keys = [in_own_store("7"), in_own_store(), in_own_store("8")]
    with step(1):
        new = sign_in("7")
        assert {each.sid for each in online.sessions(guests=True)} == {sid_of(key) for key in (*keys, new)}
        assert online.count(user_ids=["7"]) == 2
        assert moving_from() == ""
    assert sids_in(None) == set()


def test_all_sessions_of_a_user_come_along(step) -> None:
    keys, other = [in_own_store("7") for _ in range(3)], in_own_store("8")
    with step(2):
        assert session_of(keys[0])["_auth_user_id"] == "7"
        assert sids_in(None) == {sid_of(key) for key in keys}
        assert moving_from()
        sign_in("8")
        assert online.count(user_ids=["8"]) == 2
        assert moving_from() == ""
    assert user_in(other, step) == {"8"}
    assert in_both() == set()


@pytest.mark.parametrize("number", [1, 2])
def test_the_limit_counts_what_has_not_moved(step, number: int) -> None:
    for _ in range(2):
        in_own_store("7")
    with step(number):
        session = session_of()
        session["_auth_user_id"] = "7"
        session.signed_in(Limit(2, REFUSE))
        with pytest.raises(SessionLimitReached):
            session.save()


def test_blocks_are_copied_and_what_was_lifted_is_not(step) -> None:
    alice, bob, carol = (User.objects.create_user(name) for name in ("alice", "bob", "carol"))
    until = datetime.now(UTC) + timedelta(hours=1)
    with step(1):
        for user in (alice, bob):
            with using(the_store_before()):
                online.block(user, until=until, message="Please call us.")
        online.unblock(bob)
    with using(the_store_before()):
        online.block(carol, until=until)
    with step(2):
        call_command("movesessions", verbosity=0)
    # The settings that a site has afterwards.
    found = [block for block, _ in drive(blocks.read_blocks(0, 10))]
    assert {each.user_id: each.message for each in found} == {str(alice.pk): "Please call us.", str(carol.pk): ""}


def test_what_is_due_ends_and_what_can_not_be_read_stays(step, redis, capsys) -> None:
    keys = [in_own_store("7") for _ in range(4)]
    before = the_store_before()
    with using(before):
        store = keyspace().partitions[0]
        redis.hset(store.login, sid_of(keys[0]), b"nothing")
        redis.zadd(store.expire, {sid_of(keys[1]): 1})
    with step(2):
        call_command("movesessions", dry_run=True)
        assert "Would move 2 sessions. 2 were not" in capsys.readouterr().out
        call_command("movesessions")
        assert "Moved 2 sessions. 1 were not" in capsys.readouterr().out
        call_command("movesessions")
        assert "Moved 0 sessions. 1 were not" in capsys.readouterr().out
    assert sids_in(None) == {sid_of(key) for key in keys[2:]}


@pytest.mark.parametrize("score", ["inf", "1e308", "-inf", "0.5"])
@pytest.mark.parametrize("name", ["expire", "recent", "viewed"])
def test_a_score_that_another_program_wrote_stops_no_move(step, redis, name: str, score: str) -> None:
    keys = [in_own_store("7"), in_own_store("8")]
    sid, store = sid_of(keys[0]), the_store_before()
    with using(store):
        partition = keyspace().of_sid(sid)
        redis.zadd(
            *{
                "expire": (partition.expire, {sid: score}),
                "recent": (partition.recent, {sid: score}),
                "viewed": (partition.viewed_by(sid), {"lamp": score}),
            }[name]
        )
    with step(2):
        is_due = name == "expire" and float(score) < 1
        assert user_in(keys[0], step) == {"" if is_due else "7"}
        assert user_in(keys[1], step) == {"8"}


@pytest.mark.parametrize("option", [{"finish": True}, {"back": True}, {"from_key": "a"}])
def test_options_for_other_engines_are_refused(step, option: dict[str, Any]) -> None:
    with step(2), pytest.raises(CommandError, match="is not for another store of this engine"):
        call_command("movesessions", **option)


def test_nothing_moves_in_step_1(step) -> None:
    with step(1), pytest.raises(CommandError, match="MOVE_TO"):
        call_command("movesessions")


def test_a_cookie_that_neither_store_knows_leaves_nothing(step, redis) -> None:
    key = "0123456789abcdefghijklmnopqrstuv"
    for number in (1, 2):
        with step(number):
            assert session_of(key).load() == {}
            session_of(key).flush()
            session_of(key).delete(key)
            assert not session_of().exists(key)
    assert [name for name in redis.keys() if b":meta" not in name] == []


@pytest.mark.parametrize("what", ["save", "end", "new key", "end of the user"])
def test_whatever_happens_in_the_midst_of_a_move(step, what: str) -> None:
    """A process of step 2 stops anywhere in a move, one of step 1 works, and the move goes on or is never ended."""
    alice = User.objects.create_user("alice")
    for at, goes_on in product(range(1, 16), (True, False)):
        key = in_own_store(str(alice.pk), basket=1)
        with step(2):
            moving = session_of(key)
        with step(1):
            here = session_of(key)
            here.load()
        work = Work(step, 2, moving.loading())
        for _ in range(at):
            go_on(work)
        with step(1):
            new = happen(what, here, alice)
        while goes_on and not work.done:
            work.go_on()
        for number in (2, 1, 2):
            with step(number):
                if what == "save":
                    assert session_of(key)["basket"] == 2, at
                else:
                    assert session_of(key).load() == {}, at
                if new:
                    assert session_of(new)["basket"] == 1
        assert in_both() == set()
        with step(2):
            online.end_all()
    assert faults() == []


def go_on(work: Work) -> None:
    if not work.done:
        work.go_on()


def happen(what: str, here: SessionStore, user: User) -> str:
    if what == "save":
        here["basket"] = 2
        here.save()
    elif what == "new key":
        here.cycle_key()
        here.save()
        return str(here.session_key)
    elif what == "end":
        here.flush()
    else:
        online.end_user(user)
    return ""


@pytest.mark.parametrize("number", [1, 2])
def test_requests_of_one_session_pass_one_at_a_time_in_each_step(
    step, settings, redis, users_in_no_table, number
) -> None:
    settings.ROOT_URLCONF, settings.MIDDLEWARE = "tests.helpers.site.urls", MIDDLEWARE
    guest, member = in_own_store(), in_own_store("7")
    for key in (guest, member):
        with step(number), serving() as site, ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda _, key=key: site.ask("/locks/count/", key), range(10)))
            assert sorted(answer.text for answer in answers) == list("0123456789")
            assert session_of(key)["number"] == 10
    assert [name for name in redis.keys() if b":lock:" in name] == []


@pytest.mark.parametrize(
    ("field", "value", "number", "words"),
    [("format", "4", "E045", "are in format 4"), ("partitions", "64", "E043", "over 64 partitions")],
)
def test_a_store_before_that_does_not_suit_is_refused_and_not_touched(step, redis, field, value, number, words) -> None:
    with using(the_store_before()):
        pool().invalidate()
    key = in_own_store("7")
    with using(the_store_before()):
        redis.hset(keyspace().deciding_partition.meta, field, value)
        for partition in keyspace().partitions:
            redis.hset(partition.meta, field, value)
    before = dump(redis)
    for work in (lambda: session_of(key).load(), lambda: call_command("movesessions"), online.end_all):
        with step(2):
            pool().invalidate()
            # The store before is asked first: nothing is begun in the next one.
            with using(the_store_before()):
                pool().invalidate()
            with pytest.raises((CommandError, ImproperlyConfigured), match=words):
                work()
    with step(2):
        [problem] = check_sibling_agreement()
    assert (problem.id, problem.msg.startswith("MOVE_FROM: ")) == (f"django_redsess.{number}", True)
    assert words in problem.msg
    assert {name: text for name, text in dump(redis).items() if name in before} == before


def leave_copy(key: str, step: Any) -> None:
    """Have a process die when it has copied a session."""
    with step(2):
        work = Work(step, 2, transfer_sessions(site_stores(), [sid_of(key)]))
        while sid_of(key) not in sids_in(None):
            work.go_on()


@pytest.mark.parametrize("is_asked_for", [True, False])
@pytest.mark.parametrize("what", ["due", "unreadable"])
def test_a_copy_that_was_left_is_no_session_while_its_original_is_none(step, redis, what: str, is_asked_for) -> None:
    key = in_own_store("7")
    leave_copy(key, step)
    with using(the_store_before()):
        original = keyspace().partitions[0]
    if what == "due":
        redis.zadd(original.expire, {sid_of(key): 1})
    else:
        record = redis.hget(original.login, sid_of(key))
        redis.hset(original.login, sid_of(key), b"nothing")
    with step(2):
        if is_asked_for:
            assert session_of(key).load() == {}
        else:
            call_command("movesessions", verbosity=0)
        assert sids_in(None) == set()
        if what == "unreadable":
            # It can be read again.
            redis.hset(original.login, sid_of(key), record)
            redis.delete(*[name for name in redis.keys() if b":ended:" in name] or [b"none"])
            assert session_of(key)["_auth_user_id"] == "7"


def test_a_save_without_a_look_does_not_make_a_session_of_a_copy(step) -> None:
    key = in_own_store("7")
    leave_copy(key, step)
    with step(2):
        session = session_of(key)
        session.clear()
        session["basket"] = 1
        session.save()
    assert in_both() == set()
    with using(the_store_before()):
        assert SessionStore(key).load() == {}


@pytest.fixture
def tries(settings) -> Callable[..., tuple[bool, str]]:
    """Return a function that tries passwords in a session. It returns whether the last one locks, and the new key."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]

    def try_each(key: str, user: User, *passwords: str) -> tuple[bool, str]:
        for password in passwords:
            request = HttpRequest()
            request.session, request.user = session_of(key), user
            form = give_password(request, user, password)
            request.session.save()
            key = str(request.session.session_key)
        return form is not None and bool(form.is_locked), key

    return try_each


def test_five_passwords_are_tried_in_both_stores_together(step, tries) -> None:
    alice = User.objects.create_user("alice", password="the password")
    key = in_own_store(str(alice.pk))
    with step(1):
        assert not tries(key, alice, *["a guess"] * 3)[0]
    with step(2):
        assert not tries(key, alice, "a guess")[0]
        assert tries(key, alice, "a guess")[0]
    # A process that is behind uses it where it is by now.
    with step(1):
        assert tries(key, alice, "the password")[0]


def test_the_right_password_forgets_the_tries_in_both_stores(step, tries) -> None:
    alice = User.objects.create_user("alice", password="the password")
    with step(1):
        is_locked, key = tries(in_own_store(str(alice.pk)), alice, *["a guess"] * 4, "the password")
        assert not is_locked
    with step(2):
        assert not tries(key, alice, *["a guess"] * 4)[0]


def all_steps(ending: BulkEnding) -> Steps[None]:
    while not ending.done:
        yield from ending.ending_batch()


def test_a_search_ends_what_moves_between_search_and_end(step) -> None:
    for at in range(16):
        with using(the_store_before()):
            session = SessionStore()
            session.visit = Visit(lambda: Client("192.0.2.1", "Mozilla/5.0 (X11; Linux x86_64) Firefox/130.0"))
            session["_auth_user_id"] = "7"
            session.save()
        with step(2):
            work = Work(step, 2, all_steps(BulkEnding(filter_of(None, browser="Firefox"))))
            for _ in range(at):
                go_on(work)
            session_of(session.session_key).load()
            while not work.done:
                work.go_on()
            assert session_of(session.session_key).load() == {}, at
